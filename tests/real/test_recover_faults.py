"""The loop against real processes in a private namespace: each fault, each innocent."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box.box import Box
from agentops.box.processes import Truth
from agentops.box.waiting import wait_for
from agentops.policy import recompute
from agentops.recover import Terms
from journal import Event, Reader
from journal.events import (
    CommandCompleted,
    CommandDenied,
    CommandIntended,
    CommandReconciled,
    DecisionMade,
    IncidentClosed,
    VerdictReached,
)
from tests.support.recovering import CONTAINER, STUB, Stage, signals, stage

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.needs("sshd"),
    pytest.mark.needs("root-namespaces"),
]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box for all of these; each test has a job folder of its own."""
    with Box() as opened:
        yield opened


def started(place: Stage, *faults: str, at_step: int = 3, wrapper: bool = False) -> Truth:
    """Start the stub and wait until it has made *at_step* steps."""
    truth = place.start(*faults, wrapper=wrapper)

    def trains() -> bool | None:
        beat = place.folder / "heartbeat.json"
        return (beat.exists() and f'"step": {at_step}' in beat.read_text()) or None

    wait_for(trains, 20, f"step {at_step}")
    return truth


def verdicts(events: list[Event]) -> list[tuple[object, str]]:
    """Condition kinds with their verdicts, in order."""
    return [
        (event.payload.condition["kind"], event.payload.verdict)
        for event in events
        if isinstance(event.payload, VerdictReached)
    ]


def decided(events: list[Event]) -> list[DecisionMade]:
    """The decisions, in order."""
    return [event.payload for event in events if isinstance(event.payload, DecisionMade)]


def check_replay(place: Stage) -> None:
    """Every decision comes out the same from the journal alone."""
    again = recompute(Reader.open(place.journal))
    assert again.first is None
    assert again.decisions > 0


async def test_threads_that_survive_an_interrupt_get_a_second_one(box: Box, tmp_path: Path) -> None:
    """The first was taken, the log and the steps show it; the second ends the wait for threads."""
    place = stage(box, tmp_path)
    victim = started(place, "threads")
    looker = box.start_inside(("tail", "-f", str(STUB)), container=CONTAINER)
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert signals(events) == [("INT", victim.identity.pid), ("INT", victim.identity.pid)]
    assert "H3" in {made.decision["lead"] for made in decided(events)}
    assert ("job_stopped", "confirmed") in verdicts(events)
    assert ("repair_in_place", "confirmed") in verdicts(events)
    assert (place.folder / "code.py").read_text() == "VERSION = 2\n"
    assert looker.identity in {truth.identity for truth in box.processes(CONTAINER)}
    assert len(place.living()) == 1
    check_replay(place)


async def test_an_ignored_interrupt_is_never_sent(box: Box, tmp_path: Path) -> None:
    """The probe shows the mask; the ladder begins at terminate."""
    place = stage(box, tmp_path)
    victim = started(place, "ignore")
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert signals(events) == [("TERM", victim.identity.pid)]
    check_replay(place)


async def test_the_supervisor_is_stopped_before_its_child(box: Box, tmp_path: Path) -> None:
    """A wrapper that would start the job again is first; the child then gets a gentle interrupt."""
    place = stage(box, tmp_path)
    wrapper = started(place, wrapper=True)
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    sent = signals(events)
    assert [name for name, _ in sent] == ["TERM", "INT"]
    assert sent[0][1] == wrapper.identity.pid
    assert sent[1][1] != wrapper.identity.pid
    check_replay(place)


async def test_a_hang_is_seen_by_standing_steps(box: Box, tmp_path: Path) -> None:
    """The process lives, its steps stand; one interrupt ends it, and it is started again."""
    place = stage(box, tmp_path, repair=False, stall_s=1)
    started(place, "hang", at_step=20)
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert [name for name, _ in signals(events)] == ["INT"]
    needs = [
        event.payload.condition["need"]
        for event in events
        if isinstance(event.payload, VerdictReached) and "need" in event.payload.condition
    ]
    assert needs == ["stalled"]
    check_replay(place)


async def test_a_job_that_watches_a_stop_file_needs_no_signal(box: Box, tmp_path: Path) -> None:
    """The gentlest rung: the request is written, the job ends by itself and is started again."""
    file = box.directory / tmp_path.name / "stop"
    request = f'request_file = "{file}"\nrungs = ["request", "interrupt"]'
    place = stage(box, tmp_path, stop=request)
    started(place)
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert signals(events) == []
    assert "request" in {made.decision["rung"] for made in decided(events)}
    check_replay(place)


async def test_steady_progress_is_left_alone(box: Box, tmp_path: Path) -> None:
    """Two heartbeats show progress; nothing is sent, nothing written."""
    place = stage(box, tmp_path, repair=False)
    victim = started(place)
    ended, events = await place.recover()
    assert ended.resolution == "NOTHING_TO_DO"
    assert {
        event.payload.effect for event in events if isinstance(event.payload, CommandIntended)
    } == {"observes"}
    assert victim.identity in {truth.identity for truth in box.processes(CONTAINER)}
    check_replay(place)


async def test_a_slow_graceful_stop_is_waited_for(box: Box, tmp_path: Path) -> None:
    """It says that it writes a checkpoint: no second signal, and the checkpoint is whole."""
    place = stage(box, tmp_path)
    started(place, "slow_stop")
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert [name for name, _ in signals(events)] == ["INT"]
    assert int((place.folder / "checkpoint").read_text()) > 0
    check_replay(place)


async def test_a_deaf_process_is_killed_only_after_every_gentler_rung(
    box: Box, tmp_path: Path
) -> None:
    """INT and TERM had their grace and left it alive; then KILL, and it is proven gone."""
    place = stage(box, tmp_path)
    started(place, "deaf")
    ended, events = await place.recover(Terms(goal="stop"))
    assert ended.resolution == "STOPPED"
    assert [name for name, _ in signals(events)] == ["INT", "TERM", "KILL"]
    assert place.living() == ()
    check_replay(place)


async def test_shadow_mode_says_what_it_would_do_and_does_nothing(box: Box, tmp_path: Path) -> None:
    """The act that was due is recorded as denied; the job trains on."""
    place = stage(box, tmp_path)
    victim = started(place)
    ended, events = await place.recover(Terms(shadow=True))
    assert ended.resolution == "HANDED_OVER"
    assert signals(events) == []
    denials = [event.payload for event in events if isinstance(event.payload, CommandDenied)]
    assert [denial.rule for denial in denials] == ["shadow"]
    assert victim.identity in {truth.identity for truth in box.processes(CONTAINER)}
    check_replay(place)


async def test_names_alone_hand_over(box: Box, tmp_path: Path) -> None:
    """A process that only looks like the job is no victim, even when a stop was asked for."""
    place = stage(box, tmp_path)
    looker = box.start_inside(("tail", "-f", str(STUB)), container=CONTAINER)
    ended, events = await place.recover(Terms(goal="stop"))
    assert ended.resolution == "HANDED_OVER"
    remedy = f"let the job write pid and start_ticks to {place.folder}/heartbeat.json"
    assert remedy in ended.reason
    assert signals(events) == []
    assert looker.identity in {truth.identity for truth in box.processes(CONTAINER)}


async def test_a_closed_incident_is_not_opened_again(box: Box, tmp_path: Path) -> None:
    """A second call opens an incident of its own; each is closed once."""
    place = stage(box, tmp_path, repair=False)
    started(place)
    first, _ = await place.recover()
    second, _ = await place.recover()
    assert first.incident != second.incident
    closings = [
        event.incident
        for event in Reader.open(place.journal).events()
        if isinstance(event.payload, IncidentClosed)
    ]
    assert closings == [first.incident, second.incident]
    assert any(
        isinstance(event.payload, CommandCompleted)
        for event in Reader.open(place.journal).events(incident=second.incident)
    )


def die(place: Stage, command: str, when: str) -> None:
    """Let a controller of its own work on the incident until it ends itself around *command*."""
    host = place.host.model_dump_json()
    argv = (sys.executable, "-m", "tests.support.dying_controller")
    ended = subprocess.run(
        [*argv, str(place.journal.parent), host, command, when],
        check=False,
        cwd=ROOT,
        timeout=60,
        capture_output=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


async def test_a_killed_controller_is_continued_and_no_effect_is_repeated(
    box: Box, tmp_path: Path
) -> None:
    """Killed after a signal, before a deployment, after a launch: each is settled by a look."""
    place = stage(box, tmp_path)
    victim = started(place)
    die(place, "signal_process", "after")
    # While it still ends, a look cannot say whether the interrupt arrived.
    wait_for(lambda: place.living() == () or None, 20, "the victim's end")
    die(place, "deploy_files", "before")
    die(place, "launch", "after")
    ended, _ = await place.recover()
    assert ended.resolution == "RECOVERED"
    events = list(Reader.open(place.journal).events())
    assert len({event.incident for event in events if event.incident}) == 1
    settled = [e.payload.settled for e in events if isinstance(e.payload, CommandReconciled)]
    assert settled == ["done", "not_done", "done"]
    assert signals(events) == [("INT", victim.identity.pid)]
    launches = [
        event.payload.arguments["launch_id"]
        for event in events
        if isinstance(event.payload, CommandIntended) and event.payload.command == "launch"
    ]
    assert len(launches) == 1
    assert len(place.living()) == 1
    check_replay(place)
