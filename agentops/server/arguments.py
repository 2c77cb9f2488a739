"""What each tool takes: flat models, so that every client's schema dialect can hold them.

Here: the models and their words. What a command on a host can take stays the command's own
(``agentops.commands``); these models say it in the words of a task. Not here: carrying it out.
"""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentops.commands.observing import Part
from agentops.commands.paths import HostPath
from reports import Depth

# A client of tools gives up after a minute; a wait is asked for again.
SLICE_S = 45
_Model = TypeVar("_Model", bound=BaseModel)
HostName = Annotated[str, Field(description="a name that hosts lists", max_length=63)]
JobName = Annotated[str, Field(description="a job of the policy file", max_length=200)]
Reason = Annotated[str, Field(description="why; quoted in the journal", max_length=500)]
Detail = Annotated[
    Literal["brief", "full"], Field(description="full: up to 6000 tokens instead of 1500")
]
Seen = Annotated[
    str | None, Field(description="event id of the observation that shows them", max_length=40)
]


class Arguments(BaseModel):
    """Base of all tools' arguments: an unknown one is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Victim(Arguments):
    """A process as an observation showed it; the rest of its identity is taken from there."""

    pid: int = Field(ge=1, lt=2**31)
    start: int = Field(ge=0, lt=2**53, description="start ticks")


Victims = Annotated[
    tuple[Victim, ...] | None, Field(description="rows of one observation", max_length=32)
]


class Hosts(Arguments):
    """hosts."""

    filter: str | None = Field(None, description="part of a name or label", max_length=100)


class ObserveHost(Arguments):
    """observe."""

    host: HostName
    what: tuple[Part, ...] = Field(("processes", "gpus"), min_length=1, max_length=8)
    job: JobName | None = Field(None, description="adds its heartbeat, shows its processes only")
    match: str | None = Field(None, description="show command lines with this", max_length=200)
    detail: Detail = "brief"


class Inspect(Arguments):
    """inspect_process."""

    host: HostName
    pid: int = Field(ge=1, lt=2**22)
    detail: Detail = "brief"


class Tail(Arguments):
    """tail."""

    host: HostName
    path: HostPath | None = Field(None, description="or job: its log", max_length=4096)
    job: JobName | None = None
    max_bytes: int = Field(16_384, ge=1, le=1_048_576)
    detail: Detail = "brief"

    @model_validator(mode="after")
    def _one_log(self) -> Self:
        return _exactly_one(self, "path", "job")


Kind = Literal[
    "job_absent",
    "job_advances",
    "process_absent",
    "heartbeat_step",
    "gpu_memory_at_most",
    "file_exists",
    "port_open",
    "model_complete",
]


class Check(Arguments):
    """check."""

    host: HostName
    condition: Kind
    job: JobName | None = Field(None, description="job_*, heartbeat_step")
    victims: Victims = None
    seen: Seen = None
    path: HostPath | None = Field(None, description="file_exists, model_complete", max_length=4096)
    at_least: int = Field(0, ge=0, lt=2**53, description="step, or bytes")
    limits_mib: tuple[int, ...] | None = Field(None, description="one a GPU", max_length=64)
    port: int | None = Field(None, ge=1, le=65535)

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        for needed in _NEEDS[self.condition]:
            if getattr(self, needed) is None:
                raise ValueError(f"condition {self.condition} needs {needed}")
        return self


_NEEDS: dict[str, tuple[str, ...]] = {
    "job_absent": ("job",),
    "job_advances": ("job",),
    "process_absent": ("victims", "seen"),
    "heartbeat_step": ("job",),
    "gpu_memory_at_most": ("limits_mib",),
    "file_exists": ("path",),
    "port_open": ("port",),
    "model_complete": ("path",),
}


class WaitFor(Check):
    """wait_until."""

    timeout_s: int = Field(30, ge=0, le=86_400, description="45 a call at most; call again")


class NextStep(Arguments):
    """next_step."""

    host: HostName
    job: JobName


class Stop(Arguments):
    """stop."""

    host: HostName
    reason: Reason
    job: JobName | None = Field(None, description="all of it, by the ladder; or victims")
    victims: Victims = None
    seen: Seen = None
    plan_only: bool = False
    wait_s: int = Field(40, ge=0, le=86_400, description="45 a call at most; call again")

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if self.victims is not None and self.seen is None:
            raise ValueError("victims need seen, the event id of the observation that shows them")
        return _exactly_one(self, "job", "victims")


class FileText(Arguments):
    """One file as text."""

    path: HostPath = Field(max_length=4096)
    content: str = Field(max_length=262_144)
    expects: str = Field(description="sha256 that stands there now, absent, or anything")
    mode: int = Field(0o644, ge=0, le=0o777)


class Deploy(Arguments):
    """deploy."""

    host: HostName
    reason: Reason
    files: tuple[FileText, ...] = Field(min_length=1, max_length=32)
    plan_only: bool = False


class LaunchJob(Arguments):
    """launch."""

    host: HostName
    reason: Reason
    job: JobName | None = Field(None, description="until it trains again; or argv")
    argv: tuple[str, ...] | None = Field(None, max_length=200)
    cwd: str | None = Field(None, max_length=4096)
    log: str | None = Field(None, max_length=4096)
    env: dict[str, str] = {}
    attempt: int = Field(1, ge=1, le=1000, description="argv: a higher one starts once more")
    plan_only: bool = False
    wait_s: int = Field(40, ge=0, le=86_400, description="45 a call at most; call again")

    @model_validator(mode="after")
    def _one_aim(self) -> Self:
        if self.argv is not None and (self.cwd is None or self.log is None):
            raise ValueError("argv needs cwd and log")
        return _exactly_one(self, "job", "argv")


class RunFree(Arguments):
    """run_argv."""

    host: HostName
    reason: Reason
    argv: tuple[str, ...] = Field(min_length=1, max_length=200)
    stdin: str = Field("", max_length=65_536)
    timeout_s: int = Field(30, ge=1, le=86_400)


class ReadJournal(Arguments):
    """journal."""

    incident: str | None = Field(None, description="id or prefix", max_length=40)
    host: HostName | None = None
    kinds: tuple[str, ...] | None = Field(None, max_length=32)
    after: str | None = Field(
        None, description="event id of the last page's end; 0: from the start", max_length=40
    )
    limit: int = Field(20, ge=1, le=200)


class ReadBlob(Arguments):
    """blob."""

    event: str = Field(description="event id", max_length=80)
    name: str = Field("stdout", max_length=40)
    offset: int = Field(0, ge=0, lt=2**53)
    length: int = Field(4096, ge=1, le=16_384)
    grep: str | None = Field(None, description="only lines with this text", max_length=200)


class ReadReport(Arguments):
    """report."""

    incident: str | None = Field(None, description="id or prefix; default latest", max_length=40)
    depth: Depth = "summary"


class Approvals(Arguments):
    """approvals."""


def _exactly_one(model: _Model, *names: str) -> _Model:
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(names)}")
    return model
