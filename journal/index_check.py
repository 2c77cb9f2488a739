"""Comparing the index with the segments, row by row: two copies that a change must both fool.

Reads ``journal.duckdb`` as it is, without bringing it up. That the index lags is no fault; that a
row says something else than the line is. Not here: which of the two is the evidence (the segment,
always), repair (``journal.index.rebuild``).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from journal.envelope import Event
from journal.findings import Finding
from journal.index import SETTINGS, first_line, schema_of
from journal.index_schema import COLUMNS_DIFFER, SCHEMA_VERSION
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.locks import locked_within

_CHUNK_ROWS = 2048
_LOCK_S = 5.0


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One row of ``event``."""

    seq: int
    leaf: bytes
    line: bytes


@dataclass(slots=True)
class IndexCheck:
    """The comparison of one stream under way.

    Attributes:
        difference: The first row that differs from the line read from the segment.
        agreed: Rows that were compared and equal.
    """

    stream: str
    rows: Iterator[IndexRow]
    outputs: Iterator[tuple[int, str, str, str | None]]
    difference: IndexRow | None = None
    output_difference: tuple[int, str] | None = None
    agreed: int = 0

    def compare(self, event: Event, outputs: Mapping[str, bytes]) -> None:
        """Compare the next row with the next line, and its outputs with those from the pack."""
        if self.difference is not None:
            return
        if event.out and self.output_difference is None:
            self._compare_outputs(event, outputs)
        row = next(self.rows, None)
        if row is None:
            return
        if row.line != event.line or row.leaf.hex() != event.leaf or row.seq != event.seq:
            self.difference = row
        else:
            self.agreed += 1

    def _compare_outputs(self, event: Event, outputs: Mapping[str, bytes]) -> None:
        for _ in event.out:
            row = next(self.outputs, None)
            if row is None:
                return
            seq, name, commitment, content = row
            reference = event.out.get(name)
            good = seq == event.seq and reference is not None
            good = good and reference is not None and reference.commitment == commitment
            if good and content is not None and name in outputs:
                good = content == outputs[name].decode("utf-8", "replace")
            if not good:
                self.output_difference = (event.seq, name)
                return

    def next_row(self) -> IndexRow | None:
        """The row that follows the last compared one: what the index holds where a line is bad."""
        return self.difference or next(self.rows, None)


@contextmanager
def comparing(layout: Layout) -> Iterator["IndexReader | str"]:
    """The index opened for comparison, or why it cannot be."""
    if not layout.index.exists():
        yield "there is no index"
        return
    if not layout.index_lock.exists():
        yield from _opened(layout)
        return
    with locked_within(layout.index_lock, deadline_s=_LOCK_S, shared=True) as held:
        if held:
            yield from _opened(layout)
        else:
            yield "the index is being rebuilt"


class IndexReader:
    """An open index."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def stream(self, name: str) -> IndexCheck:
        """A comparison for one stream."""
        return IndexCheck(name, self._rows(name), self._outputs(name))

    def streams(self) -> dict[str, int]:
        """Stream -> number of rows."""
        rows = self._connection.execute("SELECT stream, count(*) FROM event GROUP BY 1").fetchall()
        return dict(rows)

    def column_difference(self) -> Finding | None:
        """The first row whose columns are not what its own line says."""
        row = self._connection.execute(COLUMNS_DIFFER).fetchone()
        if row is None:
            return None
        return Finding(
            "INDEX_DIFFERS", "index", row[0], row[1], "journal.duckdb",
            "a column is not what the line says; rebuild it with: agentops journal reindex",
        )  # fmt: skip

    def _rows(self, stream: str) -> Iterator[IndexRow]:
        cursor = self._connection.cursor()
        cursor.execute("SELECT seq, leaf, line FROM event WHERE stream = ? ORDER BY seq", [stream])
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            for seq, leaf, line in rows:
                yield IndexRow(seq, bytes(leaf or b""), (line or "").encode())

    def _outputs(self, stream: str) -> Iterator[tuple[int, str, str, str | None]]:
        cursor = self._connection.cursor()
        cursor.execute(
            "SELECT seq, name, commitment, content FROM output WHERE stream = ? ORDER BY seq, name",
            [stream],
        )
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            yield from rows


def judge(check: IndexCheck, sealed: int) -> Finding | None:
    """Which copy is wrong where the segment's chain holds and the index says something else."""
    row = check.difference
    if row is None:
        if check.output_difference is None:
            return None
        seq, name = check.output_difference
        text = f"the index's copy of output {name} was changed, the pack holds"
        return Finding("INDEX_DIFFERS", "index", check.stream, seq, "journal.duckdb", text)
    if row.seq >= sealed and row.leaf == leaf_hash(row.line):
        text = (
            "index and segment differ, and no seal covers the event; the index's line fits its "
            "own hash, so the segment's was probably changed"
        )
        return Finding("INDEX_DIFFERS", "segment", check.stream, row.seq, "journal.duckdb", text)
    text = "the index was changed, the segment holds; rebuild with: agentops journal reindex"
    return Finding("INDEX_DIFFERS", "index", check.stream, row.seq, "journal.duckdb", text)


def _of_another_version(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Why the tables are not those that this software compares; None where they are."""
    try:
        found = schema_of(connection)
    except duckdb.Error as error:
        return f"the index cannot be read: {first_line(error)}"
    if found == str(SCHEMA_VERSION):
        return None
    return (
        f"the index has tables of version {found}, this software reads {SCHEMA_VERSION};"
        " the next question builds it anew"
    )


def _opened(layout: Layout) -> Iterator["IndexReader | str"]:
    try:
        connection = duckdb.connect(layout.index, read_only=True, config=SETTINGS)
    except duckdb.Error as error:
        yield f"the index cannot be opened: {first_line(error)}"
        return
    try:
        stranger = _of_another_version(connection)
        yield IndexReader(connection) if stranger is None else stranger
    finally:
        connection.close()
