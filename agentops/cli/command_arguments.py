"""A typed command from what a person typed: ``--arg KEY=VALUE``, as often as wanted.

A text stays text; all else is JSON. A list takes JSON, or one element for each time that its key is
given. ``KEY=@FILE`` takes what the file holds, and a file to deploy may name its ``source`` here
instead of its content.
"""

import base64
import json
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from agentops.cli.values import nearest
from agentops.commands import COMMANDS, Command
from agentops.errors import UsageError


def build_command(name: str, pairs: Sequence[str]) -> Command:
    """A typed command from ``KEY=VALUE`` pairs.

    Raises:
        UsageError: unknown command or argument, or a value that does not fit; names all three.
    """
    model = model_named(name)
    fields = argument_fields(model)
    given: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--arg {pair!r}: write KEY=VALUE")
        value = _value(fields.get(key), _text_of(key, text))
        before = given.get(key)
        if isinstance(before, list) and isinstance(value, list):
            value = [*before, *value]
        elif key in given:
            raise UsageError(f"--arg {key} is given twice, and {name} takes one")
        given[key] = value
    files = given.get("files")
    if isinstance(files, list):
        given["files"] = [_with_content(item) for item in files]
    if (unknown := next((key for key in given if key not in fields), None)) is not None:
        meant = nearest(unknown, fields) or f"; it takes {', '.join(fields) or 'none'}"
        raise UsageError(f"{name}: {unknown!r} is none of its arguments{meant}")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or name
        known = ", ".join(fields) or "none"
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"{name}: {field}: {said} (value {first['input']!r}; arguments: {known})"
        ) from error


def model_named(name: str) -> type[Command]:
    """The command of that name.

    Raises:
        UsageError: there is none; lists those there are.
    """
    model = COMMANDS.get(name)
    if model is None:
        meant = nearest(name, COMMANDS) or f"; one of {', '.join(sorted(COMMANDS))}"
        raise UsageError(f"command {name!r} is not known{meant}")
    return model


def argument_fields(model: type[Command]) -> dict[str, FieldInfo]:
    """The command's arguments by the names that a person types."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _value(field: FieldInfo | None, text: str) -> object:
    """Text stays text for a text argument; anything else is read as JSON where it is JSON."""
    if field is not None and str in _plain_types(field.annotation):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if field is not None and get_origin(field.annotation) is tuple and not isinstance(value, list):
        return [text if str in _plain_types(get_args(field.annotation)[0]) else value]
    return value


def _plain_types(annotation: object) -> tuple[object, ...]:
    """The types that a value may have, without what is asked of it beyond its type."""
    if get_origin(annotation) is Annotated:
        return _plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for each in get_args(annotation) for kind in _plain_types(each))
    return (annotation,)


def _text_of(key: str, text: str) -> str:
    """The text itself, or for @FILE what the file holds; @@ begins a text that begins with @."""
    if text.startswith("@@"):
        return text[1:]
    if not text.startswith("@"):
        return text
    return _read(f"--arg {key}={text}", text[1:]).decode("utf-8", "surrogateescape")


def _with_content(item: object) -> object:
    """A file to deploy, with the content of its source."""
    if not isinstance(item, Mapping) or "source" not in item:
        return item
    rest = {key: value for key, value in item.items() if key != "source"}
    content = _read("files: source", str(item["source"]))
    return {**rest, "content": base64.b64encode(content).decode()}


def _read(what: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{what}: {name} cannot be read: {error.strerror}") from error
