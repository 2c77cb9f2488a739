"""A small trainer that keeps the file contract: steps, heartbeat, checkpoint, faults on demand.

A second implementation of the contract, for tests of the loop; it learns nothing. Run as
``python -P stub_job.py FOLDER [FAULT…]``. Faults: threads, ignore, hang, slow_stop, deaf, nan,
exit. Each start and each signal that reaches a handler is one line in FOLDER's ``world``.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

STEP_S = 0.05


def start_ticks() -> int:
    """This process's start, field 22 of its stat."""
    stat = Path("/proc/self/stat").read_text()
    return int(stat.rsplit(")", 1)[1].split()[19])


def say(line: str) -> None:
    """One line to the log, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def note(folder: Path, what: str) -> None:
    """One line of what happened in the world, for whoever counts."""
    with (folder / "world").open("a") as file:
        file.write(f"{what}\n")


class Job:
    """The loop: state in the folder, one heartbeat a step."""

    def __init__(self, folder: Path, faults: frozenset[str]) -> None:
        self.folder = folder
        self.faults = faults
        self.stop = threading.Event()
        self.sequence = 0
        checkpoint = folder / "checkpoint"
        self.step = int(checkpoint.read_text()) if checkpoint.exists() else 0
        self.resumed = self.step or None

    def beat(self, state: str, *, writing: bool = False) -> None:
        """Write the heartbeat, whole or not at all."""
        self.sequence += 1
        loss = "nan" if "nan" in self.faults and self.step >= 10 else f"{9 - self.step / 1000:.4f}"
        body = {
            "schema": 1,
            "run_id": "stub",
            "launch_id": os.environ.get("AGENTOPS_LAUNCH_ID"),
            "pid": os.getpid(),
            "start_ticks": start_ticks(),
            "state": state,
            "step": self.step,
            "steps": 1_000_000,
            "loss": loss if self.step else None,
            "tokens_per_s": None,
            "sequence": self.sequence,
            "updated_unix_ms": time.time_ns() // 1_000_000,
            "checkpoint_step": self.resumed,
            "checkpoint_writing": writing,
            "resumed_from_step": self.resumed,
            "detail": None,
        }
        new = self.folder / "heartbeat.json.new"
        new.write_text(json.dumps(body))
        new.rename(self.folder / "heartbeat.json")

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        new = self.folder / "checkpoint.new"
        new.write_text(str(self.step))
        new.rename(self.folder / "checkpoint")

    def run(self) -> None:
        """Train until told to stop."""
        self.beat("starting")
        (self.folder / "stop").unlink(missing_ok=True)
        while not self.stop.wait(STEP_S) and not (self.folder / "stop").exists():
            if "hang" in self.faults and self.step >= 20:
                continue
            self.step += 1
            self.beat("training")
            if self.step % 10 == 0:
                self.save()
                say(f"step={self.step} loss=1.0")
            if "exit" in self.faults and self.step >= 5:
                raise SystemExit(3)
        if "slow_stop" in self.faults:
            for _ in range(60):
                self.beat("checkpointing", writing=True)
                threading.Event().wait(STEP_S)
        self.save()
        self.beat("stopped")


def main() -> None:
    """Start, with the faults asked for."""
    folder = Path(sys.argv[1])
    faults = frozenset(sys.argv[2:])
    job = Job(folder, faults)
    note(folder, f"start {os.environ.get('AGENTOPS_LAUNCH_ID', '')}")

    def take(number: int, _frame: object) -> None:
        note(folder, signal.Signals(number).name.removeprefix("SIG"))
        if "threads" in faults:
            raise KeyboardInterrupt
        if "deaf" not in faults:
            job.stop.set()

    if "ignore" in faults:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    elif "threads" in faults:
        signal.signal(signal.SIGINT, take)
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, take)
    if "threads" not in faults:
        job.run()
        return
    done = threading.Event()
    threading.Thread(target=job.run).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        say("KeyboardInterrupt")


if __name__ == "__main__":
    main()
