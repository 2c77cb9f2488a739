"""Any argv at all: ``run_argv``. A class of its own, because nobody can say what it does."""

from typing import ClassVar

from pydantic import Field, field_validator

from agentops.commands.base import Command, Completed, Malformed, Observation
from agentops.commands.metrics import cards
from journal.events import Effect, Retry

_SHOWN_BYTES = 8192


class ArgvRan(Observation):
    """How it ended and the end of what it said; the whole output is in the journal."""

    exit_status: int
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    cut: bool

    def holds(self) -> bool | None:
        """Whether the program ended with status 0."""
        return self.exit_status == 0


class RunArgv(Command):
    """Run an argv of the caller's, without a shell. Policy asks for it every time."""

    name: ClassVar[str] = "run_argv"
    effect: ClassVar[Effect] = "destroys"
    intrusiveness: ClassVar[int] = 5
    retry: ClassVar[Retry] = "never"
    assumptions: ClassVar[tuple[str, ...]] = ("nothing is known about what the program does",)
    silence: ClassVar[str] = "Unknown whether it ran; empty output is no evidence of anything."
    metric_cards: ClassVar[dict[str, str]] = cards(
        stdout_bytes="What the program wrote, also where less was kept.",
        stderr_bytes="What the program wrote, also where less was kept.",
    )
    readable_statuses: ClassVar[frozenset[int]] = frozenset(range(256))

    argv_: tuple[str, ...] = Field(alias="argv", min_length=1, max_length=1000)
    """The program and its arguments; no shell."""
    input_: str = Field(alias="stdin", default="")
    """Text that it reads; without any its input is closed."""
    timeout_ms: int = Field(default=30_000, ge=1, le=3_600_000)
    """When it is stopped."""

    @field_validator("argv_")
    @classmethod
    def _no_nul(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in word for word in value) or not value[0]:
            raise ValueError("a program's name is not empty, and no argument holds a NUL byte")
        return value

    def argv(self) -> tuple[str, ...]:
        """As given."""
        return self.argv_

    def stdin(self) -> bytes:
        """As given."""
        return self.input_.encode()

    def deadline(self) -> int:
        """As asked."""
        return self.timeout_ms

    def parse(self, completed: Completed) -> ArgvRan | Malformed:
        """Any status and any bytes are an answer."""
        out, err = completed.stdout, completed.stderr
        return ArgvRan(
            exit_status=completed.exit_status,
            stdout=out[-_SHOWN_BYTES:].decode("utf-8", "backslashreplace"),
            stderr=err[-_SHOWN_BYTES:].decode("utf-8", "backslashreplace"),
            stdout_bytes=len(out),
            stderr_bytes=len(err),
            cut=max(len(out), len(err)) > _SHOWN_BYTES
            or completed.stdout_truncated
            or completed.stderr_truncated,
        )
