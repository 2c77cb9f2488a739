"""What an operator may say in ``policy.toml``: jobs, limits, rules, standing approvals, tests.

Here: the closed vocabulary, as models that refuse what they do not know. Not here: reading a file
(``agentops.policy.reading``), how a rule is matched (``agentops.policy.rules``), nor the guards,
which no file can switch off.

Units stand in the names. Every limit has a default that suits a single box with one job.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentops.commands.paths import HostPath
from agentops.policy.canonical import digest
from journal.events import JsonObject

Purpose = Literal["probe", "wait", "signal", "deploy", "clear", "relaunch", "reconcile"]
Tier = Literal["dev", "prod", "unknown"]
SignalName = Literal["INT", "TERM", "KILL", "CONT", "HUP", "USR1", "USR2"]
Rung = Literal["request", "interrupt", "interrupt_again", "terminate", "kill"]
Need = Literal["requested", "stalled", "diverged", "failed", "gone", "repair"]
HypothesisName = Literal["H1", "H2", "H3", "H4", "H5", "H6", "H7"]
FactWord = Literal["checkpoint.writing", "gpu.unknown", "steps.advance"]
Seconds = Annotated[int, Field(ge=0, le=86_400)]


class _Part(BaseModel):
    """Base of all tables of the file: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Match(_Part):
    """Selects candidates to look at. It never makes a process a victim."""

    cmd_contains: str | None = None
    exe: str | None = None
    cwd: str | None = None
    uid: int | None = None

    @model_validator(mode="after")
    def _selects_something(self) -> "Match":
        if self.cmd_contains is None and self.exe is None and self.cwd is None:
            raise ValueError("needs one of cmd_contains, exe, cwd")
        if self.cmd_contains == "":
            raise ValueError("an empty cmd_contains would select every process")
        return self


class Grace(_Part):
    """How long each rung may take before the next is thought of; floors that history can raise."""

    request_s: Seconds = 60
    interrupt_s: Seconds = 10
    terminate_s: Seconds = 30
    kill_s: Seconds = 10
    graceful_max_s: Seconds = 600


class Stop(_Part):
    """The ladder of one job.

    dump_signal is one that the job answers by writing the stacks of its threads to its log; dump_s
    is how long that takes.
    """

    rungs: tuple[Rung, ...] = ("interrupt", "interrupt_again", "terminate", "kill")
    request_file: HostPath | None = None
    dump_signal: Literal["USR1", "USR2"] | None = None
    dump_s: Seconds = 2
    grace: Grace = Grace()
    respawn_s: Seconds = 3
    gpu_release_s: Seconds = 60

    @model_validator(mode="after")
    def _request_has_a_file(self) -> "Stop":
        if "request" in self.rungs and self.request_file is None:
            raise ValueError("rung 'request' needs request_file")
        return self


class Progress(_Part):
    """Where the job shows that it lives."""

    heartbeat: HostPath
    log: HostPath | None = None
    stall_s: Seconds = 300
    watch_s: Seconds = 20


class Port(_Part):
    """A port that the job listens on: the first free one of a range is handed to it by variable."""

    variable: str = Field(pattern="^[A-Z_][A-Z0-9_]*$")
    first: int = Field(ge=1, le=65_535)
    tries: int = Field(default=16, ge=1, le=256)

    @property
    def choices(self) -> range:
        """The ports that may be handed out, first choice first."""
        return range(self.first, min(self.first + self.tries, 65_536))


class Lock(_Part):
    """A file by which the job keeps a second start away; what it says names its owner."""

    path: HostPath
    says: Literal["pid", "pid_and_start_ticks"] = "pid"


class SharedMemory(_Part):
    """What the job needs of /dev/shm, and how the names of its own segments begin."""

    names: tuple[Annotated[str, Field(pattern="^[^/]{3,}$")], ...] = Field(min_length=1)
    free_mib: int = Field(ge=1)


class Launch(_Part):
    """How the job is started again; model is a folder of safetensors that it reads."""

    argv: tuple[str, ...] = Field(min_length=1)
    cwd: HostPath
    log: HostPath
    env: dict[str, str] = {}
    manner: Literal["setsid", "tmux", "systemd_scope"] = "setsid"
    port: Port | None = None
    model: HostPath | None = None
    start_s: Seconds = 120
    advance_steps: int = Field(default=2, ge=1)
    settle_s: Seconds = 5


class File(_Part):
    """One file to have on the host: *source* is read here; both sides must show *sha256*."""

    path: HostPath
    source: str
    sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    mode: int = Field(default=0o644, ge=0, le=0o7777)


class When(_Part):
    """When a repair is due. All that is given must hold."""

    differs: bool = False
    need: Need | None = None
    lead: HypothesisName | None = None
    signature: str | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> "When":
        if not self.differs and (self.need, self.lead, self.signature) == (None, None, None):
            raise ValueError("needs one of differs, need, lead, signature")
        return self


class Repair(_Part):
    """Files that end a known fault, and the evidence that calls for them."""

    id: str
    when: When
    files: tuple[File, ...] = Field(min_length=1)
    note: str = ""


class Job(_Part):
    """One workload."""

    role_match: Match
    supervisor: Match | None = None
    cgroup: str | None = None
    gpu: bool = False
    gpu_idle_mib: int = Field(default=600, ge=0)
    stop: Stop = Stop()
    progress: Progress
    launch: Launch | None = None
    lock: tuple[Lock, ...] = ()
    shared_memory: SharedMemory | None = None
    repair: tuple[Repair, ...] = ()


class RuleWhen(_Part):
    """The closed vocabulary of conditions. All that is given must hold."""

    command: str | None = None
    purpose: Purpose | None = None
    effect: Literal["observes", "changes", "destroys"] | None = None
    signal: SignalName | None = None
    rung: Rung | None = None
    lead: HypothesisName | None = None
    need: Need | None = None
    tier: Tier | None = None
    fact: FactWord | None = None


class Forbid(_Part):
    """What must not be done; it beats every permit."""

    id: str
    when: RuleWhen
    unless: Literal["approved"] | None = None
    note: str = ""


class Permit(_Part):
    """What the engine may do without being asked again, within the guards."""

    id: str
    when: RuleWhen
    note: str = ""


class Standing(_Part):
    """A lasting approval of an operator for one tier.

    It holds for what the engine decides and what a person types. agents says that it holds also for
    a command that an agent wishes for itself, whatever argv or file that is.
    """

    id: str
    tier: Literal["dev", "prod"]
    commands: tuple[str, ...] = Field(min_length=1)
    agents: bool = False


class Budget(_Part):
    """Bounds on what one incident may cost."""

    probes: int = Field(default=120, ge=1)
    signals: int = Field(default=16, ge=0)
    relaunches: int = Field(default=3, ge=0)
    inconclusives: int = Field(default=2, ge=1)
    wall_s: Seconds = 3_600
    victims: int = Field(default=8, ge=1)


class Limits(_Part):
    """Freshness and decision thresholds."""

    lead_db: int = Field(default=10, ge=0)
    family_cap_db: int = Field(default=20, ge=0)
    fresh_s: Seconds = 10
    fresh_kill_s: Seconds = 5
    decision_s: Seconds = 60
    approval_s: Seconds = 600
    crash_loop: int = Field(default=3, ge=1)
    crash_window_s: Seconds = 900
    backoff_s: Seconds = 10
    backoff_max_s: Seconds = 300


class Given(_Part):
    """A situation in the words that rules use, for a test inside the file."""

    command: str
    purpose: Purpose
    signal: SignalName | None = None
    rung: Rung | None = None
    lead: HypothesisName | None = None
    need: Need | None = None
    tier: Tier = "dev"
    facts: tuple[FactWord, ...] = ()


class Case(_Part):
    """A test inside the file: a situation, what becomes of it, and the rule that says so.

    forbid, permit and deny are what the rules say about acting; allow and ask what the tier's
    standing approvals say about authority.
    """

    id: str
    given: Given
    expect: Literal["forbid", "permit", "deny", "allow", "ask"]
    rule: str | None = None


class Protected(_Part):
    """Processes that are never victims, beside the built-in ones."""

    comm: tuple[str, ...] = ()


class Approvals(_Part):
    """Who may say yes. operators are Ed25519 keys in hex; with any, only a signature counts."""

    operators: tuple[Annotated[str, Field(pattern="^[0-9a-f]{64}$")], ...] = ()


class Policy(_Part):
    """The head of the file."""

    version: int = Field(ge=1)
    shadow: bool = False


class PolicyConfig(_Part):
    """The whole of ``policy.toml``."""

    policy: Policy
    job: dict[str, Job] = {}
    budget: Budget = Budget()
    limits: Limits = Limits()
    protected: Protected = Protected()
    forbid: tuple[Forbid, ...] = ()
    permit: tuple[Permit, ...] = ()
    standing: tuple[Standing, ...] = ()
    approvals: Approvals = Approvals()
    test: tuple[Case, ...] = ()

    @model_validator(mode="after")
    def _ids_are_unique(self) -> "PolicyConfig":
        ids = [rule.id for rule in self.forbid]
        ids += [rule.id for rule in self.permit] + [rule.id for rule in self.standing]
        doubles = sorted({name for name in ids if ids.count(name) > 1})
        if doubles:
            raise ValueError(f"rule id {doubles[0]!r} stands twice")
        return self

    def body(self) -> JsonObject:
        """The configuration as plain JSON, for ``configuration_loaded``."""
        dumped: JsonObject = self.model_dump(mode="json")
        if self.approvals == Approvals():
            # What a file does not use leaves the digest of its older readers as it was.
            del dumped["approvals"]
        return dumped

    def digest(self) -> str:
        """SHA-256 of the canonical body: the version of the policy that a decision names."""
        return digest(self.body())


def _keys(part: type[_Part]) -> Iterator[str]:
    """Every key that a table of the file may have."""
    for below in part.__subclasses__():
        yield from below.model_fields
        yield from _keys(below)


PART_KEYS = frozenset(_keys(_Part))
