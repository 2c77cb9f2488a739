"""A simulated host: processes with habits, a job with files, and time that passes only when told.

Here: the physics, and the truth that an oracle reads. Not here: what commands answer
(``agentops.bench.answers``), or faults of the connection (``agentops.bench.simulate``).

A habit says how a process takes signals:

    plain     ends at the first INT or TERM, after a moment
    slow      says that it stops, writes a checkpoint for long, ends
    threads   prints the interrupt and goes on; ends at the second
    ignores   SIGINT is ignored; TERM ends it
    deaf      catches INT and TERM and does nothing
    stuck     uninterruptible: no signal ends it
    stopped   stopped by job control; takes signals once continued
    waits     a shell: INT is held back, TERM ends it
    traps     a shell with a trap: TERM ends it when its child has ended
    innocent  any signal ends it, and none may be sent

A supervisor starts a trainer that ended again; so may somebody whom no listing shows, a few times.
A job's process writes its stacks when it gets USR1, but one that is deaf to signals does not catch
it, and would end. What the job leaves when it ends (lock, segments) is in ``agentops.bench.shelf``.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from agentops.bench.shelf import Shelf
from journal.events import Identity

Habit = Literal[
    "plain",
    "slow",
    "threads",
    "ignores",
    "deaf",
    "stuck",
    "stopped",
    "waits",
    "traps",
    "innocent",
]
Role = Literal["trainer", "worker", "supervisor", "innocent"]
SECOND_US = 1_000_000
TICK_US = 10_000
SCRIPT = "/job/train_dflash_pipeline.py"
LOG = "/job/train.log"
HEARTBEAT = "/job/heartbeat.json"
CODE = "/job/code.py"
OLD_CODE, NEW_CODE = b"VERSION = 1\n", b"VERSION = 2\n"
OLD_SHA256, NEW_SHA256 = (sha256(code).hexdigest() for code in (OLD_CODE, NEW_CODE))
NAMESPACE = 4_026_532_001


@dataclass(slots=True)
class Process:
    """One simulated process. ends_at_us is when it will end; None: not by itself."""

    pid: int
    ppid: int
    sid: int
    start_ticks: int
    role: Role
    habit: Habit
    cmdline: tuple[str, ...]
    comm: str
    uid: int = 0
    launch_id: str | None = None
    ends_at_us: int | None = None
    signals: list[str] = field(default_factory=list)
    stopped: bool = False
    told: bool = False


@dataclass(slots=True)
class Trainer:
    """The job's own state: its process and how its steps go."""

    process: Process
    step_us: int
    step: int
    next_step_us: int
    state: str = "training"
    hangs_at: int | None = None
    diverges_at: int | None = None
    writing: bool = False
    sequence: int = 0


class World:
    """One host. Time is in microseconds since its boot; ticks are hundredths of a second."""

    def __init__(self) -> None:
        self.now_us = 1_000 * SECOND_US
        self.boot = "11111111-2222-3333-4444-555555555555"
        self.init_start_ticks = 1
        self.shelf = Shelf()
        self.processes: dict[int, Process] = {}
        self.log: list[str] = []
        self.sha256 = OLD_SHA256
        self.checkpoint = 0
        self.trainer: Trainer | None = None
        self.beat: dict[str, object] | None = None
        self.respawn_us: int | None = None
        self.respawn_at_us: int | None = None
        self.unseen_starts = 0
        self.next_pid = 100
        self.hurt: list[tuple[int, str]] = []
        self.births = 0
        self.relaunch_habit: Literal["good", "dies", "stands", "diverges"] = "good"
        self.respawn_habit: Habit = "plain"
        self.worker_lives_us = 0

    def spawn(
        self,
        role: Role,
        habit: Habit,
        cmdline: tuple[str, ...],
        *,
        ppid: int = 1,
        sid: int | None = None,
        launch_id: str | None = None,
        uid: int = 0,
        comm: str = "python3",
    ) -> Process:
        """A new process, with the next pid and the present as its start."""
        pid = self.next_pid
        self.next_pid += 1
        self.births += 1
        process = Process(
            pid=pid,
            ppid=ppid,
            sid=pid if sid is None else sid,
            start_ticks=self.now_us // TICK_US + self.births,
            role=role,
            habit=habit,
            cmdline=cmdline,
            comm=comm,
            uid=uid,
            launch_id=launch_id,
            stopped=habit == "stopped",
        )
        self.processes[pid] = process
        return process

    def train(self, process: Process, *, step_us: int = SECOND_US // 5) -> Trainer:
        """Let *process* be the trainer, going on from the checkpoint."""
        trainer = Trainer(process, step_us, self.checkpoint, self.now_us + step_us)
        self.trainer = trainer
        self._beat(trainer, "starting")
        if not self.shelf.take(process.pid, process.start_ticks, self.lives):
            self._end_soon(process, SECOND_US // 2)
            trainer.hangs_at = trainer.step
        return trainer

    def lives(self, pid: int, start_ticks: int | None = None) -> bool:
        """Whether a process with this pid, and this start where one is given, lives."""
        process = self.processes.get(pid)
        return process is not None and start_ticks in {None, process.start_ticks}

    def restart(self, *, boot: bool = False) -> None:
        """The container, or the whole host, is started again: nothing in it lives on."""
        self.processes.clear()
        self.trainer = None
        self.respawn_at_us = None
        self.init_start_ticks = self.now_us // TICK_US + self.births
        self.shelf.restarted()
        if boot:
            self.boot = f"{self.now_us:08x}-2222-3333-4444-555555555555"

    def reuse(self, process: Process) -> None:
        """*process* ends, and its pid is an innocent's by now."""
        pid, process.signals = process.pid, ["KILL"]
        self._end(process)
        newcomer = self.spawn("innocent", "innocent", ("python3", "/srv/report.py"))
        del self.processes[newcomer.pid]
        newcomer.pid = newcomer.sid = pid
        self.processes[pid] = newcomer

    def identity(self, process: Process) -> Identity:
        """Its identity."""
        return Identity(
            boot_id=self.boot,
            pid_namespace=NAMESPACE,
            namespace_init_start_ticks=self.init_start_ticks,
            pid=process.pid,
            start_ticks=process.start_ticks,
        )

    def job(self) -> tuple[Process, ...]:
        """All living processes of the job, by the truth."""
        return tuple(p for p in self.processes.values() if p.role != "innocent")

    def pass_time(self, duration_us: int) -> None:
        """Let time pass, in steps small enough for each habit."""
        end_us = self.now_us + max(0, duration_us)
        while self.now_us < end_us:
            self.now_us = min(end_us, self.now_us + SECOND_US // 10)
            self._ends()
            self._respawns()
            self._steps()

    def signal(self, process: Process, name: str) -> None:
        """Deliver a signal; what it does is the habit's matter."""
        process.signals.append(name)
        if process.role == "innocent":
            self.hurt.append((process.pid, name))
        if name == "CONT":
            process.stopped = False
            if set(process.signals) & {"INT", "TERM"}:
                self._end_soon(process, SECOND_US // 5)
        elif name == "USR1":
            if process.habit == "deaf":
                self.hurt.append((process.pid, "USR1 that it does not catch"))
                self._end_soon(process, 0)
            else:
                self.log.append("Current thread 0x00007f (most recent call first):")
        elif process.habit == "stuck":
            return
        elif name == "KILL":
            self._end_soon(process, 0)
        elif not process.stopped:
            self._take(process, name)

    def _take(self, process: Process, name: str) -> None:
        count = sum(1 for sent in process.signals if sent == name)
        match process.habit:
            case "slow":
                self._wind_down(process)
            case "threads" if name == "INT":
                self.log.append("KeyboardInterrupt")
                if count > 1:
                    self._end_soon(process, SECOND_US // 2)
            case "ignores" | "waits" if name == "INT":
                return
            case "deaf":
                return
            case "traps":
                process.told = name == "TERM" or process.told
                if not self._children(process):
                    self._end_soon(process, 0)
            case _:
                self._end_soon(process, SECOND_US // 3)

    def _wind_down(self, process: Process) -> None:
        if (
            self.trainer is not None
            and self.trainer.process is process
            and not self.trainer.writing
        ):
            self.trainer.writing = True
            self._beat(self.trainer, "checkpointing")
            self._end_soon(process, 12 * SECOND_US)

    def _children(self, process: Process) -> list[Process]:
        return [child for child in self.processes.values() if child.ppid == process.pid]

    def _end_soon(self, process: Process, delay_us: int) -> None:
        at_us = self.now_us + delay_us
        if process.ends_at_us is None or at_us < process.ends_at_us:
            process.ends_at_us = at_us

    def _ends(self) -> None:
        for process in list(self.processes.values()):
            if process.ends_at_us is not None and process.ends_at_us <= self.now_us:
                self._end(process)

    def _end(self, process: Process) -> None:
        del self.processes[process.pid]
        for child in self._children(process):
            child.ppid = 1
            if child.role == "worker" and self.worker_lives_us >= 0:
                self._end_soon(child, self.worker_lives_us)
        parent = self.processes.get(process.ppid)
        if parent is not None and parent.told:
            self._end_soon(parent, 0)
        if self.trainer is not None and self.trainer.process is process:
            clean = "KILL" not in process.signals
            if clean:
                self.checkpoint = self.trainer.step
                self._beat(self.trainer, "stopped")
                self.shelf.give_back(process.pid, process.start_ticks)
            self.trainer = None
            wrapped = parent is not None and not parent.told
            if self.respawn_us is not None and (wrapped or self.unseen_starts):
                self.respawn_at_us = self.now_us + self.respawn_us

    def _respawns(self) -> None:
        if self.respawn_at_us is None or self.now_us < self.respawn_at_us:
            return
        self.respawn_at_us = None
        words = ("python3", "-P", SCRIPT)
        wrapper = next((p for p in self.processes.values() if p.role == "supervisor"), None)
        if self.unseen_starts:
            self.unseen_starts -= 1
            self.train(self.spawn("trainer", self.respawn_habit, words))
        elif wrapper is not None and wrapper.ends_at_us is None:
            child = self.spawn(
                "trainer",
                self.respawn_habit,
                words,
                ppid=wrapper.pid,
                sid=wrapper.sid,
                launch_id=wrapper.launch_id,
            )
            self.train(child)

    def _steps(self) -> None:
        trainer = self.trainer
        if trainer is None or trainer.writing or trainer.process.stopped:
            return
        if trainer.process.habit == "stuck":
            return
        while trainer.next_step_us <= self.now_us:
            trainer.next_step_us += trainer.step_us
            if trainer.hangs_at is not None and trainer.step >= trainer.hangs_at:
                continue
            trainer.step += 1
            self._beat(trainer, "training")

    def _beat(self, trainer: Trainer, state: str) -> None:
        trainer.sequence += 1
        trainer.state = state
        diverged = trainer.diverges_at is not None and trainer.step >= trainer.diverges_at
        self.beat = {
            "schema": 1,
            "run_id": "run",
            "launch_id": trainer.process.launch_id,
            "pid": trainer.process.pid,
            "start_ticks": trainer.process.start_ticks,
            "state": state,
            "step": trainer.step,
            "steps": 1_000_000,
            "loss": None if trainer.step == 0 else "nan" if diverged else "3.25",
            "tokens_per_s": None,
            "sequence": trainer.sequence,
            "updated_unix_ms": 0,
            "checkpoint_step": self.checkpoint,
            "checkpoint_writing": trainer.writing,
            "resumed_from_step": self.checkpoint,
            "detail": None,
        }
