"""Looking at one file: ``tail_log`` (its end, as lines) and ``file_digest`` (its SHA-256)."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Retry

_TAIL_BYTES_MAX = 4 * 1024 * 1024

FileKind = Literal["file", "folder", "link", "other"]


class LogTail(Observation):
    """The end of a log at one moment.

    Lines are text as it stands there, control characters included; bytes that are no UTF-8 show as
    backslash escapes. first_line_cut says that the first line's start is missing; ends_in_line
    that the last line has no newline yet. problem is the system's word for why nothing was read.
    """

    exists: bool
    kind: FileKind | None
    size_bytes: Count | None
    age_ms: int | None
    inode: Count | None
    lines: tuple[str, ...]
    first_line_cut: bool
    ends_in_line: bool
    problem: str | None


class FileDigested(Observation):
    """One file's digest; sha256 is None when there is no file or it could not be read."""

    exists: bool
    kind: FileKind | None
    size_bytes: Count | None
    modified_unix_ms: Count | None
    sha256: str | None
    problem: str | None


class _RawFile(Observation):
    exists: bool
    kind: FileKind | None
    size_bytes: Count | None
    modified_unix_ms: Count | None
    inode: Count | None
    problem: str | None
    now_unix_ms: Count


class _RawTail(_RawFile):
    tail: str | None
    tail_offset: Count | None


class _RawDigest(_RawFile):
    sha256: str | None = Field(pattern=r"^[0-9a-f]{64}$")
    hashed_bytes: Count | None


class TailLog(ScriptCommand):
    """The last lines of a log file."""

    name: ClassVar[str] = "tail_log"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "what stands in a log was written by somebody, and need not be true",
        "a program may buffer its last lines",
    )
    silence: ClassVar[str] = "Nothing was learned; a log that is missing or empty is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards(
        "size_bytes",
        age_ms="Host clock minus the file's last change. A quiet program is not a dead one.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "files")
    shell: ClassVar[str | None] = "files"

    path: HostPath
    """The file, absolute."""
    max_bytes: int = Field(default=65536, ge=1, le=_TAIL_BYTES_MAX)
    """How much of its end."""

    def script_arguments(self) -> tuple[str, ...]:
        """Path and number of bytes."""
        return ("tail", self.path, str(self.max_bytes))

    def read(self, rows: Sequence[dict[str, object]]) -> LogTail | Malformed:
        """One row."""
        raw = _RawTail.model_validate(only(rows))
        lines = (raw.tail or "").split("\n")
        ends_in_line = lines[-1] != ""
        modified = raw.modified_unix_ms
        return LogTail(
            exists=raw.exists,
            kind=raw.kind,
            size_bytes=raw.size_bytes,
            age_ms=None if modified is None else raw.now_unix_ms - modified,
            inode=raw.inode,
            lines=tuple(lines if ends_in_line else lines[:-1]),
            first_line_cut=bool(raw.tail_offset),
            ends_in_line=ends_in_line,
            problem=raw.problem,
        )


class FileDigest(ScriptCommand):
    """SHA-256 and size of one file."""

    name: ClassVar[str] = "file_digest"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = ("the file does not change while it is read",)
    silence: ClassVar[str] = "Nothing was learned; a missing file is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards(
        "size_bytes",
        modified_unix_ms="The file's last change by the host's clock; anybody can set it.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "files")
    shell: ClassVar[str | None] = "files"
    deadline_ms: ClassVar[int] = 600_000

    path: HostPath
    """The file, absolute."""

    def script_arguments(self) -> tuple[str, ...]:
        """The path."""
        return ("digest", self.path)

    def read(self, rows: Sequence[dict[str, object]]) -> FileDigested | Malformed:
        """One row; a digest of other than all bytes is none."""
        raw = _RawDigest.model_validate(only(rows))
        changed = raw.sha256 is not None and raw.hashed_bytes != raw.size_bytes
        return FileDigested(
            exists=raw.exists,
            kind=raw.kind,
            size_bytes=raw.size_bytes,
            modified_unix_ms=raw.modified_unix_ms,
            sha256=None if changed else raw.sha256,
            problem="the file changed while it was read" if changed else raw.problem,
        )
