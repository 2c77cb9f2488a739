"""What the pages show is typed as it stands, on a real box, and works as it is told.

One user follows README, recovers a job, and goes on with the page about reports on that journal.
Only what a page cannot know is exchanged: the host's address and key, and an incident's id. Not
here: whether each command of a page exists (``tests/pure/test_pages_commands.py``).
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box import Box
from agentops.hosts import fingerprint_of
from journal import Actor, KeyStore, Reader, SystemClock
from tests.support.projects import JOB, Project, project
from tests.support.recovering import SHIPPED, policy_text

ROOT = Path(__file__).parents[2]
README, REPORTS, JOURNAL = ROOT / "README.md", ROOT / "docs/reports.md", ROOT / "docs/journal.md"

pytestmark = [
    pytest.mark.needs("sshd", "root-namespaces"),
    pytest.mark.skipif(not README.exists(), reason="the pages are in the source tree only"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A folder without a project, and a job in a container that does not heed one interrupt."""
    with Box() as box:
        made = project(box, tmp_path_factory.mktemp("readme"), "200")
        for name in ("agentops.toml", "policy.toml"):
            (made.user.folder / name).unlink()
        made.start("threads")
        yield made


def lines(page: Path, heading: str, language: str = "") -> list[list[str]]:
    """The words of each line in the first block of that language below a heading."""
    below = f"\n{page.read_text(encoding='utf-8')}".split(f"\n{heading}\n", 1)[1]
    block = re.search(rf"^```{language}\n(.*?)^```", below, re.MULTILINE | re.DOTALL)
    assert block is not None, heading
    return [words for line in block[1].splitlines() if (words := shlex.split(line, comments=True))]


def way_in(place: Project) -> list[str]:
    """What a person knows of the host and the page does not."""
    at = place.box.address
    words = ["--address", at.address, "--port", str(at.port), "--user", at.user]
    return [*words, "--key", str(at.key), "--fingerprint", fingerprint_of(at.host_key)]


def describe_job(place: Project) -> None:
    """Write the job into the policy that ``init`` made."""
    job = (
        policy_text(place.job).removeprefix(SHIPPED.read_text()).replace(f"job.{JOB}", "job.dflash")
    )
    assert "[job.dflash]" in job
    with (place.user.folder / "policy.toml").open("a") as file:
        file.write(job)


def test_the_session_in_the_readme_recovers_a_job_and_proves_it(place: Project) -> None:
    session = lines(README, "## On your own host")
    assert [words[1] for words in session] == [
        *("init", "hosts", "do", "recover", "log", "report", "verify", "replay"),
    ]
    for words in session:
        typed = [word for word in words[1:] if word != "--follow"]
        if "--address" in typed:
            at = typed.index("--address")
            typed[at : at + 2] = way_in(place)
        said = place.user.run(*typed)
        assert said.status == 0, (words, said.out[-400:], said.err[-400:])
        if typed == ["init"]:
            describe_job(place)
        if typed[0] == "recover":
            assert "RECOVERED" in said.out
    assert (place.user.folder / "out.html").read_text().startswith("<!doctype html>")
    assert place.world().count("INT") == 2


def test_the_page_about_reports_works_on_that_journal(place: Project) -> None:
    folder = place.user.folder
    incident = Reader.open(folder / "ops.journal").incidents()[-1].id
    assert place.user.run("report", "--output", "incident.md").status == 0
    for name in ("last-week.md", "by-hand.md"):
        (folder / name).write_bytes((folder / "incident.md").read_bytes())
    for heading in ("# Reports, linting, replay", "## Linting", "## Digest and compliance"):
        for words in lines(REPORTS, heading, "sh"):
            typed = [incident if word == "01M8P283" else word for word in words[1:]]
            said = place.user.run(*("gpu1" if word == "box" else word for word in typed))
            judged = typed[0] == "compliance"  # what it finds is told by its own tests
            assert said.status == 0 or (judged and said.status == 1), (words, said.err[-400:])
            assert said.err.count("\n") <= 1


def code(page: Path, heading: str) -> str:
    """The first Python block below a heading."""
    below = f"\n{page.read_text(encoding='utf-8')}".split(f"\n{heading}\n", 1)[1]
    return below.split("```python\n", 1)[1].split("```", 1)[0]


def test_the_python_on_the_pages_runs_on_that_journal(
    place: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place.user.folder / "ops.journal"
    reader = Reader.open(path)
    lie = "It ended as RECOVERED", "It ended as STOPPED"
    text = (place.user.folder / "incident.md").read_text().replace(*lie)
    exec(code(REPORTS, "## Linting"), {"text": text, "reader": reader})  # noqa: S102 - the page's
    assert "the cited resolution is RECOVERED" in capsys.readouterr().out
    keys = KeyStore(place.user.home / ".config" / "agentops" / "keys")
    exec(code(JOURNAL, "## Appending"), {"path": path, "keys": keys})  # noqa: S102 - likewise
    (noted,) = reader.events(kinds=("incident_noted",))
    assert noted.actor == Actor("human", "ada@example.org")
    assert noted.ts_us <= SystemClock().wall_us()
