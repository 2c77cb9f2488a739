"""What a person or a script may type by mistake, over all commands: one line, and nothing changed.

The calls run in this process, one after the other, on one project. Not here: broken files, full
disks and readers that leave (``test_cli_errors``).
"""

import os
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from agentops.cli.main import main
from journal import Reader
from tests.support.command_line import Said, User, user

USAGE = 2
NOT_UTF_8 = "caf\udce9"
HUGE = "1" + "0" * 30
LINE_MAX = 700
# Files that the calls name; the project's folder holds them.
FILE, EMPTY, FOLDER, BINARY = "words.txt", "empty.txt", "folder", "binary.dat"
# Answered by every port at once: nobody listens there.
CLOSED = ("hosts", "add", "n", "--port", "1", "--fingerprint", "SHA256:x", "--address")
Call = Callable[..., Said]


@pytest.fixture(scope="module")
def who(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a project: an incident, a job, this machine as a host, files of all sorts."""
    made = user(tmp_path_factory.mktemp("typed"))
    assert made.run("init").status == 0
    assert made.run("hosts", "add", "here", "--local", "--tier", "dev").status == 0
    assert made.run("incident", "open", "it stands").status == 0
    with (made.folder / "policy.toml").open("a") as file:
        file.write('\n[job.train]\nrole_match = { cmd_contains = "train.py" }\n')
        file.write('[job.train.progress]\nheartbeat = "/tmp/out/heartbeat.json"\n')
    (made.folder / FILE).write_text("It ended well.\n")
    (made.folder / EMPTY).write_text("")
    (made.folder / FOLDER).mkdir()
    (made.folder / BINARY).write_bytes(b"\xff\xfe\x00\n" * 400)
    return made


@pytest.fixture
def call(
    who: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """Run the command line in this process, as that user."""
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in who.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(who.folder)

    def run(*words: str) -> Said:
        try:
            status = main(words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        out, err = capsys.readouterr()
        return Said(words, status, out, err)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def state(who: User) -> tuple[list[str], dict[str, bytes]]:
    """The journal's events, and every file of the project and of the user's configuration."""
    events = [event.id for event in Reader.open(who.folder / "ops.journal").events()]
    folders = (who.folder, who.home / ".config")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kept = {str(path): path.read_bytes() for path in files if "ops.journal" not in path.parts}
    return events, kept


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("bench", "simulate", "--seeds", HUGE), ("--seeds", HUGE, "from 1")),
        (("bench", "simulate", "--side-by-side", "0"), ("--side-by-side", "'0'", "from 1")),
        (("policy", "simulate", "--first", "-1"), ("--first", "'-1'", "from 0")),
        (("bench", "stop", "--time-scale", "nan"), ("--time-scale", "nan", "above 0")),
        (("bench", "agent", "--cmd", "x", "--limit-s", "inf"), ("--limit-s", "inf", "above 0")),
        (("watch", "train", "--host", "here", "--rounds", "0"), ("--rounds", "'0'", "from 1")),
        (("watch", "train", "--host", "here", "--notify", ""), ("--notify", "no program")),
        (("watch", "train", "--host", "here", "--notify", "x 'y"), ("--notify", "quotation")),
        (("watch", "train", "--host", "here", "--notify", "/nope"), ("--notify", "/nope")),
        (("watch", "dance", "--host", "here"), ("dance", "train", "[job.dance]", "adopt")),
        (("adopt", "--host", "here", "--pid", "-1"), ("--pid", "'-1'", "4194303")),
        (("adopt", "--host", "here", "--pid", HUGE), ("--pid", HUGE)),
        (("adopt", "--host", "here", "--pid", "1", "--name", "a\nb"), ("--name", r"a\nb")),
        (("log", "--host", NOT_UTF_8), ("host", r"caf\udce9", "UTF-8")),
        (("show", NOT_UTF_8), ("event", "UTF-8")),
        (("query", NOT_UTF_8), ("sql", "UTF-8")),
        (("do", "probe_host", "--host", "here", "--reason", NOT_UTF_8), ("reason", "UTF-8")),
        (("incident", "open", NOT_UTF_8), ("title", "UTF-8")),
        (("log", "--journal", NOT_UTF_8), ("--journal", "UTF-8")),
        (("init", NOT_UTF_8), (r"caf\udce9", "UTF-8")),
        (("init", FILE), ("FOLDER", FILE, "is a file")),
        (("incident", "open", " "), ("TITLE", "says nothing")),
        (("incident", "note", "0", ""), ("TEXT", "says nothing")),
        (("incident", "close", "0", "--reason", ""), ("--reason", "says nothing")),
        (("journal", "redact", "0", "stdout", "--reason", ""), ("--reason", "says nothing")),
        (("log", "--since", "99999999999d"), ("--since", "99999999999d", "2h")),
        (("log", "--since", "²d"), ("--since", "2h")),
        (("digest", "--since", "99999999999d"), ("--since", "99999999999d", "7d")),
        (("digest", "--since=-1d"), ("--since", "-1d", "7d")),
        (("verify", "--key", ""), ("''", "key line")),
        (("verify", "--key", BINARY), ("--key", BINARY)),
        (("verify", "--anchor", BINARY), ("--anchor", BINARY, "no anchor")),
        (("journal", "anchor", FOLDER), (FOLDER, "cannot read the anchor")),
        (("journal", "anchor", BINARY), (BINARY, "something else")),
        (("journal", "anchor", "git:folder"), ("git:", "not a git repository")),
        (("journal", "anchor", NOT_UTF_8), ("place", "UTF-8")),
        (("replay", "--cast", "x"), ("--cast", "play")),
        (("replay", "redecide", "--incident", "0"), ("--incident", "play")),
        (("replay", "play", "--speed", "nan"), ("--speed", "nan", "above 0")),
        (("replay", "play", "--from", "-1"), ("--from", "'-1'", "0 or more")),
        (("replay", "play", "--incident", "nosuch"), ("nosuch", "incident list")),
        (("lint", FILE, "--incident", "nosuch"), ("nosuch", "incident list")),
        (("lint", EMPTY), (EMPTY, "is empty")),
        (("policy", "lint", FOLDER), (FOLDER, "Is a directory")),
        (("policy", "diff", BINARY, BINARY), (BINARY, "UTF-8")),
        (("mcp", "--http", "--port", "-1"), ("--port", "'-1'", "65535")),
        (("mcp", "--port", "5"), ("--port", "--http")),
        (("mcp", "--token-file", FILE), ("--token-file", "--http")),
        ((*CLOSED, "a..b"), ("address", "a..b")),
        ((*CLOSED, "x" * 64), ("address", "xxx")),
        ((*CLOSED, "a\nb"), ("address", r"a\nb")),
        ((*CLOSED, "127.0.0.1", "--user", ""), ("user", "''")),
        ((*CLOSED, "127.0.0.1", "--key", "/nope"), ("--key", "/nope")),
        ((*CLOSED, "127.0.0.1", "--certificate", FOLDER), ("--certificate", FOLDER)),
        ((*CLOSED, "127.0.0.1", "--host-ca", EMPTY), ("--host-ca", EMPTY)),
        (("do", "transfer", "--host", "here", "--arg", "path=/a", "--save", FOLDER), ("--save",)),
        (("recover", "a\nb", "--host", "here"), (r"a\nb", "policy.toml")),
        (("report", "x" * 9_000), ("xxx", "incident list")),
        (("log", "--kind", "\x1b[2J"), (r"\x1b[2J", "decision_made")),
        (("log", "--kind", "command_intend"), ("did you mean command_intended?",)),
        (("log", "--host", "heer"), ("--host", "'heer'", "did you mean here?")),
        (("log", "--host", "xyz"), ("--host", "'xyz'", "known: here")),
        (("log", "--since", "2999-01-01"), ("--since", "2999-01-01", "still to come")),
        (("digest", "--since", "2999-01-01"), ("--since", "2999-01-01", "still to come")),
        (("log", "--incident", ""), ("''", "incident list")),
        (("show", ""), ("''", "names no event")),
        (("verfy",), ("'verfy'", "did you mean verify?")),
        (("do", "list_procs", "--host", "here"), ("list_procs", "did you mean list_processes?")),
        (("do", "tail_log", "--host", "here", "--arg", "pth=/x"), ("'pth'", "did you mean path?")),
        (("verify", "--key", "/nonexist.key"), ("/nonexist.key", "no such file")),
    ],
    ids=lambda value: ascii(" ".join(value))[:60] if isinstance(value, tuple) else "",
)
def test_what_is_typed_wrong_is_named_in_one_line_and_changes_nothing(
    who: User, call: Call, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    before = state(who)
    line = call(*words).refused(USAGE, *named)
    assert len(line) <= LINE_MAX
    assert line.isprintable()
    assert state(who) == before


def test_a_log_in_which_nothing_fits_says_so(call: Call) -> None:
    """An empty answer could as well be a reader that failed."""
    said = call("log", "--host", "here")
    assert (said.status, said.out, said.err) == (0, "", "no event fits\n")


def test_an_anchor_is_remembered_once_it_took_a_seal(who: User, call: Call) -> None:
    place = who.folder / "deep" / "anchors.jsonl"
    said = call("journal", "anchor", str(place))
    assert said.status == 0, said.err
    assert call("verify", "--anchor", str(place)).status == 0
    pinned = (who.home / ".config" / "agentops" / "keys" / "journals.json").read_text()
    assert str(place) in pinned


def test_the_version_is_told_and_nothing_else(call: Call) -> None:
    said = call("--version")
    assert (said.status, said.err) == (0, "")
    assert re.fullmatch(r"agentops \d+\.\d+\.\d+\S*\n", said.out)
