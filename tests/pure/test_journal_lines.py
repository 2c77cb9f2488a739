"""The canonical line: one byte form, everything else refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from journal.errors import LineProfileError
from journal.lines import INTEGER_BOUND, canonical, leaf_hash, loads, parse, percent_encoded

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.text(st.characters(max_codepoint=127), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-INTEGER_BOUND + 1, INTEGER_BOUND - 1) | TEXT
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)


def by_the_standard_library(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


@given(OBJECTS)
def test_what_was_written_reads_back_equal(value: dict[str, JsonValue]) -> None:
    assert parse(canonical(value)) == value


@given(OBJECTS)
def test_the_order_of_keys_does_not_change_the_bytes(value: dict[str, JsonValue]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(OBJECTS)
def test_the_canonical_form_is_what_the_standard_library_writes(
    value: dict[str, JsonValue],
) -> None:
    """Two libraries and one form: a new version of either cannot change it unnoticed."""
    assert canonical(value) == by_the_standard_library(value)


def test_every_character_is_written_as_the_standard_library_writes_it() -> None:
    for start in range(0, 0x110000, 0x1000):
        letters = map(chr, range(start, start + 0x1000))
        texts: list[JsonValue] = [one for one in letters if not "\ud800" <= one <= "\udfff"]
        assert canonical(texts) == by_the_standard_library(texts), hex(start)
    keys: dict[str, JsonValue] = {first + chr(last): last for first in ("", "a", "B", "_")
                                  for last in range(128)}  # fmt: skip
    assert canonical(keys) == by_the_standard_library(keys)


@given(OBJECTS)
def test_a_line_holds_no_line_end_and_no_zero_byte(value: dict[str, JsonValue]) -> None:
    line = canonical(value)
    assert b"\n" not in line
    assert b"\x00" not in line


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1.5},
        {"a": math.nan},
        {"a": INTEGER_BOUND},
        {"a": -INTEGER_BOUND},
        {"\u00e9": 1},
        {"a": "\ud800"},
        {"a": [{"b": [2.0]}]},
    ],
)
def test_values_outside_the_profile_are_refused(value: dict[str, JsonValue]) -> None:
    with pytest.raises(LineProfileError):
        canonical(value)


def test_nesting_beyond_the_limit_is_refused() -> None:
    value: JsonValue = 1
    for _ in range(65):
        value = [value]
    with pytest.raises(LineProfileError, match="nests deeper"):
        canonical(value)


@pytest.mark.parametrize(
    "line",
    [
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'{"a":1,"a":1}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":NaN}',
        b'{"a":"\\u00e9"}',
        b'{"a":"\\/"}',
        b'{"a":01}',
        b'{"a":-0}',
        b"[1]",
        b"",
        b'{"a":"\xff"}',
        b'{"a":1}\x00',
        b"[" * 100_000,
    ],
)
def test_other_forms_of_the_same_json_are_refused(line: bytes) -> None:
    with pytest.raises(LineProfileError):
        parse(line)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_line_or_a_clear_refusal(raw: bytes) -> None:
    try:
        value = loads(raw)
    except LineProfileError:
        return
    assert isinstance(value, dict)


def test_the_leaf_hash_is_that_of_rfc_6962() -> None:
    """The test vector of certificate-transparency's merkle tree tests: the empty leaf."""
    expected = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert leaf_hash(b"").hex() == expected


@given(st.binary(max_size=40))
def test_percent_encoding_is_ascii_and_can_be_undone(raw: bytes) -> None:
    text = percent_encoded(raw)
    assert json.loads(json.dumps(text)).isascii()
    undone = bytearray()
    rest = text
    while rest:
        if rest[0] == "%":
            undone.append(int(rest[1:3], 16))
            rest = rest[3:]
        else:
            undone.append(ord(rest[0]))
            rest = rest[1:]
    assert bytes(undone) == raw
