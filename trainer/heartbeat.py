"""What others read of a run while it goes and when it ends: three files and one log line.

``heartbeat.json`` is the sign of life, ``metrics.jsonl`` one object a logged step, ``result.json``
how the run ended. They are the contract with whoever watches the run; golden samples are in
``tests/golden/trainer_contract``. Numbers that are not integers are decimal strings, so no reader
rounds them. What a run does is for ``trainer.train``.
"""

import json
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trainer.clock import Clock
from trainer.errors import OutputError
from trainer.files import write_whole
from trainer.reading import Json, plain

State = Literal[
    "starting", "training", "evaluating", "checkpointing", "stopping", "finished", "failed"
]
Status = Literal["finished", "stopped", "failed"]
LAUNCH_ID = "AGENTOPS_LAUNCH_ID"
_START_TICKS = 19  # field 22 of proc_pid_stat(5), counted after the ")" that ends field 2


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """One sign of life, field by field as in the file; ``pipeline`` only where there is one."""

    schema: int = 1
    run_id: str
    steps: int
    launch_id: str | None
    pid: int
    start_ticks: int | None
    state: State = "starting"
    step: int = 0
    loss: str | None = None
    tokens_per_s: str | None = None
    sequence: int = 0
    updated_unix_ms: int = 0
    checkpoint_step: int | None = None
    checkpoint_writing: bool = False
    resumed_from_step: int | None = None
    detail: str | None = None
    pipeline: Json = None


@dataclass(frozen=True)
class Metric:
    """One logged step; ``tokens`` counts the supervised tokens of this step.

    ``pipeline`` holds the numbers of ``trainer.pipeline.meters``, where the run has one.
    """

    step: int
    loss: float
    grad_norm: float
    lr: float
    tokens: int
    tokens_per_s: float
    acceptance_proxy: float | None = None
    pipeline: Json = None


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended; ``checkpoint`` is the newest one's directory."""

    schema: int = 1
    run_id: str
    status: Status
    step: int
    loss: str | None
    checkpoint: str | None
    reason: str


def decimal(value: float) -> str:
    """The shortest decimal that reads back to the same number; ``nan`` and ``inf`` by name.

    >>> decimal(0.1), decimal(float("nan")), decimal(6e-4)
    ('0.1', 'nan', '0.0006')
    """
    return repr(float(value)) if math.isfinite(value) else str(float(value))


def own_start_ticks() -> int | None:
    """Start time of this process in clock ticks since boot, or None where /proc does not say.

    Source: proc_pid_stat(5), field 22.
    """
    try:
        text = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[_START_TICKS])


@dataclass
class RunFiles:
    """Writes a run's contract files into ``directory``, which must exist.

    A heartbeat that only repeats the state is written at most once in ``interval_ms``; a change
    of state is written at once.
    """

    directory: Path
    clock: Clock
    beat: Heartbeat
    interval_ms: int = 100
    _last_ms: int = field(default=0, init=False)

    @classmethod
    def open(
        cls, directory: Path, clock: Clock, *, run_id: str, steps: int, interval_ms: int
    ) -> "RunFiles":
        """Begin a run's files: count on from an earlier heartbeat, drop a torn metrics line."""
        beat = Heartbeat(
            run_id=run_id,
            steps=steps,
            launch_id=os.environ.get(LAUNCH_ID),
            pid=os.getpid(),
            start_ticks=own_start_ticks(),
            sequence=_earlier_sequence(directory / "heartbeat.json"),
        )
        for name in ("metrics.jsonl", "evaluations.jsonl"):
            _cut_torn_line(directory / name)
        (directory / "result.json").unlink(missing_ok=True)
        return cls(directory, clock, beat, interval_ms)

    def state(self, state: State, *, detail: str | None = None) -> None:
        """Say at once what the run is doing now."""
        self.beat = replace(
            self.beat, state=state, detail=detail, checkpoint_writing=state == "checkpointing"
        )
        self._write()

    def resumed(self, step: int) -> None:
        """The run goes on from the checkpoint of ``step``."""
        self.beat = replace(self.beat, resumed_from_step=step, step=step, checkpoint_step=step)

    def checkpointed(self, step: int) -> None:
        """The checkpoint of ``step`` is whole and on disk."""
        self.beat = replace(self.beat, checkpoint_step=step)

    def progressed(self, metric: Metric, *, is_logged: bool) -> None:
        """A step was done: beat, and append to the metrics when this step is logged."""
        self.beat = replace(
            self.beat,
            step=metric.step,
            loss=decimal(metric.loss),
            tokens_per_s=decimal(round(metric.tokens_per_s, 1)),
            pipeline=self.beat.pipeline if metric.pipeline is None else metric.pipeline,
        )
        if is_logged:
            self._append("metrics.jsonl", _metric_line(metric))
        if self.clock.wall_ms() - self._last_ms >= self.interval_ms:
            self._write()

    def ended(self, result: RunResult) -> None:
        """Write the result, then the last heartbeat: who sees it ended finds the result."""
        _write(self.directory / "result.json", plain(result))
        self.state("failed" if result.status == "failed" else "finished", detail=result.reason)

    def evaluated(self, step: int, evaluation: Json) -> None:
        """Append one evaluation to ``evaluations.jsonl``."""
        self._append("evaluations.jsonl", {"schema": 1, "step": step, "evaluation": evaluation})

    def failed(self, reason: str) -> None:
        """The run cannot go on; what was done so far stands."""
        beat = self.beat
        checkpoint = None if beat.checkpoint_step is None else f"step {beat.checkpoint_step}"
        self.ended(
            RunResult(
                run_id=beat.run_id,
                status="failed",
                step=beat.step,
                loss=beat.loss,
                checkpoint=checkpoint,
                reason=reason,
            )
        )

    def _append(self, name: str, line: dict[str, Json]) -> None:
        path = self.directory / name
        content = json.dumps({**line, "time_unix_ms": self.clock.wall_ms()}).encode() + b"\n"
        try:
            with path.open("ab") as file:
                file.write(content)
        except OSError as error:
            raise _unwritable(path, error) from error

    def _write(self) -> None:
        now_ms = self.clock.wall_ms()
        self.beat = replace(self.beat, sequence=self.beat.sequence + 1, updated_unix_ms=now_ms)
        self._last_ms = now_ms
        content = {
            key: value
            for key, value in _table(self.beat).items()
            if key != "pipeline" or value is not None
        }
        _write(self.directory / "heartbeat.json", content)


def log_line(metric: Metric) -> str:
    """The log's line for one step, made to be read by people and by ``tail``."""
    return (
        f"step={metric.step} loss={metric.loss:.4f} tokens_per_s={metric.tokens_per_s:.0f}"
        f" lr={metric.lr:.3g} grad_norm={metric.grad_norm:.3f}"
    )


def _metric_line(metric: Metric) -> dict[str, Json]:
    line: dict[str, Json] = {
        "schema": 1,
        "step": metric.step,
        "loss": decimal(metric.loss),
        "grad_norm": decimal(metric.grad_norm),
        "lr": decimal(metric.lr),
        "tokens": metric.tokens,
    }
    if metric.acceptance_proxy is not None:
        line["acceptance_proxy"] = decimal(metric.acceptance_proxy)
    if metric.pipeline is not None:
        line["pipeline"] = metric.pipeline
    return line


def _table(beat: Heartbeat) -> dict[str, Json]:
    table = plain(beat)
    assert isinstance(table, dict)
    return table


def _write(path: Path, value: Json) -> None:
    try:
        write_whole(path, json.dumps(value, indent=1).encode() + b"\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot be written ({error.strerror}); free space and start again")


def _earlier_sequence(path: Path) -> int:
    try:
        earlier = json.loads(path.read_bytes())
    except (OSError, json.JSONDecodeError):
        return 0
    sequence = earlier.get("sequence") if isinstance(earlier, dict) else None
    return sequence if isinstance(sequence, int) else 0


def _cut_torn_line(path: Path) -> None:
    """Drop what follows the last newline: a killed run may have left half a line."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
