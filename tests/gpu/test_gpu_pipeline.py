"""The pipeline on GPUs: streams, pinned copies, captured forwards, and two GPUs as one."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.training_run import (
    losses,
    run_trainer,
    step_of,
    trainer_process,
    wait_for,
    write_config,
)
from trainer.config import read_config
from trainer.heartbeat import Metric
from trainer.train import train

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
ONE = {"targets": ["cuda:0"], "drafters": ["cuda:0"]}
SPLIT = {"targets": ["cuda:0"], "drafters": ["cuda:1"]}


def _settings(pipeline: dict[str, Any], **changes: Any) -> dict[str, Any]:
    sizes = {"pool_bytes": 1 << 23, "min_ready": 8, "token_budget": 512, "window": 16}
    return {
        "row_tokens": 256, "anchors": {"per_row": 32}, "pipeline": {**sizes, **pipeline}, **changes
    }  # fmt: skip


def _run(directory: Path, pipeline: dict[str, Any], **changes: Any) -> dict[int, str]:
    config = write_config(directory, **_settings(pipeline, **changes))
    metrics: list[Metric] = []
    result = train(read_config(config), report=metrics.append)
    assert result.status == "finished"
    assert metrics[-1].pipeline is not None
    return losses(directory / "out")


def _numbers(found: dict[int, str], steps: tuple[int, ...]) -> list[float]:
    return [float(found[step]) for step in steps]


def test_a_pipeline_on_a_gpu_learns_and_agrees_with_the_cpu(tmp_path: Path) -> None:
    ours = _run(tmp_path / "gpu", ONE, steps=40)
    theirs = _run(tmp_path / "cpu", {}, steps=40, device="cpu")
    assert float(ours[40]) < float(ours[1])
    # The first steps differ by rounding alone; later ones by what training makes of it.
    assert _numbers(ours, (1, 2, 3)) == pytest.approx(_numbers(theirs, (1, 2, 3)), rel=1e-3)


def test_two_runs_have_the_same_losses_digit_for_digit(tmp_path: Path) -> None:
    assert _run(tmp_path / "one", ONE, steps=30) == _run(tmp_path / "other", ONE, steps=30)


def test_a_pipeline_that_stopped_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    whole = _run(tmp_path / "whole", ONE, steps=30)
    halves = tmp_path / "halves"
    config = read_config(write_config(halves, **_settings(ONE, steps=30)))

    def stop_early(metric: Metric) -> None:
        if metric.step == 11:
            (halves / "out" / "stop").touch()

    assert train(config, report=stop_early).status == "stopped"
    assert train(config, report=lambda _: None).status == "finished"
    assert losses(halves / "out") == whole


def test_captured_steps_train_as_eager_ones(tmp_path: Path) -> None:
    common = {"steps": 16, "attention": "sdpa", "deterministic": False}
    eager = _run(tmp_path / "eager", {**ONE, "graphs": False}, **common)
    replayed = _run(tmp_path / "replayed", ONE, compile=True, **common)
    steps = (1, 2, 3, 6)
    assert _numbers(replayed, steps) == pytest.approx(_numbers(eager, steps), rel=2e-3)


def test_bfloat16_with_the_fastest_attention_learns(tmp_path: Path) -> None:
    found = _run(
        tmp_path, ONE, steps=40, precision="bfloat16", compile=True, deterministic=False
    )  # fmt: skip
    assert float(found[40]) < float(found[1])


def test_the_norm_that_tells_what_is_not_finite_tells_it_on_a_gpu() -> None:
    features = torch.randn(4, 4096, device="cuda").to(torch.bfloat16)
    features[1, 7], features[2, 9], features[3, 11] = torch.nan, torch.inf, -torch.inf
    largest = torch.linalg.vector_norm(features, ord=torch.inf, dim=-1)
    assert torch.isfinite(largest).tolist() == [True, False, False, False]


def test_a_teacher_reaches_the_drafter_through_the_pool(tmp_path: Path) -> None:
    found = _run(tmp_path, ONE, steps=20, loss={"objective": "forward_kl"})
    assert float(found[20]) < float(found[1])


@two_gpus
def test_a_target_and_a_drafter_on_two_gpus_train_as_on_one(tmp_path: Path) -> None:
    assert _run(tmp_path / "one", ONE, steps=30) == _run(tmp_path / "two", SPLIT, steps=30)


@two_gpus
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_two_drafters_are_one_with_twice_the_batch(tmp_path: Path, precision: str) -> None:
    both = {"targets": ["cuda:0", "cuda:1"], "drafters": ["cuda:0", "cuda:1"]}
    common = {"steps": 30, "rows_per_step": 2, "precision": precision}
    assert _run(tmp_path / "two", both, **common) == _run(tmp_path / "one", ONE, **common)


@two_gpus
def test_two_compiled_drafters_agree_with_eager_ones(tmp_path: Path) -> None:
    both = {"targets": ["cuda:0"], "drafters": ["cuda:0", "cuda:1"]}
    common = {"steps": 12, "rows_per_step": 2, "attention": "sdpa", "deterministic": False}
    eager = _run(tmp_path / "eager", both, **common)
    replayed = _run(tmp_path / "replayed", both, compile=True, **common)
    steps = (1, 2, 3, 6)
    assert _numbers(replayed, steps) == pytest.approx(_numbers(eager, steps), rel=2e-3)


def test_a_killed_pipeline_goes_on_with_the_losses_of_one_that_was_not(tmp_path: Path) -> None:
    devices = SPLIT if torch.cuda.device_count() > 1 else ONE
    settings = _settings(devices, steps=60, checkpoint_every=7)
    whole = write_config(tmp_path / "whole", **settings)
    assert run_trainer("train", whole, cwd=tmp_path).returncode == 0
    config = write_config(tmp_path / "killed", **settings)
    output = tmp_path / "killed" / "out"
    with trainer_process("train", config, cwd=tmp_path) as process:
        wait_for(partial(_reached, output, 25), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert run_trainer("train", config, cwd=tmp_path).returncode == 0
    assert losses(output) == losses(tmp_path / "whole" / "out")


def _reached(output: Path, step: int) -> bool:
    return step_of(output) >= step
