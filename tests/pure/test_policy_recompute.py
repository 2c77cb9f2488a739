"""Replay of decisions: the same bytes, the first difference, and where history ends."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from agentops.bench.simulate import Kept, Loop
from agentops.policy import PolicyState, Run, fold, recompute
from agentops.policy.recompute import Refolding
from journal import Event
from journal.events import DecisionMade, JsonObject, ObservationParsed
from tests.support.simulated import config


@cache
def first_events() -> tuple[tuple[Event, JsonObject | None], ...]:
    """The first events of a run, as if two writers had written them."""
    names, seqs = ("s1-a", "s2-b"), [0, 0]
    found = []
    for place, (event, observation) in enumerate(ran(4).events[:40]):
        writer = place % 5 % 2
        found.append((event._replace(stream=names[writer], seq=seqs[writer]), observation))
        seqs[writer] += 1
    return tuple(found)


def ran(seed: int) -> Loop:
    """A run to its end."""
    run = Loop(seed, config())
    run.begin()
    while run.step() is None:
        pass
    return run


def test_every_decision_comes_out_the_same() -> None:
    """As many as were made, and no difference."""
    run = ran(4)
    again = recompute(Kept(run.events))
    assert (again.decisions, again.first, again.horizon) == (len(run.decisions), None, None)


def test_a_changed_decision_is_the_first_difference() -> None:
    """Its event and its ordinal are named, and what differs in it."""
    run = ran(4)
    places = [
        place
        for place, (event, _) in enumerate(run.events)
        if isinstance(event.payload, DecisionMade)
    ]
    place = places[5]
    event, _ = run.events[place]
    assert isinstance(event.payload, DecisionMade)
    body = {**event.payload.decision, "phase": "elsewhere"}
    forged = event._replace(payload=event.payload.model_copy(update={"decision": body}))
    run.events[place] = (forged, None)
    first = recompute(Kept(run.events)).first
    assert first is not None
    assert (first.event, first.ordinal, first.what) == (event.id, 6, "phase")


def test_a_changed_observation_changes_a_decision() -> None:
    """What was seen is what decisions rest on."""
    run = ran(4)
    for place, (event, observation) in enumerate(run.events):
        payload = event.payload
        if isinstance(payload, ObservationParsed) and payload.command == "list_processes":
            assert observation is not None
            run.events[place] = (event, {**observation, "complete": False})
            break
    assert recompute(Kept(run.events)).first is not None


def test_another_policy_is_named_by_its_first_other_action() -> None:
    """Counterfactual: the recorded facts under stricter rules."""
    run = ran(4)
    strict = config().model_copy(update={"permit": ()})
    assert recompute(Kept(run.events), config()).first is None
    first = recompute(Kept(run.events), strict).first
    assert first is not None
    assert first.what == "action"
    signal = next(d for d in run.decisions if isinstance(d.action, Run) and d.guards)
    assert first.ordinal == run.decisions.index(signal) + 1


def test_a_removed_observation_ends_the_history_there() -> None:
    """That is a horizon, not a difference."""
    run = ran(4)
    for place, (event, _) in enumerate(run.events):
        if isinstance(event.payload, ObservationParsed):
            run.events[place] = (event, None)
            break
    again = recompute(Kept(run.events))
    assert again.first is None
    assert again.horizon == run.events[place][0].id
    assert again.decisions < len(run.decisions)


class Told(Kept):
    """Observations by the event itself: a seq is no place here."""

    def observation(self, event: Event) -> object:
        """What was observed."""
        return next(seen for told, seen in self._events if told.id == event.id)


HEADS = st.dictionaries(st.sampled_from(["s1-a", "s2-b"]), st.integers(-1, 26))


@given(st.lists(HEADS, min_size=1, max_size=5))
def test_folding_on_gives_what_folding_from_the_start_gives(asked: list[dict[str, int]]) -> None:
    """Whatever each decision knew of two writers, forward, backward or crosswise."""
    events = first_events()
    made = next(e.payload for e, _ in events if isinstance(e.payload, DecisionMade))
    on = Refolding(Told(events), [event for event, _ in events])
    for heads in asked:
        on.to(made.model_copy(update={"decision": {"basis": heads}}))
        whole = PolicyState()
        for event, observation in events:
            if event.seq <= heads.get(event.stream, -1):
                whole = fold(whole, event, observation)
        assert on.state == whole
