"""Undoing a deployment: ``roll_back``. What was replaced lies beside each file, by its digest."""

import json
from collections.abc import Sequence
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from agentops.commands.base import Malformed, Observation
from agentops.commands.deploy import FileDeployed, FilesDeployed, Problem
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

_SHA256 = r"^[0-9a-f]{64}$"
_MARK = ".before-"


class FileToRollBack(Observation):
    """One file, as deploy_files or apply_patch answered about it.

    expects is its after_sha256: what must stand there now. backup is that answer's; None, for a
    file that was new, removes it.
    """

    path: str
    expects: str = Field(pattern=_SHA256)
    backup: str | None

    @field_validator("path")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith("/") or "\0" in value or ".." in value.split("/"):
            raise ValueError("a path to roll back is absolute and has no '..'")
        return value

    @model_validator(mode="after")
    def _beside(self) -> Self:
        if self.backup is not None:
            kept, mark, digest = self.backup.rpartition(_MARK)
            if kept != self.path or not mark or len(digest) < 12:  # noqa: PLR2004 - as it is named
                raise ValueError(f"a backup of {self.path} is named {self.path}{_MARK}DIGEST")
        return self


class RollBack(ScriptCommand):
    """Put back what a deployment replaced, all files or none, if nobody wrote there since."""

    name: ClassVar[str] = "roll_back"
    effect: ClassVar[Effect] = "changes"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "idempotent"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the kept content was right before; nobody checks that again",
        "a program that already runs keeps the content that it was started with",
    )
    silence: ClassVar[str] = "Unknown whether files were put back; compare their digests."
    python: ClassVar[tuple[str, ...]] = ("identity", "writing", "roll_back")

    files: tuple[FileToRollBack, ...] = Field(min_length=1, max_length=1000)
    """Each with path, the digest that must stand there now, and the backup."""

    def script_arguments(self) -> tuple[str, ...]:
        """The files as JSON."""
        return (json.dumps([file.model_dump() for file in self.files]),)

    def read(self, rows: Sequence[dict[str, object]]) -> FilesDeployed | Malformed:
        """First the problem, then one row a file."""
        if len(rows) != len(self.files) + 1:
            return Malformed(f"{len(self.files)} files were named, {len(rows) - 1} answered")
        problem = Problem.model_validate(rows[0]).problem
        answered = tuple(FileDeployed.model_validate(row) for row in rows[1:])
        right = all(
            answer.path == file.path and _stands(file, answer)
            for answer, file in zip(answered, self.files, strict=True)
        )
        if problem is None and not right:
            problem = "a file does not read back as it was kept"
        return FilesDeployed(deployed=problem is None, problem=problem, files=answered)


def _stands(file: FileToRollBack, answer: FileDeployed) -> bool:
    """Whether the disk shows the kept content, or nothing where there was nothing."""
    if file.backup is None:
        return answer.after_sha256 is None
    promised = file.backup.rpartition(_MARK)[2]
    return answer.after_sha256 is not None and answer.after_sha256.startswith(promised)
