"""An act whose fate nobody knows is settled by looks, and never by doing it again."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from agentops.bench.world import NEW_SHA256, OLD_SHA256
from agentops.policy import Close, Decision, Judge
from journal.events import JsonObject
from tests.support.shown import Host, beat, row, young
from tests.support.starts import gone
from tests.support.stops import lone
from tests.support.telling import Incident, rules

TOOK = "judge command_took_effect"


def lost(incident: Incident, word: str) -> Incident:
    """The incident after the connection broke in this act."""
    incident.until(word)
    incident.lost()
    incident.steps.clear()
    return incident


def verdict(decision: Decision, incident: Incident) -> str:
    """The words of a verdict on the newest act; it names the act and rests on its events."""
    action, act = decision.action, incident.state.acts[-1]
    assert isinstance(action, Judge)
    assert decision.phase == "reconcile"
    assert action.condition["command_id"] == act.command_id
    assert (action.condition["command"], action.condition["status"]) == (act.command, act.status)
    assert action.evidence[: len(act.events)] == act.events
    assert len(action.evidence) > len(act.events)
    assert decision.because[0].text == action.reason
    assert decision.because[0].events == action.evidence
    return action.reason


@pytest.mark.parametrize("ends", ["gone", "zombie", "reused"])
def test_a_signal_whose_victim_has_ended_took_effect(ends: str) -> None:
    """By a whole listing from after it; another process with its pid is not its victim."""
    incident = lost(lone(), "INT 70")
    rows: dict[str, tuple[JsonObject, ...]] = {
        "gone": (),
        "zombie": (row(70, state="Z"),),
        "reused": (row(70, start_ticks=999, cmdline=["less"]),),
    }
    incident.host = replace(incident.host, rows=rows[ends])
    settled = incident.until(f"{TOOK} confirmed")
    assert incident.steps == ["list_processes", f"{TOOK} confirmed"]
    assert verdict(settled, incident) == "its victim has ended"


def test_a_listing_that_is_cut_settles_no_signal() -> None:
    """It shows nobody's end."""
    incident = lost(lone(), "INT 70")
    incident.host = replace(incident.host, rows=(), complete=False)
    for _ in range(3):
        incident.decide()
        assert incident.steps[-1] == "list_processes"
        incident.answered()


@pytest.mark.parametrize(
    ("log", "outcome", "words"),
    [
        (("KeyboardInterrupt",), "confirmed", "the log shows the interrupt"),
        ((), "inconclusive", "its victim lives on and the log shows no interrupt"),
    ],
)
def test_an_interrupt_whose_victim_lives_on_is_settled_by_its_log(
    log: tuple[str, ...], outcome: str, words: str
) -> None:
    """Read after the interrupt; what it does not show is no proof that nothing came."""
    incident = lost(lone(), "INT 70")
    incident.host = replace(incident.host, log=log)
    settled = incident.until(TOOK)
    assert incident.steps == ["list_processes", "tail_log", f"{TOOK} {outcome}"]
    assert verdict(settled, incident) == words


def test_a_term_whose_victim_lives_on_stays_unknown_and_its_log_is_not_asked() -> None:
    """No program says that it got one."""
    incident = lost(lone({"rungs": ["terminate"]}), "TERM 70")
    settled = incident.until(f"{TOOK} inconclusive")
    assert incident.steps == ["list_processes", f"{TOOK} inconclusive"]
    words = "its victim lives on, which tells nothing about delivery"
    assert verdict(settled, incident) == words


def test_an_interrupt_is_settled_without_a_log_where_none_can_be_read() -> None:
    """One failure is enough; a job without a log is not asked for it."""
    incident = lost(lone(), "INT 70")
    incident.until("tail_log")
    incident.failed()
    incident.until(f"{TOOK} inconclusive")
    config = rules({"progress": {"log": None}})
    silent = Incident(Host(rows=(row(70),), beat=beat(70, 10)), config=config)
    lost(silent, "INT 70")
    settled = silent.until(f"{TOOK} inconclusive")
    assert "tail_log" not in silent.steps
    words = "its victim lives on, which tells nothing about delivery"
    assert verdict(settled, silent) == words


def deploying() -> Incident:
    """A stopped job whose repair was about to be put in place when the connection broke."""
    host = Host(rows=(row(70),), beat=beat(70, 10), sha256=OLD_SHA256)
    incident = Incident(host, goal="recover")
    incident.until("INT 70")
    incident.done()
    incident.host = replace(host, rows=(), beat=beat(70, 10, state="stopped"))
    return lost(incident, "deploy_files")


@pytest.mark.parametrize(
    ("sha256", "outcome", "words"),
    [
        (NEW_SHA256, "confirmed", "each file shows the wanted digest"),
        (OLD_SHA256, "refuted", "a file does not show the wanted digest"),
    ],
)
def test_a_deployment_is_settled_by_the_digests_that_are_there(
    sha256: str, outcome: str, words: str
) -> None:
    """Looked at after it; a digest from before tells what was there before."""
    incident = deploying()
    incident.host = replace(incident.host, sha256=sha256)
    settled = incident.until(TOOK)
    assert incident.steps == ["file_digest", f"{TOOK} {outcome}"]
    assert verdict(settled, incident) == words


def test_a_deployment_that_cannot_be_looked_at_is_a_persons_matter() -> None:
    """Three looks that fail, with a pause after each; then the act is named."""
    incident = deploying()
    for _ in range(3):
        incident.until("file_digest")
        incident.failed()
    closed = incident.until("close HANDED_OVER").action
    assert isinstance(closed, Close)
    assert closed.reason.startswith("whether deploy_files took effect cannot be seen")
    assert closed.evidence == incident.state.acts[-1].events


def launching() -> tuple[Incident, str]:
    """A start whose connection broke, and its launch id."""
    incident = lost(gone(), "launch")
    return incident, str(incident.state.acts[-1].arguments["launch_id"])


def test_a_start_whose_id_a_process_carries_took_place() -> None:
    """It is not started a second time, and is proven like any other."""
    incident, launch_id = launching()
    process, _ = young(90, incident.now_us, launch_id=launch_id)
    incident.host = replace(incident.host, rows=(process,))
    settled = incident.until(f"{TOOK} confirmed")
    assert incident.steps == ["list_processes", f"{TOOK} confirmed"]
    assert verdict(settled, incident) == "a process carries the launch id"


def test_a_start_whose_id_the_heartbeat_states_took_place() -> None:
    """Also where no process shows its environment."""
    incident, launch_id = launching()
    incident.host = replace(incident.host, beat=beat(90, 1, launch_id=launch_id))
    settled = incident.until(f"{TOOK} confirmed")
    assert incident.steps == ["list_processes", "read_heartbeat", f"{TOOK} confirmed"]
    assert verdict(settled, incident) == "the heartbeat states the launch id"


def test_a_start_that_nothing_shows_has_five_seconds_before_it_counts_as_not_made() -> None:
    """A frame may be late; a listing from after that time is needed."""
    incident, _ = launching()
    settled = incident.until(f"{TOOK} refuted")
    assert incident.steps == [
        "list_processes",
        "read_heartbeat",
        "pause 5",
        "list_processes",
        f"{TOOK} refuted",
    ]
    assert verdict(settled, incident) == "no process carries the launch id"
    incident.judged()
    incident.until("launch")


def test_an_act_is_left_to_a_person_where_the_host_does_not_answer() -> None:
    """After three listings that brought nothing, each a longer pause apart."""
    incident = lost(lone(), "INT 70")
    for _ in range(3):
        incident.until("list_processes")
        incident.failed()
    closed = incident.until("close HANDED_OVER").action
    assert [step for step in incident.steps if step.startswith("pause")] == ["pause 1", "pause 2"]
    assert isinstance(closed, Close)
    assert closed.reason.startswith("whether signal_process took effect cannot be seen")


@pytest.mark.parametrize(("acts", "closes"), [(2, False), (3, True)])
def test_three_acts_that_nobody_could_settle_are_a_persons_matter(
    acts: int, *, closes: bool
) -> None:
    """Two are bad luck."""
    grace: JsonValue = {"interrupt_s": 1, "terminate_s": 1}
    incident = lone({"rungs": ["terminate", "kill"], "grace": grace})
    for _ in range(acts):
        lost(incident, "TERM 70")
        incident.until(f"{TOOK} inconclusive")
        incident.judged()
    if closes:
        closed = incident.until("close HANDED_OVER").action
        assert isinstance(closed, Close)
        assert closed.reason == "3 acts could not be settled"
    else:
        incident.until("TERM 70")
