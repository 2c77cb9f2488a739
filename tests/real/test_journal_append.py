"""Appending and reading back, on real files."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from journal import Actor, Journal, NewEvent, Reader, Settings, Shredded
from journal.errors import (
    DuplicateIdem,
    EventNotFound,
    HostBlocked,
    JournalClosed,
    JournalExists,
    KeyUnusable,
    LineProfileError,
    NotAJournal,
)
from journal.events import IncidentClosed, IncidentOpened
from journal.layout import Layout
from tests.support.journals import (
    ACTOR,
    HOST,
    MACHINE,
    Place,
    SteppingClock,
    completed,
    intended,
    note,
    observed,
    reconciled,
    seeded,
    twenty_events,
    unknown,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_acknowledged_event_reads_back_whole(place: Place) -> None:
    with place.create() as journal:
        (written,) = journal.append(intended("c1"))
        (read,) = journal.reader().events(kinds={"command_intended"})
        assert read == written
        assert read.payload == intended("c1").payload
        assert (read.incident, read.host, read.actor) == ("I1", HOST, ACTOR)


def test_an_acknowledged_line_is_in_the_segment_byte_for_byte(place: Place) -> None:
    with place.create() as journal:
        (event,) = journal.append(note("x"))
        assert place.lines()[event.seq] == event.line


def test_an_output_reads_back_to_the_byte_and_is_not_in_the_line(place: Place) -> None:
    output = bytes(range(256)) * 3
    with place.create() as journal:
        journal.append(intended("c1"))
        (event,) = journal.append(completed("c1", stdout=output))
        assert journal.reader().attachment(event, "stdout") == output
    assert b"stdout" in place.lines()[event.seq]
    assert output[65:91] not in place.segment().read_bytes()


def test_a_capture_longer_than_its_limit_says_so(place: Place) -> None:
    with place.create() as journal:
        journal.append(intended("c1"))
        capture = journal.capture(limit_bytes=10)
        capture.write(b"0123456789abcdef")
        new = completed("c1")
        (event,) = journal.append(
            NewEvent(new.payload, incident="I1", host=HOST, attachments={"stdout": capture})
        )
        reference = event.out["stdout"]
        assert (reference.length_bytes, reference.stored_bytes, reference.truncated) == (
            16, 10, True,
        )  # fmt: skip
        assert journal.reader().attachment(event, "stdout") == b"01234bcdef"


def test_an_output_above_a_mebibyte_has_a_file_of_its_own(place: Place) -> None:
    output = os.urandom(2 << 20)
    with place.create() as journal:
        journal.append(intended("c1"))
        (event,) = journal.append(completed("c1", stdout=output))
        assert event.out["stdout"].file.endswith(".blob")
        assert journal.reader().attachment(event, "stdout") == output


def test_an_observation_reads_back_from_the_line_or_the_pack(place: Place) -> None:
    with place.create() as journal:
        journal.append(intended("c1"))
        _, event = journal.append(completed("c1"), observed("c1", b'{"n":[1,null]}'))
        value = journal.reader().observation(event)
        assert not isinstance(value, Shredded)
        assert value == {"n": [1, None]}


def test_a_refused_append_leaves_nothing_and_the_journal_usable(place: Place) -> None:
    with place.create() as journal:
        journal.append(intended("c1"))
        before = place.segment().read_bytes()
        with pytest.raises(DuplicateIdem):
            journal.append(note("never"), intended("c1"))
        assert place.segment().read_bytes() == before
        journal.append(note("after"))
    assert place.verify().status == "intact"


def test_a_float_in_an_argument_is_refused(place: Place) -> None:
    event = intended("c1")
    payload = event.payload.model_copy(update={"arguments": {"rate": 0.5}})
    with place.create() as journal, pytest.raises(LineProfileError, match="float"):
        journal.append(NewEvent(payload))


def test_an_unknown_outcome_blocks_its_host_until_reconciled(place: Place) -> None:
    with place.create() as journal:
        journal.append(intended("c1", "destroys"))
        journal.append(unknown("c1"))
        assert [intent.command_id for intent in journal.unreconciled("box")] == ["c1"]
        with pytest.raises(HostBlocked, match="c1"):
            journal.append(intended("c2", "changes"))
        journal.append(reconciled("c1"))
        journal.append(intended("c2", "changes"))
        assert not journal.unreconciled()
        journal.append(completed("c2"))


def test_threads_at_a_barrier_share_one_unbroken_chain(place: Place) -> None:
    threads, each = 8, 20
    barrier = threading.Barrier(threads)
    with place.create() as journal:

        def work(number: int) -> None:
            barrier.wait()
            for turn in range(each):
                journal.append(intended(f"t{number}-{turn}"))

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        events = list(journal.reader().events(kinds={"command_intended"}))
        assert len(events) == threads * each
    assert place.verify().finding is None


def test_sessions_one_after_another_continue_one_stream(place: Place) -> None:
    for number in range(3):
        with place.create() if number == 0 else place.open() as journal:
            journal.append(note(f"session {number}"))
    assert len(place.layout.streams()) == 1
    assert place.verify().status == "intact"


def test_two_writers_at_once_get_a_stream_each_and_merge_in_a_fixed_order(place: Place) -> None:
    with place.create() as first, place.open() as second:
        assert first.stream != second.stream
        for number in range(4):
            (first if number % 2 else second).append(note(str(number)))
        merged = [event.id for event in first.reader().events()]
        assert merged == [event.id for event in second.reader().events()]
        texts = [
            event.payload.model_dump()["text"]
            for event in first.reader().events(kinds={"incident_noted"})
        ]
        assert texts == ["0", "1", "2", "3"]
    assert place.verify().status == "intact"


def test_a_key_used_in_one_stream_is_used_in_all(place: Place) -> None:
    with place.create() as first, place.open() as second:
        first.append(intended("c1"))
        with pytest.raises(DuplicateIdem):
            second.append(intended("c1"))
        first.append(completed("c1"))


@pytest.mark.parametrize(("stuck", "often"), [(False, True), (True, True), (True, False)])
def test_a_key_is_known_to_others_however_many_segments_it_lies_behind(
    tmp_path: Path, *, stuck: bool, often: bool
) -> None:
    """A follower looks at one file of each stream; the stream goes on in others.

    stuck: the first full segment cannot be compressed, so that file neither grows nor goes. The
    appends that filled it are acknowledged all the same. often: the follower looks after each
    event; else only once the first segment is just full, and when all is done.
    """
    place = Place(tmp_path)
    place.settings = Settings(random=seeded(7), machine=MACHINE, segment_bytes=2_500)
    looked = False
    with place.create() as first, place.open() as second:
        if stuck:
            (place.layout.stream(first.stream) / "000000.jsonl.zst").mkdir()
        for number in range(24):
            first.append(intended(f"c{number}"))
            full = place.layout.segments(first.stream)[0].stat().st_size >= 2_500
            if often or (full and not looked):
                looked = True
                with pytest.raises(DuplicateIdem):
                    second.append(intended(f"c{number}"))
        assert len(place.layout.segments(first.stream)) > 3
        for number in range(24):
            with pytest.raises(DuplicateIdem):
                second.append(intended(f"c{number}"))
    assert place.verify().finding is None


def test_the_clock_set_back_reorders_nothing(place: Place) -> None:
    with place.create() as journal:
        journal.append(note("before"))
        place.clock.back(3_600_000_000)
        journal.append(note("after"))
    texts = [
        event.payload.model_dump()["text"]
        for event in Reader.open(place.path).events(kinds={"incident_noted"})
    ]
    assert texts == ["before", "after"]
    verification = place.verify()
    assert verification.status == "intact"
    assert "CLOCK_WENT_BACK" in {remark.code for remark in verification.remarks}


def test_an_event_is_found_by_prefix_or_place_and_by_nothing_ambiguous(place: Place) -> None:
    with place.create() as journal:
        (event,) = journal.append(note("x"))
        reader = journal.reader()
        assert reader.event(event.id[:-2]) == event
        assert reader.event(event.id.lower()) == event
        assert reader.event(event.place) == event
        assert reader.event(str(event.seq)) == event
        for wrong in ("01", "ZZZZ", f"{event.stream}:999", "999"):
            with pytest.raises(EventNotFound):
                reader.event(wrong)
        with place.open() as beside:
            beside.append(note("in a stream of its own"))
            with pytest.raises(EventNotFound, match="fits 2 events"):
                reader.event("1")


def test_incidents_are_listed_with_their_resolution(place: Place) -> None:
    with place.create() as journal:
        journal.append(NewEvent(IncidentOpened(title="hung", job="train"), incident="I1"))
        journal.append(NewEvent(IncidentOpened(title="slow", job=None), incident="I2"))
        closed = IncidentClosed(resolution="RECOVERED", reason="steps advance", evidence=("e",))
        journal.append(NewEvent(closed, incident="I1"))
        found = journal.reader().incidents()
    assert [(one.id, one.resolution) for one in found] == [("I1", "RECOVERED"), ("I2", None)]


def test_a_forked_child_cannot_append(place: Place) -> None:
    with place.create() as journal:
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                journal.append(note("from the child"))
                os.write(write_end, b"appended")
            except JournalClosed:
                os.write(write_end, b"refused")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read_end, 20) == b"refused"
        os.close(read_end)
        os.close(write_end)


def test_files_can_be_read_by_their_owner_only(place: Place) -> None:
    old = os.umask(0)
    try:
        twenty_events(place)
    finally:
        os.umask(old)
    for path in [place.path, *place.path.rglob("*"), *place.keys.folder.rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_secrets_reach_neither_segment_nor_pack_nor_index(place: Place) -> None:
    event = intended("c1")
    payload = event.payload.model_copy(update={"argv": ("login", "--password", "hunter2")})
    with place.create() as journal:
        journal.append(NewEvent(payload, host=HOST))
        (outcome,) = journal.append(completed("c1", stdout=b"using password=hunter2 now"))
        assert outcome.redacted == {"assignment": 1}
        assert b"[redacted:assignment]" in bytes(
            journal.reader().attachment(outcome, "stdout")  # type: ignore[arg-type]  # not shredded
        )
    for path in place.path.rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes(), path


@pytest.mark.parametrize("content", ["", "not a folder"])
def test_create_never_takes_over_what_is_there(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.journal"
    if content:
        path.write_text(content)
    else:
        path.mkdir()
        (path / "something").write_text("mine")
    with pytest.raises(JournalExists):
        Place(tmp_path).create()


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"format":2,"journal":"J"}', '{"format":1}', "\xff"]
)
def test_a_folder_that_is_no_journal_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "x.journal"
    path.mkdir()
    if text is not None:
        (path / "format.json").write_text(text)
    with pytest.raises(NotAJournal, match=r"x\.journal"):
        Reader.open(path)
    with pytest.raises(NotAJournal):
        Journal.open(path, clock=SteppingClock(), actor=Actor("human", "a"), keys=tmp_path / "k")


def test_a_signing_key_that_others_can_read_is_refused(place: Place) -> None:
    place.create().close()
    (key,) = place.keys.folder.glob("*.key")
    key.chmod(0o644)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        place.open()


def test_the_format_file_is_not_believed(place: Place, tmp_path: Path) -> None:
    """Another journal's id in ``format.json`` makes every session and seal foreign."""
    twenty_events(place)
    other = Place(tmp_path / "other", seed=8)
    twenty_events(other)
    stolen = json.loads(other.layout.format_file.read_bytes())
    assert isinstance(place.layout, Layout)
    place.layout.format_file.write_text(json.dumps(stolen))
    verification = place.verify()
    assert verification.finding is not None
    assert verification.finding.code == "FOREIGN"
