"""Whole runs on a GPU: they learn, they resume, and a replayed graph trains as the plain step."""

from pathlib import Path

import pytest

from tests.support.training_run import losses, write_config
from trainer.config import read_config
from trainer.heartbeat import Metric
from trainer.train import train

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


def _run(directory: Path, **changes: object) -> dict[int, float]:
    settings = {"device": "cuda", "row_tokens": 256, "anchors": {"per_row": 32}, **changes}
    result = train(read_config(write_config(directory, **settings)), report=lambda _: None)
    assert result.status == "finished"
    return {step: float(loss) for step, loss in losses(directory / "out").items()}


def test_a_run_learns_and_agrees_with_the_cpu(tmp_path: Path) -> None:
    ours = _run(tmp_path / "gpu", steps=40)
    theirs = _run(tmp_path / "cpu", steps=40, device="cpu")
    assert ours[40] < ours[1]
    # The first steps differ by rounding alone; later ones by what training makes of it.
    assert [ours[step] for step in (1, 2, 3)] == pytest.approx(
        [theirs[step] for step in (1, 2, 3)], rel=1e-3
    )


def test_a_resumed_run_has_the_losses_of_one_that_was_not(tmp_path: Path) -> None:
    whole = _run(tmp_path / "whole", steps=20)
    halves = tmp_path / "halves"
    settings = {"device": "cuda", "row_tokens": 256, "anchors": {"per_row": 32}, "steps": 20}
    config = read_config(write_config(halves, **settings))

    def stop_early(metric: Metric) -> None:
        if metric.step == 7:
            (halves / "out" / "stop").touch()

    assert train(config, report=stop_early).status == "stopped"
    assert train(config, report=lambda _: None).status == "finished"
    assert {step: float(loss) for step, loss in losses(halves / "out").items()} == whole


def test_a_replayed_graph_trains_as_the_plain_step(tmp_path: Path) -> None:
    common = {"steps": 12, "attention": "sdpa", "deterministic": False}
    plain = _run(tmp_path / "plain", **common)
    replayed = _run(tmp_path / "replayed", compile=True, **common)
    steps = (1, 2, 3, 6)
    assert [replayed[step] for step in steps] == pytest.approx(
        [plain[step] for step in steps], rel=2e-3
    )


@pytest.mark.parametrize("attention", ["flex", "anchors"])
def test_bfloat16_learns(tmp_path: Path, attention: str) -> None:
    found = _run(
        tmp_path, steps=40, precision="bfloat16", attention=attention, compile=True,
        deterministic=False,
    )  # fmt: skip
    assert found[40] < found[1]
