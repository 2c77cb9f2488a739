"""Comparing the index with the segments, row by row: two copies that a change must both fool.

Reads ``journal.duckdb`` as it is, without bringing it up. That the index lags is no fault; that a
row says something else than the line is. Not here: which of the two is the evidence (the segment,
always), repair (``journal.index.rebuild``).
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from journal.envelope import Event
from journal.findings import Finding
from journal.index import SETTINGS, first_line
from journal.index_catalogue import strange
from journal.index_fill import INLINE_BYTES
from journal.index_schema import COLUMNS_DIFFER
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.locks import locked_within

_REMEDY = "build it anew with: agentops journal reindex"
_CHUNK_ROWS = 2048
_LOCK_S = 5.0
_OUTPUTS = (
    "SELECT seq, name, commitment, length_bytes, stored_bytes, truncated, file, byte_offset,"
    " content FROM output WHERE stream = ? ORDER BY seq, name"
)

OutputRow = tuple[Any, ...]  # as asked above; the content is last


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
        output_difference: The first event, and its output, of which the table says something else.
    """

    stream: str
    rows: Iterator[IndexRow]
    outputs: Iterator[OutputRow]
    difference: IndexRow | None = None
    output_difference: tuple[int, str] | None = None

    def compare(self, event: Event, outputs: Mapping[str, bytes]) -> None:
        """Compare the next row with the next line, and its outputs with those from the pack."""
        if self.difference is not None:
            return
        row = next(self.rows, None)
        if row is None:
            return
        if row.line != event.line or row.leaf.hex() != event.leaf or row.seq != event.seq:
            self.difference = row
            return
        if self.output_difference is None:
            self._compare_outputs(event, outputs)

    def _compare_outputs(self, event: Event, outputs: Mapping[str, bytes]) -> None:
        for name in sorted(event.out):
            row = next(self.outputs, None)
            if row is None or not _agrees(row, event, name, outputs.get(name)):
                self.output_difference = (event.seq, name)
                return

    def next_row(self) -> IndexRow | None:
        """The row that follows the last compared one: what the index holds where a line is bad."""
        return self.difference or next(self.rows, None)

    def next_output(self) -> OutputRow | None:
        """An output behind those of all compared events."""
        return next(self.outputs, None)


def _agrees(row: OutputRow, event: Event, name: str, content: bytes | None) -> bool:
    """What the pack holds is in content; None where it was not read, or was redacted."""
    reference = event.out[name]
    said = (
        event.seq, name, reference.commitment, reference.length_bytes, reference.stored_bytes,
        reference.truncated, reference.file, reference.offset,
    )  # fmt: skip
    if row[:-1] != said:
        return False
    if reference.stored_bytes > INLINE_BYTES:
        return row[-1] is None
    return content is None or row[-1] == content.decode("utf-8", "replace")


@contextmanager
def comparing(layout: Layout) -> Iterator["IndexReader | Finding | str"]:
    """The index opened for comparison; or what is wrong with all of it; or why it cannot be."""
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
    """An open index.

    Attributes:
        fault: Why it could not be read to its end, or None.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.fault: str | None = None

    def stream(self, name: str) -> IndexCheck:
        """A comparison for one stream."""
        rows = self._asked("SELECT seq, leaf, line FROM event WHERE stream = ? ORDER BY seq", name)
        return IndexCheck(
            name,
            (
                IndexRow(-1 if seq is None else seq, bytes(leaf or b""), (line or "").encode())
                for seq, leaf, line in rows
            ),
            self._asked(_OUTPUTS, name),
        )

    def foreign(self, streams: Collection[str]) -> Finding | None:
        """Rows of streams that are not among those of the log."""
        for table in ("event", "output"):
            for stream, rows in self._asked(f"SELECT stream, count(*) FROM {table} GROUP BY 1"):  # noqa: S608 - a name from above
                if stream not in streams:
                    text = f"it has {rows} rows of the stream {stream}, which the log has not"
                    return _differs(None, None, f"table {table}: {text}")
        return None

    def column_difference(self) -> Finding | None:
        """The first row whose columns are not what its own line says."""
        row = next(self._asked(COLUMNS_DIFFER), None)
        if row is None:
            return None
        return _differs(row[0], row[1], "a column is not what the line says")

    def _asked(self, sql: str, *values: str) -> Iterator[tuple[Any, ...]]:
        try:
            cursor = self._connection.cursor()
            cursor.execute(sql, list(values))
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                yield from rows
        except duckdb.Error as error:
            self.fault = f"the index cannot be read: {first_line(error)}; {_REMEDY}"


def _differs(stream: str | None, seq: int | None, text: str) -> Finding:
    message = f"{text}; {_REMEDY}"
    seq = None if seq is None or seq < 0 else seq  # a table takes any number
    return Finding("INDEX_DIFFERS", "index", stream, seq, "journal.duckdb", message)


def judge(check: IndexCheck, sealed: int) -> Finding | None:
    """Which copy is wrong where the segment's chain holds and the index says something else.

    What only the index has is never held against the segment: a row is added to a table by
    anybody, and what a seal covers is not cut off unnoticed.
    """
    row = check.difference
    if row is None:
        if check.output_difference is not None:
            seq, name = check.output_difference
            text = f"what the index says of output {name} was changed, the pack holds"
            return _differs(check.stream, seq, text)
        if (row := check.next_row()) is not None:
            text = (
                "the index goes on where the log ends: rows were added to it, or the log lost "
                "events that no seal covers"
            )
            return _differs(check.stream, row.seq, text)
        if (output := check.next_output()) is not None:
            text = f"the index has an output {output[1]} that the log has not"
            return _differs(check.stream, output[0], text)
        return None
    if row.seq >= sealed and row.leaf == leaf_hash(row.line):
        text = (
            "index and segment differ, and no seal covers the event; the index's line fits its "
            "own hash, so the segment's was probably changed"
        )
        return Finding("INDEX_DIFFERS", "segment", check.stream, row.seq, "journal.duckdb", text)
    return _differs(check.stream, row.seq, "the index was changed, the segment holds")


def _opened(layout: Layout) -> Iterator["IndexReader | Finding | str"]:
    try:
        connection = duckdb.connect(layout.index, read_only=True, config=SETTINGS)
    except duckdb.Error as error:
        yield f"the index cannot be opened: {first_line(error)}; {_REMEDY}"
        return
    with closing(connection):
        yield _as_found(connection)


def _as_found(connection: duckdb.DuckDBPyConnection) -> "IndexReader | Finding | str":
    try:
        stranger = strange(connection)
    except duckdb.Error as error:
        return f"the index cannot be read: {first_line(error)}; {_REMEDY}"
    if stranger is None:
        return IndexReader(connection)
    if stranger.explained:
        return f"the index {stranger.message}; {_REMEDY}"
    return _differs(None, None, f"the index {stranger.message}")
