"""Schemas that every client's dialect can hold: flat objects, closed, without references. Pure.

Here: the same models as MCP tools, and in the forms of two model providers. Not here: the models.
"""

from copy import deepcopy

from pydantic import BaseModel, JsonValue

from journal.events import JsonObject

_DROPPED = ("title", "default")


def flat_schema(model: type[BaseModel]) -> JsonObject:
    """The model's JSON schema without titles, defaults, references and null alternatives.

    What may be left out stands in no ``required``; null is not offered as a value.
    """
    whole: JsonObject = model.model_json_schema()
    definitions = whole.pop("$defs", {})
    assert isinstance(definitions, dict)  # noqa: S101 - what pydantic writes
    schema = _plain(whole, definitions)
    assert isinstance(schema, dict)  # noqa: S101 - a model's schema is an object
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def strict_schema(model: type[BaseModel]) -> JsonObject:
    """The form that wants every property required: what may be left out may be null."""
    schema = deepcopy(flat_schema(model))
    _tighten(schema)
    return schema


def _plain(value: JsonValue, definitions: dict[str, JsonValue]) -> JsonValue:
    if isinstance(value, list):
        return [_plain(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        target = _plain(definitions[reference.rpartition("/")[2]], definitions)
        assert isinstance(target, dict)  # noqa: S101 - a definition is an object
        words = {"description": value["description"]} if "description" in value else {}
        return {**{k: v for k, v in target.items() if k != "description"}, **words}
    alternatives = value.get("anyOf")
    if isinstance(alternatives, list):
        kept = [a for a in alternatives if a != {"type": "null"}]
        if len(kept) == 1 and isinstance(kept[0], dict):
            rest = {k: v for k, v in value.items() if k != "anyOf"}
            return _plain({**kept[0], **rest}, definitions)
    plain: JsonObject = {}
    for key, item in value.items():
        if key == "properties" and isinstance(item, dict):
            # Names of properties, not words of the schema: one may well be called title.
            plain[key] = {name: _plain(sub, definitions) for name, sub in item.items()}
        elif key not in _DROPPED:
            plain[key] = _plain(item, definitions)
    return plain


def _tighten(schema: JsonObject) -> None:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        listed = schema.get("required")
        required = listed if isinstance(listed, list) else []
        for name, part in properties.items():
            if isinstance(part, dict):
                _tighten(part)
                kind = part.get("type")
                if name not in required and isinstance(kind, str):
                    part["type"] = [kind, "null"]
                    if isinstance(part.get("enum"), list):
                        part["enum"] = [*part["enum"], None]  # type: ignore[misc]
        schema["required"] = list(properties)
        schema["additionalProperties"] = False
    items = schema.get("items")
    if isinstance(items, dict):
        _tighten(items)
