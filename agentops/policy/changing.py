"""Frozen records with some of their fields changed: what a fold does at every event.

Here: ``changed``, which does what ``dataclasses.replace`` does for half of its price. Not here: the
records themselves (``agentops.policy.state``, ``agentops.policy.ledger``).
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TypeVar

_Record = TypeVar("_Record")
_Form = tuple[Callable[[object], tuple[object, ...]], Mapping[str, Callable[..., None]]]


def changed(record: _Record, **changes: object) -> _Record:
    """*record* with these fields changed.

    *record* is of a dataclass with slots, two fields or more and no ``__post_init__``.

    Raises:
        KeyError: It has no field of that name.
    """
    kind: type = type(record)
    read, setters = _form(kind)
    other: _Record = object.__new__(type(record))
    for put, value in zip(setters.values(), read(record), strict=True):
        put(other, value)
    for name, value in changes.items():
        setters[name](other, value)
    return other


@cache
def _form(kind: type) -> _Form:
    """How the fields of such a record are read, all at once, and written, one by one."""
    names = [each.name for each in fields(kind)]
    return attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}
