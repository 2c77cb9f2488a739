"""Asking the index: one SQL query, answered by rows or by a file.

A question may come from an agent, so it can read the index and touch no file besides. Not here: the
index itself (``journal.index``) and its tables (``journal.index_schema``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

import duckdb

from journal.errors import JournalExists, QueryFailed
from journal.index import first_line, reading
from journal.layout import Layout

Format = Literal["arrow", "csv", "json", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
_OPTIONS: Mapping[Format, str] = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "csv": "FORMAT csv, HEADER",
    "json": "FORMAT json",
}
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_HINTS = ("Candidate bindings", "Did you mean")


@dataclass(frozen=True, slots=True)
class Rows:
    """A query's answer."""

    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]


def query(layout: Layout, sql: str, *, in_memory: bool = False) -> Rows:
    """Run one SQL query on the index. It can read the index, and no file besides.

    in_memory builds an index for this question alone and leaves the journal's folder as it is.

    Raises:
        QueryFailed: It is no query, or DuckDB refused it.
        IndexAhead: The segments end before the index does.
    """
    one_select(sql)
    with reading(layout, in_memory=in_memory) as connection:
        fence(connection)
        try:
            result = connection.execute(sql)
            columns = tuple(column[0] for column in result.description or ())
            return Rows(columns, result.fetchall())
        except duckdb.Error as error:
            raise QueryFailed(_refusal(connection, error)) from error


def query_to(
    layout: Layout, sql: str, target: Path, form: Format, *, in_memory: bool = False
) -> int:
    """Write a query's answer to a file, and give the number of rows.

    arrow is the IPC file format and needs the package pyarrow; json is one object a line.

    Raises:
        JournalExists: The target exists.
        QueryFailed: DuckDB refused the query, or the file cannot be written.
    """
    if target.exists():
        raise JournalExists(f"{target} exists; choose another file for the answer")
    if not target.parent.is_dir():
        raise QueryFailed(f"cannot write {target}: {target.parent} is no folder")
    one_select(sql)
    target = target.absolute()
    with reading(layout, in_memory=in_memory) as connection:
        fence(connection, target)
        if form == "arrow":
            return _to_arrow(connection, sql, target)
        return copy(connection, sql, target, form)


def one_select(sql: str) -> None:
    """Refuse what is not exactly one query.

    Raises:
        QueryFailed: It is not.
    """
    try:
        kinds = [statement.type for statement in duckdb.extract_statements(sql)]
    except duckdb.Error as error:
        raise QueryFailed(first_line(error)) from error
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
        raise QueryFailed(
            "the index is only read: give one SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"
        )


def fence(connection: duckdb.DuckDBPyConnection, *writable: Path) -> None:
    """Let what this connection runs touch no file but its own and those named.

    A question may come from an agent; DuckDB reads and writes any file of the user's by itself.
    """
    for path in writable:
        connection.execute("SET allowed_paths = [?]", [str(path)])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def copy(connection: duckdb.DuckDBPyConnection, sql: str, target: Path, form: Format) -> int:
    """Write the rows of a query to a file; gives their number.

    Raises:
        QueryFailed: DuckDB refused.
    """
    place = str(target).replace("'", "''")
    statement = f"COPY ({sql.rstrip().rstrip(';')}\n) TO '{place}' ({_OPTIONS[form]})"
    try:
        row = connection.execute(statement).fetchone()
    except duckdb.Error as error:
        raise QueryFailed(_refusal(connection, error)) from error
    return 0 if row is None else int(row[0])


def _to_arrow(connection: duckdb.DuckDBPyConnection, sql: str, target: Path) -> int:
    try:
        import pyarrow as pa  # noqa: PLC0415 - only this form needs it, and not everybody has it
        from pyarrow import ipc  # noqa: PLC0415
    except ImportError as error:
        raise QueryFailed(
            "the form arrow needs pyarrow: pip install 'agentops-journal[arrow]', or choose parquet"
        ) from error
    rows = 0
    try:
        batches = pa.RecordBatchReader.from_stream(connection.sql(sql))
        with ipc.new_file(str(target), batches.schema) as file:
            for batch in batches:
                file.write_batch(batch)
                rows += batch.num_rows
    except duckdb.Error as error:
        raise QueryFailed(_refusal(connection, error)) from error
    except (pa.ArrowException, OSError) as error:
        raise QueryFailed(first_line(error)) from error
    return rows


def _refusal(connection: duckdb.DuckDBPyConnection, error: duckdb.Error) -> str:
    """DuckDB's first line and its hint; for an unknown table the nearest, and all of them."""
    text = first_line(error)
    unknown = _NO_TABLE.search(text)
    if unknown is None:
        hint = next((line for line in str(error).splitlines() if line.startswith(_HINTS)), "")
        return f"{text} {hint.replace(': :', ':')}".rstrip()
    tables = sorted(str(row[0]) for row in connection.execute("SHOW TABLES").fetchall())
    nearest = get_close_matches(unknown[1].lower(), tables, n=1)
    meant = f" did you mean {nearest[0]}?" if nearest else ""
    return f"{text}{meant} the index has: {', '.join(tables)}"
