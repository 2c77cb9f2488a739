"""The line that is put together from its parts is the canonical form of the whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.envelope import Actor, Draft, HostRef, OutputRef, chained, read_line
from journal.errors import LineProfileError
from journal.events import IncidentNoted
from journal.lines import canonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MAYBE = st.none() | TEXT
REFERENCE = OutputRef("c" * 64, 9, 8, truncated=True, file="p", offset=7, size_bytes=60)


def draft(**given_fields: object) -> Draft:
    text = str(given_fields.pop("text", "x"))
    fields: dict[str, object] = {
        "id": "01M8P08P4ME9VTSP6H09XZ70BQ", "ts_us": 1, "mono_us": 2, "boot": "b",
        "incident": None, "host": None, "actor": Actor("human", "ada"), "cause": None,
        "idem": None, "payload": IncidentNoted(text=text),
        "data": canonical({"text": text}).decode(), "out": {}, "redacted": {},
    }  # fmt: skip
    return Draft(**(fields | given_fields))  # type: ignore[arg-type]  # fields by their names


@given(
    text=TEXT,
    incident=MAYBE,
    cause=MAYBE,
    idem=MAYBE,
    boot=TEXT,
    host=st.none() | st.builds(HostRef, TEXT, TEXT),
    actor=st.builds(Actor, st.sampled_from(["human", "agent"]), TEXT, MAYBE, MAYBE),
    out=st.sampled_from([{}, {"stdout": REFERENCE}, {"stdout": REFERENCE, "a": REFERENCE}]),
    redacted=st.sampled_from([{}, {"url": 2, "flag": 1}]),
)
def test_a_line_is_the_canonical_form_of_its_own_json(**given_fields: object) -> None:
    made = chained(draft(**given_fields), stream="s1-0000000a", seq=3, prev="0" * 64)
    assert canonical(json.loads(made.line)) == made.line
    assert read_line(made.line) == made


@pytest.mark.parametrize("field", ["incident", "cause", "idem"])
def test_a_name_with_a_lone_surrogate_is_refused(field: str) -> None:
    with pytest.raises(LineProfileError, match="lone surrogate"):
        chained(draft(**{field: "\ud800"}), stream="s1-0000000a", seq=3, prev="0" * 64)
