"""The index: ``journal.duckdb``, brought up to the segments in short batches.

Whoever wants it current takes the index lock, adds what is missing and lets go; nobody holds it for
a process's life. A foreign program that keeps the file open delays nobody: a fresh index is built
beside it and put in its place. A damaged file, or one of another DuckDB version, goes to quarantine
and is built anew. The segments are the evidence; this file may be deleted at any time.

Not here: the rows (``journal.index_fill``), the tables (``journal.index_schema``), asking
(``journal.querying``), comparing index and segments (``journal.verification``).
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import duckdb

from journal.disk import FILE_MODE, make_folder
from journal.errors import IndexFailed, QueryFailed
from journal.index_catalogue import strange
from journal.index_fill import add_missing, transaction
from journal.index_schema import SCHEMA_VERSION, TABLES, VIEWS
from journal.layout import Layout
from journal.locks import locked

_PATIENCE_S = 0.5  # a stranger who looks on a busy machine is gone by then
_BETWEEN_TRIES_S = 0.005
_REBUILT_BYTES_A_S = 32 << 20
_LET_GO = "USE memory; DETACH index_file"
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "autoinstall_known_extensions": False,
}


class IndexWriter:
    """Brings one journal's index up, as often as it is asked.

    It keeps DuckDB running, whose start costs more than a batch, and never the file: that is
    attached for one batch and let go.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._running: duckdb.DuckDBPyConnection | None = None

    def bring_up(self) -> None:
        """Add to the index what the segments have and it has not.

        Raises:
            IndexAhead: The segments end before the index does.
            IndexFailed: DuckDB cannot write it.
            Corrupt: A line that is to be added has no envelope.
        """
        with locked(self._layout.index_lock):
            self._bring_up_locked()

    def close(self) -> None:
        """Stop DuckDB; what was not committed is gone with it."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _bring_up_locked(self) -> None:
        layout = self._layout
        connection = self._attached() if layout.index.exists() else None
        if connection is None:
            _rebuild_locked(layout)
            return
        fits = False
        with ExitStack() as otherwise:
            otherwise.callback(self.close)
            try:
                fits = schema_of(connection) == str(SCHEMA_VERSION)
                if fits:
                    add_missing(layout, connection, partial(transaction, connection))
                connection.execute(_LET_GO)
                otherwise.pop_all()
            except duckdb.Error as error:
                if _is_disk_full(error):
                    said = f"cannot bring {layout.index} up: {first_line(error)}"
                    raise IndexFailed(said) from error
                fits = False
        if not fits:
            _set_aside(layout)
            _rebuild_locked(layout)

    def _attached(self) -> duckdb.DuckDBPyConnection | None:
        """The index open for writing; None if a stranger keeps it, or it was damaged and set aside.

        A stranger who only looks is gone in a moment: it is waited for as long as a whole new index
        would take.
        """
        if self._running is None:
            self._running = duckdb.connect(":memory:", config=SETTINGS)
        place = str(self._layout.index).replace("'", "''")
        size = self._layout.index.stat().st_size
        end = time.monotonic() + max(_PATIENCE_S, size / _REBUILT_BYTES_A_S)
        while time.monotonic() < end:
            try:
                self._running.execute(f"ATTACH '{place}' AS index_file; USE index_file")
            except duckdb.Error as error:
                if not _is_held_elsewhere(error):
                    self.close()
                    _set_aside(self._layout)
                    return None
                time.sleep(_BETWEEN_TRIES_S)  # noqa: TID251 - a file lock of another program's
            else:
                return self._running
        return None


def bring_up(layout: Layout) -> None:
    """Bring the index up once; see ``IndexWriter.bring_up``."""
    with closing(IndexWriter(layout)) as writer:
        writer.bring_up()


def rebuild(layout: Layout) -> None:
    """Build a fresh index beside the present one and put it in its place."""
    with locked(layout.index_lock):
        _rebuild_locked(layout)


@contextmanager
def reading(layout: Layout, *, in_memory: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an index that holds every event acknowledged before the call.

    An index whose views, macros or types are not those of this software is set aside and built
    anew. Where the journal cannot be written, or is not to be, it is built in memory.

    Raises:
        IndexAhead: The segments end before the index does.
        QueryFailed: The index cannot be opened.
    """
    if in_memory or not os.access(layout.root, os.W_OK):
        with closing(_built_in_memory(layout)) as connection:
            yield connection
        return
    bring_up(layout)
    with ExitStack() as stack:
        connection = _opened(layout, stack)
        if not _is_ours(connection):
            stack.close()
            with locked(layout.index_lock):
                _set_aside(layout)
                _rebuild_locked(layout)
            connection = _opened(layout, stack)
        yield connection


def _opened(layout: Layout, stack: ExitStack) -> duckdb.DuckDBPyConnection:
    stack.enter_context(locked(layout.index_lock, shared=True))
    try:
        connection = duckdb.connect(layout.index, read_only=True, config=SETTINGS)
    except duckdb.Error as error:
        raise QueryFailed(f"cannot open {layout.index}: {first_line(error)}") from error
    return stack.enter_context(closing(connection))


def _is_ours(connection: duckdb.DuckDBPyConnection) -> bool:
    try:
        return strange(connection) is None
    except duckdb.Error:
        return False


def first_line(error: Exception) -> str:
    """DuckDB's message without its hints."""
    return str(error).split("\n", 1)[0]


def _is_disk_full(error: duckdb.Error) -> bool:
    return "No space left" in str(error) or "Could not write" in str(error)


def _is_held_elsewhere(error: duckdb.Error) -> bool:
    """Another process has the file open, or this process has, in another DuckDB of its own."""
    said = str(error)
    return "set lock on file" in said or "Unique file handle conflict" in said


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
    about = [str(SCHEMA_VERSION), duckdb.__version__]
    connection.execute("INSERT INTO meta VALUES ('schema', ?), ('duckdb', ?)", about)
    # One transaction for all: full row groups go straight to their place, compressed once.
    with transaction(connection):
        add_missing(layout, connection, nullcontext)


def _set_aside(layout: Layout) -> None:
    make_folder(layout.quarantine)
    number = len(list(layout.quarantine.glob("journal.duckdb.*")))
    for path in (layout.index, Path(f"{layout.index}.wal")):
        if path.exists():
            path.replace(layout.quarantine / f"{path.name}.{number}")


def schema_of(connection: duckdb.DuckDBPyConnection) -> str | None:
    """The version of an index's tables; None where it says none."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    return None if row is None else str(row[0])
