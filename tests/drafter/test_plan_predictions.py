"""What the plan predicts is held against what torch really allocates and writes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.support.training_run import write_config
from trainer.cli import main
from trainer.config import RunConfig, read_config
from trainer.errors import ConfigError
from trainer.plan import (
    Device,
    drafter_parameters,
    kept_for_backward,
    make_plan,
    measure_device,
    target_parameters,
)
from trainer.reading import Json, build
from trainer.run import open_run
from trainer.schedule import Place, Row
from trainer.target import TargetShape

RUNS = Path(__file__).parents[2] / "docs" / "runs" / "2026-11-30-h200-training"
LARGE = Device("large", 1 << 40, 100.0, 1000.0)
# As published for Qwen3-8B.
QWEN3_8B = TargetShape(4096, 151936, 36, 32, 8, 128, 12288, 1e6, 1e-6, 40960)


def _qwen3_run(**changes: Json) -> RunConfig:
    table: dict[str, Json] = {
        "run_id": "r",
        "output_dir": "out",
        "steps": 100,
        "target": {"kind": "safetensors", "path": "none"},
        "precision": "bfloat16",
        "row_tokens": 8192,
        "rows_per_step": 1,
        "anchors": {"per_row": 512},
        "attention": "flex",
        "drafter": {
            "block_size": 16,
            "num_hidden_layers": 5,
            "tap_count": 5,
            "mask_token_id": 151669,
        },
    }
    return build(RunConfig, {**table, **changes})


def _saved_bytes(run: Callable[[], Tensor], frozen: set[int]) -> int:
    """Bytes of distinct storages that autograd keeps, parameters and inputs not counted."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in frozen:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
        # The result is alive here, so no storage was given to a second tensor while counting.
        assert result.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_autograd_keeps_is_predicted_within_a_tenth(tmp_path: Path, precision: str) -> None:
    config = read_config(
        write_config(
            tmp_path,
            precision=precision,
            row_tokens=320,
            anchors={"per_row": 40},
            drafter={"block_size": 8, "target_layer_ids": [0, 2], "num_hidden_layers": 3},
            target={"kind": "random", "num_hidden_layers": 4, "hidden_size": 64, "vocab_size": 64},
        )
    )
    opened = open_run(config)
    trainer = opened.trainer()
    (batch,) = trainer.passes([Row(tuple(range(8)), Place())], opened.data.training)
    features = trainer.read(batch)
    frozen = {each.untyped_storage().data_ptr() for each in trainer.drafter.parameters()}
    frozen.add(features.taps_NSF.untyped_storage().data_ptr())
    found = _saved_bytes(lambda: trainer.draft(batch, features), frozen)
    assert int(batch.layout.valid.sum()) == 40
    assert kept_for_backward(config, opened.shape) == pytest.approx(found, rel=0.1)


def test_parameters_are_counted_exactly(tmp_path: Path) -> None:
    opened = open_run(read_config(write_config(tmp_path)))
    drafter = opened.trainer().drafter
    assert drafter_parameters(opened.shape) == sum(each.numel() for each in drafter.parameters())


def test_a_checkpoint_is_as_large_as_predicted(tmp_path: Path) -> None:
    path = write_config(tmp_path, steps=2)
    assert main(["train", str(path)]) == 0
    config = read_config(path)
    opened = open_run(config)
    plan = make_plan(config, opened.backbone.shape, LARGE, ties_head=False, is_random=True)
    written = tmp_path / "out" / "checkpoints" / "step-00000002" / "training.safetensors"
    assert written.stat().st_size == pytest.approx(plan.checkpoint_bytes, rel=0.05)


def test_the_published_shape_costs_what_its_authors_say() -> None:
    """8.19 B parameters, a drafter of 1.05 B; peers measured about 180 ms a step on an H200."""
    assert target_parameters(QWEN3_8B, ties_head=False) == pytest.approx(8.19e9, rel=0.01)
    device = Device("H200", 139 << 30, 800.0, 4270.0)
    plan = make_plan(_qwen3_run(), QWEN3_8B, device, ties_head=False, is_random=False)
    assert plan.drafter_parameters == pytest.approx(1.0486e9, rel=1e-3)
    drafter_s = plan.seconds_per_step - plan.work.target / 800e12
    assert 0.09 < drafter_s < 0.18
    assert plan.fits


def test_fused_kernels_hold_what_an_h200_measured_and_at_most_an_eighth_more() -> None:
    """21.8 GiB in ``docs/runs/2026-11-30-h200-training``, the target's two tables among them."""
    lines = (RUNS / "against-peers.jsonl").read_text(encoding="utf-8").splitlines()
    (found,) = (
        each for each in map(json.loads, lines)
        if (each["kind"], each["contestant"], each["shape"], each.get("objective"))
        == ("drafter", "ours", "qwen3-8b", "cross_entropy")
    )  # fmt: skip
    config = _qwen3_run(attention="auto")
    device = Device("H200", 139 << 30, 800.0, 4270.0, fused=True)
    plan = make_plan(config, QWEN3_8B, device, ties_head=False, is_random=False)
    tables = 2 * QWEN3_8B.vocab_size * QWEN3_8B.hidden_size * 2
    held = plan.memory.total - plan.memory.target - plan.memory.features + tables
    assert 1.0 <= held / (found["peak_gib"] * (1 << 30)) <= 1.125
    plain = replace(device, fused=False)
    less = make_plan(config, QWEN3_8B, plain, ties_head=False, is_random=False)
    assert plan.memory_total < less.memory_total


def test_a_step_that_does_not_fit_is_said_not_to_and_a_smaller_one_is_picked() -> None:
    config = _qwen3_run(rows_per_step=8, rows_per_pass=8)
    device = Device("80 GB", 80 << 30, 800.0, 2000.0)
    plan = make_plan(config, QWEN3_8B, device, ties_head=False, is_random=False)
    assert not plan.fits
    assert (plan.rows_per_pass, plan.anchors_per_row) != (8, 512)
    picked = replace(
        config,
        rows_per_pass=plan.rows_per_pass,
        anchors=replace(config.anchors, per_row=plan.anchors_per_row),
    )
    smaller = make_plan(picked, QWEN3_8B, device, ties_head=False, is_random=False)
    assert smaller.fits


def test_a_device_too_small_for_the_target_is_an_error_that_says_so() -> None:
    small = Device("small", 8 << 30, 100.0, 500.0)
    with pytest.raises(ConfigError, match=r"^row_tokens: 8192 do not fit 8.0 GiB"):
        make_plan(_qwen3_run(), QWEN3_8B, small, ties_head=False, is_random=False)


def test_more_anchors_never_cost_less() -> None:
    few, many = (_qwen3_run(anchors={"per_row": anchors}) for anchors in (128, 512))
    plans = [
        make_plan(each, QWEN3_8B, LARGE, ties_head=False, is_random=False) for each in (few, many)
    ]
    assert plans[0].memory_total < plans[1].memory_total
    assert plans[0].seconds_per_step < plans[1].seconds_per_step
    assert plans[0].memory.target == plans[1].memory.target


def test_this_device_is_measured() -> None:
    found = measure_device(torch.device("cpu"), torch.float32)
    assert found.tflops > 0.001
    assert found.gigabytes_per_s > 0.1
    assert found.memory_bytes > 1 << 28


def test_the_command_prints_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    assert main(["plan", str(config), "--memory-gib", "4", "--tflops", "0.05"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["fits"]
    assert record["memory_available"] == 4 << 30


def test_a_pipeline_is_planned_device_by_device() -> None:
    """Qwen3-8B on two GPUs: reading takes longer than training, and each half needs less memory."""
    device = Device("H200", 139 << 30, 800.0, 4270.0, count=2)
    apart = make_plan(
        _qwen3_run(pipeline={"pool_bytes": 1 << 33}), QWEN3_8B, device, ties_head=False,
        is_random=False,
    )  # fmt: skip
    one = make_plan(_qwen3_run(), QWEN3_8B, device, ties_head=False, is_random=False)
    assert apart.pipeline is not None
    target, drafter = apart.pipeline.devices
    assert (target.device, target.targets, target.drafters) == ("cuda:0", 1, 0)
    assert (drafter.device, drafter.targets, drafter.drafters) == ("cuda:1", 0, 1)
    assert apart.pipeline.bottleneck == "targets"
    both_s = target.seconds_per_step + drafter.seconds_per_step
    assert both_s == pytest.approx(one.seconds_per_step)
    assert apart.seconds_per_step == target.seconds_per_step
    assert target.memory < drafter.memory < one.memory_total
    # Eight gibibytes hold 25 steps of 8,192 tokens with five taps of 4,096 in bfloat16.
    assert apart.pipeline.pool_steps == pytest.approx(25.6)


def test_a_pipeline_on_one_gpu_reads_and_trains_in_turn() -> None:
    device = Device("48 GB", 48 << 30, 800.0, 4270.0, count=1)
    plan = make_plan(
        _qwen3_run(pipeline={}), QWEN3_8B, device, ties_head=False, is_random=False
    )  # fmt: skip
    assert plan.pipeline is not None
    assert plan.pipeline.bottleneck == "cuda:0, which reads and trains"
    assert not plan.fits
    two = replace(device, count=2)
    moved = make_plan(_qwen3_run(pipeline={}), QWEN3_8B, two, ties_head=False, is_random=False)
    assert moved.fits
