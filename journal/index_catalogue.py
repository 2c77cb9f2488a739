"""What is defined in an index beside its rows, compared with what this software defines there.

A view, macro or type that was put into ``journal.duckdb`` makes every question about it lie, and
each row may still be right. So this is looked at before the file is asked anything else, by
functions of DuckDB's own that are named in full, which nothing in the file can stand for.
Not here: comparing rows (``journal.index_check``), the definitions (``journal.index_schema``).
"""

import re
from contextlib import closing
from dataclasses import dataclass

import duckdb

from journal.index_schema import SCHEMA_VERSION, TABLES, VIEWS

_ASKED = (
    ("table", "SELECT schema_name, table_name, sql FROM system.main.duckdb_tables()"),
    ("view", "SELECT schema_name, view_name, sql FROM system.main.duckdb_views()"),
    ("macro", "SELECT schema_name, function_name, '' FROM system.main.duckdb_functions()"),
    ("type", "SELECT schema_name, type_name, '' FROM system.main.duckdb_types()"),
    ("schema", "SELECT schema_name, schema_name, '' FROM system.main.duckdb_schemas()"),
)
# DuckDB prints the names behind EXCLUDE in no fixed order.
_EXCLUDED = re.compile(r"(?<=EXCLUDE \()[^()]*(?=\))")
_META = ("table", "main.meta")

_Definitions = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Strange:
    """An index that this software did not define like this.

    The message goes on where the file was named. Where another version of this software or of
    DuckDB made the file, that explains it, and the difference tells of nobody's hand.
    """

    message: str
    explained: bool


def strange(connection: duckdb.DuckDBPyConnection) -> Strange | None:
    """What is defined otherwise in the index that the connection was opened on.

    Raises:
        duckdb.Error: The file cannot be read.
    """
    found, shipped = _definitions(connection), _shipped()
    meta = _meta(connection) if found.get(_META) == shipped[_META] else {}
    version, engine = meta.get("schema"), meta.get("duckdb")
    if version != str(SCHEMA_VERSION):
        says = f"has tables of version {version}, this software reads {SCHEMA_VERSION}"
        return Strange(says, explained=True)
    different = sorted(
        name for name in found.keys() | shipped.keys() if found.get(name) != shipped.get(name)
    )
    if not different:
        return None
    names = ", ".join(f"{kind} {name.removeprefix('main.')}" for kind, name in different[:5])
    if engine != duckdb.__version__:
        says = f"was made by DuckDB {engine}, this is {duckdb.__version__}: {names}"
        return Strange(says, explained=True)
    return Strange(f"has what agentops defines otherwise: {names}", explained=False)


def _definitions(connection: duckdb.DuckDBPyConnection) -> _Definitions:
    return {
        (kind, f"{schema}.{name}"): _EXCLUDED.sub(_in_order, str(text))
        for kind, asked in _ASKED
        for schema, name, text in connection.execute(f"{asked} WHERE NOT internal").fetchall()
    }


def _in_order(names: re.Match[str]) -> str:
    return ", ".join(sorted(names[0].split(", ")))


def _shipped() -> _Definitions:
    with closing(duckdb.connect(":memory:")) as connection:
        connection.execute(TABLES)
        connection.execute(VIEWS)
        return _definitions(connection)


def _meta(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM main.meta").fetchall())
