"""What ends an incident from outside its own course, and what holds an act back."""

from dataclasses import replace

import pytest

from agentops.policy import Close, PolicyConfig, Run
from agentops.policy.config import Forbid, RuleWhen
from agentops.policy.decision import Decision
from agentops.policy.state import Approval
from agentops.policy.view import SECOND_US
from journal.events import CommandDenied, Identity
from tests.support.shown import Host, beat, row
from tests.support.stops import lone
from tests.support.telling import Incident, passed_over, rules


def words(decision: Decision) -> str:
    """Why the incident is handed over."""
    assert isinstance(decision.action, Close)
    assert decision.action.resolution == "HANDED_OVER"
    return decision.action.reason


def fresh(config: PolicyConfig | None = None) -> Incident:
    """An incident in which nothing was looked at yet."""
    return Incident(Host(rows=(row(70),), beat=beat(70, 10)), config=config)


@pytest.mark.parametrize(("probes", "step"), [(5, "INT 70"), (4, "close HANDED_OVER")])
def test_as_many_looks_are_taken_as_the_budget_says(probes: int, step: str) -> None:
    """The opening takes four; the fourth look of a budget of four is its last."""
    incident = fresh(rules(budget={"probes": probes}))
    decision = incident.until(step)
    if step.startswith("close"):
        assert words(decision) == "4 looks did not settle it"
        assert (decision.phase, decision.because[0].rule) == ("budget", "G11")


@pytest.mark.parametrize(("more_us", "closes"), [(0, False), (1, True)])
def test_an_incident_takes_no_longer_than_its_budget(more_us: int, *, closes: bool) -> None:
    """Counted between decisions; a gap of more than two minutes is somebody else's time."""
    incident = fresh(rules(budget={"wall_s": 120}))
    incident.decide()
    incident.later(3_600)
    incident.decide()
    assert not incident.steps[-1].startswith("close")
    incident = fresh(rules(budget={"wall_s": 100}))
    incident.decide()
    incident.later(100, us=more_us)
    incident.decide()
    decision = incident.decide()
    assert incident.steps[-1].startswith("close") is closes
    if closes:
        assert words(decision) == "it took longer than 100 s"


def test_a_look_that_brings_nothing_is_taken_four_times_and_ever_later() -> None:
    """One second, two, four; then a person looks."""
    incident = fresh()
    for _ in range(4):
        incident.until("list_processes")
        incident.failed()
    decision = incident.until("close HANDED_OVER")
    assert [step for step in incident.steps if step.startswith("pause")] == [
        "pause 1",
        "pause 2",
        "pause 4",
    ]
    assert words(decision) == "list_processes brought no answer 4 times in a row"


def test_a_look_that_works_again_starts_to_count_anew() -> None:
    """Failures count in a row."""
    incident = fresh()
    for _ in range(3):
        incident.until("list_processes")
        incident.failed()
    incident.until("list_processes")
    incident.answered()
    for _ in range(3):
        incident.until("read_heartbeat")
        incident.failed()
    incident.until("INT 70")


def denied(incident: Incident) -> None:
    """The door said no to the signal that was decided last."""
    assert incident.decision is not None
    run = incident.decision.action
    assert isinstance(run, Run)
    incident.emit(
        CommandDenied(
            command=run.command,
            arguments=run.arguments,
            victims=(Identity.model_validate(run.arguments["victim"]),),
            decision_id=incident.decision.decision_id,
            rule="test",
            reason="told to",
        )
    )


@pytest.mark.parametrize(("denials", "closes"), [(2, False), (3, True)])
def test_three_denials_end_an_incident(denials: int, *, closes: bool) -> None:
    """What is not allowed is not asked for for ever."""
    incident = lone()
    for _ in range(denials):
        incident.until("INT 70")
        denied(incident)
    decision = incident.decide()
    if closes:
        assert words(decision) == "3 acts were denied"
    else:
        assert incident.steps[-1] == "INT 70"


def test_a_no_ends_an_incident_and_an_open_question_does_not() -> None:
    """A person's word is final for it."""
    for answer, closes in (("open", False), ("granted", False), ("refused", True)):
        incident = lone()
        asked = Approval("a", "digest", incident.now_us, answer=answer)
        incident.state = replace(incident.state, approvals=(asked,))
        decision = incident.decide()
        assert incident.steps[-1].startswith("close") is closes
        if closes:
            assert words(decision) == "a person said no to an act"


def test_in_shadow_the_first_denial_ends_the_incident() -> None:
    """The act that was due is told, and nothing was done; a freeze does not matter to it."""
    incident = lone()
    terms = replace(incident.state.terms, shadow=True)
    incident.state = replace(incident.state, terms=terms, frozen_hosts=("*",))
    incident.until("INT 70")
    denied(incident)
    said = words(incident.decide())
    assert said.startswith("shadow: signal_process INT to process 70 was due")


def test_a_frozen_host_is_looked_at_and_not_acted_on() -> None:
    """The act that was due is named among the rejected."""
    incident = fresh()
    incident.state = replace(incident.state, frozen_hosts=("told",))
    decision = incident.until("close HANDED_OVER")
    assert words(decision).startswith("G13: an operator froze acting")
    assert passed_over(decision)[-1] == ("signal_process", "G13")
    assert decision.because[0].rule == "G13"
    elsewhere = fresh()
    elsewhere.state = replace(elsewhere.state, frozen_hosts=("another",))
    elsewhere.until("INT 70")


def test_what_a_rule_forbids_or_none_permits_is_left_to_a_person() -> None:
    """By the rule's own words; a rule that a yes may lift is asked about at the door."""
    base = rules()
    strict = Forbid(id="no", when=RuleWhen(signal="INT"), note="never here")
    mild = Forbid(id="ask", when=RuleWhen(signal="INT"), unless="approved")
    for config, why in (
        (base.model_copy(update={"forbid": (strict,)}), "forbid no: never here"),
        (base.model_copy(update={"permit": ()}), "default deny: no rule permits it"),
    ):
        decision = fresh(config).until("close HANDED_OVER")
        assert words(decision) == why
        assert passed_over(decision)[-1] == ("signal_process", why.split(":")[0])
        assert decision.expects == ()
    fresh(base.model_copy(update={"forbid": (mild,)})).until("INT 70")


def killing() -> Incident:
    """A deaf trainer whose next rung is KILL."""
    incident = lone()
    for word in ("INT 70", "TERM 70"):
        incident.until(word)
        incident.done()
    incident.until("KILL 70")
    incident.steps.clear()
    return incident


def test_a_kill_waits_for_another_processs_checkpoint_and_looks_again() -> None:
    """Two seconds apart, until the longest graceful stop is over; then a person decides."""
    incident = killing()
    # Not the victim's own: that one is winding down, and patience comes before any guard.
    newest = replace(incident.state.samples[-1], checkpoint_writing=True, pid=71)
    samples = (*incident.state.samples[:-1], newest)
    incident.state = replace(incident.state, samples=samples)
    held = incident.decide()
    assert incident.steps == ["pause 2"]
    assert passed_over(held)[-1] == ("signal_process", "G9")
    assert held.because[0].rule == "G9"
    read = incident.view.fact("heartbeat", "seen")
    assert read is not None
    incident.now_us = read.at_us + 2 * SECOND_US - 1
    incident.decide()
    assert incident.steps[-1] == "pause 2"
    incident.now_us += 1
    incident.decide()
    assert incident.steps[-1] == "read_heartbeat"
    last_us = incident.view.signals[-1].at_us
    for at_us, step in ((60 * SECOND_US - 1, "read_heartbeat"), (60 * SECOND_US, "close")):
        incident.now_us = last_us + at_us
        incident.looks("list_processes")
        incident.decide()
        assert incident.steps[-1].startswith(step)


def test_a_job_that_no_file_knows_is_handed_over_at_once() -> None:
    """And so is no incident at all."""
    incident = fresh()
    assert incident.state.incident is not None
    unknown = replace(incident.state.incident, job="other")
    incident.state = replace(incident.state, incident=unknown)
    assert words(incident.decide()) == "the policy file has no job 'other'"
    incident.state = replace(incident.state, incident=None)
    decision = incident.decide()
    assert words(decision) == "no incident is open"
    assert decision.expires_at_us == incident.now_us + 60 * SECOND_US
