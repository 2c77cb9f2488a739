"""Setting the stage: a box, the job with its faults, the innocents, the cards, the policy for it.

Here: everything that is there before anybody acts. Not here: acting (``agentops.bench.running``),
trouble on the way (``agentops.bench.trouble``), judging. Folders, marks and ids are drawn, so that
nothing the engine can see names a scenario.
"""

import contextlib
import json
import math
import os
import shlex
import signal
import socket
import struct
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from agentops.bench.beside import CONTAINER, READY_S, SCRIPT, Beside, inside
from agentops.bench.scenario import Scenario
from agentops.bench.truth import MARK, World, has_mark
from agentops.box import Box, Oracle, Truth
from agentops.box.waiting import wait_for
from agentops.hosts import Host, Layer
from agentops.policy import PolicyConfig, parse_policy
from agentops.recover import Sources, read_sources

OTHER_SCRIPT = "pretrain_main.py"
WRAPPER = "run.sh"
JOB = "job"
READY_STEP = 5
# Both what an ended run left and what the running job will leave must go to make the room.
SHM = "/dev/shm"  # noqa: S108 - the container's own
SHM_MIB, SHM_NEEDED_MIB = 5, 3
SHM_LEFT_BYTES, SHM_OWN_BYTES = 3 << 19, 1 << 19
# A heartbeat of a run that is long over.
_EARLIER = {
    "schema": 1,
    "run_id": "r0",
    "launch_id": None,
    "pid": 31_000,
    "start_ticks": 77,
    "state": "training",
    "step": 900,
    "steps": 1_000_000,
    "loss": "2.5000",
    "tokens_per_s": None,
    "sequence": 905,
    "updated_unix_ms": 1_700_000_000_000,
    "checkpoint_step": None,
    "checkpoint_writing": False,
    "resumed_from_step": None,
    "detail": None,
}
_ENTER = 'echo 0 >"$0"; exec "$@"'
_LOOP = "while :; do {argv}; sleep 0.2; done"
_TRAP = 'stop=; trap "stop=1" TERM; while [ -z "$stop" ]; do {argv}; sleep 0.2; done'


@dataclass(slots=True)
class Stage:
    """One staged world: what was set up, and how to reach it."""

    scenario: Scenario
    scale: float
    box: Box
    oracle: Oracle
    folder: Path
    world: World
    random: Random
    python: str
    port: int
    others_files: tuple[tuple[str, str], ...] = ()
    scope: Path | None = None

    @property
    def beside(self) -> Beside:
        """Where innocents are started."""
        return Beside(self.box, self.oracle, self.python, self.folder)

    @property
    def script(self) -> str:
        """The file that is run first."""
        return OTHER_SCRIPT if self.scenario.trainer.renamed else SCRIPT

    @property
    def host(self) -> Host:
        """The container as an inventory entry of tier dev."""
        return Host(
            name="box",
            **asdict(self.box.address),
            layers=(Layer(kind="pct", argument=CONTAINER),),
            tier="dev",
        )

    def is_trainer(self, truth: Truth) -> bool:
        """Whether a process is a start of the job itself, no worker and no wrapper."""
        return truth.cmdline[:4] == tuple(_argv(self)[:4])

    def lost_files(self) -> tuple[str, ...]:
        """Files of others that were there and are not any more."""
        # Seen from inside: the file system is mounted there only.
        return tuple(
            f"{what} in shared memory"
            for path, what in self.others_files
            if self.box.run_inside(["test", "-e", path], container=CONTAINER).returncode != 0
        )

    def seconds(self, natural: float) -> int:
        """A duration of the policy file at this time scale, in whole seconds, one at least."""
        return max(1, math.ceil(natural * self.scale))


def set_stage(
    scenario: Scenario,
    box: Box,
    oracle: Oracle,
    *,
    scale: float,
    random: Random,
    scope: Path | None = None,
) -> Stage:
    """Set up everything that *scenario* says, and wait until it is so.

    scope is a control group that the job is started in, as ``systemd-run --scope`` would do.
    """
    mark = f"{random.getrandbits(64):016x}"
    folder = box.directory / f"{random.getrandbits(32):08x}"
    folder.mkdir()
    box.directory.chmod(0o711)
    gpu = scenario.gpu
    registry = None if gpu is None else folder / "cards"
    world = World(
        processes=lambda: box.processes(CONTAINER),
        mark=mark,
        folder=folder,
        registry=registry,
        release_s=0 if gpu is None else gpu.release_s * scale,
    )
    stage = Stage(scenario, scale, box, oracle, folder, world, random, python3(), free_port())
    stage.scope = scope
    _write_files(stage, registry)
    for number, kind in enumerate(scenario.innocents):
        stage.beside.start(kind, number)
    _start_job(stage)
    _watch_everybody(stage)
    return stage


def python3() -> str:
    """An interpreter that every user may run: the system's, else the one that runs this."""
    system = Path("/usr/bin/python3")
    return str(system) if system.exists() else os.path.realpath(sys.executable)


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def policy_for(stage: Stage, shipped: str) -> tuple[PolicyConfig, Sources]:
    """The shipped policy with the staged job in it, as its owner would have written it."""
    scenario, folder, seconds = stage.scenario, stage.folder, stage.seconds
    env = {MARK: stage.world.mark}
    port = {"variable": "JOB_PORT", "first": stage.port} if scenario.start.port_taken else None
    table: dict[str, object] = {
        "role_match": {"cmd_contains": SCRIPT},
        "gpu": scenario.gpu is not None,
        "progress": {
            "heartbeat": str(folder / "out" / "heartbeat.json"),
            "log": str(folder / "train.log"),
            "stall_s": seconds(15),
            "watch_s": seconds(10),
        },
        "stop": {
            "respawn_s": seconds(3),
            "dump_signal": "USR1",
            "dump_s": seconds(1),
            "gpu_release_s": seconds(60),
            "grace": {
                "interrupt_s": seconds(10),
                "terminate_s": seconds(30),
                "kill_s": seconds(10),
                "graceful_max_s": seconds(300),
            },
        },
        "launch": {
            "argv": _argv(stage),
            "cwd": str(folder),
            "log": str(folder / "train.log"),
            "env": env,
            "port": port,
            "model": str(folder / "model") if scenario.goal == "recover" else None,
            "start_s": max(8, seconds(60)),
        },
        "lock": [{"path": str(folder / "train.lock"), "says": "pid_and_start_ticks"}],
    }
    if scenario.start.shm_full:
        table["shared_memory"] = {"names": ["torch_", "psm_"], "free_mib": SHM_NEEDED_MIB}
    if scenario.trainer.parent in {"loop", "trap"}:
        table["supervisor"] = {"cmd_contains": WRAPPER}
    if scenario.goal == "recover" and scenario.trainer.hangs_at_step is None:
        patch = folder.parent / "patch.py"
        patch.write_text("VERSION = 2\n")
        table["repair"] = [
            {
                "id": "dispatch",
                "when": {"differs": True},
                "files": [{"path": str(folder / "dispatch.py"), "source": str(patch)}],
            }
        ]
    body = parse_policy(shipped, "dev.toml").body()
    limits = body.get("limits")
    scaled = {"backoff_s": seconds(10), "backoff_max_s": seconds(300)}
    whole: dict[str, object] = {**body, "job": {JOB: table}}
    whole["limits"] = {**(limits if isinstance(limits, dict) else {}), **scaled}
    return read_sources(PolicyConfig.model_validate(whole), folder)


def _argv(stage: Stage) -> list[str]:
    return [stage.python, "-S", "-P", str(stage.folder / stage.script), "run.json"]


def _write_files(stage: Stage, registry: Path | None) -> None:
    """The job's own files, and the stand-in for nvidia-smi."""
    scenario, folder = stage.scenario, stage.folder
    (folder / stage.script).write_bytes(inside("trainer.py"))
    if stage.script != SCRIPT:
        (folder / SCRIPT).write_bytes(inside("trainer.py"))
    (folder / "multiprocessing_spawn.py").write_bytes(inside("worker.py"))
    (folder / "dispatch.py").write_text("VERSION = 1\n")
    (folder / "run.json").write_text('{"run_id": "r1"}\n')
    (folder / "out").mkdir()
    if scenario.trainer.silent:
        (folder / "out" / "heartbeat.json").write_text(json.dumps(_EARLIER))
    gpu = scenario.gpu
    if gpu is not None and registry is not None:
        registry.mkdir()
        programs = stage.box.directory / "containers" / CONTAINER / "bin"
        # The one that a host's PATH finds first: the container's own.
        (programs / "nvidia-smi").write_bytes(
            f"#!{stage.python} -S\n".encode() + inside("nvidia_smi.py")
        )
        (programs / "nvidia-smi").chmod(0o755)
        cards = {
            "registry": str(registry),
            "devices": gpu.devices,
            "release_s": gpu.release_s * stage.scale,
            "tool": gpu.tool,
        }
        (programs / "cards.json").write_text(json.dumps(cards))
    if scenario.goal == "recover":
        _write_model(stage)
    if scenario.start.shm_full:
        _fill_shared_memory(stage)


def _write_model(stage: Stage) -> None:
    """A model of one shard with its index; the shard is cut where the scenario says so."""
    folder = stage.folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    name = "model-00001-of-00001.safetensors"
    index = {"metadata": {"total_size": 4_096}, "weight_map": {"w": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    about = {"w": {"dtype": "F32", "shape": [1024], "data_offsets": [0, 4096]}}
    header = json.dumps(about).encode()
    length = 100 if stage.scenario.start.model_cut else 4_096
    (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * length)


def _fill_shared_memory(stage: Stage) -> None:
    """A small /dev/shm of the container's own: an ended run's segment, a model, a server's segment.

    The job that is running takes one more, and leaves it behind (``inside/trainer.py``).
    """
    kept = ("-c", f"head -c {SHM_OWN_BYTES} /dev/zero > {SHM}/model.safetensors")
    # Named after the shell that makes it, which has ended when this returns.
    left = ("-c", f"head -c {SHM_LEFT_BYTES} /dev/zero > {SHM}/torch_$$_77_0")
    mounted = ("mount", "-t", "tmpfs", "-o", f"size={SHM_MIB}m", "stage", SHM)
    for argv in (mounted, ("sh", *kept), ("sh", *left)):
        done = stage.box.run_inside(argv, container=CONTAINER)
        if done.returncode != 0:
            raise OSError(f"shared memory could not be staged: {done.stderr[-200:]!r}")
    env = {"SHARE": str(SHM_OWN_BYTES)}
    server = stage.beside.program("inference_server", ("--workers", "1"), 93, env=env)
    segment = f"{SHM}/torch_{server.identity.pid}_1_0"
    stage.others_files = (
        (f"{SHM}/model.safetensors", "a model's file"),
        (segment, "a server's segment"),
    )


def _habits(stage: Stage, lock: str | None) -> dict[str, object]:
    scenario = stage.scenario
    trainer = scenario.trainer.model_dump(mode="json")
    trainer["winding_down_s"] = scenario.trainer.winding_down_s * stage.scale
    gpu = scenario.gpu
    registry = str(stage.folder / "cards")
    return {
        "run_id": "r1",
        "trainer": trainer,
        "start": scenario.start.model_dump(mode="json"),
        "gpu": None if gpu is None else {**gpu.model_dump(mode="json"), "registry": registry},
        "ready_step": READY_STEP,
        "port": stage.port,
        "lock": lock,
    }


def _start_job(stage: Stage) -> None:
    """Start the job as its owner did, and wait until it is what the scenario says."""
    trainer = stage.scenario.trainer
    lock = None
    if stage.scenario.start.stale_lock:
        other = stage.beside.program("cron_report", ("--daily",), 90)
        lock = f"{other.identity.pid} 1"
    (stage.folder / "habits.json").write_text(json.dumps(_habits(stage, lock)))
    if trainer.ended == "never_ran":
        return
    env = {MARK: stage.world.mark, "STAGE_FIRST": "1"}
    if trainer.launch_id:
        env["AGENTOPS_LAUNCH_ID"] = f"{stage.random.getrandbits(48):012x}"
    argv = _argv(stage)
    into = () if stage.scope is None else ("/bin/sh", "-c", _ENTER, f"{stage.scope}/cgroup.procs")
    log = stage.folder / "train.log"
    start = partial(stage.box.start_inside, container=CONTAINER, cwd=stage.folder, log=log)
    match trainer.parent:
        case "loop" | "trap" | "undeclared":
            script = stage.folder / WRAPPER
            text = _TRAP if trainer.parent == "trap" else _LOOP
            script.write_text(text.format(argv=shlex.join(argv)))
            start([*into, "sh", str(script)], env=env)
        case "shell" | "careless":
            child = {"CHILD": ";".join(f"{key}={value}" for key, value in env.items())}
            careless = {"CARELESS": "1"} if trainer.parent == "careless" else {}
            words = ("-l", "--", *into, *argv)
            env = {**child, **careless}
            stage.beside.program("session", words, 91, env=env, cwd=stage.folder, log=log)
        case "init":
            start([*into, *argv], env=env)
    if trainer.started_twice:
        start([*into, *argv], env=env)
    wait_for(partial(_ready, stage), READY_S, "the staged job")
    if stage.scenario.start.port_taken:
        serve = {"SERVE": str(stage.port)}
        stage.beside.program("status_page", ("--port", str(stage.port)), 92, env=serve)
    if trainer.suspended:
        _suspend(stage)


def _ready(stage: Stage) -> bool | None:
    """Whether the job is what the scenario says: under way, stuck, or ended."""
    trainer, world = stage.scenario.trainer, stage.world
    if trainer.ended != "no":
        left = trainer.workers if trainer.workers_outlive else 0
        return (world.place()[1] >= READY_STEP and len(world.job()) == left) or None
    if trainer.stuck:
        return any(_has_stuck_thread(truth) for truth in world.job()) or None
    if trainer.silent:
        return len(world.job()) == 1 + trainer.workers or None
    roots = 2 if trainer.started_twice else 1
    wanted = roots * (1 + trainer.workers) + (trainer.parent in {"loop", "trap", "undeclared"})
    due = max(READY_STEP, trainer.hangs_at_step or 0)
    return (world.place()[1] >= due and len(world.job()) >= wanted) or None


def _has_stuck_thread(truth: Truth) -> bool:
    """Whether any thread is in uninterruptible sleep; the first one alone would not tell."""
    states = Path(f"/proc/{truth.outer_pid}/task").glob("*/stat")
    with contextlib.suppress(OSError):
        return any(path.read_text().rpartition(")")[2].split()[0] == "D" for path in states)
    return False


def _suspend(stage: Stage) -> None:
    pid = stage.world.place()[0]
    for truth in stage.world.job():
        if truth.identity.pid == pid:
            os.kill(truth.outer_pid, signal.SIGSTOP)


def _watch_everybody(stage: Stage) -> None:
    """Whoever is there and is not of the job is an innocent, the box's own processes included."""
    known = {watched.truth.outer_pid for watched in stage.oracle.watched}
    outside = stage.box.processes() if stage.box.isolation == "root" else ()
    for truth in (*stage.box.processes(CONTAINER), *outside):
        if truth.outer_pid in known or truth.state == "Z" or has_mark(truth, stage.world.mark):
            continue
        # Who ends between the list and here was a shell of the staging; innocents are held already.
        with contextlib.suppress(ProcessLookupError):
            stage.oracle.watch(" ".join(truth.cmdline)[:80], truth)
