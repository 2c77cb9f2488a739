"""Room to work in: ``shared_memory`` (/dev/shm and its leftovers) and ``disk_free``."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry


class _Room(Observation):
    """The file system, as the script says it and the observation holds it."""

    total_bytes: Count
    free_bytes: Count
    files: Count
    sees_all: bool


class _File(Observation):
    """A file, as the script says it and the observation holds it."""

    name: str
    size_bytes: Count
    used_bytes: Count
    uid: Count
    age_s: Count
    inode: Count
    held_by: tuple[Count, ...]
    held_since_ticks: tuple[Count, ...]
    creator_pid: Count | None
    creator_alive: bool | None


class Segment(_File):
    """One file of /dev/shm. held_by are pids that map it or have it open.

    held_since_ticks are their start ticks, in the same order; 0 for one that has ended meanwhile.
    creator_pid is read from names that carry one; its being alive may be a reused pid's. orphaned
    is True only if all processes could be seen and none holds it.
    """

    orphaned: bool


class SharedMemorySeen(_Room):
    """The file system and its files, largest first, 2000 at most."""

    segments: tuple[Segment, ...]


class SharedMemory(ScriptCommand):
    """Shared memory: free bytes, and which segments nobody holds any more."""

    name: ClassVar[str] = "shared_memory"
    parser_version: ClassVar[int] = 2
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a segment that nobody maps may still be wanted by a process that opens it by name",
        "processes of other namespaces that share /dev/shm are seen only from their host",
    )
    silence: ClassVar[str] = "Nothing was learned; no segments is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards(
        *("age_s", "free_bytes", "held_since_ticks", "size_bytes", "total_bytes"),
        used_bytes="Pages that the file takes; a sparse segment takes less than its size.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "shared_memory")

    def read(self, rows: Sequence[dict[str, object]]) -> SharedMemorySeen | Malformed:
        """The file system's row, then one a file."""
        if not rows:
            return Malformed("the file system's row is missing")
        head = _Room.model_validate(rows[0])
        segments = []
        for row in rows[1:]:
            raw = _File.model_validate(row)
            orphaned = head.sees_all and not raw.held_by
            segments.append(Segment(orphaned=orphaned, **raw.model_dump()))
        return SharedMemorySeen(**head.model_dump(), segments=tuple(segments))


class FileSystem(Observation):
    """One file system as seen through *path*. available is for users, not for root's reserve."""

    path: str
    mount: str
    device: str
    kind: str
    total_bytes: Count | None
    available_bytes: Count | None
    files_free: Count | None
    read_only: bool | None
    problem: str | None


class DiskFreeSeen(Observation):
    """One row a path, or one a mounted file system."""

    file_systems: tuple[FileSystem, ...]


class DiskFree(ScriptCommand):
    """Free bytes and inodes of the file systems behind some paths, or of all."""

    name: ClassVar[str] = "disk_free"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a quota may leave less than the file system has",
        "a network file system may hang instead of answering",
    )
    silence: ClassVar[str] = "Nothing was learned; a file system that hangs ends at the deadline."
    metric_cards: ClassVar[dict[str, str]] = cards("available_bytes", "total_bytes")
    python: ClassVar[tuple[str, ...]] = ("identity", "disk_free")

    paths: tuple[HostPath, ...] = Field(default=(), max_length=100)
    """Files or folders whose file systems are meant; without any, all real ones."""

    def script_arguments(self) -> tuple[str, ...]:
        """The paths."""
        return self.paths

    def read(self, rows: Sequence[dict[str, object]]) -> DiskFreeSeen | Malformed:
        """One row each."""
        seen = tuple(FileSystem.model_validate(row) for row in rows)
        if self.paths and tuple(row.path for row in seen) != self.paths:
            return Malformed("the answer's paths are not the ones that were asked for")
        return DiskFreeSeen(file_systems=seen)
