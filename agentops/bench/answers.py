"""What a simulated host answers to each command, in the form of the commands' observations.

Here: reading the world for looks, and doing to it what acts do. Not here: whether the answer
arrives (``agentops.bench.simulate``).
"""

from agentops.bench.shelf import MIB, SHM_MIB
from agentops.bench.world import (
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
        "inspect_process": _inspect,
        "locks": _locks,
        "move_aside": _move_aside,
        "shared_memory": _shared_memory,
        "remove_segments": _remove_segments,
        "check_model": _check_model,
        "launch": _launch,
    }[command](world, arguments)


def _processes(world: World, _: JsonObject) -> JsonObject:
    started = world.init_start_ticks
    init = Process(1, 0, 1, started, "innocent", "innocent", ("init",), "init")
    return {
        "boot_id": world.boot,
        "pid_namespace": NAMESPACE,
        "namespace_init_start_ticks": started,
        "uptime_ticks": world.now_us // TICK_US,
        "ticks_per_s": 100,
        "complete": True,
        "processes": [_row(process) for process in (init, *world.processes.values())],
    }


def _row(process: Process) -> JsonObject:
    state = "D" if process.habit == "stuck" else "T" if process.stopped else "S"
    caught = {"deaf": [2, 15], "traps": [15], "threads": [2, 10], "slow": [2, 10, 15]}
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
        "signals_caught": list(caught.get(process.habit, [2, 10])),
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
    same = isinstance(victim, dict) and victim == world.identity(process).model_dump(mode="json")
    if not same or process.start_ticks != start:
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
    return process is not None and world.identity(process).model_dump(mode="json") == identity


def _deploy(world: World, arguments: JsonObject) -> JsonObject:
    files = arguments.get("files")
    for item in files if isinstance(files, list) else []:
        if isinstance(item, dict) and item.get("path") == CODE:
            world.sha256 = str(item.get("sha256"))
    return {"deployed": True, "problem": None, "files": []}


def _inspect(world: World, arguments: JsonObject) -> JsonObject:
    pid = arguments.get("pid")
    process = world.processes.get(pid) if isinstance(pid, int) else None
    return {"found": process is not None, "kernel_stack": ["[<0>] futex_wait+0x74/0xf0"]}


def _locks(world: World, arguments: JsonObject) -> JsonObject:
    paths = arguments.get("paths")
    lock = world.shelf.lock
    return {
        "files": [
            {"path": path, "exists": lock is not None, "pid_text": lock, "locks": []}
            for path in (paths if isinstance(paths, list) else [])
        ]
    }


def _move_aside(world: World, arguments: JsonObject) -> JsonObject:
    pid, start = arguments.get("owner_pid"), arguments.get("owner_start_ticks")
    refusal = world.shelf.move_aside(
        str(arguments.get("text")),
        pid if isinstance(pid, int) else 0,
        start if isinstance(start, int) else None,
        world.lives,
    )
    moved = None if refusal else f"{arguments.get('path')}.aside-1"
    return {"moved_to": moved, "refusal": refusal}


def _shared_memory(world: World, _: JsonObject) -> JsonObject:
    shelf = world.shelf
    rows: list[JsonObject] = []
    for segment in shelf.segments.values():
        held = world.lives(*segment.owner)
        creator = segment.creator_pid
        rows.append(
            {
                "name": segment.name,
                "size_bytes": segment.mib * MIB,
                "used_bytes": segment.mib * MIB,
                "uid": 0,
                "age_s": 60,
                "inode": segment.inode,
                "held_by": [segment.owner[0]] if held else [],
                "held_since_ticks": [segment.owner[1]] if held else [],
                "creator_pid": creator,
                "creator_alive": None if creator is None else world.lives(creator),
                "orphaned": not held,
            }
        )
    return {
        "total_bytes": SHM_MIB * MIB,
        "free_bytes": shelf.free_mib * MIB,
        "files": len(rows),
        "sees_all": True,
        "segments": list(rows),
    }


def _remove_segments(world: World, arguments: JsonObject) -> JsonObject:
    listed = arguments.get("segments")
    rows: list[JsonObject] = []
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        owners = [
            (int(str(owner["pid"])), int(str(owner["start_ticks"])))
            for owner in (item["owners"] if isinstance(item["owners"], list) else [])
            if isinstance(owner, dict) and owner["boot_id"] == world.boot
        ]
        creator = item.get("creator_pid")
        refusal = world.shelf.remove(
            int(str(item["inode"])),
            str(item["name"]),
            owners,
            creator if isinstance(creator, int) else None,
            world.lives,
        )
        rows.append({"name": item["name"], "removed": refusal is None, "refusal": refusal})
    return {"segments": list(rows)}


def _check_model(world: World, _: JsonObject) -> JsonObject:
    intact = world.shelf.model_intact
    shard: JsonObject = {
        "name": "model-00001-of-00001.safetensors",
        "size_bytes": 4_160,
        "tensors": 1,
        "problem": None if intact else "data_cut",
        "missing_tensors": [],
        "missing_count": 0,
        "sha256": None,
    }
    return {
        "intact": intact,
        "folder": True,
        "config_problem": None,
        "index_problem": None,
        "total_size_bytes": 4_096,
        "shards": [shard],
        "incomplete": [],
    }


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
