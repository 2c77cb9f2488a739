"""What the trainer raises on purpose; each text is one line for a person.

    TrainerError
    ├── ConfigError       a configuration or argument cannot be used (exit 2)
    ├── DataError         a data file cannot be used (exit 2)
    ├── TargetError       the target model cannot be loaded or tapped (exit 2)
    ├── PreflightError    the target model fails a check that training depends on (exit 3)
    ├── CheckpointError   a checkpoint cannot be written or read (exit 4)
    └── OutputError       a file for those who watch cannot be written (exit 4)

A run that was asked to stop is a result, not an error (``trainer.train.Result``).
"""

from typing import ClassVar


class TrainerError(Exception):
    """Base of all errors raised on purpose; its text names what, where, and the remedy."""

    exit_status: ClassVar[int] = 1


class ConfigError(TrainerError):
    """A configuration or argument cannot be used: names field, value and remedy."""

    exit_status: ClassVar[int] = 2


class DataError(TrainerError):
    """A data file cannot be used: names file, line and remedy."""

    exit_status: ClassVar[int] = 2


class TargetError(TrainerError):
    """The target model cannot be loaded, or cannot be tapped as asked."""

    exit_status: ClassVar[int] = 2


class PreflightError(TrainerError):
    """The target model fails a check that training depends on: names the fault."""

    exit_status: ClassVar[int] = 3


class CheckpointError(TrainerError):
    """A checkpoint cannot be written or read; earlier ones are untouched."""

    exit_status: ClassVar[int] = 4


class OutputError(TrainerError):
    """A file for those who watch cannot be written; the run stops rather than go on unseen."""

    exit_status: ClassVar[int] = 4
