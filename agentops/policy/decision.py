"""What a decision is: an action, and everything that it rests on.

Here: the frozen types, their canonical form and digests. Not here: how one is reached
(``agentops.policy.decide``). No free text of a host enters a decision: reasons are written by this
program and facts are named by their events, so that a decision can be recomputed from the journal
to the byte.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from agentops.policy.canonical import canonical_json, digest, plain
from agentops.policy.config import Purpose
from agentops.policy.hypotheses import Score
from agentops.policy.ledger import Member
from journal.events import DecisionMade, JsonObject, Resolution, Verdict


@dataclass(frozen=True, slots=True)
class Run:
    """Run one command. For deploy and launch the configuration holds what arguments only name."""

    purpose: Purpose
    command: str
    arguments: JsonObject
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Judge:
    """Record a verdict; evidence are event ids."""

    condition: JsonObject
    verdict: Verdict
    reason: str
    evidence: tuple[str, ...]
    kind: Literal["judge"] = "judge"


@dataclass(frozen=True, slots=True)
class Pause:
    """Look again at *until_us*, not before: nothing on the host would tell earlier."""

    until_us: int
    reason: str
    kind: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True)
class Close:
    """End the incident."""

    resolution: Resolution
    reason: str
    evidence: tuple[str, ...]
    kind: Literal["close"] = "close"


Action = Run | Judge | Pause | Close


@dataclass(frozen=True, slots=True)
class RuleHit:
    """A rule that spoke for the action, the events that it rests on, and its words."""

    rule: str
    text: str
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """Another candidate, and the rule that spoke against it."""

    candidate: str
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class GuardResult:
    """One guard's answer; every guard is asked, and every answer is kept."""

    guard: str
    passed: bool
    note: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must be observed, and by when, to call the action a success."""

    condition: JsonObject
    by_us: int


@dataclass(frozen=True, slots=True)
class Step:
    """What a stage proposes; ``decide`` adds guards, rules, members and digests."""

    action: Action
    because: tuple[RuleHit, ...]
    rung: str = ""
    lead: str = ""
    hypotheses: tuple[Score, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    expects: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step. bound_to is the digest of the command that may use it; once, before expiry."""

    decision_id: str
    phase: str
    action: Action
    because: tuple[RuleHit, ...]
    rung: str
    lead: str
    hypotheses: tuple[Score, ...]
    rejected: tuple[Rejected, ...]
    guards: tuple[GuardResult, ...]
    expects: tuple[Expectation, ...]
    expires_at_us: int
    bound_to: str
    inputs_sha256: str
    now_us: int
    members: tuple[Member, ...] = ()
    basis: tuple[tuple[str, int], ...] = field(default=())

    def body(self) -> JsonObject:
        """The decision as plain JSON, for ``decision_made``; ids and digests stand beside it."""
        whole = plain(self)
        assert isinstance(whole, dict)  # noqa: S101 - a dataclass is an object
        for beside in ("decision_id", "inputs_sha256", "now_us"):
            del whole[beside]
        whole["basis"] = dict(self.basis)
        return whole

    def made(self, configuration: str) -> DecisionMade:
        """The event that records it; *configuration* is the digest of the policy in force."""
        body = self.body()
        return DecisionMade(
            decision_id=self.decision_id,
            now_us=self.now_us,
            configuration=configuration,
            inputs_sha256=self.inputs_sha256,
            decision=body,
            decision_sha256=self.body_sha256(body),
        )

    @staticmethod
    def body_sha256(body: JsonObject) -> str:
        """The digest that stands beside a body."""
        return hashlib.sha256(canonical_json(body)).hexdigest()


_BOUND_KEYS = {
    "signal_process": ("victim", "signal"),
    "launch": ("launch_id",),
}


def binding(command: str, arguments: JsonObject) -> str:
    """A digest of what must not differ between the decision and the command that uses it.

    For a signal: the victim's identity and the signal. For a launch: its launch id (argv and the
    rest are compared with the configuration). For files: paths and contents' digests.
    """
    if command == "deploy_files":
        return digest([command, _files(arguments.get("files"))])
    keys = _BOUND_KEYS.get(command)
    bound = arguments if keys is None else {key: arguments.get(key) for key in keys}
    return digest([command, bound])


def _files(listed: JsonValue) -> JsonValue:
    if not isinstance(listed, list):
        return []
    return [[item.get("path"), item.get("sha256")] for item in listed if isinstance(item, dict)]
