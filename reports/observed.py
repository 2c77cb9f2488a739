"""Shapes of observations, recognised by their fields.

Here: total readers of recorded JSON that return plain values or nothing. A report never imports
the commands that made an observation, so it goes by what the recorded value looks like; a value
it does not recognise is printed as it is. Not here: what follows from a value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]

_DIGEST = re.compile(r"[0-9a-f]{40,}")
_DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True, order=True)
class ProcessKey:
    """One process beyond doubt, as far as a listing says it."""

    boot_id: str
    pid_namespace: int
    namespace_init_start_ticks: int
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Listing:
    """One process table: whether it is whole, and its rows by identity."""

    complete: bool
    rows: dict[ProcessKey, JsonObject]


def number(value: JsonValue, name: str) -> int | None:
    """An integer member of an object, or None.

    >>> number({"step": 4}, "step"), number({"step": "4"}, "step"), number([], "step")
    (4, None, None)
    """
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def reading(value: JsonValue, name: str) -> int | None:
    """A number that a tool printed: plain, or with the reason why it is missing beside it.

    >>> reading({"used": {"value": 3, "missing": None}}, "used"), reading({"used": 3}, "used")
    (3, 3)
    """
    plain = number(value, name)
    return plain if plain is not None else number(member(value, name), "value")


def text(value: JsonValue, name: str) -> str | None:
    """A string member of an object, or None."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def member(value: JsonValue, *names: str) -> JsonValue:
    """A member by path through objects; None where the path ends early."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def items(value: JsonValue, name: str) -> list[JsonObject]:
    """The objects of a list member."""
    found = value.get(name) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def listing(observation: JsonValue) -> Listing | None:
    """A process table, or None for anything else (a card's holders are no process table)."""
    if not isinstance(observation, dict) or not isinstance(observation.get("processes"), list):
        return None
    if number(observation, "pid_namespace") is None:
        return None
    boot = text(observation, "boot_id") or ""
    namespace = number(observation, "pid_namespace") or 0
    init = number(observation, "namespace_init_start_ticks") or 0
    rows = {}
    for row in items(observation, "processes"):
        pid, start = number(row, "pid"), number(row, "start_ticks")
        if pid is not None and start is not None:
            rows[ProcessKey(boot, namespace, init, pid, start)] = row
    return Listing(observation.get("complete") is True, rows)


def key_of(identity: JsonValue) -> ProcessKey | None:
    """The identity in an argument or a victim, or None."""
    fields = ("pid_namespace", "namespace_init_start_ticks", "pid", "start_ticks")
    numbers = [number(identity, name) for name in fields]
    boot = text(identity, "boot_id")
    if boot is None or any(value is None for value in numbers):
        return None
    namespace, init, pid, start = (value or 0 for value in numbers)
    return ProcessKey(boot, namespace, init, pid, start)


def heartbeat(observation: JsonValue) -> JsonObject | None:
    """The trainer's sign of life inside an observation, or None."""
    found = member(observation, "heartbeat")
    return found if isinstance(found, dict) and "step" in found else None


def signal_answer(observation: JsonValue) -> JsonObject | None:
    """The answer of a command that signalled, or None."""
    if isinstance(observation, dict) and isinstance(observation.get("delivered"), bool):
        return observation
    return None


def wait_answer(observation: JsonValue) -> JsonObject | None:
    """The answer of a bounded wait, or None."""
    if isinstance(observation, dict) and isinstance(observation.get("met"), bool):
        return observation
    return None


def gpu_rows(observation: JsonValue) -> list[JsonObject]:
    """Devices of a GPU reading that the tool could make, each with index and memory."""
    if text(observation, "state") not in {"ok", None}:
        return []
    rows = items(observation, "devices")
    return [row for row in rows if reading(row, "index") is not None and "memory_used_mib" in row]


def shared_memory(observation: JsonValue) -> tuple[int, int] | None:
    """Bytes in use and in all of a reading of shared memory, or None for anything else."""
    total, free = number(observation, "total_bytes"), number(observation, "free_bytes")
    if total is None or free is None or not isinstance(member(observation, "segments"), list):
        return None
    return total - free, total


def stopped_victims(observation: JsonValue) -> dict[ProcessKey, JsonObject]:
    """Victims of a command that stops several processes, each with the signals that it got."""
    found = {}
    for row in items(observation, "victims"):
        key = key_of(row.get("identity"))
        if key is not None and isinstance(row.get("signals"), list):
            found[key] = row
    return found


def scalars(value: JsonValue, prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Leaves of a JSON value with their pointers, depth first; long lists give their length.

    >>> list(scalars({"a": {"b": 1}, "c": [1, 2]}))
    [('/a/b', 1), ('/c', '2 entries')]
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from scalars(inner, f"{prefix}/{name}")
    elif isinstance(value, list):
        yield prefix, f"{len(value)} entries"
    else:
        yield prefix, value


def briefly(arguments: JsonObject) -> str:
    """Arguments as a person would note them down: identities by their pid, no brackets.

    >>> briefly({"signal": "INT", "grace_ms": 5, "files": [{"path": "/a"}, {"path": "/b"}]})
    'files: path /a, path /b; grace_ms 5; signal INT'
    """
    return "; ".join(
        f"{name}{':' if isinstance(value, dict | list) else ''} {_brief(value)}"
        for name, value in sorted(arguments.items())
        if value not in (None, [], {}, "")
    )


def _brief(value: JsonValue) -> str:
    key = key_of(value)
    if key is not None:
        return f"pid {key.pid}"
    if isinstance(value, dict):
        inner = [(name, v) for name, v in sorted(value.items()) if v not in (None, [], {}, "")]
        inner.sort(key=lambda pair: pair[0] != "kind")
        return ", ".join(
            _brief(v) if name == "kind" else f"{name} {_brief(v)}" for name, v in inner
        )
    if isinstance(value, list):
        joint = ", " if any(isinstance(each, dict | list) for each in value) else " "
        return joint.join(_brief(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return f"{text[:_DIGEST_CHARS]}…" if _DIGEST.fullmatch(text) else text
