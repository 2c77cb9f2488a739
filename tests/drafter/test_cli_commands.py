"""The command line: what each command prints and how it exits, and what it says when it cannot."""

import argparse
import dataclasses
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tests.support.tiny_model import END, MASK, write_model
from tests.support.training_run import ROOT, environment, run_trainer, write_config
from trainer.chat import load_format
from trainer.cli import main, parser
from trainer.config import DrafterSettings, RunConfig, SafetensorsTarget
from trainer.heartbeat import Heartbeat, RunResult
from trainer.run import open_run

TALK = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}


def _records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A run on a model directory with a tokenizer, its data prepared with it."""
    write_model(tmp_path / "model")
    chat = load_format(SafetensorsTarget(str(tmp_path / "model")), {})
    talks = [
        {**TALK, "domain": domain, "messages": [{"role": "user", "content": f"Hi {number}"},
                                                TALK["messages"][1]]}
        for number, domain in enumerate(["code"] * 8 + ["prose"] * 2)
    ]  # fmt: skip
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, talks)), encoding="utf-8")
    return write_config(
        tmp_path,
        steps=2,
        target={"kind": "safetensors", "path": "model", "dtype": "float32"},
        data={"kind": "prepared", "path": "data", "evaluation_share": 0.3},
        drafter={
            "block_size": 4,
            "target_layer_ids": [0, 2],
            "num_hidden_layers": 1,
            "mask_token_id": int(chat.tokenizer.convert_tokens_to_ids(MASK)),
        },
        evaluation={"prompts": 2, "new_tokens": 6},
    )


def test_from_conversations_to_a_published_drafter(
    real: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model is random, so preflight rightly doubts its head; the run says 'skip' knowingly."""
    home = real.parent
    prepare = ["data", "prepare", str(home / "talk.jsonl"), "--output", str(home / "data")]
    assert main([*prepare, "--config", str(real)]) == 0
    assert main(["data", "stats", str(home / "data")]) == 5
    manifest, code, prose, whole = _records(capsys)
    assert manifest["documents"] == 10
    assert (code["domain"], code["documents"], prose["domain"]) == ("code", 8, "prose")
    assert whole["alarms"][0].startswith("domain 'code' holds 80%")
    assert main(["preflight", str(real)]) == 3
    *checks, last = _records(capsys)
    outcomes = {check["name"]: check["outcome"] for check in checks}
    assert outcomes.pop("head_does_not_predict") == "fault"
    assert set(outcomes.values()) == {"proved"}
    assert (last["faults"], len(last["digest"])) == (1, 64)
    assert (last["kernels"]["attention"], last["kernels"]["layers"]) == ("sdpa", "eager")
    assert last["kernels"]["target"] == "no GPU with Triton"
    assert main(["train", str(real)]) == 3
    assert "preflight: head_does_not_predict: cross-entropy" in capsys.readouterr().err
    settings = json.loads(real.read_text(encoding="utf-8"))
    real.write_text(json.dumps({**settings, "preflight": "skip"}), encoding="utf-8")
    assert main(["train", str(real), "--log", "json"]) == 0
    assert [record["step"] for record in _records(capsys)] == [1, 2]
    assert main(["generate", str(real), "--prompt", "Hi", "--new-tokens", "5"]) == 0
    (answer,) = _records(capsys)
    assert len(answer["tokens"]) <= 5
    assert isinstance(answer["text"], str)
    assert main(["export", str(real), "--to", "z-lab", "--output", str(home / "published")]) == 0
    published = json.loads((home / "published" / "config.json").read_bytes())
    assert published["dflash_config"]["target_layer_ids"] == [0, 2]
    assert published["eos_token_id"] == 257


def test_generated_samples_are_data_again(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Regenerating answers: prompts from a file, the target alone, samples that prepare reads."""
    home = real.parent
    prepare = ["data", "prepare", str(home / "talk.jsonl"), "--output", str(home / "data")]
    assert main([*prepare, "--config", str(real)]) == 0
    prompts = home / "prompts.jsonl"
    prompts.write_text(
        json.dumps({"messages": [{"role": "user", "content": "Go"}], "domain": "prose"})
        + "\n" + json.dumps({"input_ids": [1, 2, 3]}) + "\n",
        encoding="utf-8",
    )  # fmt: skip
    out = home / "made.jsonl"
    arguments = ["generate", str(real), "--plain", "--prompts-file", str(prompts)]
    assert main([*arguments, "--output", str(out), "--new-tokens", "4"]) == 0
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["domain"] for line in lines] == ["prose", "prompts"]
    assert lines[1]["input_ids"][:3] == [1, 2, 3]
    assert lines[1]["loss_mask"] == [0] * 3 + [1] * (len(lines[1]["input_ids"]) - 3)
    assert main(["data", "prepare", str(out), "--output", str(home / "again")]) == 0
    assert _records(capsys)[-1]["documents"] == 2


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["train", "none.json"], 2, "none.json: cannot be read"),
        (["data", "stats", "none"], 2, "none: no prepared data"),
        (["data", "prepare", "none.jsonl", "--output", "x"], 2, "none.jsonl: cannot be read"),
        (["eval", "run.json"], 4, "checkpoints: no checkpoint; train first"),
        (["eval", "run.json", "--checkpoint", "best"], 4, "no checkpoint is called best yet"),
        (["generate", "run.json", "--prompt", "Hi"], 2, "has no tokenizer; give input_ids"),
        (["eval", "run.json", "--prompts", "0"], 2, "evaluation.prompts: 0 is not positive"),
        (["plan", "run.json", "--memory-gib", "0.000001"], 2, "do not fit 0.0 GiB"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    complaint: str,
) -> None:
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == status
    error = capsys.readouterr().err
    assert error.startswith("trainer: ")
    assert complaint in error
    assert error.count("\n") == 1


def test_a_run_that_asks_for_a_gpu_where_there_is_none_says_so(tmp_path: Path) -> None:
    ended = run_trainer(
        "train", write_config(tmp_path, device="cuda"), cwd=tmp_path, CUDA_VISIBLE_DEVICES=""
    )
    assert ended.returncode == 2
    assert "device: 'cuda' asked for, but torch finds no GPU here" in ended.stderr


def test_more_taps_than_a_small_target_has_room_for_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, drafter={"block_size": 4, "tap_count": 3})
    assert main(["train", str(config)]) == 2
    assert "drafter.tap_count: 3 taps do not fit 4 target layers" in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar(tmp_path: Path) -> None:
    config = write_config(tmp_path, steps=4)
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-P", "-m", "trainer", "train", str(config)]
    with subprocess.Popen(argv, cwd=tmp_path, env=environment(), stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # Linux's way to say that the other end is closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    assert b"\r[##############################] 4/4 loss " in shown


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for command in ("data", "preflight", "train", "eval", "generate", "export", "plan"):
        assert f"\n    {command}" in text
    assert parser().prog == "trainer"


def _flags(under: argparse.ArgumentParser) -> set[str]:
    found = {option for action in under._actions for option in action.option_strings}
    for action in under._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                found |= {name, *_flags(inner)}
    return found - {"-h", "--help"}


def _keys(kind: type) -> set[str]:
    """Every key that a table of settings may have, tables inside it included."""
    found = {each.name for each in dataclasses.fields(kind)}
    for hint in get_type_hints(kind).values():
        for member in (hint, *get_args(hint)):
            if dataclasses.is_dataclass(member) and isinstance(member, type):
                found |= _keys(member)
    return found


def test_the_documentation_names_every_command_flag_setting_fault_and_field() -> None:
    pages = ("trainer.md", "pipeline.md")
    text = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    report = _checks()
    fields = {each.name for kind in (Heartbeat, RunResult) for each in dataclasses.fields(kind)}
    words = set(re.findall(r"[\w-]+", text))
    assert _flags(parser()) | _keys(RunConfig) | set(report) | fields <= words


def _checks() -> list[str]:
    """The checks of a real report."""
    config = RunConfig("r", "out", 1, DrafterSettings(tap_count=1))
    return [check.name for check in open_run(config).preflight().checks]


def test_the_end_of_a_turn_is_what_stops_an_answer(real: Path) -> None:
    chat = load_format(SafetensorsTarget(str(real.parent / "model")), {})
    assert chat.decode(list(chat.eos_ids)) == END
