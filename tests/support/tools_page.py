"""The page about the tools, as far as their models know it: docs/tools.md below its marker.

``python -m tests.support.tools_page`` writes that part anew; a test compares it. What a person
wrote above the marker is left alone.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from agentops.server.answer import Answer, Code, Deadline, Fault, Output, Proof
from agentops.server.prompts import PROMPTS
from agentops.server.resources import TEMPLATES
from agentops.server.tools import TOOLS, Tool

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
MARKER = "<!-- From here on: python -m tests.support.tools_page -->\n"


def section() -> str:
    """Every tool with its arguments, then the answer, the codes, resources and prompts."""
    return "\n".join((*_tools(), *_answer(), *_rest())) + "\n"


def _tools() -> Iterator[str]:
    yield "\n## The tools\n"
    for tool in TOOLS.values():
        yield from _tool(tool)


def _tool(tool: Tool) -> Iterator[str]:
    yield f"### `{tool.name}`\n"
    yield f"{tool.says}\n"
    sends = ", ".join(f"`{name}`" for name in tool.commands) or "nothing; it reads what is here"
    again = "no further effect" if tool.repeatable else "asks anew"
    yield f"Effect: {tool.effect}. Sends: {sends}. The same call again: {again}.\n"
    properties = tool.schema()["properties"]
    assert isinstance(properties, dict)
    if not properties:
        return
    yield "| argument | type | needed | meaning |\n| --- | --- | --- | --- |"
    needed = tool.schema().get("required", [])
    assert isinstance(needed, list)
    for name, part in properties.items():
        assert isinstance(part, dict)
        said = str(part.get("description", ""))
        yield f"| `{name}` | {_kind(part)} | {'yes' if name in needed else ''} | {said} |"
    yield ""


def _kind(part: Mapping[str, Any]) -> str:
    if "enum" in part:
        return ", ".join(f"`{word}`" for word in part["enum"])
    if part.get("type") == "array":
        items = part.get("items", {})
        return f"list of {_kind(items)}"
    if part.get("type") == "object" and "properties" in part:
        return "{" + ", ".join(part["properties"]) + "}"
    return str(part.get("type", "object"))


def _answer() -> Iterator[str]:
    yield "## The answer\n"
    for model in (Answer, Proof, Output, Deadline, Fault):
        words = " ".join((model.__doc__ or "").split())
        yield f"**{model.__name__}** ({', '.join(f'`{name}`' for name in model.model_fields)}): "
        yield f"{words}\n"
    yield "Codes of `error.code`: " + ", ".join(f"`{code}`" for code in get_args(Code)) + ".\n"


def _rest() -> Iterator[str]:
    yield "## Resources and prompts\n"
    for uri, _, says, mime in TEMPLATES:
        yield f"- `{uri}` ({mime}): {says}."
    for prompt in PROMPTS.values():
        end = "" if prompt.says.endswith("?") else "."
        yield f"- prompt `{prompt.name}({', '.join(prompt.takes)})`: {prompt.says}{end}"


if __name__ == "__main__":
    head, _, _ = PAGE.read_text("utf-8").partition(MARKER)
    PAGE.write_text(head + MARKER + section(), encoding="utf-8")
