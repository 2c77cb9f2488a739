"""Read-only copies of the index for notebooks, query results as files, and the sizes of a journal.

A snapshot is convenient and proves nothing: the evidence stays in the segments. Not here: bundles.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from journal.errors import JournalExists, QueryFailed
from journal.index import first_line, reading
from journal.layout import Layout

Format = Literal["parquet", "csv", "json"]
_OPTIONS: Mapping[Format, str] = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes on disk, and the number of events."""

    events: int
    log_bytes: int
    blob_bytes: int
    index_bytes: int
    quarantine_bytes: int


def snapshot(layout: Layout, target: Path, *, parquet: bool = False) -> None:
    """Copy the index, brought up to now, to a DuckDB file, or its tables to a folder of Parquet.

    Raises:
        JournalExists: The target exists.
        QueryFailed: DuckDB cannot write it.
    """
    if target.exists():
        raise JournalExists(f"{target} exists; choose another place for the snapshot")
    with reading(layout) as connection:
        if not parquet:
            shutil.copyfile(layout.index, target)
            return
        target.mkdir(parents=True)
        for table in ("event", "output"):
            _copy(connection, f"SELECT * FROM {table}", target / f"{table}.parquet", "parquet")  # noqa: S608 - two constants


def query_to(layout: Layout, sql: str, target: Path, form: Format) -> None:
    """Write a query's answer to a file.

    Raises:
        JournalExists: The target exists.
        QueryFailed: DuckDB refused it.
    """
    if target.exists():
        raise JournalExists(f"{target} exists; choose another file for the answer")
    with reading(layout) as connection:
        _copy(connection, sql, target, form)


def sizes(layout: Layout) -> Sizes:
    """How big a journal is, part by part."""
    with reading(layout) as connection:
        row = connection.execute("SELECT count(*) FROM event").fetchone()
    return Sizes(
        events=0 if row is None else int(row[0]),
        log_bytes=_bytes_below(layout.log),
        blob_bytes=_bytes_below(layout.root / "blob"),
        index_bytes=layout.index.stat().st_size if layout.index.exists() else 0,
        quarantine_bytes=_bytes_below(layout.quarantine),
    )


def _copy(connection: duckdb.DuckDBPyConnection, sql: str, target: Path, form: Format) -> None:
    place = str(target).replace("'", "''")
    statement = f"COPY ({sql.rstrip().rstrip(';')}) TO '{place}' ({_OPTIONS[form]})"
    try:
        connection.execute(statement)
    except duckdb.Error as error:
        raise QueryFailed(first_line(error)) from error


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
