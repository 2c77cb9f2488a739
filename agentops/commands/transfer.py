"""Fetching a file, or a part of it: ``transfer``. The way there is ``deploy_files``."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Retry

# As base64 it has to stay below what a journal keeps of one output (8 MiB).
PART_BYTES_MAX = 4 * 1024 * 1024


class Transferred(Observation):
    """One part of a file. sha256 is of the whole file, so that parts of two versions do not mix."""

    size_bytes: Count | None
    sha256: str | None
    content_base64: str = Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")
    problem: str | None


class Transfer(ScriptCommand):
    """Fetch at most 4 MiB of a file from an offset, with the digest of the whole file."""

    name: ClassVar[str] = "transfer"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = ("the file does not change between two parts",)
    silence: ClassVar[str] = "Nothing was fetched; a missing file is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards("size_bytes")
    python: ClassVar[tuple[str, ...]] = ("identity", "transfer")
    deadline_ms: ClassVar[int] = 120_000

    path: HostPath
    """The file, absolute."""
    offset: Count = 0
    """Where to begin, in bytes."""
    max_bytes: int = Field(default=1024 * 1024, ge=1, le=PART_BYTES_MAX)
    """How much at most."""

    def script_arguments(self) -> tuple[str, ...]:
        """Path, offset, length."""
        return (self.path, str(self.offset), str(self.max_bytes))

    def read(self, rows: Sequence[dict[str, object]]) -> Transferred | Malformed:
        """One row."""
        return Transferred.model_validate(only(rows))
