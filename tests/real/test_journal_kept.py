"""A session that lives long: its heartbeats, its gaps, its index, and what an auditor is told."""

import subprocess
import threading
import time
from pathlib import Path

import duckdb
import pytest

from journal import NewEvent, Reader
from journal.events import Heartbeat
from reports.compliance import Surroundings, comply
from tests.support.command_line import user
from tests.support.journals import Place, note

INTACT = Surroundings("intact", mode=0o700, findings=0)
DEADLINE_S = 240.0


def beat(place: Place, *, ended: bool) -> str:
    """What the checklist says of gaps, when a second heartbeat is long after the first."""
    journal = place.create()
    journal.append(NewEvent(Heartbeat(interval_ms=1)))
    if ended:
        journal.close()
        journal = place.open()
    for number in range(10):
        journal.append(note(str(number)))
    journal.append(NewEvent(Heartbeat(interval_ms=1)))
    journal.close()
    answers = {item.id: answer for item, answer in comply(Reader.open(place.path), INTACT)}
    return answers["L10"].status


@pytest.mark.parametrize(("ended", "says"), [(False, "fail"), (True, "pass")])
def test_a_silence_counts_within_a_session_only(tmp_path: Path, says: str, *, ended: bool) -> None:
    assert beat(Place(tmp_path), ended=ended) == says


def test_a_server_keeps_the_index_close_behind_for_strangers(tmp_path: Path) -> None:
    """The server itself asks nothing; a notebook that opens the file sees its session at once."""
    who = user(tmp_path)
    assert who.run("init").status == 0
    server = who.start("mcp", stdin=subprocess.PIPE)
    try:
        journal = who.folder / "ops.journal"
        rows: list[tuple[object, ...]] = []
        end = time.monotonic() + DEADLINE_S
        while not rows and time.monotonic() < end:
            assert server.poll() is None
            threading.Event().wait(0.05)
            if (journal / "journal.duckdb").exists():
                rows = sessions(journal / "journal.duckdb", server.pid)
        assert rows == [(server.pid,)]
    finally:
        server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 0


def sessions(index: Path, pid: int) -> list[tuple[object, ...]]:
    """The server's session in the index, if a stranger finds it there."""
    try:
        with duckdb.connect(index, read_only=True) as connection:
            return connection.execute(
                "SELECT (line ->> '$.data.pid')::INTEGER FROM event "
                "WHERE kind = 'session_started' AND line ->> '$.data.pid' = ?",
                [str(pid)],
            ).fetchall()
    except duckdb.Error:
        return []  # the keeper has it open for a moment
