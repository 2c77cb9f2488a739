"""A tiny drafter learns what a tiny target model says, through every door that a user would use.

The target is first fitted to a synthetic language; its own answers are the data; the drafter is
trained on them by the command line and judged by real decoding on prompts that it never saw.
Bar: 3.5 tokens a verification with blocks of 8 (an untrained drafter gives 1.0).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.fitted_target import fit_target, write_answers
from tests.support.training_run import heartbeat
from trainer.cli import main

# The first test pays for fitting and training, about 30 s on an idle core.
pytestmark = pytest.mark.timeout(400)

BAR = 3.5
BLOCK = 8
STEPS = 200


@dataclass(frozen=True)
class Learned:
    """Where the run is, and what its evaluations during training said."""

    config: Path
    evaluations: list[dict[str, Any]]

    @property
    def output(self) -> Path:
        """The run's directory."""
        return self.config.parent / "out"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    directory = tmp_path_factory.mktemp("learn")
    target = fit_target(directory / "target")
    write_answers(target, directory / "answers.jsonl", documents=400, prompt=24, answer=40)
    answers, data = str(directory / "answers.jsonl"), str(directory / "data")
    assert main(["data", "prepare", answers, "--output", data, "--max-length", "64"]) == 0
    settings = {
        "run_id": "learn",
        "output_dir": "out",
        "steps": STEPS,
        "threads": 1,
        "target": {"kind": "safetensors", "path": "target", "dtype": "float32"},
        "data": {"kind": "prepared", "path": "data", "evaluation_share": 0.1},
        "drafter": {
            "block_size": BLOCK,
            "num_hidden_layers": 2,
            "target_layer_ids": [0, 1, 2],
            "mask_token_id": 63,
        },
        "row_tokens": 256,
        "rows_per_step": 2,
        "rows_per_pass": 2,
        "anchors": {"per_row": 64},
        "optimizer": {"learning_rate": 6e-3, "warmup_share": 0.05},
        "checkpoint_every": STEPS // 2,
        "log_every": 40,
        "evaluation": {"every": STEPS // 2, "prompts": 12, "new_tokens": 40},
    }
    config = directory / "run.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    assert main(["train", str(config)]) == 0
    lines = (directory / "out" / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()
    return Learned(config, [json.loads(line) for line in lines])


def _records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_acceptance_length_passes_the_bar(learned: Learned) -> None:
    last = learned.evaluations[-1]["evaluation"]
    print(f"acceptance length {last['overall']}, proxy {last['proxy_length']}, {last['speed']}")  # noqa: T201 - the figure is the point
    assert last["overall"]["requests"] >= 10
    assert last["overall"]["length_by_round"] >= BAR


def test_drafting_changes_no_greedy_output(learned: Learned) -> None:
    assert [each["evaluation"]["greedy_differs"] for each in learned.evaluations] == [0, 0]


def test_the_proxy_and_real_decoding_stay_together_at_the_end(learned: Learned) -> None:
    assert learned.evaluations[-1]["evaluation"]["alarms"] == []
    assert heartbeat(learned.output)["state"] == "finished"


def test_the_best_checkpoint_is_the_one_that_decodes_best(learned: Learned) -> None:
    best = max(
        learned.evaluations, key=lambda each: each["evaluation"]["overall"]["length_by_round"]
    )
    pointer = (learned.output / "checkpoints" / "best").read_text(encoding="utf-8").strip()
    assert pointer == f"step-{best['step']:08d}"


def test_the_checkpoint_carries_the_preflight_report(learned: Learned) -> None:
    state = json.loads(
        (learned.output / "checkpoints" / f"step-{STEPS:08d}" / "state.json").read_bytes()
    )
    outcomes = {check["name"]: check["outcome"] for check in state["preflight"]["checks"]}
    assert outcomes["tap_off_by_one"] == outcomes["head_does_not_predict"] == "proved"
    assert len(state["identity"]["preflight"]) == 64


def test_an_exported_drafter_decodes_as_the_checkpoint_does(
    learned: Learned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, published = str(learned.config), str(tmp_path / "published")
    assert main(["eval", config, "--prompts", "4", "--checkpoint", "latest"]) == 0
    assert main(["export", config, "--to", "z-lab", "--output", published]) == 0
    assert main(["eval", config, "--prompts", "4", "--checkpoint", published]) == 0
    ours, _, theirs = _records(capsys)
    # The published weights are bfloat16, so a token near a tie may fall the other way.
    lengths = [each["overall"]["length_by_round"] for each in (ours, theirs)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.1)
    assert sum(each["requests"] for _, each in ours["domains"]) == 4


def test_sampling_drafts_as_well(learned: Learned, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", str(learned.config), "--temperature", "1", "--new-tokens", "30"]
    assert main(arguments) == 0
    lengths = [each["acceptance_length"] for each in _records(capsys)]
    assert sum(lengths) / len(lengths) > 0.6 * BAR


def test_an_alarm_of_the_evaluation_is_an_exit_status(
    learned: Learned, capsys: pytest.CaptureFixture[str]
) -> None:
    """Held to a proxy that decoding cannot reach, evaluation says so."""
    settings = json.loads(learned.config.read_text(encoding="utf-8"))
    settings["evaluation"]["divergence_alarm"] = -1.0
    strict = learned.config.with_name("strict.json")
    strict.write_text(json.dumps(settings), encoding="utf-8")
    assert main(["eval", str(strict), "--prompts", "2"]) == 5
    (record,) = _records(capsys)
    assert record["alarms"][0].startswith("teacher forcing promises an acceptance length of")
