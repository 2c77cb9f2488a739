"""The tools that look at a host: observe, inspect_process, tail.

Each is one round trip. Here: asking and putting the answer in short. Not here: conditions with a
verdict (``agentops.server.checking``), anything that changes a host (``agentops.server.acting``).
"""

from agentops.commands import Command
from agentops.commands.files import LogTail, TailLog
from agentops.commands.inspecting import InspectProcess, ProcessInspected
from agentops.commands.observing import Observe, Observed, Part
from agentops.diagnosis import diagnose
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.policy import Job
from agentops.server import views
from agentops.server.answer import Answer, shown
from agentops.server.arguments import Inspect, ObserveHost, Tail
from agentops.server.desk import Caller, Desk, Refused
from agentops.server.outcomes import deadline_of, fault_answer, ids, proof_of
from journal.events import JsonObject

_RELATED_MAX = 12
_LINES_MAX = 40
_LINE_CHARS = 400
_KEPT = (
    "ancestors",
    "descendants",
    "supervisor",
    "unit",
    "gpu_devices",
    "listening_ports",
    "connections",
    "log",
    "heartbeats",
    "deleted_files",
    "locks",
)


async def observe(desk: Desk, caller: Caller, asked: ObserveHost) -> Answer:
    """Many parts of a host in one round trip."""
    host = desk.host(asked.host)
    job = None if asked.job is None else desk.job(asked.job)
    what: tuple[Part, ...] = tuple(dict.fromkeys(asked.what))
    if job is not None and "heartbeat" not in what:
        what = (*what, "heartbeat")
    path = None if job is None else job.progress.heartbeat
    command = Observe(what=what, heartbeat_path=path)
    executed = await desk.look(caller, command, host, "observe")
    seen = executed.observation
    if not isinstance(seen, Observed):
        return _not_seen(command, host, executed)
    return _seen(
        command,
        host,
        executed,
        _in_short(seen, asked.job, job),
        views.observed(seen, job, asked.match),
        ("data.processes.rows[].cmd", "data.heartbeat", "data.problems"),
    ).model_copy(
        update={"next": ("stop or check: name victims by rows with seen=" + ids(executed)[-1],)}
    )


def _in_short(seen: Observed, name: str | None, job: Job | None) -> str:
    said = [f"{part} not seen" for part in sorted(seen.problems)]
    if seen.processes is not None:
        rows = views.living(seen.processes.processes)
        if job is not None:
            rows = [row for row in rows if views.of_job(job, row)]
        said.append(f"{len(rows)} living processes" + ("" if name is None else f" of {name}"))
    if seen.heartbeat is not None and seen.heartbeat.heartbeat is not None:
        beat = seen.heartbeat.heartbeat
        said.append(f"step {beat.step}, heartbeat {seen.heartbeat.age_ms} ms old")
    return "; ".join(said) or "seen"


async def inspect_process(desk: Desk, caller: Caller, asked: Inspect) -> Answer:
    """One process with its tree, its supervisor, its files and cards."""
    host = desk.host(asked.host)
    command = InspectProcess(pid=asked.pid)
    executed = await desk.look(caller, command, host, "inspect")
    seen = executed.observation
    if not isinstance(seen, ProcessInspected):
        return _not_seen(command, host, executed)
    if not seen.found or seen.process is None:
        return _seen(command, host, executed, f"no process has pid {asked.pid}", {}, ())
    whole = seen.model_dump(mode="json", exclude_none=True)
    data: JsonObject = {key: whole[key] for key in _KEPT if whole.get(key)}
    data["process"] = {**views.process_row(seen.process), "cwd": seen.process.cwd}
    data["related"] = [views.process_row(row) for row in seen.related[1 : _RELATED_MAX + 1]]
    restarts = "nothing seen" if seen.supervisor is None else seen.supervisor.kind
    summary = f"pid {asked.pid} is {shown(seen.process.comm)}; would restart it: {restarts}"
    return _seen(
        command, host, executed, summary, data, ("data.process", "data.related", "data.log")
    )


async def tail(desk: Desk, caller: Caller, asked: Tail) -> Answer:
    """The end of a log, and which known failures stand in it."""
    host = desk.host(asked.host)
    path = asked.path
    if asked.job is not None:
        path = desk.job(asked.job).progress.log
    if path is None:
        raise Refused("BAD_ARGS", f"job {asked.job!r} names no log in the policy file; give path")
    command = TailLog(path=path, max_bytes=asked.max_bytes)
    executed = await desk.look(caller, command, host, "tail")
    seen = executed.observation
    if not isinstance(seen, LogTail):
        return _not_seen(command, host, executed)
    if not seen.exists or seen.problem is not None:
        why = seen.problem or "there is no such file"
        return _seen(command, host, executed, f"{path}: {why}", {"exists": seen.exists}, ())
    found = diagnose([("\n".join(seen.lines) + "\n").encode("utf-8", "surrogateescape")])
    lines_max = len(seen.lines) if asked.detail == "full" else _LINES_MAX
    data: JsonObject = {
        "path": path,
        "size_bytes": seen.size_bytes,
        "age_ms": seen.age_ms,
        "lines": [shown(line)[:_LINE_CHARS] for line in seen.lines[-lines_max:]],
        "last_step": found.last_step,
        "failures": [
            {"signature": f.signature, "title": f.title, "role": f.role, "count": f.count}
            for f in (*found.roots, *found.cascades)[:8]
        ],
        "do_not_conclude": list(found.not_concluded()[:3]),
    }
    root = found.first_root
    summary = f"{path}: {seen.size_bytes} bytes, changed {seen.age_ms} ms ago; " + (
        f"first root {root.signature} {root.title}"
        if root is not None
        else ("consequences of a failure, no root" if found.failed else "no failure stands")
    )
    return _seen(command, host, executed, summary, data, ("data.lines",))


def _seen(
    command: Command,
    host: Host,
    executed: Executed,
    summary: str,
    data: JsonObject,
    untrusted: tuple[str, ...],
) -> Answer:
    return Answer(
        ok=True,
        summary=f"{host.name}: {summary}",
        event_ids=ids(executed),
        proof=proof_of(executed.outcome, host),
        deadline=deadline_of(command, executed.outcome),
        data=data,
        untrusted=untrusted,
    )


def _not_seen(command: Command, host: Host, executed: Executed) -> Answer:
    answer = fault_answer(command, host, executed)
    assert answer is not None  # noqa: S101 - a completed look has its own observation
    return answer
