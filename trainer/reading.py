"""Builds frozen dataclasses from JSON or TOML, strictly.

A key that no field has is an error that names the nearest one; a value of the wrong type is an
error that names place, value and what was expected. Nothing is converted except an integer where
a number is asked for. What the dataclasses mean is for their own modules.
"""

import dataclasses
import difflib
import json
import tomllib
import types
from pathlib import Path
from typing import Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from trainer.errors import ConfigError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
T = TypeVar("T")


def read_file(path: Path) -> dict[str, Json]:
    """The table in a ``.json`` or ``.toml`` file.

    Raises:
        ConfigError: the file is missing, unreadable, not well formed, or not a table.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); give a JSON or TOML file") from error
    try:
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: not well formed ({error})") from error
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: expected a table of settings, got {_shown(table)}")
    return table


def build(kind: type[T], table: Json, where: str = "") -> T:
    """The dataclass ``kind`` filled from ``table``.

    Args:
        kind: A dataclass.
        table: Its fields by name.
        where: Dotted place of the table, for messages.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong type.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{where or 'config'}: expected a table, got {_shown(table)}")
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # any dataclass
    for key in table:
        if key not in fields:
            raise ConfigError(_unknown(key, tuple(fields), where))
    values: dict[str, object] = {}
    for name, field in fields.items():
        place = f"{where}.{name}" if where else name
        if name in table:
            values[name] = _value(hints[name], table[name], place)
        elif _is_required(field):
            raise ConfigError(f"{place}: missing; it has no default")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}" if where else str(error)) from error


def plain(value: object) -> Json:
    """The JSON form of a dataclass, which :func:`build` reads back to an equal one."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _value(hint: object, value: Json, where: str) -> object:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union(get_args(hint), value, where)
    if origin is Literal:
        return _literal(get_args(hint), value, where)
    if origin is tuple:
        return _tuple(get_args(hint)[0], value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    return _scalar(hint, value, where)


def _union(members: tuple[object, ...], value: Json, where: str) -> object:
    """``X | None``, or a union of dataclasses told apart by their ``kind``."""
    if value is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        return _value(rest[0], value, where)
    by_kind = {_kind_of(member): member for member in rest}
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table with 'kind', got {_shown(value)}")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in by_kind:
        near = _nearest(str(kind), tuple(by_kind))
        raise ConfigError(f"{where}.kind: {_shown(kind)} is none of {_list(by_kind)}{near}")
    return _value(by_kind[kind], value, where)


def _kind_of(member: object) -> str:
    return str(get_args(get_type_hints(member)["kind"])[0])


def _literal(allowed: tuple[object, ...], value: Json, where: str) -> object:
    if value in allowed and type(value) in {type(item) for item in allowed}:
        return value
    names = tuple(str(item) for item in allowed)
    raise ConfigError(
        f"{where}: {_shown(value)} is none of {_list(names)}{_nearest(str(value), names)}"
    )


def _tuple(member: object, value: Json, where: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: expected a list, got {_shown(value)}")
    return tuple(_value(member, item, f"{where}[{index}]") for index, item in enumerate(value))


def _scalar(hint: object, value: Json, where: str) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and is_number:
        return float(value)  # type: ignore[arg-type]  # is_number has checked it
    if hint is int and is_number and isinstance(value, int):
        return value
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    expected = {float: "a number", int: "an integer", bool: "true or false", str: "a string"}
    if hint not in expected:
        raise TypeError(f"{where}: a field of type {hint} cannot be read")
    raise ConfigError(f"{where}: expected {expected[hint]}, got {_shown(value)}")


def _is_required(field: dataclasses.Field[object]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _unknown(key: str, known: tuple[str, ...], where: str) -> str:
    place = f"{where}.{key}" if where else key
    near = _nearest(key, known)
    return f"{place}: unknown key{near or f'; known are {_list(known)}'}"


def _nearest(given: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _list(names: object) -> str:
    return ", ".join(f"'{name}'" for name in names)  # type: ignore[attr-defined]  # str tuple or dict


def _shown(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - one line for a person
