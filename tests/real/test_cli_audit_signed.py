"""A log that is not what was signed of it is read with a remark, never vouched for or sealed."""

import shutil
from pathlib import Path

import pytest

from journal import Actor, Journal, KeyStore, Settings, SystemClock
from journal.layout import Layout
from journal.lines import canonical, leaf_hash, parse
from tests.support.command_line import User, user


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a journal of two incidents."""
    who = user(tmp_path_factory.mktemp("signed"))
    assert who.run("init").status == 0
    for title in ("first", "second"):
        assert who.run("incident", "open", title).status == 0
    return who


@pytest.fixture
def who(written: User, tmp_path: Path) -> User:
    """The same user on a copy of everything, to spoil."""
    shutil.copytree(written.home, tmp_path / "home")
    shutil.copytree(written.folder, tmp_path / "folder")
    home = tmp_path / "home"
    for told in (
        *home.rglob("journals.json"), *home.rglob("journals/*"),
        tmp_path / "folder" / "agentops.toml",
    ):  # fmt: skip
        text = told.read_text().replace(str(written.home), str(home))
        told.write_text(text.replace(str(written.folder), str(tmp_path / "folder")))
    return User(tmp_path / "home", tmp_path / "folder")


def segment(who: User) -> Path:
    layout = Layout(who.folder / "ops.journal")
    (stream,) = layout.streams()
    (path,) = layout.segments(stream)
    return path


def rewrite(who: User) -> None:
    """Change a title and make every link behind it fit, as somebody without the key can."""
    path = segment(who)
    lines = path.read_bytes().rstrip(b"\x00").splitlines()
    seq = next(n for n, line in enumerate(lines) if b'"title":"first"' in line)
    lines[seq] = lines[seq].replace(b'"title":"first"', b'"title":"fIrst"')
    for at in range(seq + 1, len(lines)):
        value = parse(lines[at])
        value["prev"] = leaf_hash(lines[at - 1]).hex()
        lines[at] = canonical(value)
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def state(who: User) -> dict[Path, bytes]:
    """All files that are evidence, in the journal and at the anchors."""
    roots = (who.folder / "ops.journal", who.home / ".local")
    return {
        path: path.read_bytes()
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and path.suffix not in {".lock", ".duckdb"}
    }


def test_a_rewritten_log_is_read_with_a_remark_and_nothing_else(who: User, tmp_path: Path) -> None:
    rewrite(who)
    before = state(who)
    for reading in (
        ("log",),
        ("show", "0"),
        ("report", "--depth", "line"),
        ("incident", "list"),
        ("digest", "--since", "1d"),
    ):
        said = who.run(*reading)
        is_report = reading[0] == "report"  # it says so in its text, too, and ends with no
        assert said.status == (1 if is_report else 0), said
        assert said.out
        why = "ROOT_MISMATCH" if is_report else "the log no longer fits the seal"
        assert f"not verified, and this reading not recorded: {why}" in said.err
        assert "run: agentops verify" in said.err
    for writing in (
        ("incident", "open", "third"),
        ("journal", "seal"),
        ("freeze", "--all", "--reason", "x"),
    ):
        who.run(*writing).refused(1, "no longer fits the seal", "nothing was written")
    bundle = tmp_path / "bundle"
    for form in ("bundle", "audit-trail"):
        who.run("export", "--format", form, "--output", str(bundle)).refused(
            1, "ROOT_MISMATCH", "nothing was exported"
        )
    assert not bundle.exists()
    who.run("journal", "prove", "1").refused(1, "ROOT_MISMATCH", "nothing was proved")
    assert state(who) == before
    assert who.run("verify").status == 1


def test_reading_a_copy_does_not_condemn_the_original(who: User, tmp_path: Path) -> None:
    """Neither one that is as far as the original, nor one that is older."""
    ours = who.folder / "ops.journal"
    assert who.run("log").err == ""
    copy = tmp_path / "backup.journal"
    shutil.copytree(ours, copy)
    for _ in range(2):
        before = {path: path.read_bytes() for path in copy.rglob("*.jsonl")}
        said = who.run("log", "--journal", str(copy))
        assert (said.status, said.err) == (
            0, f"agentops: a copy of {ours}; this reading was not recorded\n",
        )  # fmt: skip
        assert {path: path.read_bytes() for path in copy.rglob("*.jsonl")} == before
        assert who.run("incident", "open", "goes on").status == 0
        assert who.run("verify").status == 0


def test_an_older_copy_in_the_originals_place_is_read_and_not_written(
    who: User, tmp_path: Path
) -> None:
    ours = who.folder / "ops.journal"
    shutil.copytree(ours, tmp_path / "backup.journal")
    assert who.run("incident", "open", "third").status == 0
    shutil.move(ours, tmp_path / "away.journal")
    shutil.move(tmp_path / "backup.journal", ours)
    said = who.run("log")
    assert said.status == 0
    assert "an older copy" in said.err
    who.run("incident", "open", "fourth").refused(1, "an older copy")
    shutil.rmtree(ours)
    said = who.run("log", "--journal", str(tmp_path / "away.journal"))  # it was moved: no copy
    assert (said.status, said.err) == (0, "")
    assert who.run("verify", str(tmp_path / "away.journal")).status == 0


def test_a_line_changed_where_no_session_reads_it_again_is_told_of_by_who_shows_it(
    who: User,
) -> None:
    """A session goes on from its bookmark, and signs the tree as it was; the text is another."""
    path = who.folder / "ops.journal"
    often = Settings(bookmark_every=1)
    keys = KeyStore(who.home / ".config" / "agentops" / "keys")
    with Journal.open(
        path, clock=SystemClock(), actor=Actor("human", "ada"), keys=keys, settings=often
    ) as journal:
        journal.seal()
    assert who.run("log").err == ""
    whole = segment(who).read_bytes()
    segment(who).write_bytes(whole.replace(b'"title":"first"', b'"title":"fIrst"'))
    for reading in (("log",), ("show", "1"), ("report", "--depth", "line")):
        said = who.run(*reading)
        assert said.status == (1 if reading[0] == "report" else 0)
        found = said.err.removeprefix("agentops: not verified")
        found = found.removeprefix(", and this reading not recorded")
        assert found.startswith(": LINE_CHANGED at s1-"), said
        assert said.err.count("\n") == 1
