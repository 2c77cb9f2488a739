"""``verify`` of another project's journal: it is not called tampered for being another's."""

import shutil
from pathlib import Path

from tests.support.command_line import User, user


def project(place: Path, *, home: Path | None = None) -> User:
    """A user's project with a journal that holds an incident."""
    place.mkdir()
    made = user(place)
    who = made if home is None else User(home, made.folder)
    assert who.run("init").status == 0
    assert who.run("incident", "open", "something").status == 0
    return who


def key_line(who: User) -> str:
    """The public key line that a project pins."""
    settings = (who.folder / "agentops.toml").read_text()
    (line,) = (line for line in settings.splitlines() if line.startswith("key = "))
    return line.partition('"')[2].rstrip('"')


def test_a_foreign_journal_is_unsealed_for_whom_does_not_know_its_signer(tmp_path: Path) -> None:
    """By its path and by --journal; with its owner's key line its seals count."""
    mine, other = project(tmp_path / "mine"), project(tmp_path / "other")
    foreign = other.folder / "ops.journal"
    for words in (("verify", foreign), ("verify", "--journal", foreign)):
        said = mine.run(*words)
        assert said.status == 3, said
        assert said.out.startswith("UNSEALED")
        assert f"nobody whom you trust has signed {foreign}" in said.out
        assert "--key LINE" in said.out
    trusted = mine.run("verify", foreign, "--key", key_line(other), "--json").json
    assert (trusted["status"], trusted["finding"]) == ("unanchored", None)
    assert mine.run("verify", foreign, "--key", key_line(mine)).status == 1


def test_a_changed_line_of_a_foreign_journal_is_tampered_without_any_key(tmp_path: Path) -> None:
    """The chain needs no trust."""
    mine, other = project(tmp_path / "mine"), project(tmp_path / "other")
    foreign = other.folder / "ops.journal"
    (segment,) = foreign.glob("log/*/*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"something", b"somewhere"))
    said = mine.run("verify", foreign)
    assert said.status == 1, said
    assert "LINE_CHANGED" in said.out


def test_a_copy_of_the_own_journal_that_was_signed_anew_is_tampered(tmp_path: Path) -> None:
    """What says to be ours is held to our key, wherever it lies."""
    mine = project(tmp_path / "mine")
    copy = tmp_path / "copy.journal"
    shutil.copytree(mine.folder / "ops.journal", copy)
    assert mine.run("verify", copy, "--json").json["finding"] is None
    forger = project(tmp_path / "forger")
    seals = (forger.folder / "ops.journal" / "seals.jsonl").read_bytes()
    (copy / "seals.jsonl").write_bytes(seals)
    elsewhere = User(tmp_path / "nobody", mine.folder)
    elsewhere.home.mkdir()
    assert elsewhere.run("verify", copy).status == 1
