"""A run's steps, one after another, whoever does them: this thread, or a pipeline of them.

The loop in ``trainer.train`` asks for a step, a state to save and a drafter to evaluate; both ways
give the same. The pipeline's is ``trainer.pipeline.building``.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Protocol

from torch import Tensor

from trainer.clock import Clock
from trainer.pipeline.building import PipelinedSteps, limits_for
from trainer.pipeline.meters import PipelineReport
from trainer.reading import Json, plain
from trainer.run import Opened
from trainer.schedule import Place, Schedule
from trainer.step import StepOutcome, Trainer


class Steps(Protocol):
    """What does the steps of a run."""

    @property
    def place(self) -> Place:
        """The row that comes next."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether no step is under way, so that weights are those of the last step told of."""
        ...

    def step(
        self, rate: float, asked: Callable[[], bool], *, then: float | None = None
    ) -> StepOutcome | None:
        """The next step; None when it could not end before a stop that ``asked`` tells of.

        ``then`` is the rate of the step behind it, which may be begun early; None when something
        else comes between.
        """
        ...

    def report(self) -> PipelineReport | None:
        """How the stages fare, where there are stages."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Masters and moments."""
        ...

    def evaluating(self) -> AbstractContextManager[Trainer]:
        """The drafter beside its target model, for nobody else meanwhile."""
        ...

    def close(self) -> tuple[str, ...]:
        """End; names of threads that hang."""
        ...


class PlainSteps:
    """Reads the target model, then trains, in this thread."""

    def __init__(self, opened: Opened, *, place: Place, tensors: dict[str, Tensor] | None) -> None:
        self._trainer = opened.trainer()
        self._data = opened.data.training
        self._rows_per_step = opened.config.rows_per_step
        if tensors is not None:
            self._trainer.optimizer.load(tensors)
        self._schedule = Schedule(
            self._data.lengths,
            capacity=opened.config.row_tokens,
            seed=opened.config.seed,
            place=place,
        )
        self._rows = self._schedule.rows()

    @property
    def place(self) -> Place:
        """The row that comes next."""
        return self._schedule.place

    @property
    def is_settled(self) -> bool:
        """Always: a step ends before it is told of."""
        return True

    def step(
        self,
        rate: float,
        asked: Callable[[], bool],  # noqa: ARG002 - a step always ends
        *,
        then: float | None = None,  # noqa: ARG002 - and none is begun early
    ) -> StepOutcome | None:
        """The next step."""
        rows = list(islice(self._rows, self._rows_per_step))
        return self._trainer.step(rows, self._data, rate)

    def report(self) -> PipelineReport | None:
        """There are no stages."""
        return None

    def state(self) -> dict[str, Tensor]:
        """Masters and moments."""
        return self._trainer.optimizer.state()

    @contextmanager
    def evaluating(self) -> Iterator[Trainer]:
        """The trainer itself."""
        yield self._trainer

    def close(self) -> tuple[str, ...]:
        """There is nothing to end."""
        return ()


def open_steps(
    opened: Opened, clock: Clock, *, step: int, place: Place, tensors: dict[str, Tensor] | None
) -> Steps:
    """The steps behind ``step``, as the run's settings say."""
    if opened.config.pipeline is None:
        return PlainSteps(opened, place=place, tensors=tensors)
    return PipelinedSteps(opened, clock, step=step, place=place, tensors=tensors)


def order_identity(opened: Opened) -> dict[str, Json]:
    """What a checkpoint must agree with about the order of a pipeline; empty without one."""
    if opened.config.pipeline is None:
        return {}
    limits = limits_for(opened.config, opened.target(), opened.data.training)
    return {"pipeline": plain(limits)}
