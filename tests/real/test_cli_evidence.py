"""Evidence that leaves the journal, or must go, by the command line."""

import shutil
from pathlib import Path

import pytest

from tests.support.command_line import User, user


@pytest.fixture
def who(tmp_path: Path) -> User:
    """A user with one command in an incident, on this machine."""
    made = user(tmp_path)
    assert made.run("init").status == 0
    assert made.run("hosts", "add", "here", "--local", "--tier", "dev").status == 0
    assert made.run("incident", "open", "a look").status == 0
    incident = made.run("incident", "list", "--json").json["incidents"][0]["incident"]
    done = made.run("do", "probe_host", "--host", "here", "--incident", incident)
    assert done.status == 0, done.err
    return made


def test_a_bundle_verifies_elsewhere_and_a_changed_one_does_not(who: User, tmp_path: Path) -> None:
    exported = who.run("export", "--output", str(tmp_path / "bundle"), "--json").json
    assert exported["events"] > 2
    said = who.run("verify", str(tmp_path / "bundle"), "--json")
    assert (said.status, said.json["status"]) == (0, "intact")

    events = tmp_path / "bundle" / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b"a look", b"a lock", 1))
    said = who.run("verify", str(tmp_path / "bundle"), "--json")
    assert (said.status, said.json["status"]) == (1, "tampered")


def test_a_bundle_of_an_unknown_journal_asks_for_a_key(who: User, tmp_path: Path) -> None:
    assert who.run("export", "--output", str(tmp_path / "bundle")).status == 0
    (tmp_path / "another").mkdir()
    other = user(tmp_path / "another")
    other.run("verify", str(tmp_path / "bundle")).refused(2, "--key")
    line = who.run("journal", "key", "show", "--json").json["keys"][0]
    said = other.run("verify", str(tmp_path / "bundle"), "--key", line, "--json")
    assert (said.status, said.json["status"]) == (3, "unanchored")


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
