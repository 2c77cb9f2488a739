"""What goes wrong in a pipeline: hangs, failures, bad numbers, signals; told, and nothing left."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.pipelines import (
    has_reached,
    losses_of,
    nobody_is_left,
    opened_steps,
    pipeline_config,
)
from tests.support.training_run import (
    trainer_process,
    wait_for,
)
from trainer.config import read_config
from trainer.errors import ConfigError
from trainer.pipeline.crew import StageFailedError
from trainer.pipeline.lanes import CpuLane, Lane, Mark
from trainer.target import Reading
from trainer.train import train

pytestmark = pytest.mark.timeout(300)
STEPS = 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_pipeline_with_a_checkpoint_and_nothing_left(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = set(Path("/dev/shm").iterdir())
    config = pipeline_config(tmp_path, steps=100_000, checkpoint_every=100_000)
    output = tmp_path / "out"
    with trainer_process("train", config, cwd=tmp_path) as process:
        wait_for(partial(has_reached, output, 2), process)
        process.send_signal(number)
        assert process.wait(60) == 0
    result = json.loads((output / "result.json").read_bytes())
    assert (result["status"], result["reason"]) == ("stopped", f"asked to stop by {number.name}")
    assert Path(result["checkpoint"]).name == f"step-{result['step']:08d}"
    mine = {
        each for each in set(Path("/dev/shm").iterdir()) - before if str(process.pid) in each.name
    }
    assert mine == set()


class StuckMark:
    """A point that is passed when the test says so."""

    def __init__(self, lane: "StuckLane") -> None:
        self._lane = lane

    def is_done(self) -> bool:
        """Whether the test said so."""
        return self._lane.open.is_set()

    def wait(self) -> None:
        """Until the test says so."""
        self._lane.asked += 1
        assert self._lane.open.wait(120)
        self._lane.passed += 1


class StuckLane(CpuLane):
    """Works until ``after`` marks were asked for, then hangs as a lost device does."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._left = after
        self.open = threading.Event()
        self.asked = self.passed = 0

    def mark(self) -> Mark:
        """A point that is passed, or one that is not."""
        self._left -= 1
        return super().mark() if self._left >= 0 else StuckMark(self)

    @contextmanager
    def opened_in_the_end(self) -> Iterator[None]:
        """Whatever the test finds, no thread is left hanging."""
        try:
            yield
        finally:
            self.open.set()


def _stuck(lane: StuckLane, place: int) -> Callable[[torch.device], Lane]:
    made = iter(range(100))
    return lambda _device: lane if next(made) == place else CpuLane()


def test_a_target_that_hangs_loses_its_job_to_another_and_no_loss_changes(tmp_path: Path) -> None:
    two = {"targets": ["cpu", "cpu"], "hang_s": 3.0}
    with opened_steps(tmp_path / "sound", two, steps=STEPS) as steps:
        expected = losses_of(steps, STEPS)
    lane = StuckLane(after=1)
    stuck = opened_steps(tmp_path / "stuck", two, _stuck(lane, 0), steps=STEPS)
    with stuck as steps, lane.opened_in_the_end():
        stages = steps.pipeline._stages
        found = losses_of(steps, STEPS - 1)
        report = steps.report()
        assert report is not None
        assert report.requeued >= 1
        assert stages.arena.lost > 0
        # It comes back: nobody takes what it brings, and nothing breaks.
        lane.open.set()
        with stages.crew.changed:
            stages.crew.changed.wait_for(lambda: lane.passed == lane.asked, timeout=60)
        found += losses_of(steps, 1)
        assert found == expected
    stages.crew.check()
    notes = (tmp_path / "stuck/out/pipeline.jsonl").read_text().splitlines()
    assert {json.loads(note)["kind"] for note in notes} == {"hung"}


def test_the_only_target_that_hangs_fails_the_run_by_name(tmp_path: Path) -> None:
    lane = StuckLane(after=1)
    stuck = opened_steps(tmp_path, {"hang_s": 0.3}, _stuck(lane, 0), steps=STEPS)
    with stuck as steps, lane.opened_in_the_end():
        told = r"pipeline, target 0 \(cpu\): no answer for 0.3 s; no other target is left"
        with pytest.raises(StageFailedError, match=told):
            losses_of(steps, STEPS)


def test_a_stop_is_answered_in_the_stated_time_while_a_target_hangs(tmp_path: Path) -> None:
    lane = StuckLane(after=1)
    stuck = opened_steps(tmp_path, {"stop_s": 0.4}, _stuck(lane, 0), steps=100)
    with stuck as steps, lane.opened_in_the_end():
        start = time.monotonic()
        outcome: object = "none yet"
        while outcome is not None:
            outcome = steps.step(1e-3, lambda: True, then=1e-3)
        assert steps.is_settled
        assert time.monotonic() - start < 30
    assert nobody_is_left()


@pytest.mark.parametrize("stage", ["target 0 (cpu)", "copier of target 0 (cpu)", "schedule",
                                   "feeder 0 (cpu)", "drafter 0 (cpu)"])  # fmt: skip
def test_a_failure_in_any_thread_ends_all_and_names_the_stage(tmp_path: Path, stage: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the cable is out")

    with opened_steps(tmp_path, steps=STEPS) as steps:
        pipeline = steps.pipeline
        places: dict[str, tuple[object, str]] = {
            "target 0 (cpu)": (pipeline.targets[0], "_read"),
            "copier of target 0 (cpu)": (pipeline.targets[0], "_to_host"),
            "schedule": (pipeline, "_let_in"),
            "feeder 0 (cpu)": (pipeline._feeders[0], "_bring"),
            "drafter 0 (cpu)": (pipeline._drafters[0].drafting, "accumulate"),
        }
        setattr(*places[stage], fail)
        with pytest.raises(StageFailedError) as told:
            losses_of(steps, STEPS)
        assert str(told.value) == f"pipeline, {stage}: OSError: the cable is out"
    assert nobody_is_left()


def test_only_one_thread_compiles_at_a_time(tmp_path: Path) -> None:
    """A first pass that fails when another is in one, as tracers do."""
    both = {"drafters": ["cpu"] * 4}
    inside = threading.Lock()
    firsts: list[str] = []
    with opened_steps(tmp_path, both, rows_per_step=4, steps=3) as steps:
        for replica in steps.pipeline.replicas:
            drafting = replica.drafting
            drafting.accumulate = partial(  # type: ignore[method-assign]
                _tracing, drafting.accumulate, inside, firsts
            )
        losses_of(steps, 3)
    assert len(set(firsts[:4])) == 4


def _tracing(
    accumulate: Callable[..., Any], inside: threading.Lock, firsts: list[str], *given: Any
) -> Any:
    name = threading.current_thread().name
    if name in firsts:
        return accumulate(*given)
    assert inside.acquire(blocking=False), "two threads trace at once"
    try:
        firsts.append(name)
        return accumulate(*given)
    finally:
        inside.release()


def test_documents_that_are_not_finite_are_left_out_and_the_rest_is_trained(tmp_path: Path) -> None:
    with opened_steps(tmp_path, steps=STEPS) as steps:
        worker = steps.pipeline.targets[0]
        read = worker._read

        def broken(ids_BS: Tensor) -> Reading:
            reading = read(ids_BS)
            reading.taps_BSF[0, 0, 0] = torch.nan
            return reading

        worker._read = broken
        found = losses_of(steps, STEPS)
        report = steps.report()
    assert all(loss > 0 for loss in found)
    assert report is not None
    assert report.quarantined >= 4
    lines = (tmp_path / "out/pipeline.jsonl").read_text().splitlines()
    assert {json.loads(line)["reason"] for line in lines} == {"not finite"}


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ({"target": ["cpu"]}, r"pipeline.target: unknown key; did you mean 'targets'"),
        ({"targets": []}, r"pipeline.targets: names no device"),
        ({"targets": ["gpu0"]}, r"pipeline.targets: 'gpu0' is none of 'auto', 'cpu'"),
        ({"drafters": ["cuda:99"]}, r"pipeline.drafters: 'cuda:99' asked for, but \d+ GPUs"),
        ({"drafters": ["cpu", "cpu"]}, r"pipeline.drafters: 2 drafters cannot share 1 passes"),
        ({"pool_bytes": 0}, r"pipeline.pool_bytes: 0 is not positive"),
        ({"buckets": [64, 32]}, r"pipeline.buckets: \[64, 32\] are not ascending"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(
    tmp_path: Path, pipeline: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(read_config(pipeline_config(tmp_path, pipeline)), report=lambda _: None)
