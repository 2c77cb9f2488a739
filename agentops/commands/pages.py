"""A page for people about each command, made from what the command declares. Pure.

The pages stand in ``docs/commands/``; a test compares them with what is made here.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import get_args, get_type_hints

from agentops.commands.base import Command, Observation
from agentops.commands.script import ScriptCommand

_EFFECTS: Mapping[str, str] = {
    "observes": "looks and changes nothing",
    "changes": "changes the host",
    "destroys": "can end what nobody brings back",
}
_RETRIES: Mapping[str, str] = {
    "repeat": "may be sent again at any time",
    "idempotent": "may be sent again: a repeat finds the work done",
    "reconcile": "is not sent again after an unknown end; a look settles what happened",
    "never": "is never sent again by itself",
}
_MADE_BY = (
    "Each page is made from the command's own declarations"
    " by `python -m tests.support.write_pages`."
)


def page(command: type[Command]) -> str:
    """The command's page in Markdown."""
    lines = [f"# {command.name}", "", _paragraph(command), ""]
    lines += [
        f"- **Effect:** `{command.effect}` — {_EFFECTS[command.effect]}.",
        f"- **Intrusiveness:** {command.intrusiveness} of 5.",
        f"- **Retry:** `{command.retry}` — it {_RETRIES[command.retry]}.",
        f"- **Silence:** {command.silence}",
        "",
    ]
    lines += ["## Arguments", "", *_arguments(command), ""]
    lines += ["## What it answers", "", *_result(command), ""]
    lines += [
        "## What it takes for granted",
        "",
        *(f"- {text}." for text in command.assumptions),
        "",
    ]
    if command.metric_cards:
        lines += ["## Metric cards", ""]
        lines += [f"- `{name}`: {text}" for name, text in sorted(command.metric_cards.items())]
        lines.append("")
    lines += ["## On the command line", "", "```", _example(command), "```"]
    return "\n".join(lines) + "\n"


def index(commands: Mapping[str, type[Command]]) -> str:
    """The list of all commands in Markdown."""
    lines = [
        "# Commands",
        "",
        _MADE_BY,
        "",
        "| command | effect | what it gives |",
        "| --- | --- | --- |",
    ]
    for name, command in sorted(commands.items()):
        lines.append(f"| [{name}]({name}.md) | `{command.effect}` | {_summary(command)} |")
    return "\n".join(lines) + "\n"


def _summary(command: type[Command]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]


def _paragraph(command: type[Command]) -> str:
    return "\n".join(line.strip() for line in (command.__doc__ or "").strip().splitlines())


def _arguments(command: type[Command]) -> Sequence[str]:
    schema = command.model_json_schema()
    properties = schema.get("properties", {})
    if not properties:
        return ["None."]
    required = set(schema.get("required", ()))
    rows = ["| name | type | | meaning |", "| --- | --- | --- | --- |"]
    for name, field in properties.items():
        rows.append(_argument(name, field, required=name in required))
    for name, model in schema.get("$defs", {}).items():
        if model.get("type") == "object":
            rows += ["", *_part(name, model)]
    return rows


def _argument(name: str, field: Mapping[str, object], *, required: bool) -> str:
    default = field.get("default")
    need = "may be left out" if default is None else f"default `{default}`"
    if required:
        need = "required"
    return f"| `{name}` | {_kind(field)} | {need} | {field.get('description', '')} |"


def _part(name: str, model: Mapping[str, object]) -> Sequence[str]:
    """A model that arguments are made of, by its own fields."""
    fields, required = model.get("properties"), model.get("required")
    said = str(model.get("description", "")).splitlines()
    rows = [f"**{name}.** {said[0] if said else ''}", ""]
    rows += ["| name | type | | meaning |", "| --- | --- | --- | --- |"]
    for field, kind in fields.items() if isinstance(fields, Mapping) else ():
        must = isinstance(required, list) and field in required
        rows.append(_argument(field, kind, required=must))
    return rows


def result_model(command: type[Command]) -> type[Observation]:
    """What the command's parser gives when it can read the answer."""
    reader = command.read if issubclass(command, ScriptCommand) else command.parse
    said = get_type_hints(reader)["return"]
    models: list[type[Observation]] = [
        each for each in get_args(said) or (said,) if issubclass(each, Observation)
    ]
    return models[0]


def _result(command: type[Command]) -> Sequence[str]:
    model = result_model(command)
    fields = ", ".join(f"`{name}`" for name in model.model_fields)
    return [*(inspect.getdoc(model) or "").splitlines(), "", f"Fields: {fields}."]


def _kind(field: Mapping[str, object]) -> str:
    """A type in words, from its JSON schema."""
    if "anyOf" in field or "oneOf" in field:
        options = field.get("anyOf") or field.get("oneOf")
        kinds = [_kind(option) for option in options] if isinstance(options, list) else []
        return " or ".join(kinds)
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "enum" in field or "const" in field:
        values = field.get("enum", [field.get("const")])
        return " ".join(f"`{value}`" for value in values) if isinstance(values, list) else "value"
    if field.get("type") == "array":
        items = field.get("items")
        return f"list of {_kind(items)}" if isinstance(items, Mapping) else "list"
    return str(field.get("type", "value"))


def _example(command: type[Command]) -> str:
    required = command.model_json_schema().get("required", ())
    words = [f"agentops do {command.name} --host HOST"]
    words += [f"--arg {name}={name.upper()}" for name in required]
    return " ".join(words)
