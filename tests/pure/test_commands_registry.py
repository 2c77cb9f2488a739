"""The registry has every command that is promised, and each says all that has to be said of it."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from agentops.commands import COMMANDS, Command, Observation
from agentops.commands.pages import result_model
from tests.support.goldens import FOLDER

PAGES = Path(__file__).parents[2] / "docs" / "commands"
PROMISED = """
probe_host list_processes inspect_process stop_processes signal_process read_heartbeat
tmux_sessions tmux_interrupt tmux_capture gpu_status gpu_processes shared_memory disk_free
locks ports kernel_log tail_log file_digest check_model deploy_files apply_patch launch
wait_until transfer run_argv observe roll_back
compare_files
"""
# What ends like this is a quantity, and a quantity needs a card that says what it is no proof of.
QUANTITY = re.compile(r"_(ms|us|s|kib|mib|bytes|mw|percent|ticks|per_s|c)$")


def parts(annotation: object, seen: set[type[Observation]]) -> Iterator[type[Observation]]:
    """All models that a result is made of."""
    if annotation in seen:
        return
    if inspect.isclass(annotation) and issubclass(annotation, Observation):
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from parts(field.annotation, seen)
    for inner in get_args(annotation):
        yield from parts(inner, seen)


def test_every_promised_command_is_in_the_registry() -> None:
    assert not set(PROMISED.split()) - set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_says_all_that_has_to_be_said_of_it(name: str) -> None:
    command = COMMANDS[name]
    assert command.name == name
    assert 0 <= command.intrusiveness <= 5
    assert (command.intrusiveness >= 3) == (command.effect != "observes")
    assert len(command.silence) > 20
    assert all(len(text) > 10 for text in command.assumptions)
    assert list((FOLDER / name).glob("*.json")), "no answer of a real host is kept"
    assert (PAGES / f"{name}.md").exists(), "run python -m tests.support.write_pages"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_is_described_and_closed(name: str) -> None:
    schema = COMMANDS[name].model_json_schema()
    assert schema["additionalProperties"] is False
    for argument, field in schema.get("properties", {}).items():
        text = str(field.get("description", ""))
        assert text.endswith("."), f"{name} {argument} has no description"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_quantity_of_an_answer_has_a_card_and_every_card_a_quantity(name: str) -> None:
    command: type[Command] = COMMANDS[name]
    fields = {
        field for model in parts(result_model(command), set()) for field in model.model_fields
    }
    without = {field for field in fields if QUANTITY.search(field)} - set(command.metric_cards)
    assert not without
    assert set(command.metric_cards) <= fields
