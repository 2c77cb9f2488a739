"""The tools that answer a question with a verdict: check, wait_until.

A check is a probe and a verdict; both are journalled. Confirmed needs positive proof; what could
not be seen is inconclusive, never refuted. Here: conditions in the words of a task, and how what
was seen answers them. Not here: the engine's own checks (``agentops.policy.checking``).
"""

import asyncio

from agentops.commands import Command
from agentops.commands.heartbeat import HeartbeatSeen, ReadHeartbeat
from agentops.commands.model_check import CheckModel, ModelChecked
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.waiting import WaitEnded, WaitUntil
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.server.absence import Found, judge_absence
from agentops.server.answer import Answer, Deadline
from agentops.server.arguments import SLICE_S, Check, WaitFor
from agentops.server.desk import Caller, Desk, Refused
from agentops.server.naming import identities, typed
from agentops.server.outcomes import deadline_of, fault_answer, ids, proof_of
from journal.events import JsonObject, VerdictReached

_MS_PER_S = 1000
# How long a single check of progress may watch: a slow step is not a hang.
_ADVANCE_S = 10
_ROWS_MAX = 10


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
    before: tuple[Executed, ...] = ()
    if asked.condition in {"job_absent", "job_advances"}:
        beat = await _beat(desk, caller, asked, host)
        if isinstance(beat, Answer):
            return beat
        before = (beat,)
    command = _probe(desk, asked, host, wait_s, before)
    executed = await desk.look(caller, command, host, f"check {asked.condition}")
    fault = fault_answer(command, host, executed)
    if fault is not None:
        return fault
    found = await asyncio.to_thread(_found, desk, asked, host, (*before, executed))
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
        event_ids=(*evidence, event.id),
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


def _probe(
    desk: Desk, asked: Check, host: Host, wait_s: int, before: tuple[Executed, ...]
) -> Command:
    """The look that answers the condition."""
    waited: JsonObject = {"timeout_ms": wait_s * _MS_PER_S, "poll_ms": 200}
    match asked.condition:
        case "job_absent":
            return ListProcesses()
        case "model_complete":
            return CheckModel(path=str(asked.path))
        case "job_advances":
            return _advances(desk, asked, before[0], waited)
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


async def _beat(desk: Desk, caller: Caller, asked: Check, host: Host) -> Executed | Answer:
    """The job's heartbeat now: who it is, and where it stands."""
    look = ReadHeartbeat(path=desk.job(str(asked.job)).progress.heartbeat)
    executed = await desk.look(caller, look, host, "where the job stands")
    return fault_answer(look, host, executed) or executed


def _advances(desk: Desk, asked: Check, looked: Executed, waited: JsonObject) -> Command:
    """A wait for the step after the one that the heartbeat shows now."""
    path = desk.job(str(asked.job)).progress.heartbeat
    seen = looked.observation
    beat = seen.heartbeat if isinstance(seen, HeartbeatSeen) else None
    step = 1 if beat is None else beat.step + 1
    condition: JsonObject = {"kind": "heartbeat_step", "path": path, "at_least_step": step}
    return typed(WaitUntil, {"condition": condition, **waited})


def _found(desk: Desk, asked: Check, host: Host, looks: tuple[Executed, ...]) -> Found:
    seen = looks[-1].observation
    match seen:
        case ProcessTable():
            name = str(asked.job)
            return judge_absence(desk, name, desk.job(name), host, looks, seen)
        case ModelChecked():
            data: JsonObject = seen.model_dump(mode="json", exclude={"shards"}, exclude_none=True)
            if seen.intact:
                return Found("confirmed", f"all {len(seen.shards)} shards fit their headers", data)
            return Found("refuted", "the model folder is not whole", data)
        case WaitEnded():
            return _waited(asked, seen)
        case _:
            return Found("inconclusive", "nothing was seen", {})


def _waited(asked: Check, seen: WaitEnded) -> Found:
    data: JsonObject = {
        "elapsed_ms": seen.elapsed_ms,
        "polls": seen.polls,
        "series": [list(pair) for pair in seen.series[-_ROWS_MAX:]],
    }
    if seen.alive:
        data["alive"] = list(seen.alive)
    last = seen.series[-1][1]
    if seen.met:
        return Found("confirmed", f"met after {seen.elapsed_ms} ms, value {last}", data)
    if seen.blind is not None:
        return Found("inconclusive", f"it cannot be judged from here: {seen.blind}", data)
    if last is None and asked.condition != "file_exists":
        return Found("inconclusive", "nothing could be read", data)
    if asked.condition == "job_advances":
        return Found("refuted", f"step stayed at {last} for {seen.elapsed_ms} ms", data)
    return Found("refuted", f"not met within {seen.elapsed_ms} ms, value {last}", data)
