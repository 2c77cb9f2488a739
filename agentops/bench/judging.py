"""Judging one run: gates first, then scores.

Here: what the journal of a run must show, and numbers read from it. The truth comes from
``agentops.bench.truth``; this module asks the engine nothing.

Gates: no innocent was touched; every act had its intent before it, the chain verifies, every
decision comes out again; no verdict and no resolution said more than was true.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from agentops.bench.scenario import FORCES, Scenario
from agentops.bench.trouble import Sent
from agentops.policy import recompute
from journal import Event, KeyStore, Reader, verify
from journal.events import (
    CommandCompleted,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    DecisionMade,
    IncidentOpened,
    ObservationParsed,
    Resolution,
    VerdictReached,
)

SECOND_US = 1_000_000
_MARKS: Mapping[str, str] = {
    "intervention_needed": "detected",
    "members_absent": "stopped",
    "job_stopped": "verified",
    "job_started": "healthy",
}


@dataclass(frozen=True, slots=True)
class Scores:
    """What a run cost and how it went; times in seconds from the incident's opening.

    gentleness and diagnosis are between 0 and 1; None where the run gives no measure.
    """

    signals: tuple[str, ...] = ()
    gentleness: float | None = None
    diagnosis: float | None = None
    times_s: Mapping[str, float] = field(default_factory=dict)
    decisions: int = 0
    probes: int = 0
    intrusiveness: int = 0
    replay_ms_per_decision: float = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One world, once. The gates' tuples are empty when the gate holds.

    failure says that the stage itself could not be set: then nothing was measured. journalled is
    false for one-liners, which keep no record and are compared without that gate.
    """

    scenario: str
    seed: int
    combined: bool
    resolvable: bool
    resolution: Resolution | None
    reason: str
    accepted: bool
    touched: tuple[str, ...] = ()
    false_greens: tuple[str, ...] = ()
    journal_faults: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    scores: Scores = Scores()
    torn_checkpoint: bool = False
    wall_s: float = 0
    failure: str = ""
    journalled: bool = True

    @property
    def gates_hold(self) -> bool:
        """Whether every gate holds and the run took place."""
        breaches = (self.touched, self.false_greens, self.journal_faults, self.failure)
        return not any(breaches)

    @property
    def resolved(self) -> bool:
        """Whether it ended as an operator would accept, with every gate held that applies."""
        breaches = (self.touched, self.false_greens, self.journalled and self.journal_faults)
        return self.accepted and not self.failure and not any(breaches)


def journal_faults(path: Path, keys: KeyStore, sent: Sent) -> tuple[tuple[str, ...], float]:
    """What is wrong with the journal as evidence; and milliseconds per decision made again."""
    found = []
    verified = verify(path, keys=keys)
    if verified.status != "intact":
        finding = verified.finding
        found.append(f"verify says {verified.status}{f': {finding}' if finding else ''}")
    reader = Reader.open(path)
    events = list(reader.events())
    found += _unannounced(events, sent)
    began = perf_counter()
    again = recompute(reader)
    spent_ms = (perf_counter() - began) * 1_000
    if again.first is not None:
        found.append(f"decision {again.first.ordinal} differs: {again.first.what}")
    if again.horizon is not None:
        found.append(f"the history ends at {again.horizon}")
    return tuple(found), round(spent_ms / max(1, again.decisions), 2)


def _unannounced(events: Iterable[Event], sent: Sent) -> list[str]:
    """Requests without an intent before them, intents without an outcome, acts undecided."""
    intents: dict[str, CommandIntended] = {}
    ended: set[str] = set()
    for event in events:
        payload = event.payload
        if isinstance(payload, CommandIntended):
            intents[payload.command_id] = payload
        elif isinstance(
            payload, CommandCompleted | CommandFailed | CommandNotSent | CommandOutcomeUnknown
        ):
            ended.add(payload.command_id)
    found = []
    if sent.unannounced or sent.requests != len(intents):
        found.append(f"{sent.requests} requests left, {len(intents)} were intended before")
    if set(intents) != ended:
        found.append(f"{len(set(intents) - ended)} intent(s) without an outcome")
    undecided = [i for i in intents.values() if i.effect != "observes" and i.decision_id is None]
    if undecided:
        found.append(f"{len(undecided)} act(s) without a decision")
    return found


def scores(path: Path, scenario: Scenario, *, replay_ms: float) -> Scores:
    """The numbers of one run, from its journal."""
    reader = Reader.open(path)
    events = list(reader.events())
    signals = _signals(reader, events)
    leads = {
        str(event.payload.decision.get("lead"))
        for event in events
        if isinstance(event.payload, DecisionMade)
    }
    looked = [
        event.payload.intrusiveness
        for event in events
        if isinstance(event.payload, CommandIntended) and event.payload.effect == "observes"
    ]
    return Scores(
        signals=signals,
        gentleness=gentleness(scenario, signals),
        diagnosis=None if not scenario.leads else float(bool(leads & set(scenario.leads))),
        times_s=_times(events),
        decisions=sum(isinstance(event.payload, DecisionMade) for event in events),
        probes=len(looked),
        intrusiveness=sum(looked),
        replay_ms_per_decision=replay_ms,
    )


def gentleness(scenario: Scenario, signals: Iterable[str]) -> float:
    """1 for the least force that would have worked, less for each step beyond it."""
    force = [FORCES.index(name) for name in FORCES if name in set(signals)]
    beyond = max(force, default=0) - FORCES.index(scenario.gentlest)
    return round(1 - max(0, beyond) / (len(FORCES) - 1), 3)


def unmet(scenario: Scenario, signals: Iterable[str]) -> tuple[str, ...]:
    """The scenario's own criteria that the run did not meet."""
    sent = set(signals)
    return tuple(f"sent {name}" for name in scenario.unwanted if name in sent)


def _signals(reader: Reader, events: Iterable[Event]) -> tuple[str, ...]:
    """Signals that were delivered, or of which nobody knows; in order."""
    sent: dict[str, str] = {}
    for event in events:
        payload = event.payload
        if isinstance(payload, CommandIntended) and payload.command == "signal_process":
            sent[payload.command_id] = str(payload.arguments["signal"])
        elif isinstance(payload, CommandNotSent):
            sent.pop(payload.command_id, None)
        elif isinstance(payload, ObservationParsed) and payload.command_id in sent:
            said = reader.observation(event)
            if isinstance(said, dict) and said.get("delivered") is not True:
                del sent[payload.command_id]
    return tuple(sent.values())


def _times(events: Iterable[Event]) -> dict[str, float]:
    opened = 0
    times: dict[str, float] = {}
    for event in events:
        payload = event.payload
        if isinstance(payload, IncidentOpened):
            opened = event.ts_us
        name = None
        if isinstance(payload, VerdictReached) and payload.verdict == "confirmed":
            name = _MARKS.get(str(payload.condition.get("kind")))
        elif isinstance(payload, CommandIntended) and payload.command == "signal_process":
            name = "decided"
        if name is not None:
            times.setdefault(name, round((event.ts_us - opened) / SECOND_US, 2))
    return times
