"""Tampering and foreign hands, met by the command line: it names the place and the wrong copy."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from journal.layout import Layout
from tests.support.command_line import User, user

# Holds the index read-write, as a forgotten notebook does, until its stdin closes.
NOTEBOOK = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
held.execute("CREATE TABLE scratch AS SELECT count(*) AS n FROM event")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a journal of some incidents."""
    who = user(tmp_path_factory.mktemp("tamper"))
    assert who.run("init").status == 0
    for title in ("first", "second"):
        assert who.run("incident", "open", title).status == 0
    assert who.run("verify").status == 0
    return who


@pytest.fixture
def place(written: User, tmp_path: Path) -> Path:
    """A copy of that journal to spoil."""
    copy = tmp_path / "copy.journal"
    shutil.copytree(written.folder / "ops.journal", copy)
    return copy


def segment(place: Path) -> Path:
    """The journal's one segment."""
    layout = Layout(place)
    (stream,) = layout.streams()
    (path,) = layout.segments(stream)
    return path


def test_a_reader_that_leaves_does_not_turn_a_finding_into_a_yes(
    written: User, place: Path
) -> None:
    path = segment(place)
    path.write_bytes(path.read_bytes().replace(b'"title":"first"', b'"title":"fIrst"'))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = written.start("verify", place, stdout=writing)
        _, err = process.communicate(timeout=60)
    finally:
        os.close(writing)
    assert (process.returncode, err) == (1, b"")


def test_a_byte_flipped_in_the_segment_is_named_with_its_place(written: User, place: Path) -> None:
    path = segment(place)
    lines = path.read_bytes().split(b"\n")
    seq = next(number for number, line in enumerate(lines) if b'"title":"first"' in line)
    lines[seq] = lines[seq].replace(b'"title":"first"', b'"title":"fIrst"')
    path.write_bytes(b"\n".join(lines))
    said = written.run("verify", place, "--json")
    assert said.status == 1
    finding = said.json["finding"]
    assert (finding["copy"], finding["seq"]) == ("segment", seq)
    assert finding["stream"] in str(path)
    told = written.run("verify", place)
    assert told.status == 1
    assert told.out.startswith("TAMPERED")
    assert f":{seq}" in told.out
    assert "segment" in told.out


def test_a_row_changed_with_plain_duckdb_is_named_and_the_segment_is_cleared(
    written: User, place: Path
) -> None:
    with duckdb.connect(str(place / "journal.duckdb")) as index:
        (seq,) = index.execute(
            'SELECT seq FROM event WHERE line LIKE \'%"title":"second"%\''
        ).fetchall()[0]
        index.execute(
            "UPDATE event SET data = replace(data, 'second', 'sEcond') WHERE seq = ?", [seq]
        )
    said = written.run("verify", place, "--json")
    assert said.status == 1, said.out
    finding = said.json["finding"]
    assert (finding["copy"], finding["seq"]) == ("index", seq)
    # The evidence itself is untouched: with the index built anew all is well.
    assert written.run("journal", "reindex", "--journal", place).status == 0
    assert written.run("verify", place).status == 0


def test_replay_of_a_tampered_journal_says_no_and_recomputes_nothing(
    written: User, place: Path
) -> None:
    path = segment(place)
    path.write_bytes(path.read_bytes().replace(b'"title":"first"', b'"title":"fIrst"'))
    said = written.run("replay", place, "--json")
    assert said.status == 1
    assert said.json["redecide"] is None


@pytest.fixture
def notebook(written: User) -> Iterator[Path]:
    """A foreign process that holds the journal's index open for writing."""
    index = written.folder / "ops.journal" / "journal.duckdb"
    held = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK, str(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert held.stdout is not None
    line = held.stdout.readline()
    assert line == b"held\n", held.communicate()[1].decode()
    yield index
    held.communicate(timeout=20)
    assert held.returncode == 0


def test_a_notebook_that_holds_the_index_stops_no_append_and_no_log(
    written: User, notebook: Path
) -> None:
    assert notebook.exists()
    opened = written.run("incident", "open", "while it is held", "--json", timeout_s=30)
    assert opened.status == 0, opened.err
    told = written.run("log", "--json", timeout_s=30)
    assert told.status == 0, told.err
    titles = [event["data"].get("title") for event in told.json["events"]]
    assert "while it is held" in titles
    counted = written.run(
        "query", "SELECT count(*) FROM event WHERE kind = 'incident_opened'", "--json", timeout_s=30
    )
    assert counted.status == 0, counted.err
    assert counted.json["rows"][0][0] == sum(title is not None for title in titles)
