"""The pipeline: target models read ahead on some devices while drafters train on others.

    order -> job queue -> target workers -> copiers -> pool -> feeders -> drafters -> one step

One process, one thread a stage and device. What is trained in which step follows from the seed
alone (``order``), so no result depends on which thread was faster. ``engine`` puts the stages
together; what a pass computes is in ``trainer.step``, files and checkpoints in ``trainer.train``.
"""
