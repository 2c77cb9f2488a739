"""Filling the index: lines that the segments have and the tables have not, in batches of columns.

Here: where the tables end, the lines behind that, and their rows. Not here: opening, replacing and
locking the file (``journal.index``), the tables (``journal.index_schema``).
"""

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import duckdb

from journal.blobs import BlobFault, BlobReader
from journal.envelope import outputs_of
from journal.errors import Corrupt, IndexFailed
from journal.index_schema import INSERT, INSERT_OUTPUTS
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.segments import StoredLine, iterate

BATCH_LINES = 8192
INLINE_BYTES = 4096  # longer outputs stay in the pack; a text column of whole logs bloats the file
_TAIL_BYTES = 160
_REMEDY = "ask agentops verify which is right; agentops journal reindex goes by the log"
_OUT_MARK = b'"out":{'
_DATA, _ID, _HOST = ',"data":', ',"id":"', ',"host":{"fingerprint":"'
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_HOST_OBJECT = re.compile(rf',"host":\{{"fingerprint":{_STRING},"name":{_STRING}\}}')


class IndexAhead(IndexFailed):
    """The index holds events that the segments do not."""


@dataclass(slots=True)
class _Position:
    next_seq: int = 0
    segment: int = 0
    at: int = 0
    leaf: bytes = b""


@dataclass(slots=True)
class _Batch:
    """Columns of lines that wait to be inserted."""

    seqs: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    ats: list[int] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    datas: list[str | None] = field(default_factory=list)
    tails: list[str] = field(default_factory=list)
    with_output: list[tuple[int, bytes]] = field(default_factory=list)


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """What is inserted inside is there whole, or not at all once the connection is closed."""
    connection.execute("BEGIN")
    yield
    connection.execute("COMMIT")


def add_missing(
    layout: Layout,
    connection: duckdb.DuckDBPyConnection,
    around_batch: Callable[[], AbstractContextManager[None]],
) -> None:
    """Add what is missing, each batch inside *around_batch*.

    Raises:
        IndexAhead: The segments end before the index does.
        Corrupt: A line that is to be added has no envelope.
        duckdb.Error: DuckDB cannot write it.
    """
    known = _positions(connection)
    streams = layout.streams()
    if gone := set(known) - set(streams):
        name = min(str(one) for one in gone)
        raise IndexAhead(f"the index knows stream {name}, which has no segments; {_REMEDY}")
    for stream in streams:
        position = known.get(stream, _Position())
        batches = _batches(stream, position.next_seq, _missing_lines(layout, stream, position))
        for batch in _one_ahead(batches):
            with around_batch():
                _insert(connection, layout, stream, batch)


def _batches(stream: str, seq: int, lines: Iterator[StoredLine]) -> Iterator["_Batch"]:
    while chunk := list(islice(lines, BATCH_LINES)):
        yield _batch(stream, seq, chunk)
        seq += len(chunk)


def _one_ahead(batches: Iterator["_Batch"]) -> Iterator["_Batch"]:
    """The same batches; the next one is read and hashed while DuckDB inserts the one before."""
    first = next(batches, None)
    if first is None:
        return
    if len(first.seqs) < BATCH_LINES:
        yield first
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        ahead = worker.submit(next, batches, None)
        yield first
        while (batch := ahead.result()) is not None:
            ahead = worker.submit(next, batches, None)
            yield batch


def _positions(connection: duckdb.DuckDBPyConnection) -> dict[str, _Position]:
    # The last rows alone are read whole; arg_max would read four columns of a million.
    rows = connection.execute(
        "SELECT stream, seq, segment, byte_offset, leaf FROM event "
        "JOIN (SELECT stream, max(seq) AS seq FROM event GROUP BY stream) USING (stream, seq)"
    ).fetchall()
    return {
        stream: _Position(seq + 1, segment or 0, max(at or 0, 0), bytes(leaf or b""))
        for stream, seq, segment, at, leaf in rows
        if seq is not None
    }


def _missing_lines(layout: Layout, stream: str, after: _Position) -> Iterator[StoredLine]:
    """The lines behind the last indexed one, which must still be where it was."""
    found, is_there = after.next_seq == 0, False
    for path in layout.segments(stream):
        number = int(path.name[:6])
        if number < after.segment:
            continue
        _make_durable(path)
        start = after.at if number == after.segment else 0
        for stored in iterate(path, start):
            if found:
                yield stored
            elif leaf_hash(stored.line) == after.leaf:
                found = True
            else:
                is_there = True
                break
        if not found:
            break
    if not found:
        seq = f"event {after.next_seq - 1} of stream {stream}"
        if is_there:
            raise IndexAhead(f"the log has another line where the index has {seq}; {_REMEDY}")
        raise IndexAhead(f"the index has {seq}, and the log ends before it; {_REMEDY}")


def _make_durable(path: Path) -> None:
    """What is indexed must not vanish from the segment in a power cut."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # compressed just now, and that is synced
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _batch(stream: str, seq: int, chunk: list[StoredLine]) -> _Batch:
    batch = _Batch()
    of_stream = b',"stream":"%b"' % stream.encode()
    segment, segment_number = chunk[0].segment, int(chunk[0].segment.name[:6])
    for number, stored in enumerate(chunk, start=seq):
        line = stored.line
        # Place and stream are among the last fields; the whole link is verify's business. A hole
        # that a power cut left is set aside by the next opener: its lines must not be here then.
        if line.find(b'"seq":%d%b' % (number, of_stream), -_TAIL_BYTES) < 0 or b"\x00" in line:
            raise Corrupt(
                "the line is not the one that follows", stream=stream, seq=number,
                where=stored.where,
            )  # fmt: skip
        if stored.segment is not segment:
            segment, segment_number = stored.segment, int(stored.segment.name[:6])
        batch.seqs.append(number)
        batch.segments.append(segment_number)
        batch.ats.append(stored.offset)
        batch.leaves.append(leaf_hash(line).hex())
        head, data, tail = parted(line.decode("utf-8", "replace"))
        batch.heads.append(head)
        batch.datas.append(data)
        batch.tails.append(tail)
        if _OUT_MARK in line:
            batch.with_output.append((number, line))
    return batch


def parted(line: str) -> tuple[str, str | None, str]:
    """A line before its data, its data, and what follows; put together they are the line.

    In canonical JSON no string holds a bare quote, so a name with its quotes is found by its text.
    The host, if there is one, stands between the data and the id. A line that is no event is all
    head.
    """
    start, end = line.find(_DATA) + len(_DATA), line.rfind(_ID)
    if start < len(_DATA) or end < start:
        return line, None, ""
    host = line.rfind(_HOST, start, end)
    if host >= 0 and _HOST_OBJECT.fullmatch(line, host, end):
        end = host
    return line[:start], line[start:end], line[end:]


def _insert(
    connection: duckdb.DuckDBPyConnection, layout: Layout, stream: str, batch: _Batch
) -> None:
    connection.execute(
        INSERT,
        {
            "stream": stream,
            "seqs": batch.seqs,
            "segments": batch.segments,
            "ats": batch.ats,
            "leaves": batch.leaves,
            "heads": batch.heads,
            "datas": batch.datas,
            "tails": batch.tails,
        },
    )
    _insert_outputs(connection, layout, stream, batch.with_output)


def _insert_outputs(
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    stream: str,
    lines: list[tuple[int, bytes]],
) -> None:
    columns: dict[str, list[object]] = {
        name: []
        for name in (
            "seqs", "names", "commitments", "lengths", "stored", "truncated", "files", "ats",
            "contents",
        )
    }  # fmt: skip
    outputs = [(seq, *one) for seq, line in lines for one in outputs_of(line).items()]
    with BlobReader(layout.blobs(stream)) as blobs:
        for seq, name, reference in outputs:
            content: str | None = None
            if reference.stored_bytes <= INLINE_BYTES:
                try:
                    content = blobs.read(reference).decode("utf-8", "replace")
                except BlobFault:
                    content = None  # verify says what is wrong with it
            row = (
                seq, name, reference.commitment, reference.length_bytes, reference.stored_bytes,
                reference.truncated, reference.file, reference.offset, content,
            )  # fmt: skip
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    if columns["seqs"]:
        connection.execute(INSERT_OUTPUTS, {"stream": stream, **columns})
