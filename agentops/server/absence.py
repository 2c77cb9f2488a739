"""Is a job gone? Judged by who is proven to be of it, never by a name alone.

A viewer of the job's script bears its name, and the job's workers do not. So what counts is what
the engine counts: the heartbeat's identity, the members that the last incident knew, launch ids,
descent. Here: the state for that, and the verdict. Not here: the looks themselves
(``agentops.server.checking``), roles (``agentops.policy.roles``).
"""

from dataclasses import dataclass

from pydantic import JsonValue

from agentops.commands.processes import ProcessTable
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.policy import Job, PolicyState, fold
from agentops.policy.learning import beat_value
from agentops.policy.process import Process
from agentops.policy.view import View, look
from agentops.recover.following import Following
from agentops.server import views
from agentops.server.desk import Desk
from journal import Reader
from journal.events import JsonObject, ObservationParsed, Verdict

_ROWS_MAX = 10


@dataclass(frozen=True, slots=True)
class Found:
    """A verdict, why, and what it rests on."""

    verdict: Verdict
    reason: str
    data: JsonObject


def judge_absence(
    desk: Desk, name: str, job: Job, host: Host, looks: tuple[Executed, ...], table: ProcessTable
) -> Found:
    """Whether nobody proven or suspected to be of the job lives in *table*, the newest of *looks*.

    Confirmed needs a whole table and some knowledge of who the job is: a heartbeat, or the members
    of an incident. Without any, a process that bears its name leaves the question open.
    """
    state = _before(desk.reader, name, host)
    for seen in looks:
        for event in seen.events:
            parsed = isinstance(event.payload, ObservationParsed) and seen.observation is not None
            value = (
                seen.observation.model_dump(mode="json") if parsed and seen.observation else None
            )
            state = fold(state, event, value)
    view = look(state, desk.ground.config, job, desk.ground.clock.wall_us())
    return _verdict(name, view, table)


def _before(reader: Reader, job: str, host: Host) -> PolicyState:
    """What the job's last incident on this host knew; nothing where there was none."""
    places = {
        event.incident: event.host.name
        for event in reader.events(kinds={"incident_opened"})
        if event.host is not None
    }
    for found in reversed(reader.incidents()):
        if found.job == job and places.get(found.id) == host.name:
            following = Following(reader, found.id)
            following.refresh()
            return following.state
    return PolicyState()


def _verdict(name: str, view: View, table: ProcessTable) -> Found:
    roles = view.roles
    members = (*roles.supervisors, *roles.trainers, *roles.workers)
    data: JsonObject = {"complete": table.complete, "processes": len(table.processes)}
    if members:
        data["rows"] = _rows(members, table)
        return Found("refuted", f"{len(members)} of {name} live: {_pids(members)}", data)
    if not table.complete:
        return Found("inconclusive", "this user is not shown all processes", data)
    if roles.suspects:
        data["rows"] = _rows(roles.suspects, table)
        what = f"{len(roles.suspects)} look exactly like {name}: {_pids(roles.suspects)}"
        return Found("inconclusive", what, data)
    known = bool(view.state.members) or beat_value(view.state.facts, "pid") is not None
    if roles.candidates and not known:
        data["rows"] = _rows(roles.candidates, table)
        what = (
            f"{len(roles.candidates)} bear the name of {name}, and nothing tells who it is:"
            f" {_pids(roles.candidates)}"
        )
        return Found("inconclusive", what, data)
    others = f"; {len(roles.candidates)} others bear its name" if roles.candidates else ""
    count = len(table.processes)
    return Found("confirmed", f"none of {count} processes listed is of {name}{others}", data)


def _rows(processes: tuple[Process, ...], table: ProcessTable) -> list[JsonValue]:
    keys = {process.key for process in processes}
    rows = [row for row in table.processes if (row.pid, row.start_ticks) in keys]
    return [views.process_row(row, table.ticks_per_s) for row in rows[:_ROWS_MAX]]


def _pids(processes: tuple[Process, ...]) -> str:
    return ", ".join(str(process.pid) for process in processes[:_ROWS_MAX])
