"""A start is proven by steps that go on, or refuted by what shows that they will not."""

from dataclasses import replace

import pytest

from agentops.policy import Close, Judge, Run
from agentops.policy.restoring import starting
from journal.events import JsonObject
from tests.support.shown import beat
from tests.support.starts import Start, gone, reason, started
from tests.support.telling import rules


def test_a_start_is_proven_by_steps_that_go_on_past_the_settling_time() -> None:
    """Waits, heartbeats and a listing after the last of them; then the job is recovered."""
    start = started()
    incident = start.incident
    incident.until("wait heartbeat_step 5000")
    assert incident.steps == ["list_processes", "read_heartbeat", "wait heartbeat_step 5000"]
    incident.answered()
    start.look(3)
    incident.until("wait heartbeat_step 5000")
    incident.answered()
    start.look(6)
    incident.steps.clear()
    proven = incident.until("judge job_started confirmed")
    assert incident.steps == ["list_processes", "judge job_started confirmed"]
    assert isinstance(proven.action, Judge)
    assert proven.action.condition == {
        "kind": "job_started",
        "launch_id": start.launch_id,
        "step": 6,
    }
    assert reason(proven) == "steps went from 3 to 6 with a finite loss, in one process"
    first, last = incident.state.samples[-2], incident.state.samples[-1]
    assert proven.action.evidence == (
        start.act.events[0],
        first.event,
        last.event,
        *incident.view.listed,
    )
    incident.judged()
    incident.steps.clear()
    closed = incident.until("close RECOVERED")
    assert incident.steps == ["close RECOVERED"]
    assert isinstance(closed.action, Close)
    told = next(act for act in incident.state.acts if act.command == "launch").events
    assert closed.action.evidence == (*told, incident.state.verdicts[-1].event)


def test_a_start_that_was_proven_once_says_nothing_about_a_later_one() -> None:
    """Its verdict is older than the start."""
    incident = gone()
    incident.judged(Judge({"kind": "job_started"}, "confirmed", "earlier", ("e0001",)))
    start = Start(incident)
    start.incident.decide()
    assert start.incident.steps == ["list_processes"]


def test_a_start_is_no_longer_proven_where_the_policy_no_longer_says_how() -> None:
    """What would prove it stands in the launch's own table."""
    start = started()
    start.incident.config = rules({"launch": None})
    assert starting(start.incident.view, start.act) is None


def test_a_listing_that_is_cut_proves_no_end_of_a_start() -> None:
    """It is taken again, and the process in the whole one lives."""
    start = started()
    start.incident.looks("list_processes")
    start.read(2, 2)
    start.read(6, 5)
    whole = start.incident.host
    start.incident.host = replace(whole, rows=(), complete=False)
    start.incident.looks("list_processes")
    start.incident.decide()
    assert start.incident.steps == ["list_processes"]
    start.incident.host = whole
    start.incident.answered()
    start.incident.until("judge job_started confirmed")


def test_a_wait_for_a_start_asks_for_the_next_step_of_this_very_start() -> None:
    """Heartbeats of an earlier start count for nothing."""
    start = started()
    incident = start.incident
    incident.host = replace(incident.host, beat=beat(70, 10))
    waits = incident.until("wait")
    assert isinstance(waits.action, Run)
    condition = waits.action.arguments["condition"]
    assert isinstance(condition, dict)
    assert (condition["at_least_step"], condition["launch_id"]) == (0, start.launch_id)
    incident.answered()
    start.look(4)
    again = incident.until("wait")
    assert isinstance(again.action, Run)
    condition = again.action.arguments["condition"]
    assert isinstance(condition, dict)
    assert (condition["at_least_step"], condition["launch_id"]) == (5, start.launch_id)


def test_steps_that_advance_at_once_are_watched_until_the_start_has_settled() -> None:
    """Five seconds after the start, to the microsecond."""
    start = started()
    incident = start.incident
    start.incident.looks("list_processes")
    start.read(1, 1)
    start.read(2, 3)
    settles = incident.decide()
    assert incident.steps == ["pause 3"]
    assert settles.because[0].events == start.act.events
    incident.now_us = start.act.at_us + 5_000_000 - 1
    incident.decide()
    assert incident.steps[-1] == "pause 1e-06"
    incident.now_us += 1
    incident.decide()
    assert incident.steps[-1] == "wait heartbeat_step 5000"


@pytest.mark.parametrize(
    ("beats", "step"),
    [
        (((1, 1), (2, 3), (5, 4)), "list_processes"),
        (((1, 1), (2, 2), (5, 3)), "list_processes"),
        (((1, 1), (2, 1), (5, 3)), "list_processes"),
        (((1, 1), (2, 2), (5, 2)), "wait heartbeat_step 5000"),
        (((1, 1), (2, 3), (5, 3)), "wait heartbeat_step 5000"),
        (((2, 2), (5, 3)), "wait heartbeat_step 5000"),
        (((5, 9),), "wait heartbeat_step 5000"),
    ],
)
def test_a_start_is_proven_only_by_as_many_steps_as_asked_and_one_more_at_the_end(
    beats: tuple[tuple[int, int], ...], step: str
) -> None:
    """Two steps by default, counted in heartbeats; a job that stands by now does not go on.

    A proof is worth a last listing, and anything less another wait.
    """
    start = started()
    start.incident.looks("list_processes")
    for at_s, made in beats:
        start.read(at_s, made)
    start.incident.decide()
    assert start.incident.steps == [step]


@pytest.mark.parametrize(
    ("change", "proven"),
    [
        ({}, True),
        ({"loss": None}, False),
        ({"pid": 91}, False),
        ({"start_ticks": 9}, False),
        ({"launch_id": "another"}, False),
        ({"state": "starting"}, False),
    ],
)
def test_only_one_process_of_this_start_with_a_finite_loss_is_a_proof(
    change: JsonObject, *, proven: bool
) -> None:
    """Whatever else moves on the host."""
    start = started()
    start.incident.looks("list_processes")
    start.read(2, 2)
    start.read(6, 5, **change)
    start.incident.decide()
    assert (start.incident.steps == ["list_processes"]) is proven


@pytest.mark.parametrize("ends", ["gone", "zombie", "reused"])
def test_a_start_whose_process_has_ended_after_its_last_step_is_refuted(ends: str) -> None:
    """The steps were made, and nobody is there to go on."""
    start = started()
    start.look(2)
    start.incident.later(6)
    start.look(5)
    rows: dict[str, tuple[JsonObject, ...]] = {
        "gone": (),
        "zombie": (start.process | {"state": "Z"},),
        "reused": (start.process | {"start_ticks": 7},),
    }
    start.incident.host = replace(start.incident.host, rows=rows[ends])
    refuted = start.incident.until("judge job_started refuted")
    assert reason(refuted) == "the process that made these steps has ended"
    assert isinstance(refuted.action, Judge)
    evidence = (start.act.events[0], *start.incident.view.listed)
    assert refuted.action.evidence == evidence
    condition = {"kind": "job_started", "launch_id": start.launch_id}
    assert refuted.action.condition == condition


def test_a_start_that_diverges_is_refuted_once_its_log_was_read() -> None:
    """The loss is no finite number, and why may stand in the log."""
    start = started()
    start.look(2, loss="nan")
    start.incident.steps.clear()
    refuted = start.incident.until("judge job_started refuted")
    assert start.incident.steps == ["tail_log", "judge job_started refuted"]
    assert reason(refuted) == "its loss is not a finite number"


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_start_that_says_that_it_ended_is_refuted(state: str) -> None:
    """Also while its process still lives."""
    start = started()
    start.look(0, state=state, loss=None)
    refuted = start.incident.until("judge job_started refuted")
    assert reason(refuted) == "it ended before it made progress"


@pytest.mark.parametrize(
    ("loss", "verdict", "words"),
    [
        ("2.5", "confirmed", "it finished at step 40 with a finite loss"),
        ("inf", "refuted", "it says that it finished, but states no finite loss"),
        (None, "refuted", "it says that it finished, but states no finite loss"),
    ],
)
def test_a_start_that_finished_is_a_success_only_with_a_finite_loss(
    loss: str | None, verdict: str, words: str
) -> None:
    """It need not live any more, and no further step is waited for."""
    start = started()
    start.look(40, state="finished", loss=loss)
    start.incident.host = replace(start.incident.host, rows=())
    start.incident.steps.clear()
    judged = start.incident.until("judge job_started")
    assert start.incident.steps == [f"judge job_started {verdict}"]
    assert reason(judged) == words
    if verdict == "confirmed":
        assert isinstance(judged.action, Judge)
        sample = start.incident.state.samples[-1]
        assert judged.action.evidence == (start.act.events[0], sample.event)
        assert judged.action.condition["step"] == 40
        assert judged.action.condition["launch_id"] == start.launch_id


@pytest.mark.parametrize(("at_us", "step"), [(0, "wait heartbeat_step 5000"), (1, "tail_log")])
def test_a_start_has_three_seconds_to_show_a_process_at_all(at_us: int, step: str) -> None:
    """A listing without it is no end before that, and a microsecond later it is."""
    start = started()
    incident = start.incident
    incident.host = replace(incident.host, rows=())
    incident.looks("read_heartbeat", "list_processes")
    incident.now_us = start.act.at_us + 3_000_000 + at_us
    incident.decide()
    assert incident.steps == [step]
    if step == "tail_log":
        refuted = incident.until("judge job_started refuted")
        assert reason(refuted) == "it ended before it made progress"


@pytest.mark.parametrize(("at_us", "step"), [(0, "wait heartbeat_step 5000"), (1, "tail_log")])
def test_a_start_that_makes_no_step_has_the_configured_time(at_us: int, step: str) -> None:
    """Thirty seconds from the start; a microsecond more is too long."""
    start = started()
    incident = start.incident
    incident.looks("read_heartbeat", "list_processes")
    incident.now_us = start.act.at_us + 30_000_000 + at_us
    incident.decide()
    assert incident.steps == [step]
    if step == "tail_log":
        assert reason(incident.until("judge job_started refuted")) == "no progress within 30 s"


@pytest.mark.parametrize("blind", ["no log", "log fails"])
def test_a_start_is_refuted_also_where_no_log_can_be_read(blind: str) -> None:
    """What it would say is not waited for."""
    config = rules({"progress": {"log": None}}) if blind == "no log" else None
    start = started(config=config)
    start.look(2, loss="nan")
    start.incident.steps.clear()
    if blind == "log fails":
        start.incident.until("tail_log")
        start.incident.failed()
    start.incident.until("judge job_started refuted")
    assert start.incident.steps.count("tail_log") == (blind == "log fails")
