"""The tools in the forms that model providers take, for agents without the protocol. Pure."""

from typing import Literal

from pydantic import JsonValue

from agentops.server.protocol import as_wire
from agentops.server.schemas import strict_schema
from agentops.server.tools import TOOLS
from journal.events import JsonObject

Format = Literal["mcp", "anthropic", "openai"]


def listed(form: Format) -> list[JsonObject]:
    """Every tool: as ``tools/list`` gives it, or as a provider's request wants it."""
    return [_FORMS[form](name) for name in TOOLS]


def _mcp(name: str) -> JsonObject:
    whole: JsonObject = as_wire(TOOLS[name]).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return whole


def _anthropic(name: str) -> JsonObject:
    tool = TOOLS[name]
    return {"name": tool.name, "description": tool.says, "input_schema": tool.schema()}


def _openai(name: str) -> JsonObject:
    tool = TOOLS[name]
    parameters: JsonValue = strict_schema(tool.model)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.says,
        "parameters": parameters,
        "strict": _closed(parameters),
    }


def _closed(schema: JsonValue) -> bool:
    """Whether every object in it names its properties, as the strict form demands."""
    if isinstance(schema, list):
        return all(_closed(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    open_ = schema.get("type") == "object" and schema.get("additionalProperties") is not False
    return not open_ and all(_closed(item) for item in schema.values())


_FORMS = {"mcp": _mcp, "anthropic": _anthropic, "openai": _openai}
