"""The tools' table: what each may send, what its schema takes, what all of them cost."""

import json
from collections.abc import Iterator

import pytest
from pydantic import JsonValue

from agentops.commands import COMMANDS
from agentops.server.answer import BRIEF_TOKENS, CHARS_PER_TOKEN, Answer
from agentops.server.formats import listed
from agentops.server.protocol import as_wire
from agentops.server.tools import TOOLS, Tool
from journal.events import Effect
from tests.support.tools_page import MARKER, PAGE, section

SCHEMAS_TOKENS = 4_000
_FORCE: tuple[Effect, ...] = ("observes", "changes", "destroys")


def objects(schema: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every object within a schema."""
    if isinstance(schema, list):
        for item in schema:
            yield from objects(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for item in schema.values():
            yield from objects(item)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_tools_effect_is_the_strongest_of_what_it_may_send(tool: Tool) -> None:
    effects = [COMMANDS[name].effect for name in tool.commands]
    assert tool.effect == max(effects, key=_FORCE.index, default="observes")


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_tools_hints_follow_from_its_effect(tool: Tool) -> None:
    hints = as_wire(tool).annotations
    assert hints is not None
    assert hints.read_only_hint == (tool.effect == "observes")
    assert hints.destructive_hint == (tool.effect != "observes")
    assert hints.open_world_hint == bool(tool.commands)
    retries = {COMMANDS[name].retry for name in tool.commands}
    assert hints.idempotent_hint == ("never" not in retries)


def test_no_command_is_sent_both_by_a_tool_that_reads_and_by_one_that_acts() -> None:
    sent = {
        reads: {
            name for t in TOOLS.values() if (t.effect == "observes") == reads for name in t.commands
        }
        for reads in (True, False)
    }
    assert not sent[True] & sent[False]


def test_fifteen_tools_cost_less_than_four_thousand_tokens() -> None:
    assert len(TOOLS) == 15
    for form in ("mcp", "anthropic", "openai"):
        sent = json.dumps(listed(form), separators=(",", ":"))
        assert len(sent) <= SCHEMAS_TOKENS * CHARS_PER_TOKEN, form


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_schema_is_flat_closed_and_without_references(tool: Tool) -> None:
    schema = tool.schema()
    text = json.dumps(schema)
    assert schema["type"] == "object"
    for word in ("$ref", "$defs", "anyOf", "oneOf"):
        assert word not in text
    for part in objects(schema):
        assert "additionalProperties" in part
        assert part["additionalProperties"] is False or part["additionalProperties"] == {
            "type": "string"
        }


def test_the_strict_form_requires_every_argument_and_lets_optional_ones_be_null() -> None:
    for tool in listed("openai"):
        parameters = tool["parameters"]
        assert isinstance(parameters, dict)
        for part in objects(parameters):
            properties = part.get("properties", {})
            assert isinstance(properties, dict)
            assert set(part.get("required", [])) == set(properties)  # type: ignore[arg-type] # names
    (observe,) = (tool for tool in listed("openai") if tool["name"] == "observe")
    assert '"job":{"description":"adds' in json.dumps(observe, separators=(",", ":"))
    assert '"type":["string","null"]' in json.dumps(observe, separators=(",", ":"))


def test_g01_structure_and_text_hold_the_same_facts_within_the_budget() -> None:
    """However much a host says, and whatever it says."""
    rows: list[JsonValue] = [{"pid": n, "cmd": "x\x1b[2K" * 50} for n in range(2_000)]
    answer = Answer(
        ok=True,
        verdict="confirmed",
        summary="much",
        data={"processes": {"rows": rows}, "log": "y" * 100_000, "lines": ["z" * 5_000] * 50},
    ).fitted(BRIEF_TOKENS)
    first, _, rest = answer.text().partition("\n")
    assert json.loads(rest) == answer.structured()
    assert first == "confirmed: much"
    assert len(answer.text()) <= BRIEF_TOKENS * CHARS_PER_TOKEN
    assert answer.cut["data.processes.rows"] == 2_000
    assert answer.cut["data.log"] == 100_000


def test_the_page_tells_every_tool_as_its_model_knows_it() -> None:
    _, found, written = PAGE.read_text("utf-8").partition(MARKER)
    assert found
    assert written == section(), "run: python -m tests.support.tools_page"
