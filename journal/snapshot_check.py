"""Checking a snapshot: a copy of the index in one DuckDB file, carried away from its journal.

It has no seals of its own, so it can be intact only against anchors from outside; without them the
best answer is that its lines still follow from one another. Not here: the journal's own check
(``journal.verification``), which reads the segments.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from journal.anchors import anchor_at
from journal.envelope import read_line
from journal.errors import LineProfileError, NotAJournal
from journal.events import KeyRotated, SessionStarted
from journal.findings import Finding, Ranges
from journal.index import SETTINGS, first_line
from journal.index_catalogue import strange
from journal.index_schema import COLUMNS_DIFFER
from journal.keys import KeyStore, Pinned
from journal.lines import leaf_hash, parse
from journal.note_check import NoteFile, NoteJudge, sizes_claimed, trusted_with_rotations
from journal.notes import PublicKey
from journal.stream_check import StreamCheck
from journal.verification import Verification, status_of

_CHUNK_ROWS = 2048


def is_snapshot(path: Path) -> bool:
    """Whether the path is a DuckDB file with the journal's tables."""
    if not path.is_file():
        return False
    try:
        with closing(duckdb.connect(path, read_only=True, config=SETTINGS)) as connection:
            rows = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchall()
    except duckdb.Error:
        return False
    return bool(rows)


def verify_snapshot(
    path: Path,
    *,
    keys: KeyStore | None = None,
    key: str | None = None,
    anchors: Sequence[Path | str] | None = None,
) -> Verification:
    """Check the lines of a snapshot and, against anchors, that none is missing or changed.

    Raises:
        NotAJournal: The file cannot be read as a snapshot.
        KeyUnusable: The key line cannot be read.
        AnchorFailed: An anchor cannot be read.
    """
    try:
        connection = duckdb.connect(path, read_only=True, config=SETTINGS)
    except duckdb.Error as error:
        raise NotAJournal(f"{path} is not a snapshot: {first_line(error)}") from error
    with closing(connection):
        journal_id = _journal_id(path, connection)
        pinned = Pinned() if keys is None else keys.pinned(journal_id)
        trusted = pinned.keys if key is None else (PublicKey.parse(key),)
        places = pinned.places if anchors is None else tuple(map(str, anchors))
        files = [
            NoteFile("anchor", place, notes)
            for place in places
            if (notes := anchor_at(place).notes()) is not None
        ]
        sizes = sizes_claimed(files, journal_id)
        streams = connection.execute("SELECT DISTINCT stream FROM event ORDER BY 1").fetchall()
        checks = {
            name: _check_stream(connection, name, sizes.get(name, set())) for (name,) in streams
        }
        finding = next((one.finding for one in checks.values() if one.finding is not None), None)
        finding = finding or _columns(connection)
    rotations = [one for check in checks.values() for one in check.rotations]
    trusted = trusted_with_rotations(trusted, rotations)
    judge = NoteJudge(journal_id, checks, trusted)
    covered: dict[str, int] = {}
    for file in files if trusted else []:
        coverage, fault = judge.judge(file)
        finding = finding or fault
        for stream, size in coverage.sizes.items():
            covered[stream] = max(size, covered.get(stream, 0))
    ranges = tuple(
        Ranges(name, check.size, covered.get(name, 0), covered.get(name, 0))
        for name, check in checks.items()
    )
    lines = tuple(one.line for one in trusted)
    return Verification(journal_id, status_of(finding, ranges), ranges, finding, (), lines)


def _journal_id(path: Path, connection: duckdb.DuckDBPyConnection) -> str:
    try:
        row = connection.execute(
            "SELECT line FROM event WHERE kind = 'session_started' ORDER BY stream, seq LIMIT 1"
        ).fetchone()
    except duckdb.Error as error:
        raise NotAJournal(f"{path} is not a snapshot: {first_line(error)}") from error
    try:
        said = None if row is None else read_line(str(row[0]).encode()).payload
    except LineProfileError as error:
        raise NotAJournal(f"{path} does not say which journal it is of: {error}") from error
    if not isinstance(said, SessionStarted):
        raise NotAJournal(f"{path} holds no session, so it does not say which journal it is of")
    return said.journal


def _check_stream(
    connection: duckdb.DuckDBPyConnection, stream: str, sizes: set[int]
) -> StreamCheck:
    check = StreamCheck(stream)
    if 0 in sizes:
        check.roots[0] = check.frontier.root().hex()
    cursor = connection.cursor()
    cursor.execute("SELECT seq, leaf, line FROM event WHERE stream = ? ORDER BY seq", [stream])
    while rows := cursor.fetchmany(_CHUNK_ROWS):
        for seq, leaf, text in rows:
            fault = _take(check, int(seq), bytes(leaf or b""), str(text).encode())
            if fault:
                check.finding = Finding(
                    "INDEX_DIFFERS", "index", stream, check.size, "snapshot", fault
                )
                return check
            if check.size in sizes:
                check.roots[check.size] = check.frontier.root().hex()
    return check


def _take(check: StreamCheck, seq: int, leaf: bytes, line: bytes) -> str:
    """Go on by one row; gives what is wrong with it, or nothing."""
    try:
        parse(line)
        event = read_line(line)
    except LineProfileError as error:
        return str(error)
    if (event.seq, seq) != (check.size, check.size):
        return f"expected seq {check.size}, got {event.seq} in row {seq}"
    if event.prev != check.last_leaf:
        return "prev does not match the line before"
    if leaf_hash(line) != leaf:
        return "the row's leaf is not that of its line"
    if isinstance(event.payload, KeyRotated):
        check.rotations.append(event.payload)
    check.frontier.add(leaf)
    check.last_leaf = event.leaf
    check.size += 1
    return ""


def _columns(connection: duckdb.DuckDBPyConnection) -> Finding | None:
    stranger = strange(connection)
    if stranger is not None and stranger.explained:
        raise NotAJournal(f"the snapshot {stranger.message}; take a new one")
    if stranger is not None:
        said = f"the snapshot {stranger.message}"
        return Finding("INDEX_DIFFERS", "index", None, None, "snapshot", said)
    row = connection.execute(COLUMNS_DIFFER).fetchone()
    if row is None:
        return None
    text = "a column is not what the line says"
    return Finding("INDEX_DIFFERS", "index", row[0], row[1], "snapshot", text)
