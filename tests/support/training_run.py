"""Starts the trainer as a process of its own, as its users do, and waits for what it says."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.forking import Forked, Forker

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
_POLL_S = 0.01
Process = Forked | subprocess.Popen[bytes]


def write_config(directory: Path, **changes: Any) -> Path:
    """A run on the tiny random target, small enough for a test; ``changes`` replace its keys."""
    settings: dict[str, Any] = {
        "run_id": "test",
        "output_dir": "out",
        "steps": 12,
        "threads": 1,
        "checkpoint_every": 5,
        "heartbeat_ms": 0,
        "row_tokens": 128,
        "target": {"kind": "random", "num_hidden_layers": 4, "hidden_size": 32, "vocab_size": 64},
        "drafter": {"block_size": 4, "target_layer_ids": [0, 2], "num_hidden_layers": 1},
        "data": {"kind": "synthetic", "documents": 32, "length": 40},
        "optimizer": {"learning_rate": 3e-3},
    }
    settings |= changes
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "run.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def environment(**extra: str) -> dict[str, str]:
    """What the trainer needs to be found, and one thread so that neighbours are not disturbed."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **extra}


@contextmanager
def trainer_process(*arguments: str | Path, cwd: Path, **extra: str) -> Iterator[Process]:
    """``python -P -m trainer ARGUMENTS``, ended by its own handle when the block ends."""
    words, environ = list(map(str, arguments)), environment(**extra)
    forker = _forker()
    if forker is not None and (child := forker.start(words, environ, cwd)) is not None:
        with child:
            yield child
        return
    argv = [sys.executable, "-P", "-m", "trainer", *words]
    with subprocess.Popen(
        argv, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def run_trainer(
    *arguments: str | Path, cwd: Path, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end; the caller looks at the exit status."""
    with trainer_process(*arguments, cwd=cwd, **extra) as process:
        out, err = process.communicate(timeout=DEADLINE_S)
        status = process.wait()
    return subprocess.CompletedProcess(process.args, status, out.decode(), err.decode())


@cache
def _forker() -> Forker | None:
    """One a test process; None where the system has no pidfd."""
    return Forker("trainer", environment()) if hasattr(os, "pidfd_open") else None


def wait_for(condition: Callable[[], bool], process: Process) -> None:
    """Wait until the condition holds; an ended process or the deadline is an error."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the trainer did not get there in time")
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
        if not condition():
            said = process.communicate()[1].decode()
            raise RuntimeError(f"the trainer ended with {process.returncode}: {said}")


def heartbeat(output: Path) -> dict[str, Any]:
    """The heartbeat as it is now; empty before there is one."""
    try:
        found: dict[str, Any] = json.loads((output / "heartbeat.json").read_bytes())
    except FileNotFoundError:
        return {}
    return found


def step_of(output: Path) -> int:
    """The step that the heartbeat tells; 0 before the first."""
    return int(heartbeat(output).get("step", 0))


def losses(output: Path) -> dict[int, str]:
    """The logged loss of each step, digit for digit; the last time it was logged wins."""
    lines = (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {found["step"]: found["loss"] for found in map(json.loads, lines)}
