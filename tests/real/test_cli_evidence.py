"""Evidence that leaves the journal, or must go, by the command line."""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.support.command_line import Kept, User, user


def _arrow_rows(path: Path) -> Iterable[Sequence[object]]:
    with pa.ipc.open_file(str(path)) as file:
        table = file.read_all()
    return [tuple(row.values()) for row in table.to_pylist()]


READERS: Mapping[str, Callable[[Path], Iterable[Sequence[object]]]] = {
    "arrow": _arrow_rows,
    "csv": lambda path: list(csv.reader(path.read_text().splitlines()))[1:],
    "json": lambda path: [tuple(json.loads(one).values()) for one in path.read_text().splitlines()],
    "parquet": lambda path: duckdb.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall(),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A user with one command in an incident, on this machine."""
    place = tmp_path_factory.mktemp("evidence")
    made = user(place)
    assert made.run("init").status == 0
    assert made.run("hosts", "add", "here", "--local", "--tier", "dev").status == 0
    assert made.run("incident", "open", "a look").status == 0
    incident = made.run("incident", "list", "--json").json["incidents"][0]["incident"]
    done = made.run("do", "probe_host", "--host", "here", "--incident", incident)
    assert done.status == 0, done.err
    return Kept.of(made, place / "copies")


@pytest.fixture
def who(kept: Kept) -> User:
    """That user, for one test."""
    return kept.back()


def test_a_bundle_verifies_elsewhere_and_a_changed_one_does_not(who: User, tmp_path: Path) -> None:
    exported = who.run("export", "--output", str(tmp_path / "bundle"), "--json").json
    assert exported["events"] > 2
    said = who.run("verify", str(tmp_path / "bundle"), "--json")
    assert (said.status, said.json["status"]) == (0, "intact")

    events = tmp_path / "bundle" / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b"a look", b"a lock", 1))
    said = who.run("verify", str(tmp_path / "bundle"), "--json")
    assert (said.status, said.json["status"]) == (1, "tampered")


def test_bundles_from_before_and_after_a_rotation_verify_with_the_owners_keys(
    who: User, tmp_path: Path
) -> None:
    for name in ("before", "after"):
        assert who.run("export", "--output", str(tmp_path / name)).status == 0
        assert who.run("journal", "key", "rotate").status == 0
    for name in ("before", "after"):
        said = who.run("verify", str(tmp_path / name), "--json")
        assert (said.status, said.json["status"]) == (0, "intact")


def test_a_bundle_of_an_unknown_journal_asks_for_a_key(who: User, tmp_path: Path) -> None:
    assert who.run("export", "--output", str(tmp_path / "bundle")).status == 0
    (tmp_path / "another").mkdir()
    other = user(tmp_path / "another")
    other.run("verify", str(tmp_path / "bundle")).refused(2, "--key")
    line = who.run("journal", "key", "show", "--json").json["keys"][0]
    said = other.run("verify", str(tmp_path / "bundle"), "--key", line, "--json")
    assert (said.status, said.json["status"]) == (3, "unanchored")


def test_a_foreign_journal_is_told_how_to_give_its_key(who: User, tmp_path: Path) -> None:
    """Nobody's seal is held against the key of another journal: that would say tampered."""
    (tmp_path / "another").mkdir()
    other = user(tmp_path / "another")
    assert other.run("init").status == 0
    (own,) = other.run("journal", "key", "show", "--json").json["keys"]
    (line,) = who.run("journal", "key", "show", "--json").json["keys"]
    place = str(who.folder / "ops.journal")
    assert who.run("journal", "seal").status == 0
    for words in (("verify", place), ("replay", place)):
        said = other.run(*words)
        assert said.status == 3
        assert "TAMPERED" not in said.out
        assert "give --key LINE" in said.out
    mine = other.run("verify", place, "--key", line)
    assert "trusted" not in mine.out
    assert mine.status in {0, 3}
    wrong = who.run("verify", "--key", own)
    assert wrong.status == 1
    assert f"from --key {own}" in wrong.out
    assert "give --key" not in wrong.out


def test_a_redacted_output_is_gone_and_the_journal_still_verifies(who: User) -> None:
    rows = who.run("log", "--kind", "command_completed", "--json").json["events"]
    assert who.run("journal", "redact", rows[0]["id"], "stdout", "--reason", "a name").status == 0
    shown = who.run("show", rows[0]["id"], "--json").json
    assert shown["outputs"]["stdout"]["redacted"] == "a name"
    assert who.run("verify", "--json").json["status"] == "intact"
    who.run("journal", "redact", rows[0]["id"], "nothing", "--reason", "x").refused(2, "nothing")


def test_a_rotated_key_is_followed_from_the_old_one(who: User) -> None:
    before = who.run("journal", "key", "show", "--json").json["keys"]
    after = who.run("journal", "key", "rotate", "--json").json["key"]
    assert after not in before
    assert who.run("verify", "--key", before[0], "--json").json["status"] == "intact"


def test_a_second_anchor_finds_what_the_first_one_lost(who: User, tmp_path: Path) -> None:
    more = tmp_path / "elsewhere" / "more.jsonl"
    assert who.run("journal", "anchor", str(more)).status == 0
    assert more.stat().st_size > 0
    inside = who.folder / "ops.journal" / "inside.jsonl"
    who.run("journal", "anchor", str(inside)).refused(2, "outside")
    kept = tmp_path / "kept.journal"
    shutil.copytree(who.folder / "ops.journal", kept)
    assert who.run("journal", "seal").status == 0
    said = who.run("verify", str(kept), "--anchor", str(more), "--json")
    assert said.json["finding"]["code"] == "ROLLBACK"
    assert said.status == 1


def test_proof_and_snapshot(who: User, tmp_path: Path) -> None:
    assert who.run("journal", "seal").status == 0
    first = who.run("log", "--json").json["events"][0]
    proof = who.run("journal", "prove", first["id"]).json
    assert proof["proof"]["seq"] == first["seq"]
    copy = tmp_path / "copy.duckdb"
    assert who.run("journal", "snapshot", str(copy)).status == 0
    assert who.run("verify", str(copy), "--json").json["status"] in {"intact", "unanchored"}
    who.run("journal", "snapshot", str(copy)).refused(2, "exists")


@pytest.mark.needs("python-package:aat_verify")
def test_an_exported_trail_is_accepted_by_a_foreign_verifier(who: User, tmp_path: Path) -> None:
    said = who.run(
        "export", "--format", "audit-trail", "--output", str(tmp_path / "trail"), "--json"
    )
    assert said.status == 0, said.err
    trail, keys = tmp_path / "trail" / "trail.jsonl", tmp_path / "trail" / "keystore.json"
    assert said.json["records"] == len(trail.read_bytes().splitlines()) > 2
    program = [sys.executable, "-m", "aat_verify.cli", str(trail), "--keys", str(keys)]
    assert subprocess.run(program, check=False).returncode == 0
    trail.write_bytes(trail.read_bytes().replace(b"a look", b"a lock", 1))
    assert subprocess.run(program, check=False).returncode != 0
    again = ("export", "--format", "audit-trail", "--output", str(tmp_path / "trail"))
    who.run(*again).refused(2, "there already")


def test_a_table_that_is_not_there_is_answered_with_the_nearest(who: User, tmp_path: Path) -> None:
    for more in ((), *(("--to", str(tmp_path / f"x.{form}")) for form in READERS)):
        said = who.run("query", "select * from events", *more)
        said.refused(2, "events does not exist", "did you mean event?", "the index has: command,")
    said = who.run("query", "select * from zqx")
    said.refused(2, "zqx does not exist", "the index has")
    assert "did you mean" not in said.err
    who.run("query", "select kidn from event").refused(2, "kidn", 'Candidate bindings: "kind"')
    who.run("query", "select e.kidn from event e").refused(2, "kidn", '"kind"')


def test_an_answer_leaves_in_every_form(who: User, tmp_path: Path) -> None:
    sql = "SELECT kind, count(*) AS n FROM outcome GROUP BY 1 ORDER BY 1"
    expected = who.run("query", sql, "--json").json["rows"]
    for form, read in READERS.items():
        path = tmp_path / f"answer.{form}"
        said = who.run("query", sql, "--to", str(path), "--json")
        assert (said.status, said.json["format"]) == (0, form), said.err
        kinds = [list(row) for row in read(path)]
        assert [kind for kind, _ in kinds] == [kind for kind, _ in expected]
        assert len(kinds) == said.json["rows"]
        who.run("query", sql, "--to", str(path)).refused(2, "exists")
    rows = who.run("query", sql, "--format", "json").out.splitlines()
    assert [json.loads(row)["kind"] for row in rows] == [kind for kind, _ in expected]
    who.run("query", sql, "--to", str(tmp_path / "answer.xlsx")).refused(2, "--format")
    who.run("query", sql, "--json", "--format", "csv").refused(2, "--json")


def test_a_question_touches_no_file_but_the_answer(who: User, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    who.run("query", f"COPY (SELECT 1) TO '{other}'").refused(2, "only read")
    who.run("query", "SELECT 1; SELECT 2").refused(2, "one SELECT")
    who.run("query", "SELECT * FROM read_csv('/etc/passwd')").refused(2, "/etc/passwd")
    inner = "SELECT * FROM read_csv('/etc/passwd')"
    who.run("query", inner, "--to", str(tmp_path / "x.csv")).refused(2, "/etc/passwd")
    assert not other.exists()
    assert not (tmp_path / "x.csv").exists()


def test_good_links_are_no_yes_and_a_broken_one_is_named(who: User) -> None:
    said = who.run("verify", "--chain", "--json")
    assert (said.status, said.json["finding"]) == (3, None)
    assert said.json["links"] > 5
    (segment,) = (who.folder / "ops.journal" / "log").glob("*/000000.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"a look", b"a lock", 1))
    said = who.run("verify", "--chain", "--json")
    assert said.status == 1
    assert "LINE_CHANGED" in said.json["finding"]
    assert "one of the two was changed; agentops verify says which" in said.json["finding"]


def test_an_anchor_that_was_added_is_compared_beside_the_first(who: User, tmp_path: Path) -> None:
    """Whoever rolls back the journal and one anchor has the other against him."""
    journal = who.folder / "ops.journal"
    (first,) = (who.home / ".local/state/agentops/anchors").iterdir()
    second = tmp_path / "second.jsonl"
    assert who.run("journal", "anchor", str(second)).status == 0
    shutil.copytree(journal, tmp_path / "old.journal")
    shutil.copy(first, tmp_path / "old.jsonl")
    incident = who.run("incident", "list", "--json").json["incidents"][0]["incident"]
    assert who.run("incident", "note", incident, "will be rolled back").status == 0
    assert who.run("verify").status == 0
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "old.journal", journal)
    shutil.copy(tmp_path / "old.jsonl", first)
    said = who.run("verify", "--json")
    assert (said.status, said.json["finding"]["code"]) == (1, "ROLLBACK")


def test_a_dropped_anchor_gets_no_more_seals_and_still_finds_a_rollback(
    who: User, tmp_path: Path
) -> None:
    journal = who.folder / "ops.journal"
    (first,) = (who.home / ".local/state/agentops/anchors").iterdir()
    second = tmp_path / "second.jsonl"
    drop = ("journal", "anchor", str(second), "--drop")
    who.run(*drop).refused(2, "none of this journal's", str(first))
    who.run("journal", "anchor", str(first), "--drop").refused(2, "agentops.toml", "anchor")
    shutil.copytree(journal, tmp_path / "old.journal")
    shutil.copy(first, tmp_path / "old.jsonl")
    assert who.run("journal", "anchor", str(second)).status == 0
    assert who.run(*drop).status == 0
    told = who.run("log", "--kind", "anchor_dropped", "--json").json["events"]
    assert [event["data"] for event in told] == [{"sink": str(second)}]
    had = second.read_bytes()
    assert who.run("journal", "seal").status == 0
    assert second.read_bytes() == had
    said = who.run("verify", "--json")
    assert (said.status, said.json["remarks"]) == (0, [])
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "old.journal", journal)
    shutil.copy(tmp_path / "old.jsonl", first)
    assert who.run("verify", "--json").json["finding"]["code"] == "ROLLBACK"
    second.unlink()  # that one which was dropped is gone is no news
    said = who.run("verify", "--json")
    assert (said.status, said.json["remarks"]) == (0, [])


@pytest.mark.parametrize("place", ["", "ftp:x", "git:/nonexistent", "ssh:nohost.invalid:/x"])
def test_a_place_that_keeps_nothing_is_no_anchor(who: User, place: str) -> None:
    pinned = (who.home / ".config/agentops/keys/journals.json").read_bytes()
    said = who.run("journal", "anchor", place)
    assert said.status == 2
    assert len(said.err.splitlines()) == 1
    assert (who.home / ".config/agentops/keys/journals.json").read_bytes() == pinned
    assert not list(who.folder.glob("ftp*"))


@pytest.mark.parametrize("mode", ["redecide", "reparse"])
def test_a_replay_of_nothing_is_no_yes(who: User, mode: str) -> None:
    for name in ("log", "blob"):
        shutil.rmtree(who.folder / "ops.journal" / name)
    said = who.run("replay", mode, str(who.folder / "ops.journal"))
    assert said.status == 3
    assert said.out.startswith("NOTHING TO RE")
    assert "IDENTICAL" not in said.out
    assert "not verified" in said.err


def test_a_key_store_of_another_form_is_named(who: User) -> None:
    path = who.home / ".config/agentops/keys/journals.json"
    value = json.loads(path.read_bytes())
    (identity,) = value
    path.write_text(json.dumps({identity: {"keys": 5}}))
    assert str(path) in who.run("verify").refused(2, "keys")
