"""A light trainer that keeps the file contract: steps, heartbeat, checkpoint, lock, port, memory.

It learns nothing. Its habits stand in ``habits.json`` in its folder: those of the run that is
staged (STAGE_FIRST in the environment), and what any later start meets.
"""

import contextlib
import faulthandler
import json
import mmap
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(sys.argv[0]).resolve().parent
SHM = Path("/dev/shm")  # noqa: S108 - the stage's own


def start_ticks() -> int:
    """This process's start, field 22 of its stat."""
    return int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])


def say(line: str) -> None:
    """One line to the log, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.rename(path)


class Trainer:
    """The loop, with the state that the heartbeat tells."""

    def __init__(self, habits: dict[str, Any]) -> None:
        self.first = "STAGE_FIRST" in os.environ
        self.habits = habits["trainer"] if self.first else {}
        self.start = {} if self.first else habits["start"]
        self.all = habits
        self.out = HERE / "out"
        self.stop = threading.Event()
        self.sequence = 0
        saved = self.out / "checkpoint.json"
        self.step = json.loads(saved.read_text())["step"] if saved.exists() else 0
        self.shared: list[mmap.mmap] = []
        self.resumed = self.step or None
        self.began = self.step

    def has(self, name: str) -> bool:
        """Whether this run has the habit."""
        return bool(self.habits.get(name))

    def how(self, name: str) -> str:
        """How this run takes something."""
        return str(self.habits.get(name, "stops"))

    def reached(self, name: str) -> bool:
        """Whether as many steps were made as the habit says."""
        at = self.habits.get(name)
        return at is not None and self.step - self.began >= at

    def beat(self, state: str, *, writing: bool = False) -> None:
        """Write the heartbeat."""
        if self.has("silent"):
            return
        self.sequence += 1
        ahead = int(self.habits.get("clock_ahead_s", 0))
        if self.reached("clock_back_at_step"):
            ahead = 0
        loss = f"{9 / (1 + self.step / 500):.4f}"
        if self.reached("diverges_at_step"):
            loss = "nan"
        body = {
            "schema": 1,
            "run_id": self.all["run_id"],
            "launch_id": os.environ.get("AGENTOPS_LAUNCH_ID"),
            "pid": os.getpid(),
            "start_ticks": start_ticks(),
            "state": state,
            "step": self.step,
            "steps": 1_000_000,
            "loss": loss if self.step else None,
            "tokens_per_s": None,
            "sequence": self.sequence,
            "updated_unix_ms": time.time_ns() // 1_000_000 + ahead * 1_000,
            "checkpoint_step": self.resumed,
            "checkpoint_writing": writing,
            "resumed_from_step": self.resumed,
            "detail": None,
        }
        whole(self.out / "heartbeat.json", json.dumps(body))

    def save(self) -> None:
        """Write the checkpoint; a slow one takes its time, and its file grows."""
        pause = threading.Event()
        begun = time.monotonic()
        long_s = float(self.habits.get("winding_down_s", 0)) if self.stop.is_set() else 0.0
        new = self.out / "checkpoint.json.tmp"
        with new.open("w") as file:
            file.write(json.dumps({"step": self.step}))
            while time.monotonic() - begun < long_s:
                file.write(" ")
                file.flush()
                self.beat("checkpointing", writing=True)
                pause.wait(0.1)
        new.rename(self.out / "checkpoint.json")

    def run(self) -> None:
        """Train until told to stop."""
        self.beat("starting")
        pause_s = float(self.habits.get("step_s", 0.05))
        while not self.stop.wait(pause_s):
            if self.reached("hangs_at_step"):
                continue
            ready = self.step - self.began >= self.all["ready_step"]
            self.step += 1
            self.beat("training")
            if self.step % 10 == 0:
                self.save()
                say(f"step={self.step} loss=1.0 tokens_per_s=900")
            if self.has("stuck") and ready:
                stick(self.out / "mount")
            if self.habits.get("ended", "no") != "no" and ready:
                say("RuntimeError: the input pipeline ended unexpectedly")
                os._exit(1)
            if self.start.get("exits_early"):
                say("nothing left to do")
                return
        self.save()
        self.beat("stopped")


def stick(fifo: Path) -> None:
    """Go into uninterruptible sleep: the parent of a vfork waits there until its child has execed.

    The child waits to open a pipe that nobody writes, as it would on a dead mount.
    """
    os.mkfifo(fifo)
    action = (os.POSIX_SPAWN_OPEN, 3, str(fifo), os.O_RDONLY, 0)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[action])


def take_place(trainer: Trainer) -> socket.socket | None:
    """Lock, port, shared memory, model: what a start needs; ends the program where one lacks."""
    lock = HERE / "train.lock"
    if lock.exists() and not trainer.first:
        holder = int(lock.read_text().split()[0])
        if trainer.start.get("stale_lock") and Path(f"/proc/{holder}").exists():
            say(f"RuntimeError: train.lock is held by process {holder}")
            raise SystemExit(4)
    own = f"{os.getpid()} {start_ticks()}"
    lock.write_text(trainer.all.get("lock") or own)
    if trainer.start.get("model_cut"):
        shard = HERE / "model" / "model-00001-of-00001.safetensors"
        length = int.from_bytes(shard.read_bytes()[:8], "little")
        if shard.stat().st_size < 8 + length + 4096:
            say(
                "safetensors_rust.SafetensorError: Error while deserializing header: incomplete"
                " metadata, file not fully covered"
            )
            raise SystemExit(1)
    if trainer.all["start"].get("shm_full"):
        share(trainer, f"psm_{os.urandom(4).hex()}")
    if not trainer.start.get("port_taken"):
        return None
    listener = socket.socket()
    listener.bind(("127.0.0.1", int(os.environ.get("JOB_PORT", trainer.all["port"]))))
    listener.listen()
    return listener


def share(trainer: Trainer, name: str) -> None:
    """Fill and hold a segment of shared memory; nobody removes it at the end."""
    size = 3 << 19
    with (SHM / name).open("w+b") as file:
        file.write(b"\0" * size)
        file.flush()
        trainer.shared.append(mmap.mmap(file.fileno(), size))


def give_back_lock() -> None:
    """Remove the lock if it is this process's."""
    lock = HERE / "train.lock"
    with contextlib.suppress(FileNotFoundError):
        if lock.read_text() == f"{os.getpid()} {start_ticks()}":
            lock.unlink()


def hold_memory(trainer: Trainer) -> str:
    """Take memory on the first card; gives the registry's folder, or "-"."""
    gpu = trainer.all["gpu"]
    if gpu is None:
        return "-"
    row = {"pid": os.getpid(), "start_ticks": start_ticks(), "device": 0, "mib": gpu["holds_mib"]}
    path = Path(gpu["registry"]) / f"{row['pid']}-{row['start_ticks']}.json"
    whole(path, json.dumps(row))
    return str(gpu["registry"])


def start_workers(trainer: Trainer, registry: str) -> None:
    """Spawn the data workers, and leave a zombie where that is a habit."""
    gpu = trainer.all["gpu"] or {"devices": 1, "holds_mib": 0}
    life = "outlive" if trainer.has("workers_outlive") else "follow"
    interrupt = "ignore" if trainer.has("workers_ignore_interrupt") else "take"
    script = str(HERE / "multiprocessing_spawn.py")
    for number in range(int(trainer.habits.get("workers", 0))):
        card = str(number % gpu["devices"])
        words = [str(os.getpid()), life, interrupt, registry, card, str(gpu["holds_mib"] // 4)]
        argv = [sys.executable, "-S", "-P", script, *words]
        os.posix_spawn(sys.executable, argv, os.environ)
    if trainer.has("zombie_child") and os.fork() == 0:
        os._exit(0)


def interrupted_threads(trainer: Trainer) -> None:
    """The main thread takes the first interrupt and goes; the other thread trains on."""
    done = threading.Event()
    threading.Thread(target=trainer.run, name="pipeline").start()
    try:
        done.wait()
    except KeyboardInterrupt:
        say("KeyboardInterrupt: stopping the pipeline")


def main() -> None:
    """Start as the habits say."""
    trainer = Trainer(json.loads((HERE / "habits.json").read_text()))
    trainer.out.mkdir(exist_ok=True)
    # Asked for the stacks of its threads, it writes them to its log.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    listener = take_place(trainer)
    start_workers(trainer, hold_memory(trainer))
    interrupt, terminate = trainer.how("interrupt"), trainer.how("terminate")

    def wind_down(*_: object) -> None:
        trainer.stop.set()

    if interrupt in {"ignored", "inherited"}:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    elif interrupt == "deaf":
        signal.signal(signal.SIGINT, lambda *_: None)
    elif interrupt == "forks":
        signal.signal(signal.SIGINT, lambda *_: os._exit(0) if os.fork() else None)
    elif interrupt == "stops":
        signal.signal(signal.SIGINT, wind_down)
    if terminate == "deaf":
        signal.signal(signal.SIGTERM, lambda *_: None)
    elif interrupt != "threads":
        signal.signal(signal.SIGTERM, wind_down)
    if interrupt == "threads":
        interrupted_threads(trainer)
    else:
        trainer.run()
        give_back_lock()
    if listener is not None:
        listener.close()


if __name__ == "__main__":
    main()
