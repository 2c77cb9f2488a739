"""Anchors: copies of seals outside the journal, so that a cut-off end is missed.

Without one, whoever can write the journal can drop its newest events together with their seals.
Here: the seam and the file anchor. Not here: judging by anchors (``journal.verification``).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from journal.disk import Disk, SystemDisk, make_folder
from journal.errors import JournalError
from journal.seals import append_note


class AnchorFailed(JournalError):  # noqa: N818 - the sentence reads better without "Error"
    """The copy could not be stored; the journal goes on, unanchored from here."""


class Anchor(Protocol):
    """A place that keeps what it is given."""

    @property
    def place(self) -> str:
        """Where it is, for people and for ``anchors.jsonl``."""

    def send(self, note: str) -> None:
        """Store a note durably.

        Raises:
            AnchorFailed: It could not be stored.
        """


@dataclass(frozen=True, slots=True)
class FileAnchor:
    """An append-only file, best on another disk or under another user."""

    path: Path
    disk: Disk = field(default_factory=SystemDisk)

    @property
    def place(self) -> str:
        """The file's absolute path."""
        return str(self.path.absolute())

    def send(self, note: str) -> None:
        """Append a note durably.

        Raises:
            AnchorFailed: The file cannot be written.
        """
        try:
            make_folder(self.path.parent)
            append_note(self.path, self.disk, note)
        except (OSError, JournalError) as error:
            raise AnchorFailed(f"cannot anchor to {self.path}: {error}") from error
