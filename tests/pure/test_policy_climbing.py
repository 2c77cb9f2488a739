"""Which rung follows on one that was survived: by a lead, by dominance, by patience."""

from dataclasses import replace

import pytest

from agentops.policy import Close, Judge, Run
from agentops.policy.decision import Step
from agentops.policy.hypotheses import Score
from agentops.policy.ladder import _choose, rung_of
from agentops.policy.ledger import Act
from agentops.policy.view import SECOND_US
from journal.events import JsonObject, VerdictReached
from tests.support.shown import beat
from tests.support.stops import advances, because, lone
from tests.support.telling import Incident, named, passed_over

# What is looked at when a grace is over and the victim lives on.
WHY = ["list_processes", "wait process_absent 5000", "list_processes", "tail_log", "read_heartbeat"]


def test_a_second_interrupt_follows_on_one_that_the_log_shows_and_steps_that_go_on() -> None:
    """Worker threads go on after the first; then TERM, and no third interrupt."""
    incident = lone()
    incident.until("INT 70")
    incident.done()
    incident.host = replace(incident.host, log=("KeyboardInterrupt",))
    advances(incident)
    again = incident.until("INT 70")
    assert (again.rung, again.lead) == ("interrupt_again", "H3")
    assert passed_over(again) == [
        ("interrupt", "ladder"),
        ("terminate", "gentleness"),
        ("kill", "gentleness"),
    ]
    incident.done()
    advances(incident)
    incident.host = replace(incident.host, log=("KeyboardInterrupt", "KeyboardInterrupt"))
    term = incident.until("TERM 70")
    assert term.lead == "H3"
    assert passed_over(term)[:2] == [("interrupt", "ladder"), ("interrupt_again", "ladder")]


def test_without_evidence_that_the_first_was_taken_there_is_no_second_interrupt() -> None:
    """The rung is named as passed over, with the reason."""
    incident = lone()
    incident.until("INT 70")
    incident.done()
    advances(incident)
    term = incident.until("TERM 70")
    assert passed_over(term)[1] == ("interrupt_again", "ladder")
    assert term.rejected[1].text == "no evidence that the first was taken"


def test_a_graceful_stop_gets_its_time_in_slices_and_then_a_person_decides() -> None:
    """Sixty seconds from the interrupt, as configured; nothing is sent in that time."""
    incident = lone()
    incident.until("INT 70")
    incident.done()
    sent_us = incident.now_us
    incident.host = replace(incident.host, beat=beat(70, 10, state="stopping"))
    incident.until("read_heartbeat")
    incident.answered()
    slices = incident.until("wait process_absent 5000")
    assert (slices.lead, slices.rung, because(slices)) == ("H2", "interrupt", "H2")
    assert named(slices) == [70]
    assert slices.hypotheses
    # The longest graceful stop is over in three seconds, and in less than a second.
    for left_us, wait in ((3 * SECOND_US, 3000), (SECOND_US // 2, 500)):
        incident.now_us = sent_us + 60 * SECOND_US - left_us
        incident.looks("list_processes", "read_heartbeat")
        incident.looks("tail_log")
        incident.decide()
        assert incident.steps[-1] == f"wait process_absent {wait}"
    incident.now_us = sent_us + 60 * SECOND_US
    incident.looks("list_processes", "read_heartbeat", "tail_log")
    closed = incident.decide()
    assert isinstance(closed.action, Close)
    assert closed.action.reason.startswith("process 70 neither stops nor shows why")
    listed, act = incident.view.listed, incident.state.acts[-1]
    assert closed.action.evidence == (*listed, *act.events)
    assert (closed.lead, because(closed)) == ("H2", "H2")
    assert closed.hypotheses


def test_a_slice_of_patience_is_at_least_a_second() -> None:
    """Also where the rung's own grace is none."""
    incident = lone({"grace": {"interrupt_s": 0}})
    incident.until("INT 70")
    incident.done()
    incident.host = replace(incident.host, beat=beat(70, 10, state="stopping"))
    incident.until("wait")
    assert incident.steps[-1] == "wait process_absent 1000"


def doubtful(*scores: tuple[str, int], stop: JsonObject | None = None) -> tuple[Incident, Step]:
    """What is chosen after an interrupt under such scores, the rest far behind."""
    incident = lone(stop)
    incident.until("INT 70")
    incident.done()
    incident.later(5)
    incident.looks("list_processes")
    view = incident.view
    process = view.roles.trainers[0]
    assert view.table is not None
    table = tuple(Score(name, db, ()) for name, db in scores)  # type: ignore[arg-type]  # a name
    act = view.signals[-1]
    return incident, _choose(view, process, view.table.identity(process), act, table)


@pytest.mark.parametrize(
    ("scores", "lead", "says"),
    [
        ((("H1", 10), ("H7", 0)), "H1", "INT interrupt"),
        ((("H1", 9), ("H7", 0)), "", "TERM terminate"),
        ((("H1", 9), ("H3", 0)), "", "TERM terminate"),
        ((("H3", 10), ("H1", 0)), "H3", "INT interrupt_again"),
        ((("H2", 9), ("H7", 0)), "", "wait"),
        ((("H2", 10), ("H7", 0)), "H2", "wait"),
        ((("H6", 10), ("H7", 0)), "H6", "close"),
        ((("H6", 9), ("H7", 0)), "", "wait"),
    ],
)
def test_a_rung_needs_a_lead_or_to_be_right_under_all_that_may_be_so(
    scores: tuple[tuple[str, int], ...], lead: str, says: str
) -> None:
    """Ten decibans are a lead; under nine, the gentlest move that all live ones share.

    Where they share none, patience; where nothing helps, a person.
    """
    incident, step = doubtful(*scores)
    action = step.action
    match action:
        case Run() if action.command == "signal_process":
            told = f"{action.arguments['signal']} {step.rung}"
        case Run():
            told = "wait"
        case _:
            told = action.kind
    assert (step.lead, told) == (lead, says)
    assert step.because[0].rule == (lead or "dominance")
    assert step.hypotheses
    if isinstance(action, Close):
        assert action.reason == "process 70: it is in uninterruptible sleep"
        assert action.resolution == "HANDED_OVER"
        assert action.evidence == incident.view.listed


def test_patience_ends_where_the_last_rung_was_taken() -> None:
    """Whatever may still explain it: after a KILL there is nothing to wait for."""
    incident, _ = doubtful(("H2", 9), ("H7", 0))
    kill = replace(incident.state.acts[-1], arguments={"signal": "KILL"})
    incident.state = replace(incident.state, acts=(kill,))
    view = incident.view
    assert view.table is not None
    process = view.roles.trainers[0]
    scores = (Score("H2", 9, ()), Score("H7", 0, ()))
    step = _choose(view, process, view.table.identity(process), kill, scores)
    assert isinstance(step.action, Close)
    assert step.action.reason == "process 70 lives on after every rung of its ladder"


def test_an_interrupt_that_did_not_arrive_is_repeated_once() -> None:
    """The third would be as vain as the second."""
    scores = (Score("H1", 20, ()), Score("H7", 0, ()))
    for sent, rung in ((1, "interrupt"), (2, "terminate")):
        incident, _ = doubtful(("H1", 20), ("H7", 0))
        act = incident.state.acts[-1]
        incident.state = replace(incident.state, acts=(act,) * sent)
        view = incident.view
        assert view.table is not None
        process = view.roles.trainers[0]
        victim = view.table.identity(process)
        step = _choose(view, process, victim, act, scores)
        assert (step.rung, step.lead) == (rung, "H1")


def test_a_signal_that_ended_without_its_answer_may_have_arrived() -> None:
    """A writer that died between the two leaves no proof that nothing was delivered."""
    incident = lone({"rungs": ["interrupt", "terminate"]})
    incident.until("INT 70")
    sent_us = incident.now_us
    incident.cut_short()
    assert incident.state.acts[-1].open
    assert incident.state.acts[-1].delivered == "unknown"
    incident.until("judge command_took_effect inconclusive")
    incident.judged()
    incident.until("TERM 70")
    assert incident.now_us >= sent_us + 5 * SECOND_US


def test_a_verdict_without_its_reconciliation_is_reached_once_more() -> None:
    """A writer that died between the two leaves a journal that waits, and lets no act pass."""
    incident = lone({"rungs": ["interrupt", "terminate"]})
    incident.until("INT 70")
    incident.lost()
    judge = incident.until("judge command_took_effect inconclusive").action
    assert isinstance(judge, Judge)
    incident.emit(
        VerdictReached(
            condition=judge.condition,
            verdict=judge.verdict,
            reason=judge.reason,
            evidence=judge.evidence,
        )
    )
    assert incident.state.acts[-1].open
    incident.until("judge command_took_effect inconclusive")
    incident.judged()
    assert not incident.state.acts[-1].open


def test_files_whose_deployment_ended_without_its_answer_are_looked_at() -> None:
    """That it ended does not say that it changed what it should."""
    act = Act("c1", "deploy_files", "changes", {}, (), None, 0, 0, status="completed")
    assert (act.open, act.delivered_files) == (True, False)
    told = replace(act, observation={"deployed": True})
    assert (told.open, told.delivered_files) == (False, True)
    settled = replace(act, settled="done")
    assert (settled.open, settled.delivered_files) == (False, True)


def test_no_kill_before_something_gentler_surely_arrived() -> None:
    """A TERM whose fate nobody knows is sent once more, with the reason; then there may be one."""
    incident = lone({"rungs": ["terminate", "kill"]})
    incident.until("TERM 70")
    incident.lost()
    again = incident.until("TERM 70")
    assert (again.rung, again.lead) == ("terminate", "H7")
    assert again.hypotheses
    assert passed_over(again) == [
        ("terminate", "ladder"),
        ("kill", "ladder"),
        ("kill", "gentleness"),
    ]
    assert again.rejected[1].text == "nothing shows that a gentler one arrived"
    incident.done()
    incident.until("KILL 70")


def test_force_is_a_persons_matter_where_nothing_shows_that_a_signal_arrived() -> None:
    """A controller that died before each sending leaves what one that died after it leaves."""
    incident = lone({"rungs": ["terminate", "kill"]})
    for _ in range(3):
        incident.until("TERM 70")
        incident.lost()
    closed = incident.until("close HANDED_OVER").action
    assert isinstance(closed, Close)
    assert closed.reason == "3 acts could not be settled"


def test_the_rung_of_a_signal_is_that_of_its_decision() -> None:
    """Two interrupts look alike; the journal tells the second from the first."""
    incident = lone()
    incident.until("INT 70")
    incident.done()
    incident.host = replace(incident.host, log=("KeyboardInterrupt",))
    advances(incident)
    incident.until("INT 70")
    incident.done()
    for word in ("TERM 70", "KILL 70"):
        incident.until(word)
        incident.done()
    taken = [rung_of(incident.view, act) for act in incident.view.signals]
    assert taken == ["interrupt", "interrupt_again", "terminate", "kill"]
    unknown = replace(incident.view.signals[1], decision_id="another")
    assert rung_of(incident.view, unknown) == "interrupt"


def test_looks_are_taken_again_after_each_wait_and_the_best_comes_first() -> None:
    """Those passed over are named with what they were worth."""
    incident = lone()
    incident.until("INT 70")
    incident.done()
    incident.steps.clear()
    look = incident.until("tail_log")
    assert incident.steps == WHY[:4]
    assert because(look) == "ladder"
    assert look.hypotheses
    assert passed_over(look) == [("probe read_heartbeat", "value of information")]
    assert look.because[0].events == incident.state.acts[-1].events
