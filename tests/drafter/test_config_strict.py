"""Settings are read strictly: each mistake is one line that names place, value and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import RandomTarget, RunConfig, SafetensorsTarget, read_config
from trainer.errors import ConfigError
from trainer.optimizer import learning_rate
from trainer.reading import build, plain

LEAST: dict[str, Any] = {
    "run_id": "r",
    "output_dir": "out",
    "steps": 3,
    "drafter": {"tap_count": 2},
}


def _with(**changes: Any) -> dict[str, Any]:
    return {**LEAST, **changes}


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (_with(lerning_rate=1), r"^lerning_rate: unknown key; known are 'run_id'"),
        (_with(row_token=1), r"^row_token: unknown key; did you mean 'row_tokens'\?"),
        (
            _with(optimizer={"learnin_rate": 1}),
            r"^optimizer.learnin_rate: unknown key; did you mean 'learning_rate'\?",
        ),
        (_with(steps="3"), r'^steps: expected an integer, got "3"'),
        (_with(steps=3.5), r"^steps: expected an integer, got 3.5"),
        (_with(steps=True), r"^steps: expected an integer, got true"),
        (_with(steps=0), r"^steps: 0 is not positive"),
        (_with(compile=1), r"^compile: expected true or false, got 1"),
        (_with(drafter={}), r"^drafter.target_layer_ids: give these, or tap_count"),
        (
            _with(drafter={"target_layer_ids": [1, "2"]}),
            r"^drafter.target_layer_ids\[1\]: expected",
        ),
        (_with(drafter={"tap_count": 1, "block_size": 1}), r"^drafter.block_size: 1 is below 2"),
        (
            _with(drafter={"tap_count": 1, "layer_types": ["full_attention"]}),
            r"^drafter.layer_types: 1 entries for 2 layers",
        ),
        (
            _with(drafter={"tap_count": 1, "layer_types": ["sliding"], "num_hidden_layers": 1}),
            r"^drafter.layer_types\[0\]: \"sliding\" is none of .*did you mean 'sliding_attention'",
        ),
        (_with(target={"kind": "saftensors"}), r"^target.kind: .* did you mean 'safetensors'"),
        (_with(target={"path": "x"}), r"^target.kind: null is none of"),
        (_with(target=3), r"^target: expected a table with 'kind', got 3"),
        (_with(loss={"gamma": -1.0}), r"^loss.gamma: -1.0 cannot be used"),
        (_with(compile=True, rows_per_step=4), r"^compile: needs .* set rows_per_pass to 4"),
        (_with(schema=2), r"^schema: 2 is not known"),
        (_with(optimizer={"schedule": "cosin"}), r"did you mean 'cosine'"),
        ({}, r"^run_id: missing; it has no default"),
        ([], r"^config: expected a table"),
    ],
)
def test_a_mistake_is_named_with_its_place(table: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        build(RunConfig, table)
    assert "\n" not in str(caught.value)


def test_json_and_toml_of_the_same_settings_are_the_same_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(LEAST), encoding="utf-8")
    (tmp_path / "run.toml").write_text(
        'run_id = "r"\noutput_dir = "out"\nsteps = 3\n[drafter]\ntap_count = 2\n', encoding="utf-8"
    )
    assert read_config(tmp_path / "run.json") == read_config(tmp_path / "run.toml")


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    table = _with(target={"kind": "safetensors", "path": "model"})
    (tmp_path / "run.json").write_text(json.dumps(table), encoding="utf-8")
    config = read_config(tmp_path / "run.json")
    assert isinstance(config.target, SafetensorsTarget)
    assert config.target.path == str(tmp_path / "model")
    assert config.output_dir == str(tmp_path / "out")


@pytest.mark.parametrize("content", ["{", '"text"', "\xff"])
def test_a_file_that_is_no_table_is_refused_by_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"run\.json: "):
        read_config(path)


def test_settings_survive_being_written_and_read() -> None:
    config = build(RunConfig, LEAST)
    assert build(RunConfig, plain(config)) == config
    assert isinstance(config.target, RandomTarget)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*LEAST, "target", "kind", "loss"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_a_run_or_a_named_mistake(value: Any) -> None:
    try:
        build(RunConfig, value)
    except ConfigError as error:
        assert str(error)  # noqa: PT017 - either end is right; the text must say something


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "constant"])
def test_the_rate_warms_up_never_exceeds_its_peak_and_ends_where_it_should(schedule: str) -> None:
    settings = build(
        RunConfig, _with(optimizer={"schedule": schedule, "final_share": 0.1})
    ).optimizer
    rates = [learning_rate(settings, step, 1000) for step in range(1, 1001)]
    assert rates[0] == pytest.approx(settings.learning_rate / 40)
    assert max(rates) == rates[39] == settings.learning_rate
    assert rates[:40] == sorted(rates[:40])
    assert rates[39:] == sorted(rates[39:], reverse=True)
    end = 1.0 if schedule == "constant" else 0.1
    assert rates[-1] == pytest.approx(end * settings.learning_rate)
    if schedule == "wsd":
        assert rates[799] == settings.learning_rate
