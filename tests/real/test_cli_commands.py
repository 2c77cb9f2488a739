"""Each command as a user types it, on this machine and without a box: answers, statuses, JSON."""

import argparse
import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

import asyncssh
import pytest

from agentops.box import Box
from agentops.cli.main import GROUPS, build_parser
from agentops.hosts import toml_entry
from journal import Reader
from reports import Depth
from tests.support.boxes import host_of
from tests.support.command_line import User, user

pytestmark = pytest.mark.timeout(600)

# What the storeys below need is loaded once; then each command where no other one is loaded yet.
FIRST = """
import os, sys
import journal, reports, agentops.recover, mcp.server, rich.table
for name in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        from agentops.cli.main import build_parser
        build_parser(name)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"{name} cannot be loaded first")
"""


@pytest.fixture(scope="module")
def who(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a project, this machine as a host, and an incident with a command in it."""
    made = user(tmp_path_factory.mktemp("commands"))
    assert made.run("init").status == 0
    assert made.run("hosts", "add", "here", "--local", "--tier", "dev").status == 0
    opened = made.run("incident", "open", "is it alive?", "--job", "dflash", "--json")
    incident = opened.json["incident"]
    said = made.run("do", "probe_host", "--host", "here", "--incident", incident[:-3], "--json")
    assert said.status == 0, said.err
    return made


def events(who: User) -> list[str]:
    """Kinds of all events of the project's journal."""
    return [event.kind for event in Reader.open(who.folder / "ops.journal").events()]


def commands_of(parser: argparse.ArgumentParser) -> set[str]:
    """Names of the commands that a parser knows."""
    (actions,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return set(actions.choices)


def test_every_module_adds_exactly_the_commands_that_it_is_loaded_for() -> None:
    every = commands_of(build_parser())
    assert every == {name for names in GROUPS.values() for name in names}
    for names in GROUPS.values():
        assert commands_of(build_parser(names[0])) == set(names)
    assert commands_of(build_parser("no such command")) == every


def test_every_module_can_be_the_first_that_is_loaded() -> None:
    """The other tests fork their calls from a process that has loaded all of them."""
    names = [names[0] for names in GROUPS.values()]
    argv = [sys.executable, "-P", "-c", FIRST, *names]
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr


def test_a_command_by_hand_answers_with_outcome_observation_and_events(who: User) -> None:
    said = who.run("do", "file_digest", "--host", "here", "--arg", "path=/etc/hostname", "--json")
    assert said.status == 0, said.err
    answer = said.json
    assert answer["outcome"] == "completed"
    assert answer["authorization"] == "allow"
    kinds = [who.run("show", event, "--json").json["event"]["kind"] for event in answer["events"]]
    assert kinds[-3:] == ["command_intended", "command_completed", "observation_parsed"]
    plain = who.run("do", "file_digest", "--host", "here", "--arg", "path=/etc/hostname")
    assert json.loads(plain.out) == answer["observation"]


def test_a_plan_shows_argv_and_route_and_sends_and_records_nothing(
    who: User, tmp_path: Path
) -> None:
    before = events(who)
    words = ("do", "launch", "--host", "here", "--plan", "--arg", 'argv=["touch", "made"]')
    more = ("--arg", f"cwd={tmp_path}", "--arg", f"log={tmp_path}/log", "--arg", "launch_id=x")
    said = who.run(*words, *more, "--json")
    assert said.status == 0, said.err
    plan = said.json["plan"]
    assert (plan["effect"], plan["route"], plan["tier"]) == ("changes", ["local"], "dev")
    assert who.run(*words, *more).out.startswith("command ")
    assert list(tmp_path.iterdir()) == []
    assert events(who) == before


def test_an_act_on_a_host_of_unknown_tier_waits_for_a_person(who: User, tmp_path: Path) -> None:
    with (who.folder / "agentops.toml").open("a") as file:
        file.write('\n[hosts.stranger]\ntransport = "local"\n')
    said = who.run(
        "do", "launch", "--host", "stranger", "--json", "--arg", f'argv=["touch", "{tmp_path}/x"]',
        "--arg", f"cwd={tmp_path}", "--arg", f"log={tmp_path}/log", "--arg", "launch_id=x",
    )  # fmt: skip
    assert said.status == 5
    assert said.json["outcome"] == "waits"
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_the_host_refuses_is_a_failure_and_not_an_answer(who: User) -> None:
    said = who.run("do", "tail_log", "--host", "here", "--arg", "path=/proc/1/mem", "--json")
    assert said.status in {0, 1}
    if said.status == 0:
        assert "text" not in said.json["observation"]


def test_all_commands_are_listed_with_effect_and_arguments(who: User) -> None:
    listed = {each["name"]: each for each in who.run("commands", "--json").json["commands"]}
    assert listed["signal_process"]["effect"] == "destroys"
    assert "victim" in listed["signal_process"]["arguments"]["properties"]
    wide = who.run("commands", env=dict(who.environ, COLUMNS="200")).out
    assert all(name in wide for name in listed)


def test_an_incident_is_opened_noted_shown_listed_and_closed_once(who: User) -> None:
    name = who.run("incident", "open", "by hand").out.strip()
    assert who.run("incident", "note", name, "looked at the fans").status == 0
    shown = who.run("incident", "show", name, "--json").json
    assert [event["kind"] for event in shown["events"]] == ["incident_opened", "incident_noted"]
    assert who.run("incident", "close", name, "--reason", "nothing to do for us").status == 0
    who.run("incident", "close", name, "--reason", "again").refused(2, name, "HANDED_OVER")
    listed = who.run("incident", "list", "--json").json["incidents"]
    assert {each["incident"]: each["resolution"] for each in listed}[name] == "HANDED_OVER"
    # An id that a narrow terminal cuts short could not be typed back.
    assert name in who.run("incident", "list", env=dict(who.environ, COLUMNS="60")).out


def test_log_show_and_query_tell_the_same_events(who: User) -> None:
    told = who.run("log", "--json", "--kind", "command_intended", "--host", "here").json["events"]
    assert told
    first = told[0]
    shown = who.run("show", first["id"], "--json").json
    assert shown["event"] == first
    outcome = who.run("log", "--json", "--kind", "command_completed", "--limit", "1").json
    outputs = who.run("show", outcome["events"][0]["id"], "--json").json["outputs"]
    assert outputs["stdout"]["length_bytes"] > 0
    lines = who.run("log", "--kind", "command_intended").out.splitlines()
    assert first["id"][-8:] in lines[0]
    count = "SELECT kind, count(*) AS n FROM event WHERE kind = 'command_intended' GROUP BY kind"
    answer = who.run("query", count, "--json").json
    assert answer["columns"] == ["kind", "n"]
    written = list(csv.reader(io.StringIO(who.run("query", count, "--format", "csv").out)))
    assert written == [["kind", "n"], ["command_intended", str(answer["rows"][0][1])]]
    assert who.run("log", "--since", "2h", "--limit", "1").out.count("\n") == 1
    assert who.run("log", "--since", "2999-01-01T00:00+00:00").out == ""


def test_looking_is_recorded_too(who: User) -> None:
    before = events(who).count("journal_read")
    assert who.run("show", Reader.open(who.folder / "ops.journal").incidents()[0].id).status == 2
    incident = Reader.open(who.folder / "ops.journal").incidents()[0].id
    for look in (
        ("log", "--limit", "1"),
        ("incident", "list"),
        ("incident", "show", incident),
        ("journal", "prove", "0"),
    ):
        assert who.run(*look).status == 0
        before += 1
        assert events(who).count("journal_read") == before


@pytest.mark.parametrize("depth", get_args(Depth))
@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_a_report_is_written_at_every_depth_in_every_form(
    who: User, depth: str, form: str, tmp_path: Path
) -> None:
    incident = Reader.open(who.folder / "ops.journal").incidents()[0].id
    target = tmp_path / "report"
    said = who.run("report", incident, "--depth", depth, "--format", form, "--output", target)
    assert said.status == 0, said.err
    text = target.read_text("utf-8")
    assert incident in text
    if form == "json":
        json.loads(text)


def test_a_report_goes_to_stdout_or_to_a_file_that_can_be_written(
    who: User, tmp_path: Path
) -> None:
    said = who.run("report", "--depth", "line")
    assert (said.status, said.out.count("\n")) == (0, 1)
    who.run("report", "--output", tmp_path / "no" / "report").refused(2, "--output", "No such file")


def test_the_journal_is_sealed_measured_indexed_anew_and_its_key_shown(who: User) -> None:
    key = who.run("journal", "key", "show").out.strip()
    assert key in (who.folder / "agentops.toml").read_text()
    sealed = who.run("journal", "seal", "--json")
    assert sealed.status == 0
    assert sealed.json["size"] > 0
    assert who.run("journal", "size", "--json").json["segments_bytes"] > 0
    (who.folder / "ops.journal" / "journal.duckdb").unlink()
    assert who.run("journal", "reindex", "--json").json["events"] == len(events(who))
    assert who.run("verify").status == 0
    stranger = dict(who.environ, HOME=str(who.folder))
    told = who.run("verify", who.folder / "ops.journal", "--key", key, env=stranger)
    assert told.status in {0, 3}
    assert told.out.startswith(("INTACT", "UNANCHORED"))


def test_settings_come_from_the_flag_then_the_environment_then_the_files(
    who: User, tmp_path: Path
) -> None:
    def told(*words: str, **more: str) -> tuple[str, str]:
        said = who.run("config", "show", *words, "--json", env=dict(who.environ, **more))
        journal = said.json["settings"]["journal"]
        return journal["value"], journal["from"]

    here = str(who.folder / "agentops.toml")
    assert told() == (str(who.folder / "ops.journal"), here)
    assert told(AGENTOPS_JOURNAL="/b") == ("/b", "$AGENTOPS_JOURNAL")
    assert told("--journal", "/a", AGENTOPS_JOURNAL="/b") == ("/a", "--journal")
    (who.home / ".config/agentops").mkdir(parents=True, exist_ok=True)
    (who.home / ".config/agentops/agentops.toml").write_text('[journal]\npath = "far.journal"\n')
    assert told() == (str(who.folder / "ops.journal"), here)
    said = who.run("config", "show", "--json", cwd=tmp_path).json["settings"]["journal"]
    assert said["from"].endswith(".config/agentops/agentops.toml")
    (who.home / ".config/agentops/agentops.toml").unlink()


def test_follow_tells_new_events_and_ends_on_an_interrupt(who: User) -> None:
    following = who.start("log", "--follow", "--json", "--kind", "incident_noted")
    assert following.stdout is not None
    incident = who.run("incident", "open", "watched").out.strip()
    assert who.run("incident", "note", incident, "seen live").status == 0
    for raw in following.stdout:
        if json.loads(raw)["data"]["text"] == "seen live":
            break
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=20)
    assert following.returncode in {0, 130}
    assert b"Traceback" not in err


def test_doctor_says_whose_packages_they_are(who: User) -> None:
    said = who.run("doctor", "--json")
    assert said.status == 0, said.err
    assert said.json["foreign"] == []
    assert set(said.json["packages"]) == {"agentops", "journal", "reports", "trainer"}


def test_many_first_uses_at_once_make_one_key_and_intact_journals(tmp_path: Path) -> None:
    crowd = user(tmp_path)
    started = [
        crowd.start("incident", "open", "first", "--journal", tmp_path / f"{number}.journal")
        for number in range(4)
    ]
    for process in started:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert len(list((crowd.home / ".config/agentops/keys").glob("*.key"))) == 1
    for number in range(4):
        assert crowd.run("verify", tmp_path / f"{number}.journal").status == 0


def test_many_writers_of_one_journal_lose_nothing(tmp_path: Path) -> None:
    crowd = user(tmp_path)
    place = tmp_path / "one.journal"
    assert crowd.run("journal", "init", "--journal", place).status == 0
    started = [crowd.start("incident", "open", str(n), "--journal", place) for n in range(5)]
    names = set()
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        names.add(out.decode().strip())
    assert {each.id for each in Reader.open(place).incidents()} == names
    said = crowd.run("verify", place)
    assert said.status == 0, said.out


@pytest.mark.needs("root", "setpriv", "checkout-open-to-other-users")
def test_another_user_reads_nothing_of_a_journal_and_has_one_of_their_own(who: User) -> None:
    # Not below pytest's own folder, which is closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        check_another_user(who, Path(folder))


def check_another_user(who: User, folder: Path) -> None:
    """Nobody, with a home and a working folder that anybody may use."""
    other = user(folder)
    for each in (folder, other.home, other.folder):
        each.chmod(0o777)
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    place = who.folder / "ops.journal"
    other.run("log", "--journal", place, before=as_nobody).refused(2, "ops.journal")
    made = other.run("incident", "open", "mine", before=as_nobody)
    assert made.status == 0, made.err


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_first_use_question_is_asked_on_a_terminal(tmp_path: Path, answer: str) -> None:
    asked = user(tmp_path)
    with Box(containers=()) as box:
        at = box.address
        words = ("hosts", "add", "trap", "--address", at.address, "--port", str(at.port))
        more = ("--user", at.user, "--key", str(at.key), "--tier", "dev")
        main_end, far_end = pty.openpty()
        adding = asked.start(*words, *more, stdin=far_end, stderr=subprocess.PIPE)
        os.close(far_end)
        assert adding.stderr is not None
        told = b""
        while b"[yes/no]" not in told:
            told += os.read(adding.stderr.fileno(), 1000)
        assert b"SHA256:" in told
        os.write(main_end, f"{answer}\n".encode())
        _, err = adding.communicate(timeout=30)
        os.close(main_end)
        assert adding.returncode == (0 if answer == "yes" else 4), err
        hosts = asked.run("hosts", "list", "--json").json["hosts"]
        assert [host["name"] for host in hosts] == (["trap"] if answer == "yes" else [])
        if answer == "no":
            return
        check_pinned(asked, box.address.host_key, words, more)


def check_pinned(who: User, host_key: str, words: tuple[str, ...], more: tuple[str, ...]) -> None:
    """What a pinned key is good for: checked, changed, mistyped, and nobody there to ask."""
    said = who.run("hosts", "check", "trap", "--json")
    assert said.status == 0
    fingerprint = said.json["pinned"]
    assert said.json["shown"] == fingerprint
    probed = who.run("do", "probe_host", "--host", "trap", "--json")
    assert probed.json["outcome"] == "completed"
    other = (words[0], words[1], "again", *words[3:], *more)
    alone = who.run(*other)
    assert (alone.status, "nobody to ask" in alone.err) == (4, True)
    wrong = who.run(*other, "--fingerprint", "SHA256:" + "A" * 43)
    assert (wrong.status, fingerprint in wrong.err) == (4, True)
    assert who.run(*other, "--fingerprint", fingerprint).status == 0
    settings = who.home / ".config/agentops/agentops.toml"
    # Another machine answers at that address now, or somebody in between.
    key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    settings.write_text(settings.read_text().replace(host_key, key))
    changed = who.run("hosts", "check", "trap")
    assert (changed.status, fingerprint in changed.err) == (1, True)
    refused = who.run("do", "probe_host", "--host", "trap", "--json")
    assert refused.status == 6
    assert "host_key_changed" in refused.json["says"]


def test_a_wrong_private_key_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    who = user(tmp_path)
    wrong = tmp_path / "wrong_key"
    wrong.write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    wrong.chmod(0o600)
    with Box(containers=()) as box:
        host = host_of(box, name="trap").model_copy(update={"key": wrong})
        (who.folder / "agentops.toml").write_text(toml_entry(host))
        said = who.run("do", "probe_host", "--host", "trap", "--json")
    assert said.status == 6
    assert "auth" in said.json["says"]
