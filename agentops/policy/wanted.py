"""Does an operator want the job to run at all?

Here: whether the last word about a job on a host, by the journal, was to stop it. Not here: what
follows (``agentops.policy.needs``: what only keeps watch does not start such a job).
"""

from collections.abc import Iterable

from journal.envelope import Event
from journal.events import ConfigurationLoaded, IncidentClosed, IncidentOpened, VerdictReached

KINDS = frozenset({"incident_opened", "configuration_loaded", "verdict_reached", "incident_closed"})
_TRAINS = frozenset({"job_progressing", "job_started"})


def stopped_on_request(events: Iterable[Event], job: str, host: str) -> bool:
    """Whether a stop that was asked for is the newest word on *job* there.

    It is taken back by the proof that the job trains: somebody has started it since.
    """
    own: set[str] = set()
    goals: dict[str, object] = {}
    stopped = False
    for event in events:
        name = event.incident
        if name is None:
            continue
        match event.payload:
            case IncidentOpened() as opened:
                if opened.job == job and event.host is not None and event.host.name == host:
                    own.add(name)
            case ConfigurationLoaded() as loaded:
                goals[name] = goal_of(loaded)
            case IncidentClosed() if name in own and goals.get(name) == "stop":
                stopped = True
            case VerdictReached() as reached if name in own:
                trains = reached.condition.get("kind") in _TRAINS
                stopped = stopped and not (trains and reached.verdict == "confirmed")
            case _:
                pass
    return stopped


def goal_of(loaded: ConfigurationLoaded) -> str:
    """What was asked for under this configuration: stop, recover, or, in shadow, neither."""
    terms = loaded.body.get("terms")
    if not isinstance(terms, dict):
        return "recover"
    if terms.get("shadow") is True:
        return "shadow"
    return "stop" if terms.get("goal") == "stop" else "recover"
