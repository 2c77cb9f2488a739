"""The training benchmark runs, counts what it says it counts, and tabulates the newest results."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import trainer_ours, trainer_shapes
from benchmarks.trainer_h200 import table
from trainer.loss import Objective
from trainer.plan import drafter_parameters


def _small(monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    """Four documents of 24 tokens: what runs is the same, only less of it."""
    for name, value in {"LENGTH": 24, "TOKENS": 96, "ANCHORS": 4, "PROMPT": 4}.items():
        monkeypatch.setattr(trainer_shapes, name, value)
    monkeypatch.setenv("OUT", str(out))


@pytest.mark.parametrize("objective", ["cross_entropy", "teacher_argmax", "forward_kl"])
def test_our_step_is_measured_and_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, objective: Objective
) -> None:
    _small(monkeypatch, tmp_path)
    threads = torch.get_num_threads()
    try:
        trainer_ours.measure_drafter("tiny", objective)
    finally:
        torch.set_num_threads(threads)
    (line,) = (tmp_path / "trainer_h200.jsonl").read_text(encoding="utf-8").splitlines()
    told = json.loads(line)
    assert (told["kind"], told["contestant"], told["objective"]) == ("drafter", "ours", objective)
    assert 0 < told["ms"]["step"]["min"] <= told["ms"]["step"]["median"]
    # Random weights guess: the loss is about the vocabulary's logarithm, or no divergence.
    expected = 0.0 if objective == "forward_kl" else float(torch.log(torch.tensor(512.0)))
    assert told["loss"] == pytest.approx(expected, abs=0.7)


def test_the_benchmarks_shapes_are_the_published_ones() -> None:
    large, small = (trainer_shapes.SHAPES[name] for name in ("qwen3-8b", "smollm2-135m"))
    assert drafter_parameters(trainer_ours.drafter_shape(large)) == 1_048_626_432
    assert large.taps == (1, 9, 17, 25, 33)
    assert small.layers * trainer_shapes.linear_params(small) == pytest.approx(106e6, rel=0.01)
    # Twice a weight for each token, and attention on top: 8.2 billion but for the two tables.
    work = trainer_shapes.target_flops(large, large.layers)
    assert work == pytest.approx(2 * 6.95e9 * 8192, rel=0.05)


def test_the_table_shows_the_newest_result_of_each() -> None:
    def line(ms: float, contestant: str) -> dict[str, object]:
        spread = {"median": ms, "min": ms, "max": ms}
        return {
            "kind": "drafter", "shape": "s", "contestant": contestant, "ms": {"step": spread},
            "peak_gib": 2.5,
        }  # fmt: skip

    rows = table([line(20.0, "ours"), line(40.0, "peer"), line(10.0, "ours")]).splitlines()
    assert rows[2:] == [
        "| s | drafter | ours | 10.0 (10.0 to 10.0) | 819,200 | 2.5 |",
        "| s | drafter | peer | 40.0 (40.0 to 40.0) | 204,800 | 2.5 |",
    ]
