"""A training run as a process: what it writes, how it stops, how it goes on after a kill."""

import json
import random
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.training_run import (
    environment,
    heartbeat,
    losses,
    run_trainer,
    step_of,
    trainer_process,
    wait_for,
    write_config,
)
from trainer.config import read_config
from trainer.errors import CheckpointError
from trainer.heartbeat import Metric
from trainer.train import train

# A process of the trainer starts in 2 s on an idle core; a loaded machine takes its time.
pytestmark = pytest.mark.timeout(300)
GOLDEN = Path(__file__).parents[1] / "golden" / "trainer_contract"


def _shape(value: Any) -> Any:
    """Keys and kinds of a JSON value, which a contract fixes while its numbers change."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return type(value).__name__


def _has_reached(output: Path, step: int) -> bool:
    return step_of(output) >= step


def _golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8").splitlines()[0])


def test_a_run_writes_the_files_of_the_contract(tmp_path: Path) -> None:
    ended = run_trainer(
        "train", write_config(tmp_path), cwd=tmp_path, AGENTOPS_LAUNCH_ID="launch-1"
    )
    output = tmp_path / "out"
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("step=12 loss=")
    last = heartbeat(output)
    assert _shape(last) == _shape(json.loads((GOLDEN / "heartbeat_finished.json").read_bytes()))
    assert (last["state"], last["step"], last["launch_id"]) == ("finished", 12, "launch-1")
    result = json.loads((output / "result.json").read_bytes())
    assert _shape(result) == _shape(json.loads((GOLDEN / "result_finished.json").read_bytes()))
    assert (result["status"], Path(result["checkpoint"]).name) == ("finished", "step-00000012")
    first = json.loads((output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert _shape(first) == _shape(_golden("metrics.jsonl"))


def test_the_loss_falls(tmp_path: Path) -> None:
    config = read_config(write_config(tmp_path, steps=120, checkpoint_every=120))
    seen: list[float] = []
    train(config, report=lambda metric: seen.append(metric.loss))
    assert sum(seen[-5:]) / 5 < 0.85 * sum(seen[:5]) / 5


def test_a_step_of_fixed_shapes_trains_as_the_one_that_adapts(tmp_path: Path) -> None:
    """What a GPU replays as one graph is this same step."""
    for name, compiled in (("adapts", False), ("fixed", True)):
        config = write_config(tmp_path / name, compile=compiled, steps=8, keep_checkpoints=1)
        train(read_config(config), report=lambda _: None)
    seen = [
        [float(each) for each in losses(tmp_path / name / "out").values()]
        for name in ("adapts", "fixed")
    ]
    assert seen[0] == pytest.approx(seen[1], rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": {"weighting": "dpace"}},
        {"loss": {"objective": "forward_kl"}},
        {"precision": "bfloat16"},
        {"drafter": {"block_size": 4, "target_layer_ids": [0, 2], "num_hidden_layers": 2,
                     "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}},
        {"optimizer": {"learning_rate": 3e-3, "schedule": "wsd"}, "head_chunk_rows": 8},
    ],
)  # fmt: skip
def test_every_way_to_train_learns_and_resumes(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Two ways to the same step: at once, and stopped in the middle; digit for digit."""
    config = read_config(write_config(tmp_path / "whole", steps=16, **changes))
    assert train(config, report=lambda _: None).status == "finished"
    halves = read_config(write_config(tmp_path / "halves", steps=16, **changes))

    def stop_early(metric: Metric) -> None:
        if metric.step == 6:
            (tmp_path / "halves" / "out" / "stop").touch()

    assert train(halves, report=stop_early).status == "stopped"
    assert train(halves, report=lambda _: None).status == "finished"
    found = losses(tmp_path / "whole" / "out")
    assert found == losses(tmp_path / "halves" / "out")
    assert float(found[16]) < float(found[1])


def test_passes_of_one_step_add_up_to_one_big_pass(tmp_path: Path) -> None:
    """Rows carry unequal numbers of taught tokens; the denominator is the whole step's."""
    for name, size in (("one", 3), ("three", 1)):
        config = write_config(tmp_path / name, rows_per_step=3, rows_per_pass=size, steps=4)
        train(read_config(config), report=lambda _: None)
    seen = [
        [float(each) for each in losses(tmp_path / name / "out").values()]
        for name in ("one", "three")
    ]
    assert seen[0] == pytest.approx(seen[1], rel=1e-4)


def test_a_run_killed_at_random_steps_has_the_losses_of_one_that_was_not(tmp_path: Path) -> None:
    """SIGKILL twice, at moments that no code of ours chose, then to the end."""
    whole = write_config(tmp_path / "whole", steps=20, checkpoint_every=3)
    assert run_trainer("train", whole, cwd=tmp_path).returncode == 0
    config = write_config(tmp_path / "killed", steps=20, checkpoint_every=3)
    output = tmp_path / "killed" / "out"
    draw = random.Random(7)  # noqa: S311 - chooses when to kill
    reached = 0
    for _ in range(2):
        reached += draw.randint(4, 9)
        with trainer_process("train", config, cwd=tmp_path) as process:
            wait_for(partial(_has_reached, output, reached), process)
            process.kill()
            assert process.wait() == -signal.SIGKILL
    assert run_trainer("train", config, cwd=tmp_path).returncode == 0
    assert heartbeat(output)["resumed_from_step"] > 0
    assert losses(output) == losses(tmp_path / "whole" / "out")
    ends = [
        (directory / "out" / "checkpoints" / "step-00000020" / "training.safetensors").read_bytes()
        for directory in (tmp_path / "whole", tmp_path / "killed")
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_after_a_whole_step_with_a_checkpoint(
    tmp_path: Path, number: signal.Signals
) -> None:
    config = write_config(tmp_path, steps=100_000, checkpoint_every=100_000)
    output = tmp_path / "out"
    with trainer_process("train", config, cwd=tmp_path) as process:
        wait_for(lambda: step_of(output) >= 2, process)
        process.send_signal(number)
        assert process.wait(30) == 0
    result = json.loads((output / "result.json").read_bytes())
    assert (result["status"], result["reason"]) == ("stopped", f"asked to stop by {number.name}")
    assert Path(result["checkpoint"]).name == f"step-{result['step']:08d}"
    assert heartbeat(output)["checkpoint_step"] == result["step"]


def test_a_stop_file_stops_the_run_and_is_taken_away(tmp_path: Path) -> None:
    config = write_config(tmp_path, steps=100_000)
    output = tmp_path / "out"
    with trainer_process("train", config, cwd=tmp_path) as process:
        wait_for(lambda: step_of(output) >= 2, process)
        (output / "stop").touch()
        assert process.wait(30) == 0
    assert json.loads((output / "result.json").read_bytes())["reason"].endswith("stop file")
    assert not (output / "stop").exists()


def test_a_stop_file_from_before_does_not_stop_a_new_start(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "stop").touch()
    assert train(read_config(config), report=lambda _: None).status == "finished"


def test_in_another_thread_no_signal_handler_is_touched_and_the_file_still_stops(
    tmp_path: Path,
) -> None:
    config = read_config(write_config(tmp_path, steps=100_000))
    before = signal.getsignal(signal.SIGINT)
    is_running, ended = threading.Event(), []
    thread = threading.Thread(
        target=lambda: ended.append(train(config, report=lambda _: is_running.set()))
    )
    thread.start()
    assert is_running.wait(60)
    assert signal.getsignal(signal.SIGINT) is before
    (tmp_path / "out" / "stop").touch()
    thread.join(60)
    assert [result.status for result in ended] == ["stopped"]


def test_a_run_does_not_take_another_runs_checkpoint(tmp_path: Path) -> None:
    train(read_config(write_config(tmp_path)), report=lambda _: None)
    other = read_config(write_config(tmp_path, seed=1))
    with pytest.raises(CheckpointError, match=r"is another run's \(seed: 0 there, 1 here\)"):
        train(other, report=lambda _: None)
    assert json.loads((tmp_path / "out" / "result.json").read_bytes())["status"] == "failed"


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path,
) -> None:
    config = write_config(
        tmp_path, steps=40, checkpoint_every=1, optimizer={"learning_rate": 1e36, "warmup_share": 1}
    )
    result = train(read_config(config), report=lambda _: None)
    assert result.status == "failed"
    assert result.reason.startswith("loss is nan at step")
    assert result.checkpoint is not None
    assert int(result.checkpoint[-8:]) == result.step - 1


def test_a_full_disk_fails_the_run_and_loses_no_earlier_checkpoint(tmp_path: Path) -> None:
    """The kernel refuses to write files above a size, which a growing checkpoint meets."""
    config = write_config(tmp_path, steps=20, checkpoint_every=5)
    assert run_trainer("train", write_config(tmp_path, steps=5), cwd=tmp_path).returncode == 0
    earlier = tmp_path / "out" / "checkpoints" / "step-00000005"
    content = (earlier / "training.safetensors").read_bytes()
    config = write_config(tmp_path, steps=20, checkpoint_every=5)
    limited = (
        "import resource, signal, sys, runpy;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536));"
        f"sys.argv = ['trainer', 'train', {str(config)!r}];"
        "runpy.run_module('trainer', run_name='__main__')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", limited],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 4, ended.stderr
    assert "checkpoint cannot be written" in ended.stderr
    assert "it goes on from step-00000005" in ended.stderr
    assert (earlier / "training.safetensors").read_bytes() == content
    assert (tmp_path / "out" / "checkpoints" / "latest").read_text().strip() == "step-00000005"
    assert run_trainer("train", config, cwd=tmp_path).returncode == 0
