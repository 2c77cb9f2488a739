"""Whole runs of the pipeline: the same losses whoever is faster, exact resumes, clean ends."""

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.lanes import SimulatedDevice
from tests.support.pipelines import losses_of, opened_steps, pipeline_config
from tests.support.tiny_model import write_model
from tests.support.training_run import (
    heartbeat,
    losses,
    run_trainer,
    step_of,
    trainer_process,
    wait_for,
    write_config,
)
from trainer.config import read_config
from trainer.data import prepare
from trainer.errors import CheckpointError, ConfigError
from trainer.heartbeat import Metric
from trainer.pipeline.crew import StageFailedError
from trainer.pipeline.lanes import CpuLane, Lane, Mark
from trainer.pipeline.order import order_epoch
from trainer.run import open_run
from trainer.schedule import Place, Row
from trainer.target import Reading
from trainer.train import train

pytestmark = pytest.mark.timeout(300)
STEPS = 10


def _nobody_is_left() -> bool:
    return not [each.name for each in threading.enumerate() if each.name.startswith("pipeline")]


def _train(directory: Path, pipeline: dict[str, Any] | None = None, **changes: Any) -> list[Metric]:
    metrics: list[Metric] = []
    config = read_config(pipeline_config(directory, pipeline, **changes))
    assert train(config, report=metrics.append).status == "finished"
    assert _nobody_is_left()
    return metrics


@dataclass
class SlowLane(CpuLane):
    """Takes its time before each piece of work, by a draw of its own."""

    most_s: float
    seed: int

    def __post_init__(self) -> None:
        super().__init__()
        self._draw = random.Random(self.seed)  # noqa: S311 - chooses delays
        self._never = threading.Event()

    def run(self, work: Callable[[], None]) -> None:
        """Wait, then do it."""
        self._never.wait(self._draw.random() * self.most_s)
        work()


PLACES = {
    "target": (0, 2),
    "one target": (0,),
    "copier": (1, 3),
    "drafter": (4, 6),
    "one drafter": (4,),
    "feeder": (5, 7),
}
"""Numbers of the lanes that a pipeline of two targets and two drafters asks for, by stage."""


def _slow(seed: int, slow: str) -> Callable[[torch.device], Lane]:
    """Lanes of which those of one stage are a hundred times slower than the rest."""
    made = iter(range(100))

    def lane(_device: torch.device) -> Lane:
        number = next(made)
        return SlowLane(0.01 if number in PLACES[slow] else 0.0001, seed * 100 + number)

    return lane


def test_losses_do_not_depend_on_who_is_faster(tmp_path: Path) -> None:
    """The timing matrix: each stage slow in turn, and devices that are late in random order."""
    both = {"targets": ["cpu", "cpu"], "drafters": ["cpu", "cpu"], "queue": 1}
    common: dict[str, Any] = {"steps": STEPS, "rows_per_step": 4}
    found: list[list[float]] = []
    with opened_steps(tmp_path / "plain", both, **common) as steps:
        found.append(losses_of(steps, STEPS))
    for seed, slow in enumerate(PLACES):
        with opened_steps(tmp_path / slow, both, _slow(seed, slow), **common) as steps:
            found.append(losses_of(steps, STEPS))
    for seed in range(4):
        device = SimulatedDevice(seed)
        with (
            device.playing(),
            opened_steps(tmp_path / str(seed), both, device.lane, **common) as steps,
        ):
            found.append(losses_of(steps, STEPS))
    assert all(each == found[0] for each in found)
    assert len(set(found[0])) == STEPS


def test_the_pipeline_computes_what_the_plain_step_computes(tmp_path: Path) -> None:
    """The same rows, one step at a time, by the loop that reads for itself."""
    with opened_steps(tmp_path, steps=6, rows_per_step=2) as steps:
        rows = _rows(steps, count=12)
        ours = losses_of(steps, 6)
        opened = open_run(steps._config)
    trainer, corpus = opened.trainer(), opened.data.training
    theirs = [float(trainer.step(rows[n : n + 2], corpus, 1e-3).loss) for n in range(0, 12, 2)]
    assert ours == pytest.approx(theirs, rel=1e-5)


def _rows(steps: Any, count: int) -> list[Row]:
    stages = steps.pipeline._stages
    order = order_epoch(stages.corpus.lengths, stages.limits, seed=0, epoch=0)
    found = [Row(each, Place(0, number)) for number, each in enumerate(order.rows)]
    if len(found) < count:
        more = order_epoch(stages.corpus.lengths, stages.limits, seed=0, epoch=1)
        found += [Row(each, Place(1, number)) for number, each in enumerate(more.rows)]
    return found[:count]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_two_drafters_are_one_with_twice_the_batch(tmp_path: Path, precision: str) -> None:
    """Bit for bit, uneven masks and all; both replicas end with the same weights."""
    common: dict[str, Any] = {"steps": 12, "rows_per_step": 2, "precision": precision}
    one = _train(tmp_path / "one", **common)
    both = _train(tmp_path / "two", {"drafters": ["cpu", "cpu"]}, **common)
    assert [each.loss for each in one] == [each.loss for each in both]
    assert [each.grad_norm for each in one] == [each.grad_norm for each in both]
    ends = [
        (tmp_path / name / "out/checkpoints/step-00000012/training.safetensors").read_bytes()
        for name in ("one", "two")
    ]
    assert ends[0] == ends[1]


def test_two_drafters_of_fixed_shapes_are_one_with_two_rows_a_pass(tmp_path: Path) -> None:
    """What GPUs replay as graphs, here step by step."""
    common: dict[str, Any] = {"steps": 8, "rows_per_step": 2, "compile": True}
    one = _train(tmp_path / "one", rows_per_pass=2, **common)
    both = _train(tmp_path / "two", {"drafters": ["cpu", "cpu"]}, **common)
    assert [each.loss for each in both] == pytest.approx([each.loss for each in one], rel=1e-5)


def test_drafters_that_parted_are_not_saved_as_one(tmp_path: Path) -> None:
    with opened_steps(tmp_path, {"drafters": ["cpu", "cpu"]}, rows_per_step=2) as steps:
        losses_of(steps, 2)
        with torch.no_grad():
            next(iter(steps.pipeline.replicas[1].drafting.optimizer.masters.values())).add_(1e-3)
        with pytest.raises(CheckpointError, match="drafter 1 has parted from drafter 0 in 'master"):
            steps.state()


def test_a_schedule_of_several_epochs_is_trained_position_by_position(tmp_path: Path) -> None:
    """Each epoch's rows hold each document once, and tokens trained are those of the rows."""
    metrics = _train(tmp_path, {"min_ready": 20}, steps=36, log_every=1)
    with opened_steps(tmp_path / "again") as steps:
        stages = steps.pipeline._stages
        rows: list[tuple[int, ...]] = []
        for epoch in range(4):
            limits = stages.limits.__class__(**{**stages.limits.__dict__, "min_ready": 20})
            order = order_epoch(stages.corpus.lengths, limits, seed=0, epoch=epoch)
            assert sorted(chain.from_iterable(order.rows)) == list(range(32))
            kept = json.loads((tmp_path / f"out/schedule/epoch-{epoch:05d}.json").read_bytes())
            assert kept["sha256"] == order.digest
            assert kept["order"] == list(order.order)
            rows += order.rows
    assert [metric.tokens for metric in metrics] == [40 * len(row) for row in rows[:36]]


def test_a_stopped_run_goes_on_in_the_middle_of_an_epoch_digit_for_digit(tmp_path: Path) -> None:
    whole = _train(tmp_path / "whole", steps=30)
    config = read_config(pipeline_config(tmp_path / "parts", steps=30))
    for stop_at in (4, 17):
        # The pool, the queue and open rows hold documents at these steps.
        def stop_early(metric: Metric, stop_at: int = stop_at) -> None:
            if metric.step == stop_at:
                (tmp_path / "parts" / "out" / "stop").touch()

        assert train(config, report=stop_early).status == "stopped"
        assert _nobody_is_left()
    assert train(config, report=lambda _: None).status == "finished"
    found = [float(each) for each in losses(tmp_path / "parts" / "out").values()]
    assert found == [metric.loss for metric in whole]


def test_a_killed_pipeline_goes_on_with_the_losses_of_one_that_was_not(tmp_path: Path) -> None:
    """SIGKILL at a moment that no code of ours chose; two drafters, two targets."""
    pipeline = {"targets": ["cpu", "cpu"], "drafters": ["cpu", "cpu"]}
    common = {"steps": 40, "rows_per_step": 2, "checkpoint_every": 3}
    _train(tmp_path / "whole", pipeline, **common)
    config = pipeline_config(tmp_path / "killed", pipeline, **common)
    output = tmp_path / "killed" / "out"
    with trainer_process("train", config, cwd=tmp_path) as process:
        wait_for(partial(_has_reached, output, 13), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert run_trainer("train", config, cwd=tmp_path).returncode == 0
    assert heartbeat(output)["resumed_from_step"] > 0
    assert losses(output) == losses(tmp_path / "whole" / "out")


def _has_reached(output: Path, step: int) -> bool:
    return step_of(output) >= step


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_pipeline_with_a_checkpoint_and_nothing_left(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = set(Path("/dev/shm").iterdir())
    config = pipeline_config(tmp_path, steps=100_000, checkpoint_every=100_000)
    output = tmp_path / "out"
    with trainer_process("train", config, cwd=tmp_path) as process:
        wait_for(partial(_has_reached, output, 2), process)
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
            outcome = steps.step(1e-3, lambda: True)
        assert time.monotonic() - start < 30
    assert _nobody_is_left()


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
    assert _nobody_is_left()


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


def test_the_target_model_is_what_it_was(tmp_path: Path) -> None:
    with opened_steps(tmp_path, {"targets": ["cpu", "cpu"]}, steps=STEPS) as steps:
        model = steps._target.backbone.model  # type: ignore[attr-defined]
        before = {name: value.clone() for name, value in model.state_dict().items()}
        ids = torch.arange(12)[None]
        said = steps._target.logits(ids)
        losses_of(steps, STEPS)
        assert torch.equal(steps._target.logits(ids), said)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_hugging_face_model_is_read_by_two_workers_as_by_one(tmp_path: Path) -> None:
    """Each worker has a copy of its own, hooks and all."""
    write_model(tmp_path / "model")
    common: dict[str, Any] = {
        "steps": 6,
        "target": {"kind": "safetensors", "path": str(tmp_path / "model"), "dtype": "float32"},
        "drafter": {"block_size": 4, "target_layer_ids": [0, 2], "mask_token_id": 263},
        "preflight": "skip",
    }
    data = tmp_path / "data"
    _prepared(data)
    common["data"] = {"kind": "prepared", "path": str(data), "evaluation_share": 0.0}
    one = _train(tmp_path / "one", **common)
    two = _train(tmp_path / "two", {"targets": ["cpu", "cpu"]}, **common)
    assert [each.loss for each in one] == [each.loss for each in two]


def _prepared(data: Path) -> None:
    """Documents of many lengths."""
    draw = random.Random(0)  # noqa: S311 - makes text
    samples = []
    for _ in range(40):
        length = draw.randint(8, 100)
        ids = [draw.randrange(260) for _ in range(length)]
        samples.append({"input_ids": ids, "loss_mask": [0, 0, *[1] * (length - 2)]})
    source = data.with_suffix(".jsonl")
    source.write_text("\n".join(map(json.dumps, samples)) + "\n")
    prepare([source], None, data, max_length=128, template_options={})


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


def test_a_run_reports_its_stages_and_decodes_while_the_pipeline_waits(tmp_path: Path) -> None:
    evaluation = {"every": 4, "prompts": 2, "new_tokens": 8}
    metrics = _train(tmp_path, steps=8, evaluation=evaluation)
    lines = (tmp_path / "out/evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8]
    told = heartbeat(tmp_path / "out")["pipeline"]
    assert told["bottleneck"] in {"target", "copy", "draft"}
    assert told["draft_rate"] > 0
    assert told["target_rate"] > 0
    assert metrics[-1].pipeline == told
    golden = Path(__file__).parents[1] / "golden" / "trainer_contract"
    contract = json.loads((golden / "heartbeat_pipeline.json").read_bytes())["pipeline"]
    assert {key: type(value) for key, value in told.items()} == {
        key: type(value) for key, value in contract.items()
    }
    last = (tmp_path / "out/metrics.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["pipeline"] == told


def test_a_drafter_apart_from_its_target_is_evaluated_with_its_own_weights(tmp_path: Path) -> None:
    """As on two GPUs, where the target's device needs a copy of the drafter."""
    with opened_steps(tmp_path, steps=STEPS) as steps:
        losses_of(steps, 2)
        steps._evaluating = None
        for _ in range(2):
            losses_of(steps, 2)
            with steps.evaluating() as trainer:
                drafter = steps.pipeline.replicas[0].drafting.drafter
                assert trainer.drafter is not drafter
                for name, value in drafter.state_dict().items():
                    assert torch.equal(trainer.drafter.state_dict()[name], value)


def test_a_teacher_comes_through_the_pool(tmp_path: Path) -> None:
    found = _train(tmp_path, steps=16, loss={"objective": "forward_kl"})
    assert found[-1].loss < found[0].loss


def test_a_checkpoint_of_another_order_is_refused(tmp_path: Path) -> None:
    _train(tmp_path, steps=4)
    other = read_config(pipeline_config(tmp_path, {"min_ready": 3}, steps=8))
    with pytest.raises(CheckpointError, match=r"is another run's \(pipeline: "):
        train(other, report=lambda _: None)
    plain = read_config(write_config(tmp_path, steps=8))
    with pytest.raises(CheckpointError, match=r"is another run's \(pipeline: "):
        train(plain, report=lambda _: None)


def test_other_devices_go_on_from_the_same_checkpoint(tmp_path: Path) -> None:
    whole = _train(tmp_path / "whole", steps=10, rows_per_step=2)
    _train(tmp_path / "moved", steps=5, rows_per_step=2, optimizer={"schedule": "constant"})
    more = {"targets": ["cpu", "cpu"], "drafters": ["cpu", "cpu"]}
    _train(tmp_path / "moved", more, steps=10, rows_per_step=2, optimizer={"schedule": "constant"})
    assert len(losses(tmp_path / "moved/out")) == len(whole)


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
