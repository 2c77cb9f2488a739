"""Starting a job that outlives the connection: ``launch``.

The program gets a session of its own, the log as both outputs, and the launch id in its
environment, in each of three manners: by setsid with a closed stdin, as the process of a new tmux
session (where a C-c can reach it), or in a scope of systemd (which can be limited, and asked for).
The answer comes when the process was seen with that id, not when a shell or a manager returned.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from agentops.commands.base import Malformed, Observation
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Identity, Retry

Manner = Literal["setsid", "tmux", "systemd_scope"]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Launched(Observation):
    """Whether this call started the job, and which process it is.

    For refusal "already_running" identity is the process found with the same launch id, so a
    repeated launch finds its first one. With "not_observed" something may run: look by launch id.
    "no_tmux" and "no_systemd" say that this place has no such manner; nothing was started. detail
    has the last words in the log of a program that ended at once. pane_id and unit say where the
    job is, each in its manner only.
    """

    started: bool
    identity: Identity | None
    refusal: (
        Literal[
            "already_running",
            "log_in_use",
            "cannot_start",
            "ended_at_once",
            "not_observed",
            "no_tmux",
            "no_systemd",
        ]
        | None
    )
    detail: str
    pane_id: str | None
    unit: str | None

    def holds(self) -> bool | None:
        """Whether the job runs, by this call or an earlier one."""
        if self.refusal == "not_observed":
            return None
        return self.started or self.refusal == "already_running"


class Launch(ScriptCommand):
    """Start a program in a session of its own, once per launch id and once per log."""

    name: ClassVar[str] = "launch"
    parser_version: ClassVar[int] = 2
    effect: ClassVar[Effect] = "changes"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "idempotent"
    assumptions: ClassVar[tuple[str, ...]] = (
        "whoever else starts this job writes to the same log and keeps it open",
        "a process that was started may end at any moment after",
        "a job in tmux ends with its tmux server",
    )
    silence: ClassVar[str] = "Unknown whether the job runs; look for its launch id."
    python: ClassVar[tuple[str, ...]] = ("identity", "launch_manners", "launch")

    argv_: tuple[str, ...] = Field(alias="argv", min_length=1)
    """The program and its arguments; no shell."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables on top of the session's own."""
    cwd: str = Field(pattern=r"^/")
    """The folder to start in."""
    log: str = Field(pattern=r"^/")
    """The file that both outputs are appended to; locked while any process has it open."""
    launch_id: str = Field(pattern=r"^[A-Za-z0-9._:-]{1,200}$")
    """Set as AGENTOPS_LAUNCH_ID; a second launch of it starts nothing."""
    manner: Manner = "setsid"
    """setsid: a session of its own. tmux: a new tmux session. systemd_scope: a scope of systemd."""

    @field_validator("env")
    @classmethod
    def _names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} cannot be the name of an environment variable")
        return value

    def script_arguments(self) -> tuple[str, ...]:
        """The job as JSON."""
        return (self.model_dump_json(by_alias=True),)

    def read(self, rows: Sequence[dict[str, object]]) -> Launched | Malformed:
        """One row; a job that was started has an identity."""
        launched = Launched.model_validate(only(rows))
        if launched.started and (launched.identity is None or launched.refusal is not None):
            return Malformed("the answer says started and does not say which process")
        return launched
