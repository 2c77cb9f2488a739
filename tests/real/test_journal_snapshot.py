"""Copies for notebooks, answers as files, sizes."""

import json
from pathlib import Path

import duckdb
import pytest

from journal.errors import JournalExists, NotAJournal, QueryFailed
from journal.querying import query_to
from journal.reader import Reader
from journal.snapshot import sizes, snapshot
from journal.snapshot_check import is_snapshot, verify_snapshot
from tests.support.journals import Place, note, twenty_events


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    twenty_events(place)
    return place


def test_a_snapshot_is_intact_against_the_anchor_and_nothing_without_it(place: Place) -> None:
    copy = place.root / "copy.duckdb"
    snapshot(place.layout, copy)
    assert is_snapshot(copy)
    assert verify_snapshot(copy, keys=place.keys).status == "intact"
    assert verify_snapshot(copy, keys=place.keys, anchors=[]).status == "unsealed"
    assert verify_snapshot(copy).status == "unsealed"


def test_a_snapshot_is_compared_with_a_dropped_anchor_too(place: Place) -> None:
    copy = place.root / "copy.duckdb"
    snapshot(place.layout, copy)
    place.keys.drop(Reader.open(place.path).journal_id, str(place.anchor))
    assert verify_snapshot(copy, keys=place.keys).status == "intact"
    place.anchor.unlink()
    assert verify_snapshot(copy, keys=place.keys).status == "unsealed"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("UPDATE event SET data = replace(data, 'never', 'nevar')", "INDEX_DIFFERS"),
        ("UPDATE event SET host = 'other' WHERE seq = 4", "INDEX_DIFFERS"),
        ("DELETE FROM event WHERE seq = 4", "INDEX_DIFFERS"),
        ("DELETE FROM event WHERE seq > 8", "ROLLBACK"),
    ],
)
def test_a_changed_snapshot_is_found(place: Place, sql: str, code: str) -> None:
    copy = place.root / "copy.duckdb"
    snapshot(place.layout, copy)
    with duckdb.connect(copy) as connection:
        connection.execute(sql)
    finding = verify_snapshot(copy, keys=place.keys).finding
    assert finding is not None
    assert finding.code == code


def test_what_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(b"no database" * 1000)
    assert not is_snapshot(path)
    assert not is_snapshot(tmp_path)
    with pytest.raises(NotAJournal):
        verify_snapshot(path)
    path.unlink()
    duckdb.connect(path).close()
    with pytest.raises(NotAJournal):
        verify_snapshot(path)


def test_a_parquet_snapshot_holds_every_line(place: Place) -> None:
    snapshot(place.layout, place.root / "parquet", parquet=True)
    rows = duckdb.execute(
        f"SELECT encode(line) FROM '{place.root}/parquet/event.parquet' ORDER BY seq"  # noqa: S608
    ).fetchall()
    assert [line for (line,) in rows] == place.lines()


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_an_answer_can_be_a_file(place: Place, form: str) -> None:
    target = place.root / f"answer.{form}"
    query_to(place.layout, "SELECT kind, count(*) AS n FROM event GROUP BY 1;", target, form)  # type: ignore[arg-type]  # one of the three
    assert target.stat().st_size > 0
    if form == "json":
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        assert sum(row["n"] for row in rows) == len(place.lines())
    with pytest.raises(JournalExists):
        query_to(place.layout, "SELECT 1", target, "csv")
    with pytest.raises(QueryFailed):
        query_to(place.layout, "SELECT nothing", place.root / "none", "csv")


def test_sizes_add_up(place: Place) -> None:
    before = sizes(place.layout)
    assert before.events == len(place.lines())
    assert before.log_bytes == place.segment().stat().st_size
    with place.open() as journal:
        journal.append(note("more"))
    assert sizes(place.layout).log_bytes > before.log_bytes
