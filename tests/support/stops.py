"""Stops in told incidents: a lone trainer before its first signal, and what a decision turned on.

Here: the ways there. Not here: the telling itself (``tests.support.telling``).
"""

from dataclasses import replace

from pydantic import JsonValue

from agentops.policy import Decision
from journal.events import JsonObject
from tests.support.shown import Host, beat, row
from tests.support.telling import Incident, rules


def alone(pid: int = 70) -> Host:
    """A trainer and nobody else."""
    return Host(rows=(row(pid),), beat=beat(pid, 10))


def interrupted() -> Incident:
    """A lone trainer that got its interrupt."""
    incident = Incident(alone())
    incident.until("INT 70")
    incident.done()
    incident.steps.clear()
    return incident


def lone(stop: JsonObject | None = None, **traits: JsonValue) -> Incident:
    """A lone trainer with these traits, about to be stopped."""
    config = None if stop is None else rules({"stop": stop})
    incident = Incident(Host(rows=(row(70, **traits),), beat=beat(70, 10)), config=config)
    incident.until("judge intervention_needed")
    incident.judged()
    incident.steps.clear()
    return incident


def advances(incident: Incident, *, by: int = 2) -> None:
    """Steps go on."""
    assert incident.host.beat is not None
    step = incident.host.beat["step"]
    assert isinstance(step, int)
    incident.host = replace(incident.host, beat=beat(70, step + by))


def because(decision: Decision) -> str:
    """The first rule that spoke for a decision; its events are those that the words rest on."""
    return decision.because[0].rule
