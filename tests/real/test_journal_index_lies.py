"""Whatever the index is made to say: the segments hold, and the index is blamed."""

from pathlib import Path

import duckdb
import pytest

from journal.index import rebuild
from tests.support.journals import Place, twenty_events


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    twenty_events(place)
    return place


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE event SET data = replace(data, 'never', 'nevar') WHERE seq = ?",
        "UPDATE event SET head = head || left(data, 1), data = data[2:] WHERE seq = ?",
        "UPDATE event SET data = concat(data, left(tail, 1)), tail = tail[2:] WHERE seq = ?",
        "UPDATE event SET head = concat(head, data), data = NULL WHERE seq = ?",
        "UPDATE event SET leaf = 'x'::BLOB WHERE seq = ?",
        "UPDATE event SET kind = 'heartbeat' WHERE seq = ?",
        "UPDATE event SET exit_status = 7 WHERE seq = ?",
        "UPDATE event SET incident = NULL WHERE seq = ?",
        "DELETE FROM event WHERE seq = ?",
    ],
)
def test_a_change_in_the_table_is_found_and_blamed_on_the_index(place: Place, sql: str) -> None:
    seq = next(n for n, line in enumerate(place.lines()) if b"incident_noted" in line)
    with duckdb.connect(place.layout.index) as connection:
        connection.execute(sql, [seq])
    finding = place.verify().finding
    assert finding is not None, sql
    assert (finding.code, finding.copy) == ("INDEX_DIFFERS", "index")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE output SET content = 'PID ARGS' WHERE name = 'stdout'",
        "UPDATE output SET content = NULL",
        "UPDATE output SET length_bytes = 1",
        "UPDATE output SET stored_bytes = 1",
        "UPDATE output SET truncated = NOT truncated",
        "UPDATE output SET file = 'x'",
        "UPDATE output SET byte_offset = 9",
        "DELETE FROM output",
        "DELETE FROM output WHERE name = 'observation'",
        "INSERT INTO output SELECT * REPLACE (99 AS seq) FROM output LIMIT 1",
        "INSERT INTO output SELECT * REPLACE ('s7-00000000' AS stream) FROM output LIMIT 1",
        "INSERT INTO output SELECT * FROM output",
        "CREATE OR REPLACE VIEW signal AS SELECT * FROM command WHERE false",
        "CREATE OR REPLACE VIEW log AS SELECT * FROM event WHERE kind <> 'command_intended'",
        "DROP VIEW in_doubt",
        "CREATE MACRO count_star() AS 7",
        "CREATE MACRO json_extract_string(line, path) AS 'x'",
        "CREATE TYPE interval_of AS ENUM ('a')",
        "CREATE SCHEMA aside",
        "ALTER TABLE event RENAME TO event0; CREATE VIEW event AS SELECT * FROM event0",
        "DROP VIEW observation; DROP TABLE output",
        "ALTER TABLE output DROP COLUMN truncated",
        "INSERT INTO event (stream, seq, data) VALUES ('s7-00000000', 0, '{')",
        "INSERT INTO event (stream, seq) SELECT stream, 300 FROM event LIMIT 1",
        "INSERT INTO event (stream, seq) SELECT stream, NULL FROM event LIMIT 1",
        "INSERT INTO event (stream) VALUES (NULL)",
    ],
)
def test_whatever_else_the_index_is_made_to_say_is_its_own_fault(place: Place, sql: str) -> None:
    """The log is what it was; no change in the copy is held against it."""
    with duckdb.connect(place.layout.index) as connection:
        connection.execute(sql)
    finding = place.verify().finding
    assert finding is not None, sql
    assert (finding.code, finding.copy) == ("INDEX_DIFFERS", "index")
    assert "agentops journal reindex" in finding.message
    rebuild(place.layout)
    assert place.verify().status == "intact"
