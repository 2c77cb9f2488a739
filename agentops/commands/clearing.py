"""Taking away what ended processes left in a start's way: ``move_aside``, ``remove_segments``.

The host checks in the same call, right before the act: the very file that was seen, in nobody's
hand, and the process that it belongs to has ended. Whether that process is the job's is
``agentops.policy``'s matter.
"""

import json
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Identity, Retry

_PID_MAX = 2**22


class MovedAside(Observation):
    """Where the lock file went. refusal is None exactly if it was moved."""

    moved_to: str | None
    refusal: (
        Literal[
            "absent",
            "not_a_file",
            "changed",
            "held",
            "owner_lives",
            "name_taken",
            "not_permitted",
        ]
        | None
    )

    def holds(self) -> bool | None:
        """Whether the file was moved."""
        return self.refusal is None


class MoveAside(ScriptCommand):
    """Rename one lock file, if the process that it names has ended and nobody holds the file."""

    name: ClassVar[str] = "move_aside"
    effect: ClassVar[Effect] = "changes"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "reconcile"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the lock was written in this PID namespace: elsewhere its pid is somebody else's",
        "whoever goes by this lock reads its path anew at every start",
    )
    silence: ClassVar[str] = "Unknown whether the file was moved; look whether it stands there."
    python: ClassVar[tuple[str, ...]] = ("identity", "writing", "clearing", "move_aside")

    path: str = Field(pattern=r"^/")
    """The lock file."""
    text: str = Field(min_length=1, max_length=64)
    """What stands in it."""
    owner_pid: int = Field(gt=1, lt=_PID_MAX)
    """The process that it names."""
    owner_start_ticks: Count | None = None
    """Start of that process, where it is known."""

    @field_validator("path")
    @classmethod
    def _plain(cls, value: str) -> str:
        if "\0" in value or ".." in value.split("/"):
            raise ValueError("a path to move aside is absolute and has no '..'")
        return value

    def script_arguments(self) -> tuple[str, ...]:
        """Path, what it must say, and whose it was."""
        start = "" if self.owner_start_ticks is None else str(self.owner_start_ticks)
        return (self.path, self.text, str(self.owner_pid), start)

    def read(self, rows: Sequence[dict[str, object]]) -> MovedAside | Malformed:
        """One row; a refusal and a new path exclude each other."""
        moved = MovedAside.model_validate(only(rows))
        if (moved.moved_to is None) == (moved.refusal is None):
            return Malformed("the answer says both moved and refused, or neither")
        return moved


class LeftSegment(Observation):
    """One file of /dev/shm, and whose it was: processes seen to hold it, or a pid in its name."""

    name: str = Field(pattern=r"^[^/\x00]{1,255}$")
    inode: Count
    owners: tuple[Identity, ...] = Field(default=(), max_length=64)
    creator_pid: int | None = Field(default=None, gt=1, lt=_PID_MAX)

    @model_validator(mode="after")
    def _has_an_owner(self) -> Self:
        if self.name in {".", ".."}:
            raise ValueError("a segment is a file")
        if not self.owners and self.creator_pid is None:
            raise ValueError("nothing says whose this segment was")
        return self


class SegmentRemoved(Observation):
    """What became of one segment. refusal is None exactly if it was removed."""

    name: str
    removed: bool
    refusal: (
        Literal["absent", "changed", "users_hidden", "held", "owner_lives", "not_permitted"] | None
    )


class SegmentsRemoved(Observation):
    """One row a segment, in order."""

    segments: tuple[SegmentRemoved, ...]

    def holds(self) -> bool | None:
        """Whether all of them were removed."""
        return all(segment.removed for segment in self.segments)


class RemoveSegments(ScriptCommand):
    """Remove segments of shared memory whose processes have all ended and which nobody holds."""

    name: ClassVar[str] = "remove_segments"
    effect: ClassVar[Effect] = "destroys"
    intrusiveness: ClassVar[int] = 4
    retry: ClassVar[Retry] = "reconcile"
    assumptions: ClassVar[tuple[str, ...]] = (
        "no process of another namespace shares this /dev/shm",
        "a number in a segment's name is its creator's pid",
    )
    silence: ClassVar[str] = "Unknown which segments were removed; list what is left."
    python: ClassVar[tuple[str, ...]] = ("identity", "clearing", "remove_segments")

    segments: tuple[LeftSegment, ...] = Field(min_length=1, max_length=256)
    """Each with name, inode and whose it was."""

    def stdin(self) -> bytes:
        """The segments as JSON."""
        return json.dumps([row.model_dump(mode="json") for row in self.segments]).encode()

    def read(self, rows: Sequence[dict[str, object]]) -> SegmentsRemoved | Malformed:
        """One row each, under the names that were sent."""
        removed = tuple(SegmentRemoved.model_validate(row) for row in rows)
        if [row.name for row in removed] != [row.name for row in self.segments]:
            return Malformed("the answer's segments are not the ones that were sent")
        if any(row.removed == (row.refusal is not None) for row in removed):
            return Malformed("the answer says both removed and refused, or neither")
        return SegmentsRemoved(segments=removed)
