"""Opening reads on from the bookmark, and reads everything when the bookmark does not fit."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from journal import Journal, Reader
from journal.bookmark import Bookmark, is_due, read_bookmark, write_bookmark
from journal.errors import Corrupt, DoubleOutcome, DuplicateIdem, HostBlocked, OrphanOutcome
from journal.following import Follower
from journal.ledger import Ledger
from tests.support.journals import (
    ACTOR,
    Place,
    completed,
    intended,
    note,
    observed,
    reconciled,
    unknown,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place whose every seal lays a bookmark."""
    place = Place(tmp_path)
    place.settings = replace(place.settings, bookmark_every=1)
    return place


def a_session(journal: Journal) -> None:
    """One command of each fate, and one in doubt."""
    journal.append(intended("done"), completed("done", stdout=b"x"), observed("done", b"{}"))
    journal.append(intended("lost", "changes"), unknown("lost"))
    journal.append(intended("probed", "observes"), unknown("probed"), reconciled("probed"))
    journal.append(intended("open"))


def read_whole(place: Place) -> Ledger:
    follower = Follower(place.layout)
    follower.refresh()
    return follower.ledger


def test_the_bookmark_holds_what_reading_everything_gives(place: Place) -> None:
    with place.create() as journal:
        a_session(journal)
    bookmark = read_bookmark(place.layout)
    assert bookmark.ledger == read_whole(place)
    assert set(bookmark.starts) == set(place.layout.streams())
    (start,) = bookmark.starts.values()
    assert start.size == len(place.lines())


def test_what_lies_before_the_bookmark_is_not_read_again(place: Place) -> None:
    """A line that was changed there stops no session; verify names it all the same."""
    with place.create() as journal:
        for number in range(10):
            journal.append(note(str(number)))
    lines = place.lines()
    assert b'"text":"2"' in lines[3]
    place.put_lines([*lines[:3], lines[3].replace(b'"text":"2"', b'"text":"7"'), *lines[4:]])
    with place.open() as journal:
        assert journal.size > len(lines)
    found = place.verify().finding
    assert found is not None
    assert found.seq == 3
    place.layout.bookmark.unlink()
    with pytest.raises(Corrupt):
        place.open()


def test_the_rules_hold_over_a_bookmark(place: Place) -> None:
    with place.create() as journal:
        a_session(journal)
    with place.open() as journal:
        for new, refusal in (
            (intended("done"), DuplicateIdem),
            (completed("done"), DoubleOutcome),
            (completed("never"), OrphanOutcome),
            (intended("next", "changes"), HostBlocked),
        ):
            with pytest.raises(refusal):
                journal.append(new)
        journal.append(observed("done", b"{}"))
        assert {one.command_id for one in journal.unreconciled()} == {"lost", "open"}
    assert place.verify().status == "intact"


def test_an_intent_that_a_bookmark_calls_open_is_in_doubt_at_the_next_opening(place: Place) -> None:
    journal = place.create()
    journal.append(intended("c1", "changes"))
    journal.seal(record=False)
    journal.abandon()
    assert [one.command_id for one in Reader.open(place.path).in_doubt()] == ["c1"]
    with place.open() as journal:
        assert [one.command_id for one in journal.unreconciled()] == ["c1"]
    assert place.verify().status == "intact"


def test_a_bookmark_of_any_other_content_is_passed_over(place: Place) -> None:
    with place.create() as journal:
        a_session(journal)
    good = place.layout.bookmark.read_bytes()
    whole = read_whole(place)
    step = max(1, len(good) // 60)
    damaged = [
        good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(0, len(good), step)
    ]
    for content in (b"", b"\n", b"{}", good[: len(good) // 2], *damaged):
        place.layout.bookmark.write_bytes(content)
        assert read_bookmark(place.layout) == Bookmark()
    with place.open():
        pass
    assert place.verify().status == "intact"
    assert read_whole(place).settled >= whole.settled


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"positions":{', b'"positions":[{'),
        (b'"000000",', b'"000000",-'),
        (b'"000000",', b'"000000",99999999999999999999'),
        (b'"000000"', b'"../../x"'),
        (b'"s1-', b'"../s1-'),
        (b'"settled":[', b'"settled":[7,'),
        (b'"form":1', b'"form":2'),
        (b'"looked_at":{', b'"looked_at":{"x":"y",'),
    ],
)
def test_a_bookmark_that_somebody_wrote_is_checked_like_any_input(
    place: Place, old: bytes, new: bytes
) -> None:
    with place.create() as journal:
        a_session(journal)
    _, _, body = place.layout.bookmark.read_bytes().rstrip(b"\n").partition(b"\n")
    assert old in body
    forged = body.replace(old, new)
    digest = hashlib.sha256(forged).hexdigest().encode()
    place.layout.bookmark.write_bytes(digest + b"\n" + forged + b"\n")
    assert read_bookmark(place.layout) == Bookmark()


def test_a_bookmark_over_a_log_that_was_cut_is_passed_over(place: Place) -> None:
    with place.create() as journal:
        a_session(journal)
    lines = place.lines()
    for kept in (lines[:4], [*lines[:-1], lines[-1].replace(b"closed", b"closes")]):
        place.put_lines(kept)
        assert read_bookmark(place.layout) == Bookmark()


def test_a_start_whose_root_was_never_sealed_is_not_continued(place: Place) -> None:
    """A wrong inner hash would make the next seal sign a wrong root."""
    with place.create() as journal:
        a_session(journal)
    bookmark = read_bookmark(place.layout)
    ((stream, start),) = bookmark.starts.items()
    forged = replace(start, peaks=("0" * 64, *start.peaks[1:]))
    write_bookmark(place.layout, replace(bookmark, starts={stream: forged}))
    assert read_bookmark(place.layout).starts == {}
    with place.open():
        pass
    assert place.verify().status == "intact"


def test_a_writer_keeps_the_starts_that_others_have_laid(place: Place) -> None:
    """Also one that is newer than what this writer saw when it was opened."""
    other = replace(place.settings, random=Place(place.root, seed=8).settings.random)

    def second() -> Journal:
        return Journal.open(
            place.path, clock=place.clock, actor=ACTOR, keys=place.keys, settings=other
        )

    with place.create() as first, second() as beside:
        first.append(intended("c1"), completed("c1"))
        beside.append(intended("c2"), completed("c2"))
    old = read_bookmark(place.layout).starts
    assert set(old) == {first.stream, beside.stream}
    with place.open():
        with second() as again:
            again.append(note("more"))
        new = read_bookmark(place.layout).starts[again.stream]
    assert new.size > old[again.stream].size
    assert read_bookmark(place.layout).starts[again.stream] == new
    with place.open() as journal, pytest.raises(DuplicateIdem):
        journal.append(intended("c2"))
    assert place.verify().status == "intact"


def test_a_bookmark_lies_in_a_segment_that_was_compressed_since(place: Place) -> None:
    place.settings = replace(place.settings, segment_bytes=4_000)
    with place.create() as journal:
        journal.append(intended("c1"), completed("c1"))
        journal.seal(record=False)
        place.settings = replace(place.settings, bookmark_every=1 << 40)
        bookmark = place.layout.bookmark.read_bytes()
        for number in range(40):
            journal.append(note("x" * 300 + str(number)))
    place.layout.bookmark.write_bytes(bookmark)
    (start,) = read_bookmark(place.layout).starts.values()
    assert start.position[0] == "000000"
    assert place.segment(0).suffix == ".zst"
    with place.open() as journal, pytest.raises(DuplicateIdem):
        journal.append(intended("c1"))
    assert place.verify().status == "intact"


def test_a_long_journals_bookmark_is_laid_less_often(place: Place) -> None:
    with place.create() as journal:
        a_session(journal)
    (start,) = read_bookmark(place.layout).starts.values()
    million = replace(start, size=1_000_000)
    assert is_due(1_024, None, 1_024)
    assert not is_due(1_010_000, million, 1_024)
    assert is_due(1_016_000, million, 1_024)
