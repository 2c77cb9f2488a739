"""``watch`` as a user runs it: whom it leaves alone, what it outlasts, and what it tells."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box.box import Box
from agentops.box.waiting import wait_for
from journal import Reader
from journal.events import CommandIntended, ConfigurationLoaded
from tests.support.command_line import user
from tests.support.projects import HOST, JOB, Project, project

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


def notifier(folder: Path) -> Path:
    """A command that keeps every notice as one line."""
    script = folder / "notify"
    script.write_text(f'#!/bin/sh\ncat >>"{folder}/notices"\necho >>"{folder}/notices"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def notices(tmp_path: Path) -> Path:
    """The notices of one test."""
    return notifier(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def unanswered(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """A watch of a host that does not answer, and its notices. It asks patiently: let it begin."""
    folder = tmp_path_factory.mktemp("gone")
    with Box(containers=()) as gone:
        place = project(gone, folder, "322", repair=False)
    words = ("watch", JOB, "--host", HOST, "--every", "1", "--rounds", "2", "--json")
    with place.user.start(*words, "--notify", notifier(folder)) as watching:
        yield folder / "notify", watching
        watching.kill()


def told(notices: Path) -> list[tuple[str, str]]:
    """Kind and text of every notice."""
    whole, _, _ = notices.with_name("notices").read_text().rpartition("\n")
    return [(said["kind"], said["text"]) for said in map(json.loads, whole.splitlines())]


def acts(place: Project) -> list[str]:
    """The commands that were to change something, in order."""
    return [
        event.payload.command
        for event in Reader.open(place.journal).events(kinds={"command_intended"})
        if isinstance(event.payload, CommandIntended) and event.payload.effect != "observes"
    ]


def test_a_job_that_was_stopped_on_request_is_not_started_by_a_watch(
    box: Box, tmp_path: Path
) -> None:
    """Until somebody has started it; then a watch mends it again."""
    place = project(box, tmp_path, "320", repair=False)
    place.start()
    watch = ("watch", JOB, "--host", HOST, "--every", "1", "--json")
    assert place.user.run("recover", JOB, "--host", HOST, "--stop").status == 0
    left = place.user.run(*watch, "--rounds", "2")
    assert left.json["resolutions"] == {"NOTHING_TO_DO": 2}, left.err
    assert "only a person starts it" in left.err
    assert place.living() == ()
    assert acts(place) == ["signal_process"]
    for name in ("checkpoint", "heartbeat.json"):
        (place.job / name).unlink()
    victim = place.start()
    assert place.user.run(*watch, "--rounds", "1").json["resolutions"] == {"NOTHING_TO_DO": 1}
    box.run_inside(["kill", "-KILL", str(victim.identity.pid)], container="320")
    mended = place.user.run(*watch, "--rounds", "1")
    assert mended.json["resolutions"] == {"RECOVERED": 1}, mended.err
    assert place.user.run("replay").status == 0


def test_a_watch_outlasts_a_host_that_somebody_else_acts_on(
    box: Box, tmp_path: Path, notices: Path
) -> None:
    """It tells it once, and goes on looking."""
    place = project(box, tmp_path, "321", repair=False)
    policy = place.user.folder / "policy.toml"
    policy.write_text(policy.read_text().replace("interrupt_s = 2", "interrupt_s = 600"))
    place.start("deaf")
    first = place.user.start("recover", JOB, "--host", HOST, "--stop")
    assert first.stdout is not None
    assert any(b"the grace of rung interrupt" in line for line in first.stdout)
    said = place.user.run(
        "watch", JOB, "--host", HOST, "--every", "1", "--rounds", "3", "--json", "--notify", notices
    )
    assert (said.status, said.json["resolutions"]) == (0, {"BUSY": 3}), said.err
    assert [kind for kind, _ in told(notices)] == ["busy", "digest"]
    assert f"pid {first.pid}" in told(notices)[0][1]
    first.kill()
    first.communicate(timeout=20)
    # What is left of the stop is carried on as a stop; nobody asked for a start.
    policy.write_text(policy.read_text().replace("interrupt_s = 600", "interrupt_s = 1"))
    ended = place.user.run("watch", JOB, "--host", HOST, "--every", "1", "--rounds", "2", "--json")
    assert ended.json["resolutions"] == {"NOTHING_TO_DO": 1, "STOPPED": 1}, ended.err
    assert place.living() == ()
    assert "launch" not in acts(place)


def test_a_watch_does_nothing_under_a_freeze_and_mends_after_the_thaw(
    box: Box, tmp_path: Path, notices: Path
) -> None:
    """Frozen and thawed by another process while it watches; both are on record, with why."""
    place = project(box, tmp_path, "324", repair=False)
    place.start("hang", at_step=20)
    assert place.user.run("freeze", "--all", "--reason", "new cards").status == 0
    watching = place.user.start(
        "watch", JOB, "--host", HOST, "--every", "1", "--notify", notices, "--mends", "1"
    )

    def heard(kind: str) -> bool | None:
        kept = notices.with_name("notices")
        return (kept.exists() and any(kind in said for said in told(notices))) or None

    wait_for(lambda: heard("frozen"), 60, "the notice of the freeze")
    assert place.world() == ["start "]
    assert acts(place) == []
    assert place.user.run("thaw", "--all", "--reason", "cards are in").status == 0
    watching.communicate(timeout=120)
    assert [kind for kind, _ in told(notices)] == ["frozen", "resolution", "digest"]
    assert told(notices)[1][1].startswith("RECOVERED")
    assert acts(place) == ["signal_process", "launch"]
    log = place.user.run("log").out
    assert "«new cards»" in log
    assert "«cards are in»" in log


def test_a_shadow_watch_names_the_act_that_was_due_and_touches_nothing(
    box: Box, tmp_path: Path, notices: Path
) -> None:
    """Not the job, not the live recovery beside it, whose incident and terms stay its own."""
    place = project(box, tmp_path, "323", repair=False)
    policy = place.user.folder / "policy.toml"
    policy.write_text(policy.read_text().replace("interrupt_s = 2", "interrupt_s = 600"))
    victim = place.start("deaf", "hang", at_step=20)
    live = place.user.start("recover", JOB, "--host", HOST, "--stop")
    assert live.stdout is not None
    assert any(b"the grace of rung interrupt" in line for line in live.stdout)
    said = place.user.run(
        "watch", JOB, "--host", HOST, "--every", "1", "--rounds", "2", "--json",
        "--notify", notices, "--shadow",
    )  # fmt: skip
    assert (said.status, said.json["resolutions"]) == (0, {"HANDED_OVER": 2}), said.err
    first, digest = told(notices)
    due = f"signal_process INT to process {victim.identity.pid} was due"
    assert due in first[1]
    assert digest[0] == "digest"
    assert live.poll() is None
    assert place.world() == ["start ", "INT"]
    assert victim.identity in {truth.identity for truth in place.living()}
    goals: dict[str | None, list[bool]] = {}
    for event in Reader.open(place.journal).events(kinds={"configuration_loaded"}):
        assert isinstance(event.payload, ConfigurationLoaded)
        terms = event.payload.body["terms"]
        assert isinstance(terms, dict)
        goals.setdefault(event.incident, []).append(terms["shadow"] is True)
    assert sorted(goals.values()) == [[False], [True], [True]]
    live.kill()
    live.communicate(timeout=20)
    assert "IDENTICAL" in place.user.run("replay").out
    open_one = next(name for name, shadows in goals.items() if shadows == [False])
    refused = place.user.run(
        "recover", JOB, "--host", HOST, "--shadow", "--incident", str(open_one)
    )
    refused.refused(2, "an incident of its own", "--incident")


def test_a_watch_outlasts_a_host_that_does_not_answer(
    unanswered: tuple[Path, "subprocess.Popen[bytes]"],
) -> None:
    """Told once; nothing is concluded of the job, and the watch has not failed."""
    notices, watching = unanswered
    out, err = watching.communicate(timeout=120)
    assert watching.returncode == 0, err
    assert json.loads(out)["resolutions"] == {"UNANSWERED": 2}, err
    assert [kind for kind, _ in told(notices)] == ["unanswered", "digest"]
    assert "no answer 4 times in a row" in told(notices)[0][1]


@pytest.mark.parametrize("bound", ["--every", "--rounds", "--mends"])
def test_a_bound_below_one_is_refused(tmp_path: Path, bound: str) -> None:
    """A watch of no rounds would have looked once."""
    refused = user(tmp_path).run("watch", JOB, "--host", HOST, bound, "0")
    refused.refused(2, bound, "'0'", "from 1")
