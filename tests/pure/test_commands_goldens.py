"""Every command has met a real host, and its parser is total."""

import inspect
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentops.commands import COMMANDS, Command, Completed, Malformed, Observation
from agentops.commands.run_argv import RunArgv
from tests.support.goldens import FOLDER, GOLDENS, load


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_met_a_real_host(name: str) -> None:
    assert list((FOLDER / name).glob("*.json")), f"no golden for {name}"


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_answer_reads_as_it_was_recorded(path: Path) -> None:
    command, completed, golden = load(path)
    parsed = command.parse(completed)
    assert not isinstance(parsed, Malformed), parsed
    assert parsed.model_dump(mode="json") == golden["result"]
    assert command.parser_version == golden["parser_version"]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_observation_survives_the_journals_json(path: Path) -> None:
    command, completed, _ = load(path)
    parsed = command.parse(completed)
    assert isinstance(parsed, Observation)
    again = type(parsed).model_validate_json(parsed.model_dump_json())
    assert again == parsed
    assert not _floats(json.loads(parsed.model_dump_json()))


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_cut_of_an_answer_is_read_as_an_answer(path: Path) -> None:
    command, completed, _ = load(path)
    if isinstance(command, RunArgv):
        return  # any bytes at all are its answer
    whole = completed.stdout.rstrip(b"\n")
    for length in {0, 1, len(whole) // 2, len(whole) - 12, len(whole) - 1}:
        assert isinstance(command.parse(Completed(0, whole[:length], b"")), Malformed)
    assert isinstance(
        command.parse(Completed(0, completed.stdout, b"", stdout_truncated=True)), Malformed
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**62)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["0", "ff", "\ud800", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Command, Completed]:
    """A golden answer with some values of some rows replaced, or any bytes at all."""
    command, completed, _ = load(draw(st.sampled_from(GOLDENS)))
    if isinstance(command, RunArgv) or draw(st.booleans()):
        return command, Completed(draw(st.integers(0, 255)), draw(st.binary(max_size=300)), b"\xff")
    text = completed.stdout.decode("utf-8", "surrogateescape")
    rows = [json.loads(line, strict=False) for line in text.splitlines()]
    for row in rows[:-1]:
        if draw(st.booleans()):
            key = draw(st.sampled_from(sorted(row)))
            row[key] = draw(json_values)
    text = "\n".join(json.dumps(row) for row in rows)
    return command, Completed(0, text.encode("utf-8", "surrogatepass"), b"")


@settings(max_examples=300)
@given(damaged())
def test_a_parser_never_raises_and_never_makes_what_the_journal_cannot_hold(
    case: tuple[Command, Completed],
) -> None:
    command, completed = case
    parsed = command.parse(completed)
    if isinstance(parsed, Malformed):
        assert parsed.reason
        return
    dumped = json.loads(parsed.model_dump_json())
    assert not _floats(dumped)
    assert all(abs(number) < 2**53 for number in _numbers(dumped))
    json.dumps(dumped, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_declares_what_it_does_and_what_silence_means(name: str) -> None:
    command = COMMANDS[name]
    assert inspect.getdoc(command)
    assert command.assumptions
    assert command.silence
    if command.effect == "observes":
        assert command.retry == "repeat"
    else:
        assert command.retry in {"idempotent", "reconcile", "never"}


def _floats(value: object) -> list[float]:
    return [x for x in _leaves(value) if isinstance(x, float)]


def _numbers(value: object) -> list[int]:
    return [x for x in _leaves(value) if isinstance(x, int)]


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]
