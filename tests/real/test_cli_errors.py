"""Bad input, met by the command line: one clear line, the right status, nothing lost or changed."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from journal import Reader
from tests.support.command_line import User, user

USAGE, NOT_SENT = 2, 6


@pytest.fixture(scope="module")
def who(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a project: a journal, a policy, this machine as a host, one out of reach."""
    made = user(tmp_path_factory.mktemp("errors"))
    assert made.run("init").status == 0
    assert made.run("hosts", "add", "here", "--local", "--tier", "dev").status == 0
    with (made.folder / "agentops.toml").open("a") as file:
        # Port 1 of loopback: nobody listens there, and the refusal comes at once.
        key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
        file.write(f'\n[hosts.gone]\naddress = "127.0.0.1"\nport = 1\nhost_key = "{key}"\n')
    return made


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("demo", "--fault", "gremlins"), ("--fault", "gremlins", "respawning-wrapper")),
        (("do", "dance", "--host", "here"), ("dance", "probe_host")),
        (("do", "probe_host", "--host", "mars"), ("mars", "here", "hosts add")),
        (("do", "tail_log", "--host", "here"), ("tail_log", "path")),
        (("do", "tail_log", "--host", "here", "--arg", "path"), ("'path'", "KEY=VALUE")),
        (
            ("do", "tail_log", "--host", "here", "--arg", "path=/x", "--arg", "max_bytes=many"),
            ("max_bytes", "many"),
        ),
        (("do", "probe_host", "--host", "here", "--arg", "depth=3"), ("depth", "measure_shell")),
        (
            ("do", "file_digest", "--host", "here", "--arg", "path=policy.toml"),
            ("path", "policy.toml", "a path on a host is absolute"),
        ),
        (("do", "locks", "--host", "here", "--arg", 'paths=["x"]'), ("paths.0", "absolute")),
        (("recover", "nothing", "--host", "here"), ("nothing", "policy.toml", "[job.nothing]")),
        (("recover", "nothing", "--host", "mars"), ("mars", "here")),
        (("log", "--kind", "gossip"), ("gossip", "decision_made")),
        (("log", "--since", "tomorrow"), ("tomorrow", "2h", "yesterday")),
        (("log", "--limit", "0"), ("--limit", "0")),
        (("log", "--incident", "01ZZ"), ("no incident is recorded",)),
        (("show", "ffffffff"), ("ffffffff",)),
        (("query", "SELEC 1"), ("SELEC",)),
        (("query", "DELETE FROM event"), ("only read", "SELECT")),
        (("incident", "show"), ("no incident",)),
        (("incident", "close", "01ZZ", "--reason", "x"), ("incident",)),
        (("report", "--depth", "abyss"), ("--depth", "abyss", "summary")),
        (("verify", "--anchor", "/nowhere"), ("--anchor", "/nowhere")),
        (("init",), ("agentops.toml", "is there already")),
        (("hosts", "add", "here", "--local"), ("here", "in the inventory already")),
        (("hosts", "add", "x", "--local", "--address", "a"), ("--local", "--address")),
        (("hosts", "add", "x", "--local", "--jump", "gone"), ("--local", "--jump")),
        (("hosts", "add", "x", "--address", "a", "--layer", "vm:1"), ("vm:1", "pct:ID")),
        (("hosts", "add", "x", "--address", "a", "--port", "70000"), ("port", "65535")),
        (("hosts", "check", "mars"), ("mars",)),
        (("journal", "init"), ("ops.journal", "something is there")),
        (("dance",), ("dance", "recover")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_used_is_named_with_the_remedy_and_changes_nothing(
    who: User, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    before = [event.id for event in Reader.open(who.folder / "ops.journal").events()]
    who.run(*words).refused(USAGE, *named)
    after = [event.id for event in Reader.open(who.folder / "ops.journal").events()]
    assert after == before


def test_a_host_that_cannot_be_reached_is_an_outcome_on_record(who: User) -> None:
    said = who.run("do", "probe_host", "--host", "gone", "--json")
    assert said.status == NOT_SENT
    assert said.json["outcome"] == "not_sent"
    assert "127.0.0.1" in said.json["says"]
    kinds = [event.kind for event in Reader.open(who.folder / "ops.journal").events()]
    assert kinds[-3:-1] == ["command_intended", "command_not_sent"]
    told = who.run("hosts", "check", "gone")
    assert told.status == NOT_SENT
    assert "127.0.0.1" in told.err


@pytest.mark.parametrize("words", [("log",), ("verify",), ("report",), ("journal", "size")])
def test_a_foreign_folder_a_file_and_a_missing_path_are_no_journals(
    who: User, tmp_path: Path, words: tuple[str, ...]
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    a_file = tmp_path / "file"
    a_file.write_text("mine")
    for path in (foreign, a_file, tmp_path / "missing"):
        who.run(*words, "--journal", path).refused(USAGE, str(path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "foreign"]
    assert [each.name for each in foreign.iterdir()] == ["notes.txt"]


def test_a_demo_never_writes_into_a_folder_that_is_not_its_own(who: User, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    who.run("demo", "--journal", tmp_path).refused(USAGE, str(tmp_path), "not empty")
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("agentops.toml", "[journal\n", ("agentops.toml", "TOML")),
        ("agentops.toml", "[journal]\npaht = 'x'\n", ("journal.paht", "not known")),
        ("agentops.toml", "[hosts.a]\nport = 22\n", ("hosts.a", "address")),
        ("agentops.toml", "[policy]\nfile = 'gone.toml'\n", ("gone.toml", "cannot be read")),
        ("policy.toml", "[policy]\nversion = 1\n[job.x\n", ("policy.toml", "TOML")),
        ("policy.toml", "[policy]\nversion = 1\nspeed = 9\n", ("policy.toml", "speed")),
    ],
)
def test_a_broken_file_of_the_user_is_named_with_its_key(
    tmp_path: Path, name: str, text: str, named: tuple[str, ...]
) -> None:
    who = user(tmp_path)
    (who.folder / "agentops.toml").write_text(
        '[policy]\nfile = "policy.toml"\n[hosts.here]\ntransport = "local"\n'
    )
    (who.folder / name).write_text(text)
    if name == "agentops.toml" and "policy" in text:
        with (who.folder / name).open("a") as file:
            file.write('[hosts.here]\ntransport = "local"\n')
    who.run("do", "probe_host", "--host", "here").refused(USAGE, *named)


def test_without_a_home_it_says_which_variables_to_set(tmp_path: Path) -> None:
    who = user(tmp_path)
    environ = {name: value for name, value in who.environ.items() if name != "HOME"}
    who.run("log", env=environ).refused(USAGE, "HOME", "XDG_STATE_HOME")


def test_without_any_configuration_it_says_where_it_looked(tmp_path: Path) -> None:
    who = user(tmp_path)
    who.run("log").refused(USAGE, str(who.home), "agentops init")
    said = who.run("config", "show", "--json").json
    assert said["settings"]["journal"]["from"] == "default"
    assert list(who.home.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.needs("root", "mount")
def test_a_full_disk_loses_nothing_that_was_acknowledged(who: User, small_disk: Path) -> None:
    journal = small_disk / "ops.journal"
    assert who.run("journal", "init", "--journal", journal).status == 0
    acknowledged = []
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"\0" * 4096)
            except OSError:
                break
    for _ in range(8):
        said = who.run("incident", "open", "t" * 900, "--journal", journal)
        if said.status != 0:
            said.refused(USAGE, "No space left on device", "000000.jsonl")
            break
        acknowledged.append(said.out.strip())
    else:
        raise AssertionError("the disk never was full")
    opened = [each.id for each in Reader.open(journal).incidents()]
    assert [name for name in acknowledged if name not in opened] == []
    filler.unlink()
    assert who.run("incident", "open", "after", "--journal", journal).status == 0
    said = who.run("verify", journal)
    assert said.status == 0, said.out
    assert [each.id for each in Reader.open(journal).incidents()][:-1] == opened


def test_an_answer_whose_reader_left_ends_quietly(who: User) -> None:
    read, write = os.pipe()
    os.close(read)
    for words in (("commands", "--json"), ("commands",), ("hosts", "list")):  # each prints
        said = who.run(*words, stdout=write)
        assert said.status == 141  # nobody was told an answer, so none is claimed
        assert said.err == ""
    os.close(write)


def test_a_closed_stdout_and_a_narrow_encoding_are_survived(who: User) -> None:
    said = who.run("commands", before=("sh", "-c", 'exec "$@" >&-', "sh"))
    assert (said.status, said.err) == (0, "")
    assert who.run("incident", "open", "müde → still").status == 0
    plain = dict(who.environ, PYTHONIOENCODING="ascii", LC_ALL="C")
    said = who.run("log", "--kind", "incident_opened", env=plain)
    assert said.status == 0
    assert "m\\xfcde \\u2192 still" in said.out


@pytest.mark.parametrize("locale", ["de_DE.UTF-8", "C", "tr_TR.UTF-8"])
def test_another_locale_changes_no_answer(who: User, locale: str) -> None:
    other = dict(who.environ, LC_ALL=locale, LANG=locale, LANGUAGE="de")
    said = who.run("do", "probe_host", "--host", "here", "--json", env=other)
    assert said.status == 0, said.err
    assert said.json["observation"]["ticks_per_s"] == os.sysconf("SC_CLK_TCK")
