"""Old payload shapes brought up to the present one, on reading only. Pure.

A kind starts at schema 1. When its shape changes, its number in ``_SCHEMAS`` grows and one step
old -> old + 1 enters ``UPCASTERS``; stored lines are never rewritten. The chain of steps is checked
at import, so a gap cannot ship. Not here: the present shapes (``journal.events``).
"""

from collections.abc import Callable, Mapping

from journal.errors import LineProfileError, NotAJournal
from journal.events import JsonObject
from journal.kinds import PAYLOADS

Upcaster = Callable[[JsonObject], JsonObject]


def _approval_requested_2(data: JsonObject) -> JsonObject:
    """The first shape said neither what would be sent, by which way, nor who asked."""
    unsaid: JsonObject = {
        "effect": "destroys",
        "argv": [],
        "route": [],
        "tier": "unknown",
        "asker_uid": None,
        "asker_processes": [],
    }
    return unsaid | data


def _approval_granted_2(data: JsonObject) -> JsonObject:
    """The first shape had no signature."""
    return {"operator": None, "signature": None} | data


_SCHEMAS: Mapping[str, int] = {"approval_requested": 2, "approval_granted": 2}
"""Kinds whose schema is no longer 1."""

UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("approval_requested", 1): _approval_requested_2,
    ("approval_granted", 1): _approval_granted_2,
}
"""(kind, old schema) -> the step to old + 1."""


def current_schema(kind: str) -> int:
    """The schema that this software writes for a kind."""
    return _SCHEMAS.get(kind, 1)


def upcast(kind: str, schema: int, data: JsonObject) -> JsonObject:
    """The data in the present shape.

    Raises:
        LineProfileError: The schema is newer than this software, or below 1.
    """
    newest = current_schema(kind)
    if not 1 <= schema <= newest:
        raise LineProfileError(
            f"{kind} has schema {schema}, this software reads 1 to {newest}; use a newer version"
        )
    for step in range(schema, newest):
        data = UPCASTERS[kind, step](data)
    return data


def check_upcasters(schemas: Mapping[str, int], steps: Mapping[tuple[str, int], Upcaster]) -> None:
    """Refuse a chain with a gap, a surplus step or an unknown kind.

    Raises:
        NotAJournal: This software could not read what it once wrote.
    """
    wanted = {(kind, old) for kind, newest in schemas.items() for old in range(1, newest)}
    if unknown := {kind for kind, _ in wanted | set(steps)} - set(PAYLOADS):
        raise NotAJournal(f"upcasters for unknown kinds: {', '.join(sorted(unknown))}")
    if wrong := wanted ^ set(steps):
        kind, old = min(wrong)
        fault = "is missing" if (kind, old) in wanted else "leads nowhere"
        raise NotAJournal(f"the upcaster of {kind} from schema {old} {fault}")


check_upcasters(_SCHEMAS, UPCASTERS)
