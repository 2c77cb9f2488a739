"""What a simulated host answers to each command, in the form of the commands' observations.

Here: reading the world for looks, and doing to it what acts do. Not here: whether the answer
arrives (``agentops.bench.simulate``).
"""

from agentops.bench.world import (
    BOOT,
    CODE,
    LOG,
    NAMESPACE,
    SCRIPT,
    SECOND_US,
    TICK_US,
    Process,
    World,
)
from journal.events import JsonObject

POLL_US = SECOND_US // 5
TAIL_LINES = 200


def answer(world: World, command: str, arguments: JsonObject) -> JsonObject:
    """Carry *command* out; time passes as it would."""
    world.pass_time(SECOND_US // 20)
    return {
        "list_processes": _processes,
        "read_heartbeat": _heartbeat,
        "tail_log": _tail,
        "file_digest": _digest,
        "signal_process": _signal,
        "wait_until": _wait,
        "deploy_files": _deploy,
        "launch": _launch,
    }[command](world, arguments)


def _processes(world: World, _: JsonObject) -> JsonObject:
    init = Process(1, 0, 1, 1, "innocent", "innocent", ("init",), "init")
    return {
        "boot_id": BOOT,
        "pid_namespace": NAMESPACE,
        "namespace_init_start_ticks": 1,
        "uptime_ticks": world.now_us // TICK_US,
        "ticks_per_s": 100,
        "complete": True,
        "processes": [_row(process) for process in (init, *world.processes.values())],
    }


def _row(process: Process) -> JsonObject:
    state = "D" if process.habit == "stuck" else "T" if process.stopped else "S"
    caught = {"deaf": [2, 15], "traps": [15], "threads": [2], "slow": [2, 15]}
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "pgid": process.sid,
        "sid": process.sid,
        "state": state,
        "uid": process.uid,
        "threads": 1,
        "start_ticks": process.start_ticks,
        "cpu_ticks": 0,
        "rss_kib": 0,
        "signals_ignored": [2] if process.habit == "ignores" else [],
        "signals_caught": list(caught.get(process.habit, [2])),
        "signals_pending": [],
        "comm": process.comm,
        "cmdline": list(process.cmdline),
        "exe": f"/usr/bin/{process.comm}",
        "cwd": "/job",
        "cgroup": "/",
        "wchan": "",
        "launch_id": process.launch_id,
    }


def _heartbeat(world: World, _: JsonObject) -> JsonObject:
    beat = None if world.beat is None else dict(world.beat)
    return {"exists": beat is not None, "age_ms": 0, "heartbeat": beat, "problem": None}  # type: ignore[dict-item]  # JSON by construction


def _tail(world: World, arguments: JsonObject) -> JsonObject:
    lines = world.log[-TAIL_LINES:] if arguments.get("path") == LOG else []
    return {"exists": True, "size_bytes": len(world.log), "lines": list(lines), "problem": None}


def _digest(world: World, arguments: JsonObject) -> JsonObject:
    known = world.sha256 if arguments.get("path") == CODE else None
    return {"exists": known is not None, "sha256": known, "problem": None}


def _signal(world: World, arguments: JsonObject) -> JsonObject:
    victim = arguments.get("victim")
    pid = victim.get("pid") if isinstance(victim, dict) else None
    start = victim.get("start_ticks") if isinstance(victim, dict) else None
    process = world.processes.get(pid) if isinstance(pid, int) else None
    if process is None:
        return _refused("gone", "absent")
    if process.start_ticks != start:
        return _refused("identity_changed", "S")
    world.signal(process, str(arguments.get("signal")))
    return {"delivered": True, "quality": "pidfd", "refusal": None, "state_before": "S"}


def _refused(why: str, state: str) -> JsonObject:
    return {"delivered": False, "quality": "pidfd", "refusal": why, "state_before": state}


def _wait(world: World, arguments: JsonObject) -> JsonObject:
    condition, timeout = arguments.get("condition"), arguments.get("timeout_ms")
    began_us = world.now_us
    end_us = began_us + (timeout * 1_000 if isinstance(timeout, int) else 0)
    met = _holds(world, condition)
    while not met and world.now_us < end_us:
        world.pass_time(POLL_US)
        met = _holds(world, condition)
    return {
        "met": met,
        "elapsed_ms": (world.now_us - began_us) // 1_000,
        "polls": 1,
        "series": [],
        "blind": None,
        "alive": [],
        "unreaped": [],
    }


def _holds(world: World, condition: object) -> bool:
    if not isinstance(condition, dict):
        return False
    if condition.get("kind") == "process_absent":
        return not any(_lives(world, item) for item in condition.get("identities", []))
    beat = world.beat
    wanted = condition.get("launch_id")
    if beat is None or (wanted is not None and beat["launch_id"] != wanted):
        return False
    step = beat["step"]
    return isinstance(step, int) and step >= condition.get("at_least_step", 0)


def _lives(world: World, identity: object) -> bool:
    if not isinstance(identity, dict):
        return False
    process = world.processes.get(identity.get("pid", -1))
    return process is not None and process.start_ticks == identity.get("start_ticks")


def _deploy(world: World, arguments: JsonObject) -> JsonObject:
    files = arguments.get("files")
    for item in files if isinstance(files, list) else []:
        if isinstance(item, dict) and item.get("path") == CODE:
            world.sha256 = str(item.get("sha256"))
    return {"deployed": True, "problem": None, "files": []}


def _launch(world: World, arguments: JsonObject) -> JsonObject:
    launch_id = str(arguments.get("launch_id"))
    running = next((p for p in world.processes.values() if p.launch_id == launch_id), None)
    if running is not None:
        known = world.identity(running).model_dump(mode="json")
        return {"started": False, "identity": known, "refusal": "already_running", "detail": ""}
    process = world.spawn("trainer", "plain", ("python3", "-P", SCRIPT), launch_id=launch_id)
    trainer = world.train(process)
    match world.relaunch_habit:
        case "dies":
            process.ends_at_us = world.now_us + SECOND_US
        case "stands":
            trainer.hangs_at = trainer.step
        case "diverges":
            trainer.diverges_at = 0
        case "good":
            pass
    identity = world.identity(process).model_dump(mode="json")
    return {"started": True, "identity": identity, "refusal": None, "detail": ""}
