"""Drawing a world from a seed: the job's habits, its neighbours, the connection, the goal.

Here: what is drawn, with which odds. Not here: running it.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

from agentops.bench.shelf import LOCK, MODEL, NEEDED_MIB
from agentops.bench.world import (
    CODE,
    HEARTBEAT,
    LOG,
    NEW_SHA256,
    SCRIPT,
    SECOND_US,
    Habit,
    Process,
    World,
)
from agentops.policy import Job, PolicyConfig

_TRAINERS: tuple[Habit, ...] = (
    "plain",
    "plain",
    "threads",
    "threads",
    "ignores",
    "slow",
    "deaf",
    "stuck",
    "stopped",
)
ENDED_PID = 31_000
_LOCKS = ("own", "own", "own", "of_the_dead", "pid_reused", "of_the_living", "unreadable")
_SHARED = ("room", "room", "full_of_the_dead", "full_of_others")
_RELAUNCH = ("good", "good", "good", "dies", "stands", "diverges")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the seed made of it, for a person who looks into a red one."""

    goal: Literal["recover", "stop"]
    trainer: Habit | None
    supervisor: Habit | None
    workers: int
    patched: bool
    hangs: bool
    diverges: bool
    relaunch: str
    lock: str
    shared_memory: str
    model_intact: bool
    fault_rate: float
    lost_in_row_max: int


def simulated_config(rules: PolicyConfig) -> PolicyConfig:
    """*rules* with the simulated job in them."""
    job = Job.model_validate(
        {
            "role_match": {"cmd_contains": "train_dflash_pipeline.py"},
            "supervisor": {"cmd_contains": "run.sh"},
            "progress": {"heartbeat": HEARTBEAT, "log": LOG, "stall_s": 20, "watch_s": 10},
            "stop": {
                "respawn_s": 3,
                "dump_signal": "USR1",
                "dump_s": 1,
                "grace": {
                    "interrupt_s": 5,
                    "terminate_s": 5,
                    "kill_s": 5,
                    "graceful_max_s": 60,
                },
            },
            "launch": {
                "argv": ["python3", "-P", SCRIPT],
                "cwd": "/job",
                "log": LOG,
                "start_s": 30,
                "model": MODEL,
            },
            "lock": [{"path": LOCK, "says": "pid_and_start_ticks"}],
            "shared_memory": {"names": ["psm_", "torch_"], "free_mib": NEEDED_MIB},
            "repair": [
                {
                    "id": "corrected",
                    "when": {"differs": True},
                    "files": [{"path": CODE, "source": "code.py", "sha256": NEW_SHA256}],
                }
            ],
        }
    )
    return rules.model_copy(update={"job": {"job": job}})


def draw_world(random: Random, world: World) -> Drawn:
    """Fill *world*; the order of draws is part of a seed's meaning."""
    runs = random.random() < 0.95  # noqa: PLR2004 - odds
    supervisor: Habit | None = None
    if runs and random.random() < 0.3:  # noqa: PLR2004 - odds
        supervisor = random.choice(("waits", "traps"))
    trainer = random.choice(_TRAINERS) if runs else None
    launch_id = random.choice((None, "launch-0"))
    workers = random.choice((0, 0, 1, 3)) if runs else 0
    _neighbours(random, world)
    hangs, diverges = random.random() < 0.2, random.random() < 0.1  # noqa: PLR2004 - odds
    if trainer is not None:
        process = _job(random, world, trainer, supervisor, launch_id, workers)
        state = world.train(process)
        state.hangs_at = 0 if hangs else None
        state.diverges_at = 5 if diverges else None
        world.pass_time(random.randrange(4 * SECOND_US))
    patched = random.random() < 0.3  # noqa: PLR2004 - odds
    world.sha256 = NEW_SHA256 if patched else world.sha256
    lock, shared = random.choice(_LOCKS), random.choice(_SHARED)
    _leave(random, world, lock, shared)
    world.shelf.model_intact = random.random() < 0.95  # noqa: PLR2004 - odds
    relaunch = random.choice(_RELAUNCH)
    world.relaunch_habit = relaunch  # type: ignore[assignment]  # drawn from its values
    return Drawn(
        goal=random.choice(("recover", "recover", "stop")),
        trainer=trainer,
        supervisor=supervisor,
        workers=workers,
        patched=patched,
        hangs=hangs,
        diverges=diverges,
        relaunch=relaunch,
        lock=lock,
        shared_memory=shared,
        model_intact=world.shelf.model_intact,
        fault_rate=random.choice((0.0, 0.0, 0.05, 0.2)),
        lost_in_row_max=random.choice((1, 2)),
    )


def draw_unseen(random: Random, world: World, drawn: Drawn) -> None:
    """Perhaps somebody out of sight who starts the job again, sooner than a successor may come.

    Drawn apart from the rest of the world, so that a seed's job and neighbours stay what they were.
    """
    if drawn.trainer is None or drawn.supervisor is not None:
        return
    if random.random() < 0.15:  # noqa: PLR2004 - odds
        world.unseen_starts = random.choice((1, 1, 2))
        world.respawn_us = random.choice((SECOND_US // 5, SECOND_US, 2 * SECOND_US))
        world.respawn_habit = random.choice(("plain", "threads", "ignores"))


def _leave(random: Random, world: World, lock: str, shared: str) -> None:
    """What others, or earlier runs, left: a lock that the job will meet, segments of all owners."""
    server = world.spawn("innocent", "innocent", ("python3", "/srv/serve.py"))
    words = {
        "of_the_dead": f"{ENDED_PID} 77",
        "pid_reused": f"{server.pid} 77",
        "of_the_living": f"{server.pid} {server.start_ticks}",
        "unreadable": "held by node-3",
    }
    world.shelf.lock = words.get(lock, world.shelf.lock)
    own = (server.pid, server.start_ticks)
    if shared != "room":
        world.shelf.put("model.safetensors", 12, (0, 0))
        world.shelf.put(f"torch_{server.pid}_1_0", 12, own, server.pid)
        dead = (ENDED_PID, 77)
        left = 30 if shared == "full_of_the_dead" else 0
        world.shelf.put(f"torch_{ENDED_PID}_1_0", left, dead, ENDED_PID)
        # Like the job's by name, and nothing tells whose it was.
        world.shelf.put("psm_0badcafe", 24 - left // 2, (0, 0))
        if random.random() < 0.3:  # noqa: PLR2004 - odds
            world.shelf.put(f"torch_{server.pid}_2_0", 1, dead, server.pid)


def _job(
    random: Random,
    world: World,
    habit: Habit,
    supervisor: Habit | None,
    launch_id: str | None,
    workers: int,
) -> Process:
    parent, session = 1, None
    if supervisor is not None:
        wrapper = world.spawn(
            "supervisor", supervisor, ("sh", "/job/run.sh"), launch_id=launch_id, comm="sh"
        )
        parent, session = wrapper.pid, wrapper.sid
        world.respawn_us = random.choice((SECOND_US // 5, SECOND_US))
        world.respawn_habit = habit
    words = ("python3", "-P", SCRIPT) if random.random() < 0.8 else ("trainer",)  # noqa: PLR2004 - odds
    process = world.spawn("trainer", habit, words, ppid=parent, sid=session, launch_id=launch_id)
    world.worker_lives_us = random.choice((0, 2 * SECOND_US, -1))
    for _ in range(workers):
        world.spawn(
            "worker",
            "plain",
            ("python3", "-c", "from multiprocessing.spawn import spawn_main"),
            ppid=process.pid,
            sid=process.sid,
            launch_id=launch_id,
        )
    return process


def _neighbours(random: Random, world: World) -> None:
    """Processes that look like the job, and that nobody may signal."""
    choices = (
        ("less", ("less", SCRIPT), 0),
        ("python3", ("python3", "/root/snapshot_download.py", "--for", SCRIPT), 0),
        ("python3", ("python3", "-P", SCRIPT), 1_000),
        ("tmux: server", ("tmux", "new", "-d", "bash /job/run.sh"), 0),
        ("python3", ("/usr/bin/python3", "/usr/bin/networkd-dispatcher"), 0),
        ("tar", ("tar", "czf", "/backup.tgz", SCRIPT), 0),
    )
    for comm, cmdline, uid in choices:
        if random.random() < 0.4:  # noqa: PLR2004 - odds
            world.spawn("innocent", "innocent", cmdline, comm=comm, uid=uid)
