"""Whole runs of the pipeline: the same losses whoever is faster, exact resumes, clean ends."""

import json
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.lanes import SimulatedDevice
from tests.support.pipelines import (
    has_reached,
    losses_of,
    nobody_is_left,
    opened_steps,
    pipeline_config,
)
from tests.support.tiny_model import write_model
from tests.support.training_run import (
    heartbeat,
    losses,
    run_trainer,
    trainer_process,
    wait_for,
    write_config,
)
from trainer.config import read_config
from trainer.data import prepare
from trainer.errors import CheckpointError
from trainer.heartbeat import Metric
from trainer.pipeline.lanes import CpuLane, Lane
from trainer.pipeline.order import order_epoch
from trainer.run import open_run
from trainer.schedule import Place, Row
from trainer.train import train

pytestmark = pytest.mark.timeout(300)
STEPS = 10


def _train(directory: Path, pipeline: dict[str, Any] | None = None, **changes: Any) -> list[Metric]:
    metrics: list[Metric] = []
    config = read_config(pipeline_config(directory, pipeline, **changes))
    assert train(config, report=metrics.append).status == "finished"
    assert nobody_is_left()
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
        assert nobody_is_left()
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
        wait_for(partial(has_reached, output, 13), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert run_trainer("train", config, cwd=tmp_path).returncode == 0
    assert heartbeat(output)["resumed_from_step"] > 0
    assert losses(output) == losses(tmp_path / "whole" / "out")


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
