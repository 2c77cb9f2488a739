"""The commands that tell and audit, as a user types them, on a journal with a known story."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support import stories
from tests.support.command_line import User


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    folder = tmp_path_factory.mktemp("user")
    (folder / "home").mkdir()
    stories.second_interrupt(folder / "j.journal", folder / "keys")
    return User(home=folder / "home", folder=folder)


def test_a_generated_report_passes_and_an_altered_one_does_not(user: User) -> None:
    report = user.folder / "report.html"
    written = user.run(
        "report", "--format", "html", "--output", str(report), "--journal", "j.journal"
    )
    assert written.status == 0
    good = user.run("lint", str(report), "--journal", "j.journal", "--json")
    assert (good.status, good.json) == (0, {"findings": []})
    report.write_text(report.read_text().replace("Innocents touched: ", "Innocents hurt: "))
    bad = user.run("lint", str(report), "--journal", "j.journal")
    assert bad.status == 1
    assert "C24" in bad.out


def test_a_report_stays_true_when_the_incident_goes_on(user: User) -> None:
    report = user.folder / "before.md"
    user.run("report", "--output", str(report), "--journal", "j.journal")
    noted = user.run("incident", "note", "inc-0001", "still watching", "--journal", "j.journal")
    assert noted.status == 0, noted
    assert user.run("lint", str(report), "--journal", "j.journal").status == 0


def test_a_file_that_is_not_there_is_one_clear_line(user: User) -> None:
    user.run("lint", "absent.md", "--journal", "j.journal").refused(2, "absent.md")
    user.run("digest", "--since", "soon", "--journal", "j.journal").refused(2, "--since 'soon'")


def test_a_digest_counts_an_age_back_from_the_last_event(user: User) -> None:
    lately, whole = (
        user.run("digest", *since, "--json", "--journal", "j.journal").json["incidents"]
        for since in (("--since", "12h"), ())
    )
    assert lately == whole == 1


def test_a_report_in_json_is_refused_with_what_to_give(user: User) -> None:
    asked = ("--format", "json", "--output", "report.json", "--journal", "j.journal")
    assert user.run("report", *asked).status == 0
    user.run("lint", "report.json", "--journal", "j.journal").refused(2, "report.json", "--format")


def test_digest_and_compliance_answer_in_json(user: User) -> None:
    found = user.run("digest", "--journal", "j.journal", "--json").json
    assert found["resolutions"] == {"RECOVERED": 1}
    assert found["signals"] == {"INT": 2}
    answers = user.run("compliance", "--journal", "j.journal", "--json")
    assert answers.status == 1  # nothing in this journal was anchored
    assert len(answers.json["items"]) == 26
    assert {item["status"] for item in answers.json["items"] if item["item"] == "L17"} == {"pass"}


def test_replay_plays_a_session_and_writes_a_cast(user: User) -> None:
    shown = user.run("replay", "j.journal", "play", "--speed", "1000")
    assert shown.status == 0
    assert "box-200$ signal_process" in shown.out
    written = user.run("replay", "j.journal", "play", "--cast", "session.cast")
    assert written.status == 0
    header = json.loads((user.folder / "session.cast").read_text().splitlines()[0])
    assert header["version"] == 3
    user.run("replay", "j.journal", "play", "--speed", "0").refused(2, "is no number above 0")


def test_a_project_s_own_words_are_used_and_checked(user: User) -> None:
    own = user.folder / ".agentops" / "templates"
    own.mkdir(parents=True)
    (own / "words.toml").write_text('[sentence]\n"signal.tally" = "Sent: {{ value.total }}."\n')
    report = user.folder / "own.md"
    assert user.run("report", "--output", str(report), "--journal", "j.journal").status == 0
    assert "\nSent: 2. [e" in report.read_text()
    good = user.run("lint", str(report), "--journal", "j.journal")
    assert good.status == 0, good.out
    (own / "words.toml").write_text('[sentence]\n"signal.tally" = "It ensures 2."\n')
    (own / "report.md.j2").write_text("# {{ report.theme.text }}{% if %}")
    bad = user.run("templates", "lint")
    assert bad.status == 1
    assert "words.toml" in bad.out
    assert "strong word: ensures" in bad.out
    assert "report.md.j2" in bad.out
    (own / "report.md.j2").unlink()
    user.run("report", "--journal", "j.journal").refused(2, "words.toml", "a digit")
    (own / "words.toml").unlink()


def contents(*folders: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, with its time of change and its bytes."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_who_reads_only_leaves_no_trace_in_the_journal_nor_at_home(user: User) -> None:
    before = contents(user.folder / "j.journal", user.home)
    asked: tuple[tuple[str, ...], ...] = (
        ("log", "--since", "yesterday"),
        ("query", "SELECT count(*) AS events FROM event"),
        ("compliance",),
    )
    for words in asked:
        said = user.run(*words, "--json", "--read-only", "--journal", "j.journal")
        assert said.status == (1 if words == ("compliance",) else 0), said
    assert contents(user.folder / "j.journal", user.home) == before


def test_the_report_of_a_changed_journal_says_so_first_and_ends_with_no(user: User) -> None:
    copy = user.folder / "changed.journal"
    shutil.copytree(user.folder / "j.journal", copy)
    (segment,) = copy.glob("log/*/*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"signal":"INT"', b'"signal":"HUP"', 1))
    told = user.run("report", "--depth", "line", "--journal", "changed.journal")
    assert told.status == 1
    assert told.out.startswith("Not what was written: ")
    assert "LINE_CHANGED" in told.out
    assert told.err.startswith("agentops: not verified, and this reading not recorded: LINE_CHA")
    assert told.err.count("\n") == 1


def test_a_slip_is_answered_with_what_was_meant(user: User) -> None:
    user.run("prove", "e1").refused(2, "agentops journal prove")
    user.run("replay", "verfy").refused(2, "did you mean verify?")
