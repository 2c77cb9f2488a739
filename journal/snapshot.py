"""Read-only copies of the index for notebooks, and the sizes of a journal.

A snapshot is convenient and proves nothing: the evidence stays in the segments. Not here:
bundles, a query's answer as a file (``journal.querying``).
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from journal.errors import JournalExists
from journal.index import reading
from journal.layout import Layout
from journal.querying import copy

_PARQUET = {
    "event": "SELECT * EXCLUDE (head, tail) FROM event",  # with the line whole, and its data
    "output": "SELECT * FROM output",
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
        for table, asked in _PARQUET.items():
            copy(connection, asked, target / f"{table}.parquet", "parquet")


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


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
