"""Approvals as a user meets them: ``do`` asks, a person approves with a key, ``do`` acts once."""

import os
import pty
import select
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import User, user

HERE = '\n[hosts.here]\ntransport = "local"\ntier = "prod"\n'


@pytest.fixture
def person(tmp_path: Path) -> User:
    """A user with a project, a journal, and this machine as a host of tier prod."""
    who = user(tmp_path)
    assert who.run("init").status == 0
    with (who.folder / "agentops.toml").open("a") as file:
        file.write(HERE)
    return who


def wish(person: User) -> tuple[str, ...]:
    """The words of a command that leaves a line at each run."""
    trace = person.folder / "trace"
    return ("do", "run_argv", "--host", "here", "--arg", f'argv=["sh","-c","echo ran >>{trace}"]')


def ran(person: User) -> int:
    """How often it ran."""
    trace = person.folder / "trace"
    return len(trace.read_text().splitlines()) if trace.exists() else 0


def test_do_asks_and_acts_once_after_a_signed_yes(person: User, tmp_path: Path) -> None:
    """The agent's own yes is refused, a bare one too; the signed one is good for one run."""
    agent = User(person.home, person.folder, {"AGENTOPS_ACTOR": "agent:helper"})
    key = tmp_path / "operator.pem"
    made = person.run("operator", "init", "--no-passphrase", "--key", key)
    assert made.status == 0, made
    assert key.stat().st_mode & 0o777 == 0o600
    asked = agent.run(*wish(person))
    assert asked.status == 5, asked
    assert "run_argv, which destroys" in asked.out
    (card,) = person.run("approvals", "--json").json["approvals"]
    approval = card["approval"]
    assert f"agentops approve {approval}" in asked.err
    agent.run("approve", approval, "--operator-key", key).refused(2, "agent helper cannot approve")
    person.run("approve", approval).refused(2, "operator key", "No such file")
    assert ran(person) == 0
    assert person.run("approve", approval, "--operator-key", key).status == 0
    assert agent.run(*wish(person)).status == 0
    assert ran(person) == 1
    assert agent.run(*wish(person)).status == 5
    assert ran(person) == 1
    assert person.run("verify").status == 0
    assert person.run("replay").status == 0


def test_the_user_that_asked_cannot_say_yes_but_can_say_no(person: User) -> None:
    approval = person.run(*wish(person), "--json").json["card"]["approval"]
    person.run("approve", approval).refused(2, "the user that asked", "agentops operator init")
    assert person.run("deny", approval, "--reason", "not today").status == 0
    assert person.run("approvals", "--json").json == {"approvals": [], "frozen": []}
    assert ran(person) == 0
    log = person.run("log").out
    assert f"{approval}: may run_argv run? asked by" in log
    assert f"{approval}: no; «not today»" in log


def test_an_edit_of_the_policy_makes_a_question_and_a_yes_stale(
    person: User, tmp_path: Path
) -> None:
    """A stale question cannot be answered, a stale yes is named; nothing runs on either."""
    key = tmp_path / "operator.pem"
    assert person.run("operator", "init", "--no-passphrase", "--key", key).status == 0

    def asked() -> str:
        said = person.run(*wish(person), "--json")
        assert said.status == 5, said
        return str(said.json["card"]["approval"])

    def edit(table: str) -> None:
        with (person.folder / "policy.toml").open("a") as file:
            file.write(table)

    old = asked()
    edit("\n[budget]\nsignals = 3\n")
    refused = person.run("approve", old, "--operator-key", key).refused(2, "is stale", "asks anew")
    assert "policy.toml, or the host's key, has changed since it was asked" in refused
    given = asked()
    assert person.run("approve", given, "--operator-key", key).status == 0
    person.run("approve", given, "--operator-key", key).refused(2, "it was granted")
    edit("\n[limits]\nlead_db = 11\n")
    anew = person.run(*wish(person))
    assert anew.status == 5
    assert f"the yes to {given} is stale: policy.toml" in anew.err
    assert ran(person) == 0
    assert person.run("approve", asked(), "--operator-key", key).status == 0
    assert person.run(*wish(person)).status == 0
    assert ran(person) == 1


JOB = """
[job.zz]
role_match = { cmd_contains = "nothing-is-called-this" }
[job.zz.progress]
heartbeat = "/nonexistent/heartbeat.json"
[job.zz.stop]
respawn_s = 0
[job.zz.launch]
argv = ["true"]
cwd = "/"
log = "/dev/null"
[[job.zz.repair]]
id = "fix"
when = { lead = "H3" }
files = [{ path = "/nonexistent/fix.py", source = "fix.py" }]
"""


def test_a_recovery_whose_repairs_are_files_can_be_said_yes_to_until_one_of_them_changes(
    person: User, tmp_path: Path
) -> None:
    """The loop's policy holds the files' digests; another content is another question."""
    key = tmp_path / "operator.pem"
    assert person.run("operator", "init", "--no-passphrase", "--key", key).status == 0
    (person.folder / "fix.py").write_text("1\n")
    with (person.folder / "policy.toml").open("a") as file:
        file.write(JOB)
    recover = ("recover", "zz", "--host", "here", "--json")
    (first,) = person.run(*recover).json["waits_for"]
    (person.folder / "fix.py").write_text("2\n")
    person.run("approve", first, "--operator-key", key).refused(2, "is stale")
    (again,) = person.run(*recover).json["waits_for"]
    assert again != first
    assert person.run("approve", again, "--operator-key", key).status == 0


def test_freezes_are_listed_with_who_and_why_and_a_thaw_says_what_still_stands(
    person: User,
) -> None:
    """A thaw of one host under a freeze of all is refused; one where nothing is frozen is none."""
    person.run("freeze", "here", "--reason", "new cards")
    person.run("freeze", "--all", "--reason", "audit")
    listed = person.run("approvals")
    assert "frozen everywhere" in listed.err
    assert "«audit»; agentops thaw --all" in listed.err
    assert "frozen on here" in listed.err
    assert "«new cards»; agentops thaw here" in listed.err
    hosts = [one["host"] for one in person.run("approvals", "--json").json["frozen"]]
    assert hosts == [None, "here"]
    thawed = person.run("thaw", "here")
    assert thawed.status == 0
    assert "still frozen everywhere; agentops thaw --all" in thawed.err
    person.run("thaw", "here").refused(2, "everywhere", "agentops thaw --all")
    assert person.run("thaw", "--all", "--json").json["frozen"] == []
    idle = person.run("thaw", "here", "--json")
    assert (idle.status, idle.json["event"]) == (0, None)
    log = person.run("log").out
    assert "acting_frozen            «audit»" in log
    assert log.count("acting_thawed") == 2


@pytest.fixture
def commons() -> Iterator[Path]:
    """A folder that every user of the machine can reach."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o777)
        yield place


@pytest.mark.needs("setpriv", "setsid", "root", "checkout-open-to-other-users")
def test_another_users_yes_counts_outside_the_tree_that_asked(commons: Path) -> None:
    """Root answers what an unprivileged user asked; no seal of root's key enters the journal."""
    who = user(commons)
    for path in (who.home, who.folder):
        path.chmod(0o777)
    down = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
    assert who.run("init", before=down).status == 0
    settings = who.folder / "agentops.toml"
    settings.write_text(settings.read_text() + HERE)
    (commons / "root").mkdir()
    root = User(commons / "root", who.folder)
    near = who.run(*wish(who), "--json", before=down).json["card"]["approval"]
    root.run("approve", near).refused(2, "run below process", "another terminal")
    assert root.run("deny", near).status == 0
    # In a session of its own, as an agent's server is: nothing above it is its own tree.
    apart = ("setsid", *down)
    far = who.run(*wish(who), "--json", before=apart).json["card"]["approval"]
    assert root.run("approve", far).status == 0
    assert who.run(*wish(who), before=apart).status == 0
    assert ran(who) == 1
    assert who.run("verify", before=down).status == 0


@pytest.mark.needs("setsid")
def test_a_sealed_key_opens_with_the_passphrase_that_is_typed_on_a_terminal(
    person: User, tmp_path: Path
) -> None:
    """And nowhere else: without a terminal it is refused in one line."""
    key = tmp_path / "operator.pem"
    person.run("operator", "init", "--key", key).refused(2, "typed on a terminal")
    assert not key.exists()
    assert on_terminal(person, "operator", "init", "--key", str(key)) == 0
    assert b"ENCRYPTED" in key.read_bytes()
    approval = person.run(*wish(person), "--json").json["card"]["approval"]
    words = ("approve", approval, "--operator-key", str(key))
    person.run(*words).refused(2, "typed on a terminal")
    assert on_terminal(person, *words) == 0
    assert person.run(*wish(person)).status == 0
    assert ran(person) == 1


def on_terminal(person: User, *words: str) -> int:
    """Run ``agentops`` on a terminal of its own, and type the passphrase whenever it is asked."""
    here, there = pty.openpty()
    process = person.start(
        *words, before=("setsid", "--ctty"), stdin=there, stdout=there, stderr=there
    )
    os.close(there)
    said = b""
    answered = 0
    while process.poll() is None or select.select([here], [], [], 0)[0]:
        if not select.select([here], [], [], 0.2)[0]:
            continue
        try:
            said += os.read(here, 4096)
        except OSError:  # the terminal ends with its last program
            break
        asked = said.count(b"passphrase") + said.count(b"once more")
        while answered < asked:
            os.write(here, b"open sesame\n")
            answered += 1
    os.close(here)
    status = process.wait(timeout=60)
    assert answered > 0, said
    return status
