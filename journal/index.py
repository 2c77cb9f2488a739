"""The index: ``journal.duckdb``, brought up to the segments in short batches.

Whoever wants it current takes the index lock, adds what is missing and lets go; nobody holds it for
a process's life. A foreign program that keeps the file open delays nobody: a fresh index is built
beside it and put in its place. A damaged file, or one of another DuckDB version, goes to quarantine
and is built anew. The segments are the evidence; this file may be deleted at any time.

Not here: the tables (``journal.index_schema``), asking (``journal.querying``), comparing index and
segments (``journal.verification``).
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import duckdb

from journal.blobs import BlobFault, BlobReader
from journal.disk import FILE_MODE, make_folder
from journal.envelope import outputs_of
from journal.errors import Corrupt, IndexFailed, QueryFailed
from journal.index_schema import INSERT, INSERT_OUTPUTS, SCHEMA_VERSION, TABLES, VIEWS
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.locks import locked
from journal.segments import StoredLine, iterate

BATCH_LINES = 8192
INLINE_BYTES = 4096  # longer outputs stay in the pack; a text column of whole logs bloats the file
_TAIL_BYTES = 160
_TRIES = 4
_BETWEEN_TRIES_S = 0.01
_OUT_MARK = b'"out":{'
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "autoinstall_known_extensions": False,
}


class IndexAhead(IndexFailed):
    """The index holds events that the segments do not: SEGMENT_TRUNCATED."""


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
    lines: list[str] = field(default_factory=list)
    with_output: list[tuple[int, bytes]] = field(default_factory=list)


def bring_up(layout: Layout) -> None:
    """Add to the index what the segments have and it has not.

    Raises:
        IndexAhead: The segments end before the index does.
        IndexFailed: DuckDB cannot write it.
        Corrupt: A line that is to be added has no envelope.
    """
    with locked(layout.index_lock):
        _bring_up_locked(layout)


def rebuild(layout: Layout) -> None:
    """Build a fresh index beside the present one and put it in its place."""
    with locked(layout.index_lock):
        _rebuild_locked(layout)


@contextmanager
def reading(layout: Layout) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an index that holds every event acknowledged before the call.

    Where the journal cannot be written, the index is built in memory.

    Raises:
        IndexAhead: The segments end before the index does.
        QueryFailed: The index cannot be opened.
    """
    if not os.access(layout.root, os.W_OK):
        with closing(_built_in_memory(layout)) as connection:
            yield connection
        return
    bring_up(layout)
    with locked(layout.index_lock, shared=True):
        try:
            connection = duckdb.connect(layout.index, read_only=True, config=SETTINGS)
        except duckdb.Error as error:
            raise QueryFailed(f"cannot open {layout.index}: {first_line(error)}") from error
        with closing(connection):
            yield connection


def first_line(error: Exception) -> str:
    """DuckDB's message without its hints."""
    return str(error).split("\n", 1)[0]


def _bring_up_locked(layout: Layout) -> None:
    if not layout.index.exists():
        _rebuild_locked(layout)
        return
    connection = _opened(layout)
    if connection is None:
        _rebuild_locked(layout)
        return
    try:
        fits = _version(connection) == str(SCHEMA_VERSION)
        if fits:
            _add_missing(layout, connection, partial(_transaction, connection))
    except duckdb.Error as error:
        if _is_disk_full(error):
            raise IndexFailed(f"cannot bring {layout.index} up: {first_line(error)}") from error
        fits = False
    finally:
        connection.close()
    if not fits:
        _set_aside(layout)
        _rebuild_locked(layout)


def _opened(layout: Layout) -> duckdb.DuckDBPyConnection | None:
    """The index open for writing; None if a stranger keeps it, or if it was damaged and set aside.

    A stranger who only looks is gone in a moment, and a whole new index takes longer than that.
    """
    for _ in range(_TRIES):
        try:
            return duckdb.connect(layout.index, config=SETTINGS)
        except duckdb.Error as error:
            if not _is_held_elsewhere(error):
                _set_aside(layout)
                return None
            time.sleep(_BETWEEN_TRIES_S)  # noqa: TID251 - a file lock of another program's
    return None


def _is_disk_full(error: duckdb.Error) -> bool:
    return "No space left" in str(error) or "Could not write" in str(error)


def _is_held_elsewhere(error: duckdb.Error) -> bool:
    """Another process has the file open, or this process has, in another mode."""
    return isinstance(error, duckdb.ConnectionException) or "set lock on file" in str(error)


def _rebuild_locked(layout: Layout) -> None:
    beside = layout.root / f".index-{os.getpid()}.duckdb"
    for leftover in layout.root.glob(".index-*.duckdb*"):
        leftover.unlink(missing_ok=True)
    try:
        connection = duckdb.connect(beside, config=SETTINGS)
        with closing(connection):
            _fill(layout, connection)
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        for leftover in layout.root.glob(".index-*.duckdb*"):
            leftover.unlink(missing_ok=True)
        raise IndexFailed(f"cannot build {layout.index}: {first_line(error)}") from error
    # A WAL left by a foreign program belongs to the file that is being replaced.
    Path(f"{layout.index}.wal").unlink(missing_ok=True)
    beside.chmod(FILE_MODE)
    beside.replace(layout.index)


def _built_in_memory(layout: Layout) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=SETTINGS)
    try:
        _fill(layout, connection)
    except duckdb.Error as error:
        connection.close()
        raise IndexFailed(f"cannot index {layout.root}: {first_line(error)}") from error
    return connection


def _fill(layout: Layout, connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(TABLES)
    connection.execute(VIEWS)
    connection.execute("INSERT INTO meta VALUES ('schema', ?)", [str(SCHEMA_VERSION)])
    # One transaction for all: full row groups go straight to their place, compressed once.
    with _transaction(connection):
        _add_missing(layout, connection, nullcontext)


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """What is inserted inside is there whole, or not at all once the connection is closed."""
    connection.execute("BEGIN")
    yield
    connection.execute("COMMIT")


def _set_aside(layout: Layout) -> None:
    make_folder(layout.quarantine)
    number = len(list(layout.quarantine.glob("journal.duckdb.*")))
    for path in (layout.index, Path(f"{layout.index}.wal")):
        if path.exists():
            path.replace(layout.quarantine / f"{path.name}.{number}")


def _version(connection: duckdb.DuckDBPyConnection) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    return None if row is None else str(row[0])


def _add_missing(
    layout: Layout,
    connection: duckdb.DuckDBPyConnection,
    around_batch: Callable[[], AbstractContextManager[None]],
) -> None:
    known = _positions(connection)
    streams = layout.streams()
    if gone := set(known) - set(streams):
        raise IndexAhead(f"the index knows stream {min(gone)}, which has no segments any more")
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
    if len(first.lines) < BATCH_LINES:
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
        stream: _Position(seq + 1, segment, at, bytes(leaf))
        for stream, seq, segment, at, leaf in rows
    }


def _missing_lines(layout: Layout, stream: str, after: _Position) -> Iterator[StoredLine]:
    """The lines behind the last indexed one, which must still be where it was."""
    found = after.next_seq == 0
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
                break
        if not found:
            break
    if not found:
        raise IndexAhead(
            f"SEGMENT_TRUNCATED: the index holds seq {after.next_seq - 1} of stream {stream}, "
            "its segment does not; run verify"
        )


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
    for number, stored in enumerate(chunk, start=seq):
        line = stored.line
        # Place and stream are among the last fields; the whole link is verify's business.
        if b'"seq":%d,"stream":"%b"' % (number, stream.encode()) not in line[-_TAIL_BYTES:]:
            raise Corrupt(
                "the line is not the one that follows", stream=stream, seq=number,
                where=stored.where,
            )  # fmt: skip
        batch.seqs.append(number)
        batch.segments.append(int(stored.segment.name[:6]))
        batch.ats.append(stored.offset)
        batch.leaves.append(leaf_hash(line).hex())
        batch.lines.append(line.decode("utf-8", "replace"))
        if _OUT_MARK in line:
            batch.with_output.append((number, line))
    return batch


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
            "lines": batch.lines,
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
