"""The contract files: whole at any moment, in order, and honest about what cannot be written."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from trainer.errors import OutputError
from trainer.heartbeat import Heartbeat, Metric, RunFiles, RunResult, decimal, own_start_ticks

METRIC = Metric(step=1, loss=0.1, grad_norm=2.0, lr=6e-4, tokens=128, tokens_per_s=1000.04)


@dataclass
class SetClock:
    """A clock that stands where the test puts it."""

    now_ms: int = 1_000_000

    def wall_ms(self) -> int:
        """The set time."""
        return self.now_ms

    def monotonic_s(self) -> float:
        """The set time."""
        return self.now_ms / 1000


def _open(directory: Path, clock: SetClock) -> RunFiles:
    return RunFiles.open(directory, clock, run_id="r", steps=9, interval_ms=100)


def _beat(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "heartbeat.json").read_bytes())
    return found


def test_a_change_of_state_is_told_at_once_and_steps_at_intervals(tmp_path: Path) -> None:
    clock = SetClock()
    files = _open(tmp_path, clock)
    files.state("training")
    files.progressed(METRIC, is_logged=True)
    assert (_beat(tmp_path)["state"], _beat(tmp_path)["step"]) == ("training", 0)
    clock.now_ms += 100
    files.progressed(replace(METRIC, step=2), is_logged=False)
    found = _beat(tmp_path)
    assert (found["step"], found["loss"], found["tokens_per_s"]) == (2, "0.1", "1000.0")
    assert found["updated_unix_ms"] == clock.now_ms
    files.state("checkpointing")
    assert _beat(tmp_path)["checkpoint_writing"]
    files.checkpointed(2)
    files.state("training")
    found = _beat(tmp_path)
    assert (found["checkpoint_step"], found["checkpoint_writing"]) == (2, False)


def test_the_sequence_counts_on_over_a_restart(tmp_path: Path) -> None:
    clock = SetClock()
    files = _open(tmp_path, clock)
    for _ in range(3):
        files.state("training")
    assert _beat(tmp_path)["sequence"] == 3
    _open(tmp_path, clock).state("starting")
    assert _beat(tmp_path)["sequence"] == 4


def test_only_logged_steps_are_in_the_metrics(tmp_path: Path) -> None:
    files = _open(tmp_path, SetClock())
    for step in range(1, 7):
        files.progressed(replace(METRIC, step=step), is_logged=step % 3 == 0)
    lines = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 6]


def test_half_a_line_that_a_killed_run_left_is_cut_off(tmp_path: Path) -> None:
    files = _open(tmp_path, SetClock())
    files.progressed(METRIC, is_logged=True)
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(whole + whole[:20])
    _open(tmp_path, SetClock()).progressed(replace(METRIC, step=2), is_logged=True)
    lines = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]


def test_who_sees_the_end_finds_the_result_and_a_new_start_removes_it(tmp_path: Path) -> None:
    files = _open(tmp_path, SetClock())
    files.ended(
        RunResult(run_id="r", status="stopped", step=3, loss="1.5", checkpoint=None, reason="asked")
    )
    assert (_beat(tmp_path)["state"], _beat(tmp_path)["detail"]) == ("finished", "asked")
    assert json.loads((tmp_path / "result.json").read_bytes())["status"] == "stopped"
    _open(tmp_path, SetClock())
    assert not (tmp_path / "result.json").exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    files = _open(tmp_path, SetClock())
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(OutputError, match=r"metrics\.jsonl: cannot be written \(Is a directory\)"):
        files.progressed(METRIC, is_logged=True)


def test_the_heartbeat_names_its_process_beyond_doubt(tmp_path: Path) -> None:
    files = _open(tmp_path, SetClock())
    assert isinstance(files.beat, Heartbeat)
    stat = Path("/proc/self/stat").read_text(encoding="ascii")
    assert files.beat.start_ticks == own_start_ticks() == int(stat.rpartition(")")[2].split()[19])


@pytest.mark.parametrize("value", [0.1, 1e-30, 123456.789, 3.0, 2 / 3])
def test_a_decimal_reads_back_to_the_same_number(value: float) -> None:
    assert float(decimal(value)) == value
