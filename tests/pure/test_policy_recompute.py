"""Replay of decisions: the same bytes, the first difference, and where history ends."""

from dataclasses import replace

from agentops.bench.simulate import Kept, Loop
from agentops.policy import Run, recompute
from journal.events import DecisionMade, ObservationParsed
from tests.support.simulated import config


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
    forged = replace(event, payload=event.payload.model_copy(update={"decision": body}))
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
