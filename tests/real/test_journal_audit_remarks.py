"""What verify remarks though nothing is proved to be changed: short anchors, dates to come."""

import json
from pathlib import Path

import pytest

from journal import Journal, Reader, Verification, verify
from tests.support.journals import ACTOR, Place, SteppingClock, note, twenty_events

YEAR_2100_US = 4_102_444_800_000_000


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A journal with two anchors."""
    place = Place(tmp_path)
    twenty_events(place)
    second = Journal.open(
        place.path, clock=place.clock, actor=ACTOR, keys=place.keys, anchor=other(place),
        settings=place.settings,
    )  # fmt: skip
    with second as journal:
        journal.append(note("also to the second"))
        journal.seal()
    return place


def other(place: Place) -> Path:
    return place.root / "other.jsonl"


def remarks(verification: Verification, code: str) -> list[str]:
    assert verification.status == "intact"
    return [remark.message for remark in verification.remarks if remark.code == code]


def test_anchors_that_hold_what_they_took_are_not_remarked(place: Place) -> None:
    assert remarks(place.verify(), "ANCHOR_SHORT") == []
    with place.open() as journal:
        journal.append(note("goes on"))
        journal.seal()
    assert remarks(place.verify(), "ANCHOR_SHORT") == []


@pytest.mark.parametrize("kept", [0, 1])
def test_an_anchor_that_was_shortened_is_remarked_with_counts(place: Place, kept: int) -> None:
    """The other one still holds all, so every event is anchored."""
    lines = place.anchor.read_text().splitlines(keepends=True)
    sizes = [json.loads(line)["note"].split("\n")[:2] for line in lines]
    took = {(origin, size) for origin, size in sizes if origin.count("/") == 2}
    place.anchor.write_text("".join(lines[:kept]))
    (said,) = remarks(place.verify(), "ANCHOR_SHORT")
    assert f"{place.anchor} took {len(took)} seals and lacks {len(took) - kept} of them" in said


def test_a_dropped_anchor_is_sent_nothing_and_is_compared_while_it_is_there(place: Place) -> None:
    journal_id = Reader.open(place.path).journal_id
    place.keys.drop(journal_id, str(other(place)))
    had = other(place).read_bytes()
    with place.open() as journal:
        journal.append(note("not for the second"))
    assert other(place).read_bytes() == had
    other(place).unlink()
    assert remarks(place.verify(), "ANCHOR_UNREADABLE") == []
    place.keys.pin(journal_id, key=place.keys.key_for(journal_id).public, anchor=str(other(place)))
    assert len(remarks(place.verify(), "ANCHOR_UNREADABLE")) == 1
    place.keys.drop(journal_id, str(other(place)))
    place.put_lines(place.lines()[:3])
    for path in (place.layout.seals, place.anchor):
        path.write_bytes(b"")
    place.layout.index.unlink()
    assert place.verify().status == "unsealed"
    other(place).write_bytes(had)
    finding = place.verify().finding
    assert finding is not None
    assert finding.code == "ROLLBACK"


def test_only_one_seal_gone_from_the_middle_is_remarked(place: Place) -> None:
    lines = place.anchor.read_text().splitlines(keepends=True)
    place.anchor.write_text("".join([lines[0], *lines[2:]]))
    gone = json.loads(lines[1])["note"].split("\n")[1]
    (said,) = remarks(place.verify(), "ANCHOR_SHORT")
    assert said.endswith(f"lacks 1 of them, the first over {gone} events")


@pytest.mark.parametrize("source", ["events", "anchors.jsonl"])
def test_either_record_of_what_an_anchor_took_is_enough(place: Place, source: str) -> None:
    if source == "events":
        place.layout.anchors.unlink()
        place.anchor.write_bytes(b"")
    else:  # the last seal of a session stands in the file alone
        lines = place.anchor.read_text().splitlines(keepends=True)
        origins = [json.loads(line)["note"].split("\n")[0] for line in lines]
        last = max(at for at, origin in enumerate(origins) if origin.count("/") == 2)
        place.anchor.write_text("".join([*lines[:last], *lines[last + 1 :]]))
    assert len(remarks(place.verify(), "ANCHOR_SHORT")) == 1


def test_what_is_no_record_of_anchoring_is_passed_over(place: Place) -> None:
    with place.layout.anchors.open("ab") as file:
        file.write(b'\x00\n{"anchor":7,"taken":true}\n[]\n{"anchor":"x","size":"y","stream":"z",')
        file.write(b'"taken":true}\n{"torn')
    assert remarks(place.verify(), "ANCHOR_SHORT") == []


def test_an_event_from_the_future_is_remarked_before_any_later_one(place: Place) -> None:
    now = SteppingClock()
    assert remarks(verify(place.path, keys=place.keys, clock=now), "CLOCK_AHEAD") == []
    place.clock = SteppingClock(YEAR_2100_US)
    with place.open() as journal:
        journal.append(note("from 2100"))
    (said,) = remarks(verify(place.path, keys=place.keys, clock=now), "CLOCK_AHEAD")
    assert "s later than this machine's clock" in said
    assert remarks(verify(place.path, keys=place.keys, clock=place.clock), "CLOCK_AHEAD") == []
