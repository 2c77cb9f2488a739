"""Changing a file by a diff that a person can read: ``apply_patch``."""

import json
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, JsonValue

from agentops.commands.base import Malformed
from agentops.commands.deploy import FileDeployed, FilesDeployed, Problem
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

_DIFF_MAX = 1024 * 1024


class ApplyPatch(ScriptCommand):
    """Apply a unified diff to one file of known content; every line of context must match."""

    name: ClassVar[str] = "apply_patch"
    effect: ClassVar[Effect] = "changes"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "reconcile"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the digest names the content that the diff was made for",
        "a program that already runs keeps the old content",
    )
    silence: ClassVar[str] = "Unknown whether the file was changed; compare its digest."
    python: ClassVar[tuple[str, ...]] = ("identity", "writing", "apply_patch")

    path: str = Field(pattern=r"^/[^\x00]*$")
    """The file, absolute."""
    expects: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 that the file must have before."""
    diff: str = Field(min_length=1, max_length=_DIFF_MAX)
    """Unified diff of this one file."""
    check_python: bool = False
    """Compile the result with the host's Python first; refuse what does not compile."""
    backup: bool = True
    """Keep the old content beside the new as NAME.before-DIGEST."""
    plan: bool = False
    """Show what would change, and write nothing."""

    def stdin(self) -> bytes:
        """The diff."""
        return self.diff.encode()

    def script_arguments(self) -> tuple[str, ...]:
        """Everything but the diff."""
        job: dict[str, JsonValue] = {
            "path": self.path,
            "expects": self.expects,
            "compile": self.check_python,
            "backup": self.backup,
            "plan": self.plan,
        }
        return (json.dumps(job, separators=(",", ":")),)

    def read(self, rows: Sequence[dict[str, object]]) -> FilesDeployed | Malformed:
        """First the problem, then the file."""
        if len(rows) != 2:  # noqa: PLR2004 - the problem and one file
            return Malformed(f"two rows were expected, {len(rows)} arrived")
        problem = Problem.model_validate(rows[0]).problem
        file = FileDeployed.model_validate(rows[1])
        return FilesDeployed(deployed=problem is None, problem=problem, files=(file,))
