"""What a deployment would change, seen before it: ``compare_files``."""

import hashlib
import json
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from agentops.commands.base import Malformed, Observation
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

_TOTAL_BYTES_MAX = 64 * 1024 * 1024


class FileToCompare(Observation):
    """One file as it is meant to be. content is base64 where it is written as JSON."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    path: HostPath
    content: bytes


class FileCompared(Observation):
    """One file as it is. sha256 is of what stands there now, for the deployment's expects.

    lines are a unified diff from what is to what is meant; "cut" at 400 lines, and none for what is
    "binary" or "too_large".
    """

    path: str
    exists: bool
    same: bool
    sha256: str | None
    lines: tuple[str, ...]
    problem: Literal["unreadable", "binary", "too_large", "cut"] | None


class FilesCompared(Observation):
    """Whether all files stand as meant, and how each differs."""

    same: bool
    files: tuple[FileCompared, ...]


class CompareFiles(ScriptCommand):
    """How files on the host differ from what is meant to stand there; the plan of a deployment."""

    name: ClassVar[str] = "compare_files"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a file that is compared may change before it is deployed over",
    )
    silence: ClassVar[str] = "Nothing was learned; a missing file is an answer."
    python: ClassVar[tuple[str, ...]] = ("identity", "compare_files")

    files: tuple[FileToCompare, ...] = Field(min_length=1, max_length=100)
    """Each with path and the content that is meant to stand there."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if sum(len(file.content) for file in self.files) > _TOTAL_BYTES_MAX:
            raise ValueError(f"files are larger than {_TOTAL_BYTES_MAX} bytes together")
        return self

    def arguments(self) -> dict[str, JsonValue]:
        """Digests and sizes instead of bytes."""
        return {
            "files": [
                {
                    "path": file.path,
                    "sha256": hashlib.sha256(file.content).hexdigest(),
                    "size_bytes": len(file.content),
                }
                for file in self.files
            ]
        }

    def stdin(self) -> bytes:
        """A line of JSON, then the contents back to back."""
        entries = [{"path": file.path, "size_bytes": len(file.content)} for file in self.files]
        return json.dumps(entries).encode() + b"\n" + b"".join(f.content for f in self.files)

    def read(self, rows: Sequence[dict[str, object]]) -> FilesCompared | Malformed:
        """One row a file, in order."""
        seen = tuple(FileCompared.model_validate(row) for row in rows)
        if tuple(file.path for file in seen) != tuple(file.path for file in self.files):
            return Malformed("the answer is about other files")
        return FilesCompared(same=all(file.same for file in seen), files=seen)
