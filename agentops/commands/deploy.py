"""Putting files on a host: ``deploy_files``, all or none, only over what is expected there.

The journal holds digests and sizes, not the bytes. A repeat finds the files already there and
changes nothing.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, field_validator, model_validator

from agentops.commands.base import Malformed, Observation
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

_SHA256 = r"^[0-9a-f]{64}$"
_TOTAL_BYTES_MAX = 64 * 1024 * 1024


class FileToDeploy(Observation):
    """One file. content is base64 where it is written as JSON.

    expects is the SHA-256 of what must stand there now, "absent", or "anything". check_python
    compiles the content with the host's Python before anything is written.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    path: str
    content: bytes
    expects: str = Field(pattern=rf"{_SHA256}|^absent$|^anything$")
    mode: int = Field(default=0o644, ge=0, le=0o777)
    backup: bool = True
    make_folder: bool = True
    check_python: bool = False

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith("/") or "\0" in value or ".." in value.split("/"):
            raise ValueError("a path to deploy to is absolute and has no '..'")
        return value

    @property
    def sha256(self) -> str:
        """Digest of the content."""
        return hashlib.sha256(self.content).hexdigest()


class FileDeployed(Observation):
    """What happened to one file. after_sha256 was read back from the disk; None means no file."""

    path: str
    before_sha256: str | None
    after_sha256: str | None
    changed: bool
    backup: str | None
    refusal: (
        Literal[
            "content_damaged",
            "not_a_file",
            "no_folder",
            "unexpected_content",
            "does_not_compile",
        ]
        | None
    )


class FilesDeployed(Observation):
    """Whether all files stand as wanted. problem is None exactly then."""

    deployed: bool
    problem: str | None
    files: tuple[FileDeployed, ...]

    def holds(self) -> bool | None:
        """Whether the files stand as wanted, or would after the plan."""
        return self.deployed or self.problem == "planned"


class DeployFiles(ScriptCommand):
    """Write files on the host, all or none, each only over the content that is expected there."""

    name: ClassVar[str] = "deploy_files"
    effect: ClassVar[Effect] = "changes"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "idempotent"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a rename within one folder is one step for every reader",
        "a program that already runs keeps the old content",
        "a file that compiles may still be wrong",
    )
    silence: ClassVar[str] = "Unknown whether files were written; compare their digests."
    python: ClassVar[tuple[str, ...]] = ("identity", "writing", "deploy_files")
    deadline_ms: ClassVar[int] = 120_000

    files: tuple[FileToDeploy, ...] = Field(min_length=1, max_length=1000)
    """Each with path, content, and what must stand there before: a SHA-256, absent, or anything."""
    plan: bool = False
    """Show what would change, and write nothing."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if sum(len(file.content) for file in self.files) > _TOTAL_BYTES_MAX:
            raise ValueError(f"files are larger than {_TOTAL_BYTES_MAX} bytes together")
        if len({file.path for file in self.files}) != len(self.files):
            raise ValueError("a path is deployed to twice")
        return self

    def arguments(self) -> dict[str, JsonValue]:
        """Digests and sizes instead of bytes."""
        return {"files": list(self._entries()), "plan": self.plan}

    def script_arguments(self) -> tuple[str, ...]:
        """Whether to write."""
        return ("plan" if self.plan else "write",)

    def stdin(self) -> bytes:
        """A line of JSON, then the contents back to back."""
        header = json.dumps(list(self._entries()), separators=(",", ":")).encode()
        return header + b"\n" + b"".join(file.content for file in self.files)

    def read(self, rows: Sequence[dict[str, object]]) -> FilesDeployed | Malformed:
        """First the problem, then one row a file; success must be what the disk says."""
        if len(rows) != len(self.files) + 1:
            return Malformed(f"{len(self.files)} files were sent, {len(rows) - 1} answered")
        problem = Problem.model_validate(rows[0]).problem
        deployed = tuple(FileDeployed.model_validate(row) for row in rows[1:])
        right = all(
            answer.path == file.path and answer.after_sha256 == file.sha256
            for answer, file in zip(deployed, self.files, strict=True)
        )
        if problem is None and not right:
            problem = "a file does not read back as it was written"
        return FilesDeployed(deployed=problem is None, problem=problem, files=deployed)

    def _entries(self) -> Sequence[dict[str, JsonValue]]:
        return [
            {
                "path": file.path,
                "sha256": file.sha256,
                "size_bytes": len(file.content),
                "expects": None if file.expects == "absent" else file.expects,
                "mode": file.mode,
                "backup": file.backup,
                "make_folder": file.make_folder,
                "compile": file.check_python,
            }
            for file in self.files
        ]


class Problem(Observation):
    """The first row of every script that writes files."""

    problem: str | None
