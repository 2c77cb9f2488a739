"""``recover`` as a user runs it, with files only: from init to the postmortem, and who may act."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box.box import Box
from journal import Reader
from tests.support.boxes import host_of
from tests.support.command_line import user
from tests.support.projects import HOST, JOB, Project, project
from tests.support.recovering import policy_text

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


def kinds(place: Path) -> list[str]:
    """Kinds of all events, in order."""
    return [event.kind for event in Reader.open(place).events()]


def test_a_project_is_made_by_init_and_hosts_add_and_its_job_recovered(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "300")
    who = place.user
    # Only what a user types and edits: begin again without the files that the stage wrote.
    (who.folder / "agentops.toml").unlink()
    (who.folder / "policy.toml").unlink()
    assert who.run("init").status == 0
    at, fingerprint = box.address, host_of(box).fingerprint
    added = who.run(
        "hosts", "add", HOST, "--address", at.address, "--port", str(at.port), "--user", at.user,
        "--key", at.key, "--layer", "pct:300", "--tier", "dev", "--fingerprint", str(fingerprint),
    )  # fmt: skip
    assert added.status == 0, added.err
    job_tables = policy_text(place.job).partition("[job.stub]")[1:]
    with (who.folder / "policy.toml").open("a") as file:
        file.write("\n" + "".join(job_tables))
    victim = place.start()
    shadowed = who.run("recover", JOB, "--host", HOST, "--shadow", "--json")
    assert (shadowed.status, shadowed.json["resolution"]) == (4, "HANDED_OVER")
    assert place.world() == ["start "]
    said = who.run("recover", JOB, "--host", HOST)
    assert said.status == 0, said.err
    assert "RECOVERED" in said.out
    assert [line.partition(" ")[0] for line in place.world()] == ["start", "INT", "start"]
    assert victim.identity not in {truth.identity for truth in place.living()}
    assert (place.job / "code.py").read_text() == "VERSION = 2\n"
    again = who.run("recover", JOB, "--host", HOST, "--json")
    assert (again.status, again.json["resolution"]) == (0, "NOTHING_TO_DO")
    stopped = who.run("recover", JOB, "--host", HOST, "--stop", "--json")
    assert (stopped.status, stopped.json["resolution"]) == (0, "STOPPED")
    assert place.living() == ()
    assert who.run("verify").status == 0
    assert who.run("replay").status == 0
    assert "STOPPED" in who.run("report", "--depth", "line").out


def test_one_acts_on_a_host_at_a_time_and_anybody_may_look(box: Box, tmp_path: Path) -> None:
    """The first waits out a long grace; a second project of the same user meets it there."""
    place = project(box, tmp_path, "301")
    policy = place.user.folder / "policy.toml"
    policy.write_text(policy.read_text().replace("interrupt_s = 2", "interrupt_s = 600"))
    place.start("deaf")
    first = place.user.start("recover", JOB, "--host", HOST, "--stop")
    assert first.stdout is not None
    assert any(b"the grace of rung interrupt" in line for line in first.stdout)
    (tmp_path / "second").mkdir()
    second = second_project(place, tmp_path / "second")
    refused = second.user.run("recover", JOB, "--host", HOST).refused(2, HOST, "only one may")
    assert f"pid {first.pid}" in refused
    assert "incident_opened" not in kinds(second.journal)
    assert second.user.run("do", "list_processes", "--host", HOST).status == 0
    denied = second.user.run(
        "do", "launch", "--host", HOST, "--json", "--arg", 'argv=["true"]',
        "--arg", f"cwd={place.job}", "--arg", f"log={place.job}/x", "--arg", "launch_id=x",
    )  # fmt: skip
    assert (denied.status, denied.json["rule"]) == (4, "acting-lease")
    assert kinds(second.journal)[-2] == "command_denied"
    shadowed = second.user.run("recover", JOB, "--host", HOST, "--shadow", "--json")
    assert shadowed.json["resolution"] == "HANDED_OVER"
    assert place.world() == ["start ", "INT"]
    first.kill()
    first.communicate(timeout=20)
    # The lease ended with its holder, however that ended.
    done = second.user.run("recover", JOB, "--host", HOST, "--stop", "--json")
    assert (done.status, done.json["resolution"]) == (0, "STOPPED"), done.err


def second_project(first: Project, place: Path) -> Project:
    """Another folder and journal of the same user, about the same job on the same host."""
    who = user(place)
    for name in ("agentops.toml", "policy.toml", "code.py"):
        text = (first.user.folder / name).read_text()
        (who.folder / name).write_text(text.replace("interrupt_s = 600", "interrupt_s = 1"))
    mine = type(who)(first.user.home, who.folder)
    return Project(mine, first.box, first.container, first.job)
