"""The bundled trainer seen from outside: its archive and the files that it speaks in.

Here: packing the trainer for a host, and models of ``heartbeat.json`` and friends. Not here: torch,
or any import of the trainer; the contract is a set of small files.
"""

from agentops.training.archive import TrainerArchive, trainer_archive

__all__ = ["TrainerArchive", "trainer_archive"]
