"""A command that is ended in the middle: the journal is truthful, and nothing is left behind."""

import signal
import subprocess
from pathlib import Path

import pytest

from agentops.box.waiting import wait_for
from journal import Reader
from journal.events import CommandIntended
from tests.support.command_line import User, user

pytestmark = pytest.mark.timeout(600)
GONE_WITHIN_S = 30


def demo_until(who: User, mark: bytes) -> subprocess.Popen[bytes]:
    """A demo that has said *mark*."""
    demo = who.start("demo", "--json")
    assert demo.stderr is not None
    for line in demo.stderr:
        if mark in line:
            return demo
    raise AssertionError(f"the demo ended without {mark!r}")


def journal_of(who: User) -> Path:
    """The journal of this user's only demo."""
    (found,) = (who.home / ".local/state/agentops/demos").glob("*.journal")
    return found


def box_of(journal: Path) -> str:
    """The folder of the demo's box, from what was deployed there."""
    deployed = next(
        event.payload
        for event in Reader.open(journal).events()
        if isinstance(event.payload, CommandIntended) and event.payload.command == "deploy_files"
    )
    files = deployed.arguments["files"]
    assert isinstance(files, list)
    assert isinstance(files[0], dict)
    return str(files[0]["path"]).partition("/job/")[0]


def naming(folder: str) -> list[str]:
    """Processes whose arguments or environment name the box's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if folder.encode() in text:
                found.append(f"{entry.name}: {text[:200]!r}")
    return found


def check_nothing_left(folder: str) -> None:
    """All processes of the box end; it is their own business to see that their owner is gone."""
    wait_for(lambda: not naming(folder) or None, GONE_WITHIN_S, f"end of {naming(folder)}")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_demo_that_is_interrupted_records_the_doubt_and_takes_its_box_along(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    who = user(tmp_path)
    demo = demo_until(who, b"The engine takes over")
    demo.send_signal(number)
    out, err = demo.communicate(timeout=60)
    assert (demo.returncode, out) == (status, b"")
    assert err.decode().splitlines()[-1].startswith("agentops: interrupted")
    assert b"Traceback" not in err
    journal = journal_of(who)
    reader = Reader.open(journal)
    # At most the one that was being written down when the interrupt came.
    assert len(reader.in_doubt()) <= 1
    assert list(reader.events())[-1].kind == "session_ended"
    said = who.run("verify", journal)
    assert said.status == 0, said.out
    check_nothing_left(box_of(journal))
    assert not Path(box_of(journal)).exists()


def test_a_demo_that_is_killed_leaves_no_process_and_a_journal_that_names_the_doubt(
    tmp_path: Path,
) -> None:
    who = user(tmp_path)
    demo = demo_until(who, b"stopping")
    demo.kill()
    demo.communicate(timeout=60)
    journal = journal_of(who)
    check_nothing_left(box_of(journal))
    said = who.run("verify", journal, "--json")
    assert said.status == 3, said.out
    assert said.json["finding"] is None
    assert len(said.json["in_doubt"]) <= 1
    assert who.run("incident", "note", Reader.open(journal).incidents()[0].id, "the power went",
                   "--journal", journal).status == 0  # fmt: skip
    assert Reader.open(journal).in_doubt() == []
    assert who.run("replay", journal).status == 0
