"""Observations as short rows: what an agent needs of them, within a budget. Pure.

The whole observation stands in the journal under the event that an answer names. Text of a host is
escaped here and named as untrusted by the tool. Not here: choosing victims.
"""

from collections.abc import Sequence

from pydantic import JsonValue

from agentops.commands.gpu import GpuProcessesSeen, GpuStatusSeen
from agentops.commands.heartbeat import HeartbeatSeen
from agentops.commands.observing import Observed
from agentops.commands.processes import ProcessRow, ProcessTable
from agentops.policy import Job
from agentops.policy.process import read_process
from agentops.policy.roles import ENDED, selects
from agentops.server.answer import shown
from journal.events import JsonObject

ROWS_MAX = 40
_COMMAND_CHARS = 100
_KIB_PER_MIB = 1024
_CARD = {"index", "name", "memory_used_mib", "memory_total_mib", "utilization_percent"}
_HOLDER = {"pid", "memory_mib", "state"}


def process_row(row: ProcessRow, ticks_per_s: int | None = None) -> JsonObject:
    """One process in short: pid and start ticks name it, cmd is text of the host."""
    words = " ".join(row.cmdline) or f"[{row.comm}]"
    brief: JsonObject = {
        "pid": row.pid,
        "start": row.start_ticks,
        "ppid": row.ppid,
        "state": row.state,
        "uid": row.uid,
        "rss_mib": row.rss_kib // _KIB_PER_MIB,
        "cmd": shown(words)[:_COMMAND_CHARS],
    }
    if ticks_per_s is not None:
        brief["cpu_s"] = row.cpu_ticks // max(1, ticks_per_s)
    if row.launch_id is not None:
        brief["launch_id"] = shown(row.launch_id)
    return brief


def of_job(job: Job, row: ProcessRow) -> bool:
    """Whether a row is worth a look for *job*; it makes nobody a victim."""
    process = read_process(row.model_dump(mode="json"))
    if process is None:
        return False
    matches = [job.role_match, *([job.supervisor] if job.supervisor is not None else [])]
    return any(selects(match, process) for match in matches)


def living(rows: Sequence[ProcessRow]) -> list[ProcessRow]:
    """The rows that are not zombies: those have ended."""
    return [row for row in rows if row.state[:1] not in ENDED]


def processes(table: ProcessTable, job: Job | None, match: str | None) -> JsonObject:
    """The rows asked for, busiest first, with the count of all."""
    kept = [
        row
        for row in table.processes
        if (job is None or of_job(job, row))
        and (match is None or match in " ".join(row.cmdline) or match in row.comm)
    ]
    kept.sort(key=lambda row: (-row.rss_kib, row.pid))
    rows: list[JsonValue] = [process_row(row, table.ticks_per_s) for row in kept[:ROWS_MAX]]
    return {
        "complete": table.complete,
        "shown": len(rows),
        "fitting": len(kept),
        "all": len(table.processes),
        "rows": rows,
    }


def gpus(seen: GpuStatusSeen) -> JsonObject:
    """The cards, and what nvidia-smi's end means."""
    rows: list[JsonValue] = [card.model_dump(mode="json", include=_CARD) for card in seen.devices]
    return {"state": seen.state, "rows": rows, "stuck_pids": list(seen.stuck_pids)}


def heartbeat(seen: HeartbeatSeen) -> JsonObject:
    """The trainer's sign of life with its age; a quiet one is not a dead one."""
    brief: JsonObject = {"exists": seen.exists, "age_ms": seen.age_ms}
    if seen.problem is not None:
        brief["problem"] = seen.problem
    beat = seen.heartbeat
    if beat is not None:
        brief |= {
            "state": beat.state,
            "step": beat.step,
            "steps": beat.steps,
            "loss": beat.loss,
            "pid": beat.pid,
            "start": beat.start_ticks,
            "checkpoint_writing": beat.checkpoint_writing,
            "launch_id": beat.launch_id,
        }
    return brief


def gpu_processes(seen: GpuProcessesSeen) -> JsonObject:
    """Who holds cards, as far as it can be attributed from here."""
    rows: list[JsonValue] = [row.model_dump(mode="json", include=_HOLDER) for row in seen.processes]
    return {"state": seen.state, "rows": rows, "holders": list(seen.holders)}


def observed(seen: Observed, job: Job | None, match: str | None) -> JsonObject:
    """Every part that was seen, in short, and why a part was not."""
    brief: JsonObject = {}
    if seen.processes is not None:
        brief["processes"] = processes(seen.processes, job, match)
    if seen.heartbeat is not None:
        brief["heartbeat"] = heartbeat(seen.heartbeat)
    if seen.gpus is not None:
        brief["gpus"] = gpus(seen.gpus)
    if seen.gpu_processes is not None:
        brief["gpu_processes"] = gpu_processes(seen.gpu_processes)
    for part in ("host", "shared_memory", "disk", "tmux"):
        whole = getattr(seen, part)
        if whole is not None:
            brief[part] = whole.model_dump(mode="json", exclude_none=True)
    if seen.problems:
        brief["problems"] = {part: shown(why) for part, why in seen.problems.items()}
    return brief
