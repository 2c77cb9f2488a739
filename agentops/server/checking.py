"""The tools that answer a question with a verdict: check, wait_until.

A check is a probe and a verdict; both are journalled. Confirmed needs positive proof; what could
not be seen is inconclusive, never refuted. Here: conditions in the words of a task, and how what
was seen answers them. Not here: the engine's own checks (``agentops.policy.checking``).
"""

from dataclasses import dataclass

from agentops.commands import Command
from agentops.commands.heartbeat import HeartbeatSeen, ReadHeartbeat
from agentops.commands.model_check import CheckModel, ModelChecked
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.waiting import WaitEnded, WaitUntil
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.server import views
from agentops.server.answer import Answer, Deadline
from agentops.server.arguments import SLICE_S, Check, WaitFor
from agentops.server.desk import Caller, Desk, Refused
from agentops.server.naming import identities, typed
from agentops.server.outcomes import deadline_of, fault_answer, ids, proof_of
from journal.events import JsonObject, Verdict, VerdictReached

_MS_PER_S = 1000
# How long a single check of progress may watch: a slow step is not a hang.
_ADVANCE_S = 10
_ROWS_MAX = 10


@dataclass(frozen=True, slots=True)
class _Found:
    """A verdict, why, and what it rests on."""

    verdict: Verdict
    reason: str
    data: JsonObject


async def check(desk: Desk, caller: Caller, asked: Check) -> Answer:
    """Whether a condition holds now."""
    wait_s = _ADVANCE_S if asked.condition == "job_advances" else 0
    return await _judge(desk, caller, asked, wait_s, None)


async def wait_until(desk: Desk, caller: Caller, asked: WaitFor) -> Answer:
    """Whether a condition comes to hold within one slice."""
    if asked.condition in {"job_absent", "model_complete"}:
        raise Refused("BAD_ARGS", f"condition {asked.condition} is asked with check; nobody waits")
    return await _judge(desk, caller, asked, min(asked.timeout_s, SLICE_S), asked.timeout_s)


async def _judge(
    desk: Desk, caller: Caller, asked: Check, wait_s: int, asked_s: int | None
) -> Answer:
    host = desk.host(asked.host)
    command = await _probe(desk, caller, asked, host, wait_s)
    if isinstance(command, Answer):
        return command
    executed = await desk.look(caller, command, host, f"check {asked.condition}")
    fault = fault_answer(command, host, executed)
    if fault is not None:
        return fault
    found = _found(desk, asked, executed)
    condition: JsonObject = {"kind": asked.condition, **_subject(asked)}
    evidence = ids(executed)[-1:]
    reached = VerdictReached(
        condition=condition, verdict=found.verdict, reason=found.reason, evidence=evidence
    )
    event = await desk.record(host, reached, desk.actor(caller))
    deadline = deadline_of(command, executed.outcome)
    going_on = asked_s is not None and asked_s > wait_s and found.verdict != "confirmed"
    if asked_s is not None:
        deadline = Deadline(
            asked_ms=asked_s * _MS_PER_S,
            applied_ms=wait_s * _MS_PER_S,
            cut_by="slice" if asked_s > wait_s else None,
        )
    return Answer(
        ok=True,
        verdict=found.verdict,
        summary=f"{asked.condition} on {host.name}: {found.reason}",
        event_ids=(*ids(executed), event.id),
        proof=proof_of(executed.outcome, host),
        deadline=deadline,
        data=found.data,
        untrusted=("data.rows[].cmd",) if "rows" in found.data else (),
        next=("call wait_until again to wait on",) if going_on else (),
    )


def _subject(asked: Check) -> JsonObject:
    """What the condition is about, as it goes on record."""
    names = ("job", "path", "at_least", "limits_mib", "port", "seen")
    said = asked.model_dump(mode="json", include=set(names), exclude_defaults=True)
    if asked.victims is not None:
        said["pids"] = [victim.pid for victim in asked.victims]
    return said


async def _probe(
    desk: Desk, caller: Caller, asked: Check, host: Host, wait_s: int
) -> Command | Answer:
    """The look that answers the condition."""
    waited: JsonObject = {"timeout_ms": wait_s * _MS_PER_S, "poll_ms": 200}
    match asked.condition:
        case "job_absent":
            return ListProcesses()
        case "model_complete":
            return CheckModel(path=str(asked.path))
        case "job_advances":
            return await _advances(desk, caller, asked, host, waited)
        case _:
            condition = {"kind": asked.condition, **_terms(desk, asked, host)}
            return typed(WaitUntil, {"condition": condition, **waited})


def _terms(desk: Desk, asked: Check, host: Host) -> JsonObject:
    """The condition's own terms, for those that the host itself can wait for."""
    match asked.condition:
        case "process_absent":
            named = identities(desk.reader, str(asked.seen), asked.victims or (), host.name)
            return {"identities": [identity.model_dump(mode="json") for identity in named]}
        case "heartbeat_step":
            path = desk.job(str(asked.job)).progress.heartbeat
            return {"path": path, "at_least_step": asked.at_least}
        case "gpu_memory_at_most":
            return {"limits_mib": list(asked.limits_mib or ())}
        case "file_exists":
            return {"path": asked.path, "at_least_bytes": asked.at_least}
        case _:
            return {"port": asked.port}


async def _advances(
    desk: Desk, caller: Caller, asked: Check, host: Host, waited: JsonObject
) -> Command | Answer:
    """A wait for the step after the one that the heartbeat shows now."""
    path = desk.job(str(asked.job)).progress.heartbeat
    look = ReadHeartbeat(path=path)
    executed = await desk.look(caller, look, host, "where the job stands")
    fault = fault_answer(look, host, executed)
    if fault is not None:
        return fault
    seen = executed.observation
    beat = seen.heartbeat if isinstance(seen, HeartbeatSeen) else None
    step = 1 if beat is None else beat.step + 1
    condition: JsonObject = {"kind": "heartbeat_step", "path": path, "at_least_step": step}
    return typed(WaitUntil, {"condition": condition, **waited})


def _found(desk: Desk, asked: Check, executed: Executed) -> _Found:
    seen = executed.observation
    match seen:
        case ProcessTable():
            return _absent(desk, asked, seen)
        case ModelChecked():
            data: JsonObject = seen.model_dump(mode="json", exclude={"shards"}, exclude_none=True)
            if seen.intact:
                return _Found("confirmed", f"all {len(seen.shards)} shards fit their headers", data)
            return _Found("refuted", "the model folder is not whole", data)
        case WaitEnded():
            return _waited(asked, seen)
        case _:
            return _Found("inconclusive", "nothing was seen", {})


def _absent(desk: Desk, asked: Check, table: ProcessTable) -> _Found:
    job = desk.job(str(asked.job))
    rows = [row for row in views.living(table.processes) if views.of_job(job, row)]
    data: JsonObject = {"complete": table.complete, "processes": len(table.processes)}
    if rows:
        data["rows"] = [views.process_row(row, table.ticks_per_s) for row in rows[:_ROWS_MAX]]
        pids = ", ".join(str(row.pid) for row in rows[:_ROWS_MAX])
        return _Found("refuted", f"{len(rows)} living processes match {asked.job}: {pids}", data)
    if not table.complete:
        return _Found("inconclusive", "this user is not shown all processes", data)
    count = len(table.processes)
    return _Found("confirmed", f"none of {count} processes listed matches {asked.job}", data)


def _waited(asked: Check, seen: WaitEnded) -> _Found:
    data: JsonObject = {
        "elapsed_ms": seen.elapsed_ms,
        "polls": seen.polls,
        "series": [list(pair) for pair in seen.series[-_ROWS_MAX:]],
    }
    if seen.alive:
        data["alive"] = list(seen.alive)
    last = seen.series[-1][1]
    if seen.met:
        return _Found("confirmed", f"met after {seen.elapsed_ms} ms, value {last}", data)
    if seen.blind is not None:
        return _Found("inconclusive", f"it cannot be judged from here: {seen.blind}", data)
    if last is None and asked.condition != "file_exists":
        return _Found("inconclusive", "nothing could be read", data)
    if asked.condition == "job_advances":
        return _Found("refuted", f"step stayed at {last} for {seen.elapsed_ms} ms", data)
    return _Found("refuted", f"not met within {seen.elapsed_ms} ms, value {last}", data)
