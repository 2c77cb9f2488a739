"""From a run's settings to its pipeline: devices, copies of the target model, replicas, memory.

Also the pipeline as ``trainer.train`` sees it: the same steps as without one, from the same kind of
place, with the same checkpoint.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from trainer.clock import Clock
from trainer.config import PipelineSettings, RunConfig
from trainer.corpus import Corpus
from trainer.devices import devices_of
from trainer.errors import CheckpointError
from trainer.pipeline.arena import Arena
from trainer.pipeline.crew import Crew
from trainer.pipeline.engine import Pipeline, Replica
from trainer.pipeline.graphs import GraphedRead
from trainer.pipeline.jobs import JobQueue
from trainer.pipeline.lanes import Lane, lane_on
from trainer.pipeline.meters import Meters, PipelineReport
from trainer.pipeline.order import OrderLimits, limits_of
from trainer.pipeline.pool import Pool
from trainer.pipeline.record import Record
from trainer.pipeline.stages import Permits, Stages, StepBook
from trainer.pipeline.targets import Read, TargetWorker
from trainer.run import Opened
from trainer.schedule import Place
from trainer.step import Drafting, StepOutcome, Tables, Trainer
from trainer.target import Target

LaneOn = Callable[[torch.device], Lane]


@dataclass(frozen=True)
class Reader:
    """A copy of the target model: how it is read and where."""

    read: Read
    device: torch.device
    lane: Lane
    copy_lane: Lane


def limits_for(config: RunConfig, target: Target, corpus: Corpus) -> OrderLimits:
    """What the order of this run depends on."""
    assert config.pipeline is not None
    width = target.feature_size + _final_size(config, target)
    token_bytes = width * target.embedding_VH.dtype.itemsize
    return limits_of(config, config.pipeline, corpus.lengths, token_bytes=token_bytes)


def stages_for(
    config: RunConfig, target: Target, corpus: Corpus, directory: Path, clock: Clock,
    *, is_pinned: bool, targets: int = 1,
) -> Stages:  # fmt: skip
    """The shared parts of a pipeline with so many targets."""
    settings = config.pipeline
    assert settings is not None
    crew = Crew()
    limits = limits_for(config, target, corpus)
    final = _final_size(config, target)
    width, dtype = target.feature_size + final, target.embedding_VH.dtype
    pages = settings.pool_bytes // (settings.page_tokens * width * dtype.itemsize)
    arena = Arena(pages, settings.page_tokens, width, dtype, pinned=is_pinned)
    return Stages(
        crew=crew,
        jobs=JobQueue(crew, settings.queue * targets, clock.monotonic_s),
        arena=arena,
        pool=Pool(crew, arena),
        copies=Permits(crew, settings.copies),
        book=StepBook(crew),
        corpus=corpus,
        limits=limits,
        meters=Meters(clock.monotonic_s),
        record=Record(directory, clock, seed=config.seed),
        clock=clock.monotonic_s,
        dtype=dtype,
        feature_size=target.feature_size,
        final_size=final,
        is_pinned=is_pinned,
    )


def workers_for(
    stages: Stages, readers: list[Reader], settings: PipelineSettings
) -> list[TargetWorker]:
    """A worker for each copy of the target model."""
    limits = stages.limits
    shapes = frozenset((limits.batch_size(each), each) for each in limits.buckets)
    made = []
    for number, each in enumerate(readers):
        read: Read = each.read
        free: Callable[[], int] | None = None
        if each.device.type == "cuda":
            read = GraphedRead(read, shapes if settings.graphs else frozenset(), stages.tracing)
            free = partial(_free_bytes, each.device)
        name = f"target {number} ({each.device})"
        made.append(TargetWorker(name, read, each.lane, each.copy_lane, stages, free_bytes=free))
        if isinstance(read, GraphedRead):
            stages.meters.graphs.append(read)
    return made


class PipelinedSteps:
    """A run's steps, by a pipeline; see ``trainer.train.Steps``."""

    def __init__(
        self, opened: Opened, clock: Clock, *, step: int, place: Place,
        tensors: dict[str, Tensor] | None, lanes: LaneOn = lane_on,
    ) -> None:  # fmt: skip
        config = opened.config
        assert config.pipeline is not None
        self._config = config
        self._on = devices_of(config)
        self._data = opened.data.training
        trainer = opened.trainer()
        self._target = trainer.target
        drafting = self._first_replica(trainer)
        draftings = [drafting, *(self._copied(drafting, each) for each in self._on.drafters[1:])]
        if tensors is not None:
            for each in draftings:
                each.optimizer.load(tensors)
        stages = stages_for(
            config, self._target, self._data, Path(config.output_dir), clock,
            is_pinned=self._on.has_gpu, targets=len(self._on.targets),
        )  # fmt: skip
        if step == 0:
            stages.record.forget()
        readers = []
        for number, device in enumerate(self._on.targets):
            target = opened.target_on(device) if number else self._target
            read = partial(target.read, final=config.loss.needs_teacher)
            readers.append(Reader(read, device, lanes(device), lanes(device)))
        self.pipeline = Pipeline(
            config, stages, workers_for(stages, readers, config.pipeline),
            [Replica(each, lanes(each.device), lanes(each.device)) for each in draftings],
            step=step, place=place,
        )  # fmt: skip
        self._evaluating: Trainer | None = drafting if isinstance(drafting, Trainer) else None
        self._is_started = False

    @property
    def place(self) -> Place:
        """The row that comes next."""
        return self.pipeline.place

    @property
    def is_settled(self) -> bool:
        """Whether no step is under way."""
        return self.pipeline.is_settled

    def step(
        self, rate: float, asked: Callable[[], bool], *, then: float | None = None
    ) -> StepOutcome | None:
        """The next step; None when it could not end before a stop that somebody asked for."""
        if not self._is_started:
            self._is_started = True
            for each in {*self._on.targets, *self._on.drafters}:
                if each.type == "cuda":
                    # What was made on the default stream is used on others from here on.
                    torch.cuda.synchronize(each)
            self.pipeline.start()
        return self.pipeline.step(rate, asked, then=then)

    def report(self) -> PipelineReport | None:
        """Rates and levels since the last call."""
        return self.pipeline.report()

    def state(self) -> dict[str, Tensor]:
        """Masters and moments, which all replicas agree on.

        Raises:
            CheckpointError: a replica has parted from the first.
        """
        first, *others = (each.drafting.optimizer.state() for each in self.pipeline.replicas)
        for rank, other in enumerate(others, 1):
            for name, value in first.items():
                if not torch.equal(value.cpu(), other[name].cpu()):
                    raise CheckpointError(f"drafter {rank} has parted from drafter 0 in '{name}'")
        return first

    @contextmanager
    def evaluating(self) -> Iterator[Trainer]:
        """A drafter beside its target model, while the pipeline reads none."""
        with self.pipeline.quiet():
            drafter = self.pipeline.replicas[0].drafting.drafter
            device = self._on.targets[0]
            if self._evaluating is None:
                copied = deepcopy(drafter).to(device)
                self._evaluating = Trainer(self._config, self._target, copied, device)
            elif self._evaluating.drafter is not drafter:
                self._evaluating.drafter.load_state_dict(drafter.state_dict())
            yield self._evaluating

    def close(self) -> tuple[str, ...]:
        """End all threads; names of those that hang."""
        return self.pipeline.close()

    def _first_replica(self, trainer: Trainer) -> Drafting:
        """The trainer itself where drafter and target are on one device."""
        device = self._on.drafters[0]
        if device == trainer.device:
            return trainer
        drafter = trainer.drafter.to(device)
        return Drafting(self._config, trainer.tables.to(device), drafter, device)

    def _copied(self, first: Drafting, device: torch.device) -> Drafting:
        drafter = deepcopy(first.drafter).to(device)
        tables = Tables(first.tables.embedding_VH, first.tables.head_VH).to(device)
        return Drafting(self._config, tables, drafter, device)


def _final_size(config: RunConfig, target: Target) -> int:
    """Width of final states in the pool; only a teacher needs them."""
    return target.shape.hidden_size if config.loss.needs_teacher else 0


def _free_bytes(device: torch.device) -> int:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return int(free)
