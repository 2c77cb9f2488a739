"""Pipelines on the CPU for tests: small settings, and a whole run without files or processes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tests.support.training_run import step_of, write_config
from trainer.clock import SystemClock
from trainer.config import RunConfig, read_config
from trainer.pipeline.building import PipelinedSteps
from trainer.pipeline.lanes import Lane, lane_on
from trainer.run import open_run
from trainer.schedule import Place

SMALL: dict[str, Any] = {"pool_bytes": 1 << 21, "min_ready": 8, "token_budget": 256, "window": 16}


def pipeline_config(
    directory: Path, pipeline: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A run's file with a small pipeline."""
    return write_config(directory, pipeline={**SMALL, **(pipeline or {})}, **changes)


@contextmanager
def opened_steps(
    directory: Path, pipeline: dict[str, Any] | None = None,
    lanes: Callable[[torch.device], Lane] = lane_on, **changes: Any,
) -> Iterator[PipelinedSteps]:  # fmt: skip
    """A run's steps, closed at the end; nobody may hang."""
    config = read_config(pipeline_config(directory, pipeline, **changes))
    steps = steps_of(config, lanes)
    try:
        yield steps
    finally:
        hanging = steps.close()
    assert hanging == ()


def steps_of(config: RunConfig, lanes: Callable[[torch.device], Lane] = lane_on) -> PipelinedSteps:
    """The steps of a run from its beginning."""
    Path(config.output_dir).mkdir(parents=True, exist_ok=True)
    return PipelinedSteps(
        open_run(config), SystemClock(), step=0, place=Place(), tensors=None, lanes=lanes
    )


def losses_of(steps: PipelinedSteps, count: int) -> list[float]:
    """The losses of the next steps."""
    found = []
    for number in range(count):
        then = 1e-3 if number + 1 < count else None
        outcome = steps.step(1e-3, lambda: False, then=then)
        assert outcome is not None
        found.append(float(outcome.loss))
    return found


def nobody_is_left() -> bool:
    """Whether no thread of a pipeline lives in this process."""
    return not [each for each in threading.enumerate() if each.name.startswith("pipeline")]


def has_reached(output: Path, step: int) -> bool:
    """Whether a run's heartbeat tells of this step or a later one."""
    return step_of(output) >= step
