"""A policy file's text made a configuration, or one line that says what is wrong with it.

Here: reading, and errors that name file, key, value and remedy; a key is named as ``policy diff``
names it. Not here: what a file may say (``agentops.policy.config``), or what is probably not meant
(``agentops.policy.checking``).
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import JsonValue, ValidationError

from agentops.commands import COMMANDS
from agentops.errors import ConfigError
from agentops.policy.config import PART_KEYS, PolicyConfig
from journal.events import JsonObject

_SHOWN_MAX = 80
_NEAR = 0.75
_WRITE = {
    "missing": "missing; add it",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "string_type": "write text in quotes",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "tuple_type": "write a list: [ … ]",
    "dict_type": "write a table: { … }",
    "model_type": "write a table: { … }",
    "greater_than_equal": "write {ge} or more",
    "less_than_equal": "write {le} or less",
    "literal_error": "write {expected}",
    "string_pattern_mismatch": "it must match {pattern}",
}


def read_policy(body: JsonObject) -> PolicyConfig:
    """The configuration that a ``configuration_loaded`` event holds.

    Raises:
        ConfigError: the body is of another version of this product.
    """
    return _validated(body, "the journal's configuration")


def parse_policy(text: str, source: str) -> PolicyConfig:
    """The configuration written in *text*; *source* names it in errors.

    Raises:
        ConfigError: names file, key, value and remedy.
    """
    try:
        loaded = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not TOML: {error}; correct that line") from error
    config = _validated(loaded, source)
    for key, command in _commands(config):
        if command not in COMMANDS:
            meant = _meant(command, COMMANDS) or "agentops commands lists them"
            raise ConfigError(f"{source}: {key} (value {command!r}): no such command; {meant}")
    return config


def _commands(config: PolicyConfig) -> Iterator[tuple[str, str]]:
    """Every command that the file names, with the key where it does."""
    for kind, rules in (("forbid", config.forbid), ("permit", config.permit)):
        for rule in rules:
            if rule.when.command is not None:
                yield f"{kind}.{rule.id}.when.command", rule.when.command
    for standing in config.standing:
        for command in standing.commands:
            yield f"standing.{standing.id}.commands", command
    for case in config.test:
        yield f"test.{case.id}.given.command", case.given.command


def _validated(loaded: JsonObject, source: str) -> PolicyConfig:
    try:
        return PolicyConfig.model_validate(loaded)
    except ValidationError as error:
        found = error.errors()
        more = "" if len(found) == 1 else f" (and {len(found) - 1} more in this file)"
        raise ConfigError(f"{source}: {_told(found[0], loaded)}{more}") from error


def _told(fault: Mapping[str, Any], loaded: JsonValue) -> str:
    """One fault: its key, the value that stands there, and what to write instead."""
    key = _key(fault["loc"], loaded) or "policy"
    value = fault["input"]
    shown = "" if isinstance(value, dict) else f" (value {_short(repr(value))})"
    if fault["type"] == "extra_forbidden":
        meant = _meant(str(fault["loc"][-1]), PART_KEYS) or "remove it or correct its spelling"
        return f"{key}{shown}: this key is not known here; {meant}"
    remedy = _WRITE.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    return f"{key}{shown}: {remedy.format(**fault.get('ctx', {}))}"


def _key(place: Sequence[int | str], loaded: JsonValue) -> str:
    """The key's name; a table in a list goes by its id, where it has one."""
    names: list[str] = []
    at: JsonValue = loaded
    for part in place:
        if isinstance(at, list) and isinstance(part, int) and part < len(at):
            at = at[part]
            name = at.get("id") if isinstance(at, dict) else None
            names.append(name if isinstance(name, str) else str(part))
        else:
            at = at.get(str(part)) if isinstance(at, dict) else None
            names.append(str(part))
    return ".".join(names)


def _meant(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, as a remedy; empty where none is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=_NEAR)
    return f"did you mean {near[0]}?" if near else ""


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"
