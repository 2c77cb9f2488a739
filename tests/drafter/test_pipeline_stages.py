"""Each stage by itself, on devices that are late, small, slow, or hang."""

import gc
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.lanes import SimulatedDevice
from tests.support.pipelines import pipeline_config
from trainer.clock import SystemClock
from trainer.config import RunConfig, read_config
from trainer.corpus import Corpus
from trainer.pipeline.building import stages_for
from trainer.pipeline.crew import StageFailedError
from trainer.pipeline.graphs import Captured, GraphedRead
from trainer.pipeline.jobs import Job, Wanted
from trainer.pipeline.lanes import CpuLane, Lane
from trainer.pipeline.pool import Key
from trainer.pipeline.stages import Stages
from trainer.pipeline.targets import TargetWorker
from trainer.run import open_run
from trainer.target import Reading, Target

LENGTH = 32
TAPS = (0, 2)


@dataclass
class IdentityTarget:
    """A target that says which token stands where: tap l of token t at place p is (t, p, l)."""

    width: int
    read_shapes: list[tuple[int, int]] = field(default_factory=list)
    most_tokens: int = 1 << 30
    buffer: Tensor | None = None

    def __call__(self, ids_BS: Tensor) -> Reading:
        """Taps ``(B, S, 2 * width)``; re-uses one buffer when there is one."""
        if ids_BS.numel() > self.most_tokens:
            raise torch.OutOfMemoryError("the simulated device is full")
        self.read_shapes.append((ids_BS.shape[0], ids_BS.shape[1]))
        shape = (*ids_BS.shape, len(TAPS) * self.width)
        taps = torch.zeros(shape)
        for slot, layer in enumerate(TAPS):
            start = slot * self.width
            taps[..., start] = ids_BS.float()
            taps[..., start + 1] = torch.arange(ids_BS.shape[1]).float()
            taps[..., start + 2] = layer
        if self.buffer is not None:
            self.buffer[: taps.numel()].copy_(taps.flatten())
            taps = self.buffer[: taps.numel()].view(shape)
        return Reading(taps, torch.zeros(*ids_BS.shape, 0))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Target, Corpus]:
    config = read_config(
        pipeline_config(
            tmp_path_factory.mktemp("stages"), row_tokens=64,
            data={"kind": "synthetic", "documents": 64, "length": 20},
            drafter={"block_size": 4, "target_layer_ids": list(TAPS), "num_hidden_layers": 1},
        )
    )  # fmt: skip
    run = open_run(config)
    return config, run.target(), run.data.training


@dataclass
class Stage:
    """A target worker alone, with its shared parts."""

    config: RunConfig
    stages: Stages
    target: IdentityTarget
    worker: TargetWorker
    directory: Path

    def jobs(self, count: int, *, size: int = 4) -> None:
        """Queue jobs of ``size`` documents each."""
        stages = self.stages
        with stages.crew.changed:
            for number in range(count):
                documents = tuple(range(number * size, (number + 1) * size))
                wanted = tuple(Wanted(each, stages.arena.lease(20)) for each in documents)
                stages.jobs.put_back([Job(0, documents, LENGTH, wanted)])

    def start(self) -> None:
        """Start the worker and its copier."""
        self.stages.crew.start("target", self.worker.work)
        self.stages.crew.start("copier", self.worker.copy)

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait for something, or fail with what ended the crew."""
        crew, end = self.stages.crew, time.monotonic() + 60
        with crew.changed:
            while not ready() and not crew.is_ended and time.monotonic() < end:
                # Not everything that is waited for here tells of itself.
                crew.changed.wait(0.01)
        crew.check()
        assert ready()

    def features(self, document: int) -> Tensor:
        """What was published of a document."""
        ready = self.stages.pool._ready[Key(0, document)]
        return torch.cat([view.clone() for _, view in self.stages.arena.views(ready.lease)])

    def notes(self) -> list[dict[str, Any]]:
        """What was recorded."""
        path = self.directory / "pipeline.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def stage(
    opened: tuple[RunConfig, Target, Corpus], tmp_path: Path
) -> Iterator[Callable[..., Stage]]:
    config, target, corpus = opened
    made: list[Stage] = []

    def make(
        lane: Lane | None = None, copy_lane: Lane | None = None, *,
        free: Callable[[], int] | None = None, copies: int = 2,
    ) -> Stage:  # fmt: skip
        assert config.pipeline is not None
        chosen = replace(config, pipeline=replace(config.pipeline, copies=copies))
        stages = stages_for(chosen, target, corpus, tmp_path, SystemClock(), is_pinned=False)
        with stages.crew.changed:
            for slab in stages.arena._slabs:
                slab[1].fill_(torch.nan)
        identity = IdentityTarget(target.shape.hidden_size)
        worker = TargetWorker(
            "target 0", identity, lane or CpuLane(), copy_lane or CpuLane(), stages, free_bytes=free
        )
        made.append(Stage(chosen, stages, identity, worker, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.stages.crew.end()
        assert each.stages.crew.join(30) == ()


def _is_right(found: Stage, document: int) -> bool:
    """Row t is token t, taps stand in their order, and no padding is there."""
    ids = found.stages.corpus[document].ids
    features = found.features(document).view(len(ids), len(TAPS), -1)
    return all(
        torch.equal(features[:, slot, 0], ids.float())
        and torch.equal(features[:, slot, 1], torch.arange(len(ids)).float())
        and bool((features[:, slot, 2] == layer).all())
        for slot, layer in enumerate(TAPS)
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_published_is_whole_and_in_place_however_late_the_device_is(
    stage: Callable[..., Stage], seed: int
) -> None:
    """Memory holds NaN before; forward re-uses one buffer; lanes overtake each other."""
    device = SimulatedDevice(seed)
    found = stage(device.lane(), device.lane())
    found.target.buffer = torch.full((4 * LENGTH * 64,), torch.nan)
    found.jobs(6)
    with device.playing():
        found.start()
        found.wait(lambda: found.stages.pool.ready == 24)
    assert all(_is_right(found, document) for document in range(24))
    assert found.stages.pool.quarantined == 0


def test_packing_on_a_lane_of_its_own_would_read_what_the_next_forward_overwrites() -> None:
    """The simulated device shows the fault that the order of the stages prevents."""
    is_wrong = [_packed_apart(SimulatedDevice(seed)) != [0.0, 1.0, 2.0] for seed in range(20)]
    assert any(is_wrong)


def _packed_apart(device: SimulatedDevice) -> list[float]:
    """What three forwards into one buffer left, packed on another lane that asks for no mark."""
    forward, pack = device.lane(), device.lane()
    buffer, packed = torch.zeros(1), torch.zeros(3)
    for number in range(3):
        forward.run(partial(_copy, buffer, torch.tensor([float(number)])))
        pack.run(partial(_copy, packed[number : number + 1], buffer))
    marks = forward.mark(), pack.mark()
    with device.playing():
        for mark in marks:
            mark.wait()
    return packed.tolist()


def _copy(target: Tensor, source: Tensor) -> None:
    target.copy_(source)


def test_nothing_is_published_before_its_copy_has_ended(stage: Callable[..., Stage]) -> None:
    device = SimulatedDevice(0)
    found = stage(CpuLane(), device.lane())
    device.is_frozen = True
    found.jobs(1)
    with device.playing():
        found.start()
        found.wait(lambda: found.stages.copies.most == 1)
        assert found.stages.pool.ready == 0
        device.thaw()
        found.wait(lambda: found.stages.pool.ready == 4)


def test_what_was_captured_is_gone_before_the_next_forward(stage: Callable[..., Stage]) -> None:
    found = stage()
    captured: list[weakref.ref[Tensor]] = []
    alive: list[int] = []
    read = found.target.__call__

    def watched(ids_BS: Tensor) -> Reading:
        gc.collect()
        alive.append(sum(each() is not None for each in captured))
        reading = read(ids_BS)
        captured.append(weakref.ref(reading.taps_BSF))
        return reading

    found.worker._read = watched
    found.jobs(5)
    found.start()
    found.wait(lambda: found.stages.pool.ready == 20)
    assert alive == [0] * 5


def test_a_slow_copier_holds_up_the_target_at_the_permitted_number(
    stage: Callable[..., Stage],
) -> None:
    device = SimulatedDevice(0)
    found = stage(CpuLane(), device.lane(), copies=2)
    device.is_frozen = True
    found.jobs(8)
    with device.playing():
        found.start()
        found.wait(lambda: len(found.target.read_shapes) == 3)
        # The third is packed and waits for a permit; the fourth is not begun.
        assert (found.stages.copies.most, found.stages.jobs.waiting) == (2, 5)
        device.thaw()
        found.wait(lambda: found.stages.pool.ready == 32)
    assert found.stages.copies.most == 2


def test_a_slow_target_takes_fewer_jobs_and_none_twice(stage: Callable[..., Stage]) -> None:
    """One queue for both: the slow one holds up its own jobs alone."""
    found = stage()
    turn = threading.Event()
    slow = IdentityTarget(found.target.width)

    def slowly(ids_BS: Tensor) -> Reading:
        # Until the other has nothing left to do.
        assert turn.wait(60)
        return slow(ids_BS)

    other = TargetWorker("target 1", slowly, CpuLane(), CpuLane(), found.stages)
    found.jobs(15)
    found.stages.crew.start("target 1", other.work)
    found.stages.crew.start("copier 1", other.copy)
    found.wait(lambda: found.stages.jobs.waiting == 14)
    found.start()
    found.wait(lambda: found.stages.pool.ready == 56)
    turn.set()
    found.wait(lambda: found.stages.pool.ready == 60)
    assert (len(slow.read_shapes), len(found.target.read_shapes)) == (1, 14)
    assert all(_is_right(found, document) for document in range(60))


def test_another_shape_than_a_graphs_is_read_eagerly_and_counted() -> None:
    """The graph is played by one that refuses every shape but its own."""
    read = IdentityTarget(4)
    replayed: list[tuple[int, int]] = []

    class Played(GraphedRead):
        def _capture(self, shape: tuple[int, int], ids_BS: Tensor) -> None:
            self._graphs[shape] = Captured(_Graph(replayed, shape), ids_BS.clone(), read(ids_BS))

    graphed = Played(read, {(4, 32), (2, 64)}, threading.RLock())
    for rows, length in ((4, 32), (3, 32), (4, 32), (2, 64), (2, 32), (1, 64)):
        reading = graphed(torch.zeros(rows, length, dtype=torch.int64))
        assert reading.taps_BSF.shape[:2] == (rows, length)
    assert replayed == [(4, 32), (4, 32), (2, 64)]
    assert graphed.eager == 3


@dataclass
class _Graph:
    """A graph without a GPU: counts its replays."""

    replayed: list[tuple[int, int]]
    shape: tuple[int, int]

    def replay(self) -> None:
        """Count."""
        self.replayed.append(self.shape)


def test_a_batch_that_does_not_fit_in_memory_is_read_in_halves(stage: Callable[..., Stage]) -> None:
    found = stage()
    found.target.most_tokens = 2 * LENGTH
    found.jobs(3)
    found.start()
    found.wait(lambda: found.stages.pool.ready == 12)
    assert all(_is_right(found, document) for document in range(12))
    assert set(found.target.read_shapes) == {(2, LENGTH)}
    # Only the first job found out; the others were halved before they were read.
    assert found.stages.meters.requeued == 1
    assert [(note["kind"], note["token_budget"]) for note in found.notes()] == [
        ("out of memory", 2 * LENGTH)
    ]


def test_one_document_that_does_not_fit_fails_the_stage_by_name(
    stage: Callable[..., Stage],
) -> None:
    found = stage()
    found.target.most_tokens = LENGTH - 1
    found.jobs(1)
    found.start()
    with pytest.raises(StageFailedError, match=r"pipeline, target: OutOfMemoryError: one document"):
        found.wait(lambda: False)


def test_the_largest_batch_is_tried_first_and_leaves_headroom(stage: Callable[..., Stage]) -> None:
    free = [100, 700, 900]
    found = stage(free=lambda: free.pop(0))
    found.worker.warm(headroom_bytes=800)
    assert found.target.read_shapes == [(4, 64), (2, 64), (1, 64)]
    assert found.worker.most_tokens == 64
    assert free == []


def test_features_that_are_not_finite_are_set_apart_and_recorded(
    stage: Callable[..., Stage],
) -> None:
    found = stage()
    read = found.target.__call__

    def broken(ids_BS: Tensor) -> Reading:
        reading = read(ids_BS)
        reading.taps_BSF[1, 3, 5] = torch.inf
        reading.taps_BSF[2, 4, 6] = torch.nan
        reading.taps_BSF[3, LENGTH - 1] = torch.nan  # padding, which is nobody's
        return reading

    found.worker._read = broken
    found.jobs(1)
    found.start()
    found.wait(lambda: found.stages.pool.ready == 4)
    states = [found.stages.pool._ready[Key(0, each)].is_finite for each in range(4)]
    assert states == [True, False, False, True]
    found.wait(lambda: len(found.notes()) == 2)
    assert [(note["kind"], note["document"]) for note in found.notes()] == [
        ("skipped", 1),
        ("skipped", 2),
    ]
