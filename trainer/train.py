"""The training loop: steps in order, files for whoever watches, checkpoints, and a way to stop.

One call of :func:`train` is one process's share of a run: it starts from the newest checkpoint or
from the beginning, and ends finished, stopped or failed. In deterministic mode a run that was
killed and resumed gives bit-identical losses: all that is drawn is keyed by seed, epoch and
document, and everything else is in the checkpoint. The mathematics is in ``trainer.step``.
"""

import hashlib
import math
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from trainer.checkpoint import Checkpoint
from trainer.clock import Clock, SystemClock
from trainer.config import RunConfig
from trainer.errors import CheckpointError, OutputError, TrainerError
from trainer.evaluate import evaluate_run
from trainer.files import canonical
from trainer.heartbeat import Metric, RunFiles, RunResult, State, Status, log_line
from trainer.optimizer import learning_rate
from trainer.preflight import PreflightReport
from trainer.reading import Json, build, plain
from trainer.run import Opened, checkpoints, open_run
from trainer.schedule import Place
from trainer.step import StepOutcome
from trainer.steps import open_steps, order_identity
from trainer.stopping import StopRequest, listening

Reporter = Callable[[Metric], None]


def train(
    config: RunConfig, *, clock: Clock | None = None, report: Reporter | None = None
) -> RunResult:
    """Run until the last step, a request to stop, or a failure that is told in the result.

    Args:
        config: The run; its paths are absolute (``trainer.config.read_config``).
        clock: The machine's when not given.
        report: Called with each logged step; prints a log line when not given.

    Raises:
        TrainerError: the run cannot start or go on; ``result.json`` and the heartbeat say so too.
    """
    clock = clock or SystemClock()
    directory = Path(config.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    files = RunFiles.open(
        directory, clock, run_id=config.run_id, steps=config.steps, interval_ms=config.heartbeat_ms
    )
    with listening(directory) as request, _determinism(config):
        files.state("starting")
        try:
            loop = _Loop(config, files, clock, request, report or _print_line)
            result = loop.run()
        except OutputError:
            raise  # nothing more can be said in files
        except TrainerError as error:
            files.failed(str(error))
            raise
        files.ended(result)
        request.honoured()
    return result


@dataclass(frozen=True)
class _Best:
    """The best score of any checkpoint so far; lower is better."""

    score: float | None = None

    def beaten_by(self, score: float) -> bool:
        """Whether a checkpoint of this score would be the best."""
        return math.isfinite(score) and (self.score is None or score < self.score)


class _Loop:
    """The state of one call of :func:`train`."""

    def __init__(
        self,
        config: RunConfig,
        files: RunFiles,
        clock: Clock,
        request: StopRequest,
        report: Reporter,
    ) -> None:
        self.config = config
        self.files = files
        self.clock = clock
        self.request = request
        self.report = report
        self.opened = open_run(config)
        self.preflight = _proved(self.opened)
        self.store = checkpoints(config)
        self.identity = _identity(self.opened, self.preflight)
        self.step = 0
        self.saved_step: int | None = None
        self.best = _Best()
        self.losses: list[torch.Tensor] = []
        self.evaluated: float | None = None
        place, tensors = Place(), None
        found = self.store.load_newest() if config.resume == "latest" else None
        if found is not None:
            place, tensors = self._resume(found), found.tensors
        self.steps = open_steps(self.opened, clock, step=self.step, place=place, tensors=tensors)

    def run(self) -> RunResult:
        """Step until the end or a request; whatever happens, no thread of a pipeline is left."""
        try:
            result = self._run()
        finally:
            hanging = self.steps.close()
        if hanging:
            result = replace(result, reason=f"{result.reason}; hanging: {', '.join(hanging)}")
        return result

    def _run(self) -> RunResult:
        self.files.state("training")
        while self.step < self.config.steps:
            reason = self.request.reason
            if reason is not None and self.steps.is_settled:
                self.files.state("stopping", detail=reason)
                self._save(then="stopping")
                return self._result("stopped", f"asked to stop by {reason}")
            metric = self._one_step()
            if metric is None:
                continue  # a stop was asked for that this step could not end before
            if not math.isfinite(metric.loss):
                # The last checkpoint is from before; a new one would keep the damage.
                return self._result("failed", f"loss is {metric.loss} at step {self.step}")
            self._evaluate_when_due()
            if self.step % self.config.checkpoint_every == 0 and self.step < self.config.steps:
                self._save()
        self._save(then="stopping")
        return self._result("finished", f"all {self.config.steps} steps are done")

    def _one_step(self) -> Metric | None:
        started = self.clock.monotonic_s()
        rate = learning_rate(self.config.optimizer, self.step + 1, self.config.steps)
        outcome = self.steps.step(rate, self._is_asked, then=self._next_rate())
        if outcome is None:
            return None
        self.step += 1
        self.losses.append(outcome.loss)
        metric = _metric(self.step, rate, outcome, lambda: self.clock.monotonic_s() - started)
        is_logged = self.step % self.config.log_every == 0 or self.step == self.config.steps
        told = self.steps.report() if is_logged else None
        if told is not None:
            metric = replace(metric, pipeline=plain(told))
        self.files.progressed(metric, is_logged=is_logged)
        if is_logged:
            self.report(metric)
        return metric

    def _is_asked(self) -> bool:
        return self.request.reason is not None

    def _next_rate(self) -> float | None:
        """The rate of the step after the next one, when nothing comes between the two."""
        done, config = self.step + 1, self.config
        every = (config.checkpoint_every, config.evaluation.every)
        if done >= config.steps or any(each and done % each == 0 for each in every):
            return None
        return None if self._is_asked() else learning_rate(config.optimizer, done + 1, config.steps)

    def _evaluate_when_due(self) -> None:
        every = self.config.evaluation.every
        if not every or (self.step % every and self.step != self.config.steps):
            return
        self.files.state("evaluating")
        with self.steps.evaluating() as trainer:
            found = evaluate_run(trainer, self.opened.data, self.config)
        self.evaluated = found.overall.length_by_round
        self.files.evaluated(self.step, plain(found))
        self.files.state("training", detail="; ".join(found.alarms) or None)

    def _save(self, then: State = "training") -> None:
        """Write a checkpoint of this step, unless it is there already."""
        if self.saved_step == self.step:
            return
        self.files.state("checkpointing")
        # A score over few steps would be luck; over those since the last checkpoint it is not.
        score = float(torch.stack(self.losses).mean()) if self.losses else math.inf
        if self.config.evaluation.every:
            score = math.inf if self.evaluated is None else -self.evaluated
            self.evaluated = None
        is_best = self.best.beaten_by(score)
        self.best = _Best(score) if is_best else self.best
        state: dict[str, Json] = {
            "identity": self.identity,
            "config": plain(self.config),
            "drafter": plain(self.opened.shape),
            "preflight": None if self.preflight is None else plain(self.preflight),
            "place": plain(self.steps.place),
            "best": plain(self.best),
            "kernels": self.opened.kernels(),
            "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        }
        self.store.save(self.step, self.steps.state(), state, is_best=is_best)
        self.saved_step = self.step
        self.losses.clear()
        self.files.checkpointed(self.step)
        self.files.state(then, detail=self.request.reason)

    def _resume(self, found: Checkpoint) -> Place:
        theirs = found.state.get("identity")
        if theirs != self.identity:
            raise CheckpointError(
                f"{found.path}: is another run's ({_first_difference(theirs, self.identity)});"
                " give another output_dir, or set resume to 'never'"
            )
        self.step = self.saved_step = found.step
        self.best = build(_Best, found.state["best"])
        self.files.resumed(found.step)
        return build(Place, found.state["place"])

    def _result(self, status: Status, reason: str) -> RunResult:
        newest = self.store.newest()
        return RunResult(
            run_id=self.config.run_id,
            status=status,
            step=self.step,
            loss=self.files.beat.loss,
            checkpoint=None if newest is None else str(newest),
            reason=reason,
        )


def _proved(opened: Opened) -> PreflightReport | None:
    if opened.config.preflight == "skip":
        return None
    report = opened.preflight()
    report.require()
    return report


def _identity(opened: Opened, proved: PreflightReport | None) -> dict[str, Json]:
    """What must be equal for a checkpoint to be of this run; digests name what is large."""
    config = opened.config
    return {
        "run_id": config.run_id,
        "seed": config.seed,
        "target": opened.backbone.digest,
        "data": opened.data.training.digest,
        "drafter": hashlib.sha256(canonical(plain(opened.shape))).hexdigest(),
        "preflight": None if proved is None else proved.digest,
        "warm_start": config.drafter.warm_start,
        "loss": plain(config.loss),
        "anchors": plain(config.anchors),
        "precision": config.precision,
        "row_tokens": config.row_tokens,
        "rows_per_step": config.rows_per_step,
        **order_identity(opened),
    }


def _first_difference(theirs: Json, ours: dict[str, Json]) -> str:
    if not isinstance(theirs, dict):
        return "it has no identity"
    key = min(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
    return f"{key}: {theirs.get(key)} there, {ours.get(key)} here"


def _metric(step: int, rate: float, outcome: StepOutcome, elapsed_s: Callable[[], float]) -> Metric:
    loss = float(outcome.loss)  # waits for the device, so the time below is the whole step's
    return Metric(
        step=step,
        loss=loss,
        grad_norm=float(outcome.grad_norm),
        lr=rate,
        tokens=outcome.tokens,
        tokens_per_s=outcome.tokens / max(elapsed_s(), 1e-9),
        acceptance_proxy=outcome.proxy.length,
    )


@contextmanager
def _determinism(config: RunConfig) -> Iterator[None]:
    """Torch's own settings while the run lasts; a caller's are put back."""
    threads, was = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    settings: Any = torch.utils.deterministic
    filled = settings.fill_uninitialized_memory
    if config.deterministic:
        # cuBLAS reads this when it starts; without it, deterministic mode refuses matrix products.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(mode=True)
        # What is allocated here is written before it is read; filling it would cost a pass each.
        settings.fill_uninitialized_memory = False
    # Beside a GPU, a step's work on the host is many small operations: threads only slow them.
    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    chosen = config.threads or (1 if on_gpu else None)
    if chosen is not None:
        torch.set_num_threads(chosen)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=was)
        settings.fill_uninitialized_memory = filled
        torch.set_num_threads(threads)


def _print_line(metric: Metric) -> None:
    sys.stdout.write(log_line(metric) + "\n")
    sys.stdout.flush()
