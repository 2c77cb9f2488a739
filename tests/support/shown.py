"""What a told host shows: its processes' rows, heartbeats, and all of it together.

Here: the forms that commands answer with, healthy unless told otherwise. Not here: an incident on
such a host (``tests.support.telling``).
"""

from dataclasses import dataclass

from pydantic import JsonValue

from agentops.bench.world import NEW_SHA256, SCRIPT
from agentops.policy.view import SECOND_US
from journal.events import JsonObject

# When the incident was opened, and for how many ticks the host had been up then.
EPOCH_US = 1_700_000_000 * SECOND_US
UP_TICKS = 100_000
TICKS_PER_S = 100


def row(pid: int, **more: JsonValue) -> JsonObject:
    """One living trainer's row; its start ticks are ten times its pid unless told otherwise."""
    told: JsonObject = {
        "pid": pid,
        "ppid": 1,
        "pgid": pid,
        "sid": pid,
        "state": "S",
        "uid": 0,
        "threads": 4,
        "start_ticks": pid * 10,
        "signals_ignored": [],
        "signals_caught": [2, 10],
        "signals_pending": [],
        "comm": "python3",
        "cmdline": ["python3", "-P", SCRIPT],
        "exe": "/usr/bin/python3",
        "cwd": "/job",
        "cgroup": "/",
        "wchan": "",
        "launch_id": None,
    }
    return told | more


def young(pid: int, at_us: int, **more: JsonValue) -> tuple[JsonObject, JsonObject]:
    """A process that started at *at_us*, and its heartbeat at step 10."""
    start = up_ticks(at_us)
    return row(pid, start_ticks=start, **more), beat(pid, 10, start_ticks=start)


def up_ticks(at_us: int) -> int:
    """For how many ticks the host is up at *at_us*."""
    return UP_TICKS + (at_us - EPOCH_US) * TICKS_PER_S // SECOND_US


def shell(pid: int, **more: JsonValue) -> JsonObject:
    """A shell with a trap that starts the job: the declared supervisor."""
    words: list[JsonValue] = ["sh", "/job/run.sh"]
    told: JsonObject = {"comm": "sh", "exe": "/bin/sh", "cmdline": words, "signals_caught": [15]}
    return row(pid, **told) | more


def worker(pid: int, of: int, **more: JsonValue) -> JsonObject:
    """A worker that the process *of* started."""
    words: list[JsonValue] = ["python3", "-c", "spawn_main()"]
    return row(pid, ppid=of, sid=of, pgid=of, cmdline=words) | more


def beat(pid: int, step: int, **more: JsonValue) -> JsonObject:
    """A heartbeat of the process *pid*."""
    told: JsonObject = {
        "run_id": "run",
        "launch_id": None,
        "pid": pid,
        "start_ticks": pid * 10,
        "state": "training",
        "step": step,
        "sequence": step,
        "loss": "3.25",
        "checkpoint_step": None,
        "checkpoint_writing": False,
    }
    return told | more


@dataclass(frozen=True)
class Host:
    """What the host shows at present."""

    rows: tuple[JsonObject, ...] = ()
    beat: JsonObject | None = None
    log: tuple[str, ...] = ()
    sha256: str = NEW_SHA256
    complete: bool = True
    started_ticks: int = 1
    ports: tuple[int, ...] = ()
