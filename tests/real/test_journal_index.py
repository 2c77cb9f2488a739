"""The index: always current for its reader, never in anybody's way, replaceable at any time."""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from journal import HostRef, Journal, NewEvent, Reader
from journal.errors import IndexFailed, QueryFailed
from journal.events import IncidentNoted
from journal.index import rebuild
from journal.index_fill import IndexAhead, parted
from tests.support import index_holder
from tests.support.journals import (
    HOST,
    Place,
    completed,
    intended,
    note,
    observed,
    twenty_events,
    without_its_second_stream,
)
from tests.support.torture import rounds

COUNT = "SELECT count(*) FROM event"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    twenty_events(place)
    return place


def count(place: Place) -> int:
    (row,) = Reader.open(place.path).query(COUNT).rows
    assert isinstance(row[0], int)
    return row[0]


@contextmanager
def held_by_a_stranger(place: Place) -> Iterator[None]:
    script = str(Path(index_holder.__file__))
    with subprocess.Popen(
        [sys.executable, "-P", script, str(place.layout.index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


def test_a_query_sees_every_event_acknowledged_before_it(place: Place) -> None:
    with place.open() as journal:
        for number in range(5):
            journal.append(note(str(number)))
            seen = journal.reader().query(
                "SELECT count(*) FROM event WHERE kind = 'incident_noted'"
            )
            assert seen.rows == [(number + 2,)]


def test_rows_say_what_the_events_say(place: Place) -> None:
    rows = Reader.open(place.path).query(
        "SELECT stream, seq, id, kind, incident, host, idem, encode(line) FROM event ORDER BY seq"
    )
    events = list(Reader.open(place.path).events())
    assert rows.rows == [
        (e.stream, e.seq, e.id, e.kind, e.incident, e.host and e.host.name, e.idem, e.line)
        for e in events
    ]


def test_data_is_the_lines_own_data_and_the_parts_are_the_line(place: Place) -> None:
    """Whatever the words say: a quote inside a text is escaped, and only names have bare ones."""
    tricky = '","data":{"x":1},"host":{"fingerprint":"f","name":"n"},"id":"y'
    for host in (HOST, HostRef(tricky, "f"), None):
        with place.open() as journal:
            new = NewEvent(IncidentNoted(text=tricky), host=host, cause=tricky, incident=tricky)
            journal.append(new, note('"'), intended("c" + str(host)[-9:], host=host))
    rows = Reader.open(place.path).query("SELECT data, line, line -> '$.data' FROM event").rows
    assert [json.loads(str(data)) for data, _, _ in rows] == [
        json.loads(str(line))["data"] for _, line, _ in rows
    ]
    assert place.verify().status == "intact"
    nested = '{"actor":1,"data":{"a":{},"host":{"fingerprint":"","name":""}},"id":"z","v":1}'
    for line in (nested, nested.replace('},"id"', ',"z":"w"},"id"'), "", "{}", '{"id":"x"}'):
        head, data, tail = parted(line)
        assert head + (data or "") + tail == line
        if data is not None:
            assert json.loads(data) == json.loads(line)["data"]


def test_the_views_answer_an_auditors_questions(place: Place) -> None:
    reader = Reader.open(place.path)
    commands = reader.query("SELECT command_id, outcome FROM command ORDER BY intent_seq").rows
    assert commands == [("c0", "completed"), ("c1", "completed"), ("c2", "completed"),
                        ("k1", "completed")]  # fmt: skip
    assert reader.query("SELECT observation ->> '$.n' FROM observation ORDER BY seq").rows == [
        ("0",), ("1",), ("2",),
    ]  # fmt: skip
    assert reader.query("SELECT count(*) FROM in_doubt").rows == [(0,)]
    views = [name for (name,) in reader.query(
        "SELECT view_name FROM duckdb_views() WHERE NOT internal").rows]  # fmt: skip
    assert {"command", "intent", "outcome", "observation", "in_doubt", "signal", "decision",
            "verdict", "incident", "log"} == set(views)  # fmt: skip
    for view in views:
        reader.query(f"SELECT * FROM {view}")  # noqa: S608 - names from the catalogue


def test_wrong_sql_is_one_clear_line_and_nothing_can_be_written(place: Place) -> None:
    reader = Reader.open(place.path)
    for sql in ("SELEC 1", "SELECT nothing FROM event", "DELETE FROM event", "DROP TABLE event"):
        with pytest.raises(QueryFailed) as caught:
            reader.query(sql)
        assert "\n" not in str(caught.value)
    assert count(place) == len(place.lines())


def test_a_stranger_who_holds_the_index_stops_no_append_and_no_query(place: Place) -> None:
    with held_by_a_stranger(place):
        with place.open() as journal:
            journal.append(note("while it is held"))
            assert len(list(journal.reader().events())) == len(place.lines())
            assert count(place) == len(place.lines())
        assert place.verify().status == "intact"
    assert count(place) == len(place.lines())
    assert place.verify().status == "intact"


def test_a_reader_holds_up_no_writer(place: Place) -> None:
    """The index is open for a long query while events are appended and acknowledged."""
    with duckdb.connect(place.layout.index, read_only=True) as reading, place.open() as journal:
        before = reading.execute(COUNT).fetchall()
        for number in range(20):
            journal.append(note(str(number)))
        assert reading.execute(COUNT).fetchall() == before


def test_an_index_that_is_gone_or_of_another_version_is_built_anew(place: Place) -> None:
    place.layout.index.unlink()
    assert count(place) == len(place.lines())
    with duckdb.connect(place.layout.index) as connection:
        connection.execute("UPDATE meta SET value = '0'")
    assert count(place) == len(place.lines())
    place.layout.index.write_bytes(b"not a database at all" * 500)
    assert count(place) == len(place.lines())
    assert len(list(place.layout.quarantine.iterdir())) >= 2
    rebuild(place.layout)
    assert place.verify().status == "intact"


@pytest.mark.parametrize("change", ["UPDATE meta SET value = '2'", "DROP TABLE meta"])
def test_an_index_of_another_version_is_not_compared_and_costs_no_verification(
    place: Place, change: str
) -> None:
    """It says so; what is verified is the log."""
    with duckdb.connect(place.layout.index) as connection:
        connection.execute(change)
    found = place.verify()
    assert found.status == "intact"
    assert [remark.code for remark in found.remarks] == ["INDEX_UNCHECKED"]


def test_damaged_index_files_never_cost_an_event(place: Place) -> None:
    """Main file and WAL cut and flipped at random places, as a crash or a bad disk would."""
    chance = random.Random(9)  # noqa: S311 - repeatable on purpose
    place.open().close()
    with duckdb.connect(place.layout.index) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute("INSERT INTO meta VALUES ('later', 'x')")
    wal = Path(f"{place.layout.index}.wal")
    assert wal.exists()
    main_bytes, wal_bytes = place.layout.index.read_bytes(), wal.read_bytes()
    for _ in range(rounds(12, 200)):
        main, log = bytearray(main_bytes), bytearray(wal_bytes)
        victim = chance.choice([main, log])
        if chance.random() < 0.5:
            del victim[chance.randrange(len(victim)) :]
        else:
            victim[chance.randrange(len(victim))] ^= 1 << chance.randrange(8)
        place.layout.index.write_bytes(main)
        wal.write_bytes(log)
        assert count(place) == len(place.lines())
        wal.unlink(missing_ok=True)
    rebuild(place.layout)
    assert place.verify().status == "intact"


def test_an_index_that_knows_more_than_the_segments_is_refused(place: Place) -> None:
    place.put_lines(place.lines()[:-2])
    with pytest.raises(IndexAhead, match=r"the log ends before it; .*agentops journal reindex"):
        Reader.open(place.path).query(COUNT)
    assert issubclass(IndexAhead, IndexFailed)


def test_an_index_that_does_not_fit_an_edited_log_says_that_the_line_is_another(
    place: Place,
) -> None:
    """Nothing is cut off there, so nothing is said to be."""
    lines = place.lines()
    place.put_lines([*lines[:-1], lines[-1].replace(b'"actor"', b'"Actor"')])
    with pytest.raises(IndexAhead, match="the log has another line where the index has event"):
        Reader.open(place.path).query(COUNT)


@pytest.mark.parametrize(
    "lie",
    [
        "CREATE OR REPLACE VIEW log AS SELECT 1 AS nothing",
        "CREATE MACRO count_star() AS 7",
        "ALTER TABLE output ADD COLUMN more VARCHAR",
    ],
)
def test_a_question_is_answered_by_no_definition_but_the_shipped(place: Place, lie: str) -> None:
    with duckdb.connect(place.layout.index) as connection:
        connection.execute(lie)
    assert count(place) == len(place.lines())
    (row,) = Reader.open(place.path).query("SELECT count(kind) FROM log").rows
    assert row == (len(place.lines()),)
    assert place.verify().status == "intact"


def test_an_index_that_knows_a_stream_that_is_gone_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    gone = without_its_second_stream(place)
    with pytest.raises(IndexAhead, match=gone):
        Reader.open(place.path).query(COUNT)


def test_verifying_while_ten_thousand_events_are_written_raises_no_false_alarm(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    total = rounds(2_000, 10_000)
    done = threading.Event()

    def write(journal: Journal) -> None:
        for number in range(total // 4):
            journal.append(
                intended(f"c{number}"), completed(f"c{number}", stdout=b"x" * 50),
                observed(f"c{number}", b"{}"), note("x" * (number % 300)),
            )  # fmt: skip
        done.set()

    with place.create() as journal:
        writer = threading.Thread(target=write, args=(journal,))
        writer.start()
        looks = 0
        while not done.is_set():
            verification = place.verify()
            assert verification.finding is None, str(verification.finding)
            assert count(place) <= len(place.lines())
            looks += 1
        writer.join()
    assert looks > 1
    assert place.verify().status == "intact"


def test_a_seal_made_while_the_log_is_verified_is_no_missing_seal(place: Place) -> None:
    """The log is checked against the notes read before it; what is sealed meanwhile is newer."""
    stop = threading.Event()
    turns = threading.Semaphore(0)  # so many seals for each look: the log must not outgrow it
    with place.open() as journal:

        def seal() -> None:
            while turns.acquire() and not stop.is_set():
                journal.append(note("x"))
                journal.seal()

        writer = threading.Thread(target=seal)
        writer.start()
        try:
            for _ in range(rounds(15, 300)):
                turns.release(6)
                finding = place.verify().finding
                assert finding is None, str(finding)
        finally:
            stop.set()
            turns.release()
            writer.join()
    assert place.verify().status == "intact"
