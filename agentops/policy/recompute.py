"""Every recorded decision, made again from the journal, and the first that differs.

Here: replay's back end. Not here: parsing outputs again, or printing. A decision that cannot be
made again because an observation was removed ends the history there; that is not a difference.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from agentops.policy.config import PolicyConfig
from agentops.policy.decide import decide
from agentops.policy.fold import fold
from agentops.policy.reading import read_policy
from agentops.policy.state import PolicyState
from journal.envelope import Event
from journal.events import (
    ActingFrozen,
    ActingThawed,
    ConfigurationLoaded,
    DecisionMade,
    ObservationParsed,
)


class History(Protocol):
    """What recomputing needs of a journal's reader."""

    def events(self) -> Iterable[Event]:
        """All events, in the journal's order."""

    def observation(self, event: Event) -> object:
        """The recorded observation of an ``observation_parsed`` event."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that comes out otherwise; ordinal counts from 1 in its incident."""

    event: str
    incident: str
    ordinal: int
    what: str
    recorded: JsonValue
    recomputed: JsonValue


@dataclass(frozen=True, slots=True)
class Recomputed:
    """How far the history could be recomputed.

    horizon names the event at which it ended early, or is None.
    """

    decisions: int
    first: Difference | None
    horizon: str | None


def recompute(history: History, config: PolicyConfig | None = None) -> Recomputed:
    """Make every decision again; with *config*, under another policy than the recorded one."""
    events = list(history.events())
    done = 0
    horizon: str | None = None
    for incident in dict.fromkeys(event.incident for event in events if event.incident):
        own = relevant(events, incident)
        outcome = _incident(history, incident, own, config)
        done += outcome.decisions
        horizon = horizon or outcome.horizon
        if outcome.first is not None:
            return Recomputed(done, outcome.first, horizon)
    return Recomputed(done, None, horizon)


def _incident(
    history: History, incident: str, events: list[Event], config: PolicyConfig | None
) -> Recomputed:
    known = config
    done = 0
    fold_on = Refolding(history, events)
    for event in events:
        if isinstance(event.payload, ConfigurationLoaded) and config is None:
            known = configuration_of(event.payload)
        if not isinstance(event.payload, DecisionMade) or known is None:
            continue
        fold_on.to(event.payload)
        if fold_on.horizon is not None:
            return Recomputed(done, None, fold_on.horizon)
        done += 1
        difference = _compare(event, event.payload, incident, done, fold_on.state, known, config)
        if difference is not None:
            return Recomputed(done, difference, None)
    return Recomputed(done, None, None)


def configuration_of(loaded: ConfigurationLoaded) -> PolicyConfig | None:
    """The policy in a recorded configuration, or None where the event holds another kind of one."""
    body = loaded.body.get("policy_file")
    return read_policy(body) if isinstance(body, dict) else None


def relevant(events: Iterable[Event], incident: str) -> list[Event]:
    """What an incident's state is folded from: its own events, and what freezes or thaws acting."""
    return [
        event
        for event in events
        if event.incident == incident or isinstance(event.payload, ActingFrozen | ActingThawed)
    ]


class Refolding:
    """The state that a recorded decision was made on, as far as its basis had been read.

    Writers in other processes may have put events between; each decision says up to where it knew
    each stream. Folding goes on from the decision before where the order allows it.
    """

    def __init__(self, history: History, events: Sequence[Event]) -> None:
        self._history = history
        self._events = events
        self._seqs: dict[str, list[int]] = {}
        for event in events:
            self._seqs.setdefault(event.stream, []).append(event.seq)
        self._folded: list[str] = []
        self._heads: Mapping[str, JsonValue] = {}
        self.state = PolicyState()
        self.horizon: str | None = None

    def to(self, made: DecisionMade) -> None:
        """Fold up to the basis of *made*; ``horizon`` names a missing observation."""
        basis = made.decision.get("basis")
        heads: Mapping[str, JsonValue] = basis if isinstance(basis, dict) else {}
        for event in self._added(heads):
            observation: JsonValue = None
            if isinstance(event.payload, ObservationParsed):
                found = self._history.observation(event)
                if not isinstance(found, dict | list | str | int | bool):
                    self.horizon = event.id
                    return
                observation = found
            self.state = fold(self.state, event, observation)
            self._folded.append(event.id)
        self._heads = heads

    def _added(self, heads: Mapping[str, JsonValue]) -> Sequence[Event]:
        """What a basis takes in beyond the folded; where that was another order, from the start.

        With one writer it is what follows; to look at all events each time would cost their square.
        """
        known = len(self._folded)
        count = sum(
            bisect_right(seqs, head)
            for stream, seqs in self._seqs.items()
            if isinstance(head := heads.get(stream), int)
        )
        following = self._events[known:count]
        if (
            self._follows(known)
            and all(_within(heads.get(stream), head) for stream, head in self._heads.items())
            and all(_within(heads.get(event.stream), event.seq) for event in following)
        ):
            return following
        wanted = [event for event in self._events if _within(heads.get(event.stream), event.seq)]
        if [event.id for event in wanted[:known]] != self._folded:
            self._folded, self.state = [], PolicyState()
            return wanted
        return wanted[known:]

    def _follows(self, known: int) -> bool:
        """Whether the folded events are the first ones: their count and the last of them tell."""
        return known == 0 or self._events[known - 1].id == self._folded[-1]


def _within(head: JsonValue, seq: JsonValue) -> bool:
    return isinstance(head, int) and isinstance(seq, int) and seq <= head


def _compare(
    event: Event,
    made: DecisionMade,
    incident: str,
    ordinal: int,
    state: PolicyState,
    known: PolicyConfig,
    other: PolicyConfig | None,
) -> Difference | None:
    again = decide(state, known, made.now_us)
    if other is None and again.inputs_sha256 != made.inputs_sha256:
        return Difference(
            event.id, incident, ordinal, "inputs", made.inputs_sha256, again.inputs_sha256
        )
    recorded, recomputed = made.decision, again.body()
    changed = sorted(
        key
        for key in recorded.keys() | recomputed.keys()
        if recorded.get(key) != recomputed.get(key)
    )
    if other is not None:
        changed = [key for key in changed if key in {"action", "phase"}]
    elif not changed and again.body_sha256(recomputed) != made.decision_sha256:
        changed = ["decision_sha256"]
    if not changed:
        return None
    return Difference(
        event.id,
        incident,
        ordinal,
        ", ".join(changed),
        {key: recorded.get(key) for key in changed},
        {key: recomputed.get(key) for key in changed},
    )
