"""Training a DFlash drafter on one GPU, beside the published trainers, in one run.

    python -m benchmarks.trainer_h200 [--only ours specforge speculators] [--shapes ...] [--limit S]

Every contestant has a process of its own, and no two use the GPU at the same time. speculators
compiles for minutes, so it starts first and is held, compiled, before its first large graph runs;
meanwhile those are timed whose time the GPU decides (the large shape). The small shape, where the
host decides, is timed with nothing else running. JSON lines go to $OUT/trainer_h200.jsonl as they
are measured, the table to $OUT/trainer_h200.md; the table also reads earlier lines that are there,
so a run that was cut is completed by ``--only``.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LARGE, SMALL = "qwen3-8b", "smollm2-135m"
CONTESTANTS = ("ours", "specforge", "speculators")
_ROOT = Path(__file__).parents[1]


def _ours(shape: str) -> None:
    from benchmarks import trainer_ours as ours  # noqa: PLC0415 - a role's own process

    ours.measure_target(shape)
    if shape == SMALL:
        for objective in ours.OBJECTIVES:
            ours.measure_captured(shape, objective, reads=False)
            ours.measure_captured(shape, objective, reads=True)
        return
    for objective in ours.OBJECTIVES:
        ours.measure_drafter(shape, objective)
        ours.measure_end_to_end(shape, objective)
    ours.measure_drafter(shape, "forward_kl")


def _specforge(shape: str) -> None:
    from benchmarks.trainer_peers import SpecForge, measure  # noqa: PLC0415 - as above

    measure(shape, SpecForge)


def _speculators(shape: str) -> None:
    from benchmarks.trainer_peers import Gate, Speculators, measure  # noqa: PLC0415 - as above

    measure(shape, Speculators, Gate(Path(os.environ["GATE"])))


ROLES: dict[str, Callable[[str], None]] = {
    "ours": _ours, "specforge": _specforge, "speculators": _speculators
}  # fmt: skip


class Run:
    """The processes of one run, and the time that is left."""

    def __init__(self, limit: float, out: Path, folder: Path) -> None:
        self._end = time.monotonic() + limit
        self._limit, self.out, self.folder = limit, out, folder
        self._all: list[subprocess.Popen[bytes]] = []

    @property
    def left(self) -> float:
        """Seconds."""
        return self._end - time.monotonic()

    def say(self, *words: object) -> None:
        """A line with the seconds that have passed."""
        print(f"=== {self._limit - self.left:6.1f} s", *words, flush=True)

    def start(self, role: str, shape: str, cores: set[int]) -> subprocess.Popen[bytes]:
        """Begin a contestant at a shape, on these cores."""
        gate = self.gate(role, shape)
        gate.mkdir(parents=True, exist_ok=True)
        threads = max(1, len(cores) // 3)
        environment = {
            **os.environ, "GATE": str(gate), "OUT": str(self.out), "OMP_NUM_THREADS": "4",
            "TORCHINDUCTOR_COMPILE_THREADS": str(threads), "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
        }  # fmt: skip
        log = (self.out / f"{role}-{shape}.log").open("wb")
        began = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.trainer_h200", "--role", role, "--shape", shape],
            cwd=_ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - no threads here
        )  # fmt: skip
        self._all.append(began)
        self.say("started", role, shape)
        return began

    def gate(self, role: str, shape: str) -> Path:
        """Where a contestant's gate is."""
        return self.folder / f"{role}-{shape}"

    def wait(self, process: subprocess.Popen[bytes], what: str) -> None:
        """Until it ends or the time is over."""
        try:
            process.wait(max(1.0, self.left))
            self.say(what, "ended with", process.returncode)
        except subprocess.TimeoutExpired:
            self.say(what, "is cut: the time is over")

    def wait_compiled(self, process: subprocess.Popen[bytes], role: str, shape: str) -> None:
        """Until a contestant stands at its gate, has ended, or the time is over."""
        file = self.gate(role, shape) / "compiled"
        while self.left > 0 and not file.exists():
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            return

    def close(self) -> None:
        """End what still runs: each with the session that it leads."""
        for process in self._all:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def race(run: Run, only: Sequence[str], shapes: Sequence[str]) -> None:
    """The order in which contestants run; see the module's docstring."""
    cores = os.sched_getaffinity(0)
    ordered = sorted(cores)
    few = set(ordered[-4:]) if len(ordered) >= 8 else cores
    compiling: dict[str, subprocess.Popen[bytes]] = {}
    if "speculators" in only:
        rest = cores - few or cores
        compiling = {shape: run.start("speculators", shape, rest) for shape in shapes}
    timed = [role for role in ("ours", "specforge") if role in only]
    for role in timed:
        if LARGE in shapes:
            run.wait(run.start(role, LARGE, few), f"{role} {LARGE}")
    for shape in shapes:
        held = compiling.get(shape)
        if held is not None:
            run.wait_compiled(held, "speculators", shape)
            run.say("speculators", shape, "stands at its gate or has ended")
        if shape != LARGE:
            for role in timed:
                run.wait(run.start(role, shape, cores), f"{role} {shape}")
        if held is not None:
            if held.poll() is None:
                os.sched_setaffinity(held.pid, cores)
            (run.gate("speculators", shape) / "go").touch()
            run.wait(held, f"speculators {shape}")


def table(lines: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown: the newest of each kind."""
    newest = {
        (each["kind"], each["shape"], each["contestant"], each.get("objective", "")): each
        for each in lines
        if each["kind"] in ("target", "drafter", "end_to_end")
    }
    rows = [
        "| shape | what | contestant | ms a step (least to most) | tokens/s | peak GiB |",
        "|---|---|---|---|---|---|",
    ]
    for kind, shape, contestant, objective in sorted(newest):
        found = newest[kind, shape, contestant, objective]
        ms = found["ms"]["step"]
        speed = 8192 / ms["median"] * 1e3
        name = f"{contestant} ({objective})" if objective else contestant
        rows.append(
            f"| {shape} | {kind.replace('_', ' ')} | {name} | {ms['median']:.1f}"
            f" ({ms['min']:.1f} to {ms['max']:.1f}) | {speed:,.0f} | {found.get('peak_gib', '')} |"
        )
    return "\n".join(rows)


def main() -> int:
    """Run the race, or one role of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--shapes", nargs="+", default=(LARGE, SMALL))
    parser.add_argument("--limit", type=float, default=470.0, help="seconds")
    parser.add_argument("--role", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role is not None:
        ROLES[given.role](given.shape)
        return 0
    out = Path(os.environ.get("OUT", ".")).resolve()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(given.limit, out, Path(folder))
        try:
            race(run, given.only, given.shapes)
        finally:
            run.close()
    results = out / "trainer_h200.jsonl"
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    made = table([json.loads(line) for line in text.splitlines()])
    (out / "trainer_h200.md").write_text(made + "\n", encoding="utf-8")
    print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
