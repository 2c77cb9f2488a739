"""What proves that nobody of a job is left, and what only looks like it."""

from dataclasses import replace

import pytest

from agentops.policy import Close, Judge, PolicyState, Run
from agentops.policy.decision import RuleHit
from agentops.policy.stopping import proof_of_absence
from agentops.policy.view import look
from tests.support.shown import Host, beat, young
from tests.support.stops import alone, interrupted
from tests.support.telling import Incident, named, rules


def test_absence_is_proven_by_two_whole_listings_with_the_heartbeat_read_between() -> None:
    """A respawn period apart, both after the last act; the verdict rests on both."""
    incident = interrupted()
    incident.host = Host(beat=beat(70, 10, state="stopped"))
    first = incident.until("judge members_absent")
    assert incident.steps == ["list_processes", "judge members_absent confirmed"]
    assert isinstance(first.action, Judge)
    assert first.action.evidence == first.because[0].events == incident.view.listed
    assert named(first) == [70]
    incident.judged()
    noted = incident.state.verdicts[-1].event
    incident.steps.clear()
    last = incident.until("judge job_stopped confirmed")
    assert incident.steps == [
        "pause 3",
        "read_heartbeat",
        "list_processes",
        "judge job_stopped confirmed",
    ]
    assert isinstance(last.action, Judge)
    assert last.action.evidence == (noted, *incident.view.listed)
    assert last.because[0].events == last.action.evidence
    condition = {**first.action.condition, "kind": "job_stopped", "looks": 2}
    assert last.action.condition == condition
    assert last.action.reason.startswith("two whole listings a respawn period apart")
    incident.judged()
    incident.steps.clear()
    incident.until("close STOPPED")
    assert incident.steps == ["close STOPPED"]


def test_the_second_look_counts_only_from_the_end_of_the_respawn_period() -> None:
    """What was listed or read a moment before it is taken again."""
    incident = interrupted()
    incident.host = Host(beat=beat(70, 10, state="stopped"))
    incident.until("judge members_absent")
    incident.judged()
    incident.later(3, us=-1)
    incident.looks("read_heartbeat", "list_processes")
    incident.steps.clear()
    incident.decide()
    assert incident.steps == ["pause 1e-06"]
    incident.later(0, us=1)
    incident.until("judge job_stopped")
    assert incident.steps[1:] == ["list_processes", "judge job_stopped confirmed"]


def test_a_heartbeat_that_names_somebody_else_between_the_looks_starts_the_stop_again() -> None:
    """Whoever goes on with the job's heartbeat is a member, known or not before."""
    incident = interrupted()
    incident.host = Host(beat=beat(70, 10, state="stopped"))
    incident.until("judge members_absent")
    incident.judged()
    newcomer, says = young(95, incident.now_us, cmdline=["trainer"])
    incident.host = Host(rows=(newcomer,), beat=says)
    incident.until("INT 95")
    assert "judge job_stopped confirmed" not in incident.steps


def test_an_absence_from_before_a_member_was_seen_again_counts_for_nothing() -> None:
    """Both looks must be later than the last decision that saw somebody alive."""
    incident = interrupted()
    incident.host = Host(beat=beat(70, 10))
    incident.until("judge members_absent")
    incident.judged()
    incident.host = alone()
    incident.until("TERM 70")
    incident.done()
    incident.host = Host(beat=beat(70, 10))
    incident.steps.clear()
    incident.until("judge job_stopped")
    assert incident.steps[:2] == ["list_processes", "judge members_absent confirmed"]


def test_a_container_that_was_started_again_is_named_as_the_reason() -> None:
    """Nobody of an earlier boot or namespace can live, and no listing could show them."""
    incident = interrupted()
    incident.host = Host(beat=beat(70, 10), started_ticks=99)
    last = incident.until("judge job_stopped confirmed")
    assert isinstance(last.action, Judge)
    assert last.action.reason.startswith("the host or its container was started again since")


def test_a_process_that_looks_like_the_job_holds_the_proof_up() -> None:
    """It is waited for until its heartbeat shows who it is, and nobody signals it before."""
    incident = interrupted()
    incident.later(1)
    newcomer, says = young(90, incident.now_us)
    incident.host = replace(incident.host, rows=(newcomer,))
    for _ in range(8):
        made = incident.decide()
        assert incident.steps[-1] in {"list_processes", "read_heartbeat", "pause 1"}
        incident.goes_on(made)
    incident.host = replace(incident.host, beat=says)
    incident.until("INT 90")


@pytest.mark.parametrize("living", [False, True])
def test_no_proof_is_spoken_without_a_listing_or_over_somebody_alive(*, living: bool) -> None:
    """Whoever asks for it: nothing listed leads to a look, a living member to a person."""
    if not living:
        view = look(PolicyState(), rules(), rules().job["job"], 0)
        step = proof_of_absence(view)
        assert isinstance(step.action, Run)
        assert step.action.command == "list_processes"
        assert step.because == (RuleHit("proof", "nothing was listed yet"),)
        return
    incident = interrupted()
    step = proof_of_absence(incident.view)
    assert isinstance(step.action, Close)
    assert step.action.resolution == "HANDED_OVER"
    assert step.action.reason == step.because[0].text == "process 70 of the job lives on"
    assert step.action.evidence == step.because[0].events == incident.view.listed
    assert step.because[0].rule == "proof"


def test_a_job_that_is_not_there_is_proven_absent_before_it_is_started() -> None:
    """Nobody was seen alive, and nobody was signalled; the proof is the same."""
    incident = Incident(Host(beat=beat(70, 10)), goal="recover")
    incident.until("launch")
    assert incident.steps[-6:] == [
        "judge members_absent confirmed",
        "pause 3",
        "read_heartbeat",
        "list_processes",
        "judge job_stopped confirmed",
        "launch",
    ]
