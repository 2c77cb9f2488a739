"""One byte string per value: the form in which decisions and their inputs are hashed.

Here: plain JSON out of frozen values, canonical bytes, digests. Not here: the journal's own line
profile, which hashes whole events.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass

from pydantic import BaseModel, JsonValue

_LEAVES = (bool, int, str)
_LISTS = (tuple, list)
_PLAIN = frozenset({bool, int, str, type(None)})


def plain(value: object) -> JsonValue:
    """*value* as plain JSON: dataclasses and models by field, tuples as lists, no floats.

    Raises:
        TypeError: a value of a kind that must not be hashed (a float, a set, …).

    >>> plain((1, "a", None))
    [1, 'a', None]
    """
    if value is None or isinstance(value, _LEAVES):
        return value
    # Most of what is inside is a leaf, and is passed over without a call.
    if isinstance(value, _LISTS):
        return [item if type(item) in _PLAIN else plain(item) for item in value]
    if isinstance(value, Mapping):
        return {
            str(key): item if type(item) in _PLAIN else plain(item) for key, item in value.items()
        }
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="python"))
    if is_dataclass(value):
        # fields() builds a tuple at each call; its mapping is there already.
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    raise TypeError(f"{type(value).__name__} has no canonical form")


def canonical_json(value: JsonValue) -> bytes:
    """Canonical bytes of what is plain JSON already."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def canonical(value: object) -> bytes:
    """Canonical JSON: keys sorted, no white space, ASCII only.

    >>> canonical({"b": 1, "a": (True,)})
    b'{"a":[true],"b":1}'
    """
    return canonical_json(plain(value))


def digest(value: object) -> str:
    """SHA-256 of the canonical bytes, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()
