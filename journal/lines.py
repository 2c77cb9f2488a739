"""The canonical line: which JSON may be stored, how its bytes look, what its hash is.

The profile is the part of JSON in which json, RFC 8785 and other canonicalisers agree to the byte:
ASCII keys in order, no spaces, no floats, integers below 2**53, no lone surrogates, no duplicate
keys. A line is stored and hashed verbatim; nobody re-serialises it. Not here: what the keys mean
(``journal.envelope``).
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Never

import orjson
from pydantic import JsonValue

from journal.errors import LineProfileError
from journal.events import JsonObject

_SAFE_BITS = 53  # beyond them, JavaScript's numbers and IEEE doubles round
INTEGER_BOUND = 2**_SAFE_BITS
DEPTH_MAX = 64  # deeper nesting would let a hostile line exhaust a parser's stack
ZERO_LEAF = "0" * 64  # ``prev`` of the first event in a stream
_PLAIN = frozenset({str, bool, type(None)})  # nothing about their values can be outside
_LISTS = (list, tuple)
_WORDS = (str, type(None))


def _no_float(text: str) -> Never:
    raise LineProfileError(f"{text[:40]} is not an integer; write rates as decimal strings")


_DECODE = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float).decode
_ONLY_JSON = (
    orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_ENCODE = json.JSONEncoder(
    ensure_ascii=False,
    check_circular=False,
    allow_nan=False,
    sort_keys=True,
    separators=(",", ":"),
).encode


def canonical(value: JsonValue) -> bytes:
    r"""The one byte form of a JSON value, without a line end.

    >>> canonical({"b": 1, "a": ["\u00e9", None, True]})
    b'{"a":["\xc3\xa9",null,true],"b":1}'

    Raises:
        LineProfileError: The value holds a float, an integer of 2**53 or more, a key outside
            ASCII, a lone surrogate, or nests deeper than 64.
    """
    check(value)
    return encoded(value)


def check(value: JsonValue) -> None:
    """Refuse a value that is outside the profile, but for lone surrogates, which ``encoded`` finds.

    Raises:
        LineProfileError: See ``canonical``.
    """
    _check(value, 0)


def encoded(value: JsonValue) -> bytes:
    """The canonical bytes of a value whose parts were checked before.

    Within the profile orjson and json agree to the byte, and orjson is ten times as fast; what it
    refuses (lone surrogates, above all) json is asked for, so that the reason is ours.

    Raises:
        LineProfileError: A string holds a lone surrogate.
    """
    try:
        return orjson.dumps(value, option=_ONLY_JSON)
    except orjson.JSONEncodeError:
        return utf8(_ENCODE(value))


def quoted(text: str) -> str:
    """A string in canonical form, for a line that is put together from its parts."""
    return _ENCODE(text)


def utf8(text: str) -> bytes:
    """The bytes of canonical JSON.

    Raises:
        LineProfileError: A string holds a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LineProfileError(
            f"a string holds a lone surrogate (U+{ord(error.object[error.start]):04X}); "
            "percent-encode bytes that are not UTF-8"
        ) from error


def parse(line: bytes) -> JsonObject:
    """The object that a line holds, if the line is exactly the canonical form of it.

    Raises:
        LineProfileError: Not JSON, not an object, or JSON in another form (spaces, key order,
            duplicate keys, floats).
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = loads(line)  # which says why
    if not isinstance(value, dict):
        raise LineProfileError("the line is not a JSON object")
    if canonical(value) != line:
        raise LineProfileError("the line is not the canonical form of its own value")
    return value


def loads(line: bytes) -> JsonObject:
    """The object that a line holds; faster than ``parse``, form unchecked but for numbers.

    Raises:
        LineProfileError: Not JSON, not an object, or it holds a float.
    """
    try:
        value = _DECODE(line.decode())
    except (ValueError, RecursionError) as error:
        raise LineProfileError(f"the line is not JSON: {str(error)[:120]}") from error
    if not isinstance(value, dict):
        raise LineProfileError("the line is not a JSON object")
    return value


def leaf_hash(line: bytes) -> bytes:
    """SHA-256 over 0x00 and the line without its line end. Source: RFC 6962, section 2.1."""
    return hashlib.sha256(b"\x00" + line).digest()


def percent_encoded(raw: bytes) -> str:
    r"""Bytes that may not be UTF-8 as ASCII text, for fields whose name ends in ``_pct``.

    >>> percent_encoded(b"a%\xff")
    'a%25%FF'
    """
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}"  # noqa: PLR2004
        for byte in raw
    )


def _check(value: JsonValue, depth: int) -> None:
    """On every append's way, so what is in the profile anyhow is passed over without a call."""
    inside: Iterable[JsonValue]
    if isinstance(value, dict):
        _check_keys(value)
        inside = value.values()
    elif isinstance(value, _LISTS):
        inside = value
    else:
        _check_leaf(value)
        return
    if depth >= DEPTH_MAX:
        raise LineProfileError(f"the value nests deeper than {DEPTH_MAX}")
    for inner in inside:
        if type(inner) in _PLAIN or (type(inner) is int and inner.bit_length() <= _SAFE_BITS):
            continue
        _check(inner, depth + 1)


def _check_leaf(value: JsonValue) -> None:
    if isinstance(value, int):  # bool is one of them, and in bounds
        if not -INTEGER_BOUND < value < INTEGER_BOUND:
            raise LineProfileError(f"the integer {value} is not below 2**53; write it as a string")
    elif isinstance(value, float):
        raise LineProfileError(f"{value} is a float; use an integer with its unit, or a string")
    elif not isinstance(value, _WORDS):
        raise LineProfileError(f"{type(value).__name__} is not a JSON type")


def _check_keys(value: JsonObject) -> None:
    if "".join(value).isascii():
        return
    for key in value:
        if not key.isascii():
            raise LineProfileError(f"the key {key!r} is not ASCII")
