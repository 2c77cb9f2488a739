"""Trains DFlash drafters for speculative decoding, and proves what they are worth.

Start with ``python -m trainer --help`` or ``trainer.train.train``. This package ships alone: it
imports nothing of its neighbours, and nothing here, so that asking for help loads no torch.
"""
