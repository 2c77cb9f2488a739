"""What was done in one incident: commands with their outcomes, decisions, verdicts.

Here: the frozen records that ``PolicyState`` keeps, and questions about one record. Not here: how
events become records (``agentops.policy.state``).
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from journal.events import Effect, Identity, JsonObject, Resolution, Verdict

Status = Literal["in_doubt", "completed", "failed", "unknown", "not_sent"]
Role = Literal["trainer", "worker", "supervisor"]
# A failed act's answer could not be read or was a failure: it may have changed something.
MAYBE = frozenset({"in_doubt", "unknown", "failed"})
Settled = Literal["done", "not_done", "unknown"]
# Signals that ask nobody to end.
WITHOUT_FORCE = frozenset({"CONT", "USR1", "USR2"})


@dataclass(frozen=True, slots=True)
class Act:
    """One command that changes or destroys, from its intent to what settled it.

    order is when it was intended, ended_order when its outcome was folded (-1: none yet).
    observation is the typed answer; events are the ids of intent, outcome and observation.
    """

    command_id: str
    command: str
    effect: Effect
    arguments: JsonObject
    victims: tuple[Identity, ...]
    decision_id: str | None
    at_us: int
    order: int
    status: Status = "in_doubt"
    ended_at_us: int = 0
    ended_order: int = -1
    observation: JsonValue = None
    settled: Settled | None = None
    events: tuple[str, ...] = ()

    @property
    def unsure(self) -> bool:
        """Whether its own outcome leaves open what it changed.

        So does one that ended, whose answer was lost with a writer that died between the two.
        """
        answered = self.status != "completed" or self.observation is not None
        return self.status in MAYBE or not answered

    @property
    def open(self) -> bool:
        """Whether it may have run without anybody knowing yet."""
        return self.unsure and self.settled is None

    @property
    def signal(self) -> str:
        """The signal's name for a signal_process, else the empty string."""
        name = self.arguments.get("signal")
        return name if self.command == "signal_process" and isinstance(name, str) else ""

    @property
    def delivered(self) -> Literal["yes", "no", "unknown"]:
        """For a signal: whether the kernel took it, as the host said or a probe settled."""
        if self.unsure:
            if self.settled == "done":
                return "yes"
            return "no" if self.settled == "not_done" else "unknown"
        if self.status == "completed" and isinstance(self.observation, dict):
            return "yes" if self.observation.get("delivered") is True else "no"
        return "no"

    @property
    def delivered_files(self) -> bool:
        """For a deployment: whether it took place, as the host said or a probe settled."""
        return self.command == "deploy_files" and (
            (self.status == "completed" and not self.unsure) or self.settled == "done"
        )

    @property
    def refusal(self) -> str:
        """Why the host's own check refused the signal, or the empty string."""
        if not isinstance(self.observation, dict):
            return ""
        refusal = self.observation.get("refusal")
        return refusal if isinstance(refusal, str) else ""

    @property
    def done_us(self) -> int:
        """When its outcome came; when it was intended where none did."""
        return self.ended_at_us or self.at_us

    @property
    def last_order(self) -> int:
        """The order after which an observation is later than this act."""
        return max(self.order, self.ended_order)


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision, as far as later decisions need it.

    lead is the leading hypothesis, if any; alive counts the members that lived when it was made.
    """

    decision_id: str
    action: str
    purpose: str
    rung: str
    phase: str
    lead: str
    at_us: int
    order: int
    expires_at_us: int
    bound_to: str
    alive: int = 0
    used: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict on one condition."""

    condition: JsonObject
    verdict: Verdict
    at_us: int
    order: int
    event: str

    @property
    def kind(self) -> str:
        """The condition's kind."""
        kind = self.condition.get("kind")
        return kind if isinstance(kind, str) else ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One heartbeat as it was read. loss is a decimal string, nan and inf included."""

    at_us: int
    order: int
    event: str
    run_id: str
    launch_id: str | None
    pid: int
    start_ticks: int
    state: str
    step: int
    sequence: int
    loss: str | None
    checkpoint_writing: bool
    checkpoint_step: int | None


@dataclass(frozen=True, slots=True)
class Tail:
    """One look at a log's end: how often each signature stood in it."""

    at_us: int
    order: int
    event: str
    path: str
    counts: tuple[tuple[str, int], ...]

    def count(self, signature: str) -> int:
        """How often *signature* was seen."""
        return dict(self.counts).get(signature, 0)


@dataclass(frozen=True, slots=True)
class Waited:
    """The end of one wait, by the kind of its condition."""

    kind: str
    met: bool
    order: int
    event: str


@dataclass(frozen=True, slots=True)
class Member:
    """A process once proven to be of the job. cmdline is a digest: it is compared, never shown."""

    identity: Identity
    role: Role
    reason: str
    cmdline_sha256: str


@dataclass(frozen=True, slots=True)
class Terms:
    """Under what this incident is handled, from ``configuration_loaded``.

    stays_down says that an operator had the job stopped and nobody saw it train since: what only
    keeps watch does not start it. learned_grace_s is how long this job's stops took before (95th
    percentile), 0 where unknown, and learned_grace_of how many they were; learned_release_s and
    learned_release_of say the same of its cards' memory.
    agent_wish says that an agent itself wishes for a command, without the engine's decision.
    """

    goal: Literal["recover", "stop"] = "recover"
    tier: Literal["dev", "prod", "unknown"] = "unknown"
    shadow: bool = False
    host: str = ""
    stays_down: bool = False
    learned_grace_s: int = 0
    learned_grace_of: int = 0
    learned_release_s: int = 0
    learned_release_of: int = 0
    agent_wish: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """The incident as opened and, perhaps, closed."""

    id: str
    job: str | None
    opened_at_us: int
    resolution: Resolution | None = None


def deployed_paths(act: Act) -> set[str]:
    """The paths that a deployment wrote; empty for any other act."""
    files = act.arguments.get("files") if act.command == "deploy_files" else None
    listed = files if isinstance(files, list) else []
    return {str(item.get("path")) for item in listed if isinstance(item, dict)}
