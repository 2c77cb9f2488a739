"""The evidence table: each situation of the design has its leader, and KILL is best under none."""

from dataclasses import dataclass, replace

import pytest

from agentops.policy import PolicyState, Run, decide
from agentops.policy.hypotheses import (
    PRIORS,
    TABLE,
    Interrupted,
    Score,
    advance,
    capped,
    interrupt_in_log,
    leader,
    live,
    weigh,
)
from agentops.policy.ladder import RIGHT
from agentops.policy.ledger import Act, Sample, Tail
from agentops.policy.process import Process
from agentops.policy.view import SECOND_US, look
from journal.events import Identity
from tests.support.simulated import config, moments

LOG = "/job/train.log"
NOW_US = 1_700_000_000 * SECOND_US
VICTIM = Identity(boot_id="b", pid_namespace=1, namespace_init_start_ticks=1, pid=7, start_ticks=70)


@dataclass(frozen=True)
class Seen:
    """What was seen five seconds after an interrupt."""

    delivered: bool = True
    state: str = "S"
    ignored: tuple[int, ...] = ()
    start_ticks: int = 70
    steps: int = 0
    says: str = "training"
    writing: bool = False
    marks: int = 0
    shutdown: int = 0
    threads: int = 4
    pending: tuple[int, ...] = ()
    old_marks: int = 0
    old_shutdown: int = 0


def about(seen: Seen) -> Interrupted:
    """The question, with one heartbeat and one look at the log before and after the interrupt."""

    def beat(order: int, step: int) -> Sample:
        return Sample(
            at_us=NOW_US, order=order, event=f"e{order}", run_id="r", launch_id=None, pid=7,
            start_ticks=70, state=seen.says if order > 2 else "training", step=step,
            sequence=order, loss="1.0", checkpoint_writing=seen.writing and order > 2,
            checkpoint_step=None,
        )  # fmt: skip

    counts = (("F73", seen.shutdown), ("interrupt_taken", seen.marks))
    old = (("F73", seen.old_shutdown), ("interrupt_taken", seen.old_marks))
    tails = (Tail(NOW_US, 1, "e1", LOG, old), Tail(NOW_US, 5, "e5", LOG, counts))
    act = Act(
        command_id="c", command="signal_process", effect="destroys", arguments={"signal": "INT"},
        victims=(VICTIM,), decision_id="d", at_us=NOW_US, order=2,
        status="completed" if seen.delivered else "unknown", ended_at_us=NOW_US, ended_order=3,
        observation={"delivered": True}, settled=None if seen.delivered else "unknown",
    )  # fmt: skip
    facts_state = moments(0)[-1][0]
    state = PolicyState(
        facts=facts_state.facts, samples=(beat(0, 10), beat(4, 10 + seen.steps)), tails=tails,
        acts=(act,), order=6,
    )  # fmt: skip
    process = Process(
        pid=7,
        ppid=1,
        pgid=7,
        sid=7,
        state=seen.state,
        uid=0,
        start_ticks=seen.start_ticks,
        cpu_ticks=0,
        threads=seen.threads,
        signals_ignored=seen.ignored,
        signals_caught=(),
        signals_pending=seen.pending,
        comm="python3",
        cmdline=(),
        exe="",
        cwd="",
        cgroup="",
        wchan="",
        launch_id=None,
        command_line="",
    )
    return Interrupted(look(state, config(), config().job["job"], NOW_US), process, act)


@pytest.mark.parametrize(
    ("seen", "lead"),
    [
        (Seen(delivered=False, steps=20), "H1"),
        (Seen(says="stopping"), "H2"),
        (Seen(says="checkpointing", writing=True, marks=1), "H2"),
        (Seen(steps=20, marks=1), "H3"),
        (Seen(steps=2, marks=1, says="checkpointing"), "H3"),
        (Seen(steps=3, marks=2, shutdown=1, threads=1), "H2"),
        (Seen(steps=20, ignored=(2,)), "H4"),
        (Seen(start_ticks=90, steps=20), "H5"),
        (Seen(state="D"), "H6"),
        (Seen(), "H7"),
    ],
)
def test_each_situation_has_its_leader(seen: Seen, lead: str) -> None:
    """By ten decibans at least over the next."""
    scores = weigh(about(seen))
    assert leader(scores, 10) == lead, scores


def spoken(asked: Interrupted) -> set[str]:
    """The evidence that speaks."""
    return {evidence.id for evidence in TABLE if evidence.seen(asked)}


@pytest.mark.parametrize(
    ("seen", "evidence", "speaks"),
    [
        (Seen(marks=1, steps=2), "taken_steps_advance", True),
        (Seen(marks=1, steps=1), "taken_steps_advance", False),
        (Seen(marks=2, old_marks=1, steps=2), "taken_steps_advance", True),
        (Seen(marks=1, old_marks=1, steps=2), "taken_steps_advance", False),
        (Seen(marks=1, old_marks=1), "no_interrupt_in_log", True),
        (Seen(shutdown=1), "no_interrupt_in_log", False),
        (Seen(shutdown=1, old_shutdown=1), "no_interrupt_in_log", True),
        (Seen(shutdown=1, threads=1), "finalizing", True),
        (Seen(shutdown=1, threads=2), "finalizing", False),
        (Seen(shutdown=1, old_shutdown=1, threads=1), "finalizing", False),
        (Seen(shutdown=2, old_shutdown=1, threads=1), "finalizing", True),
        (Seen(marks=1, threads=1), "finalizing", False),
        (Seen(shutdown=1, threads=1, steps=5), "steps_advance", False),
        (Seen(steps=2), "steps_advance", True),
        (Seen(steps=1), "steps_advance", False),
        (Seen(steps=1), "steps_stand", False),
        (Seen(), "steps_stand", True),
        (Seen(says="stopping"), "steps_stand", False),
        (Seen(says="checkpointing"), "steps_stand", False),
        (Seen(says="stopping"), "winding_down", True),
        (Seen(says="checkpointing"), "winding_down", True),
        (Seen(writing=True), "winding_down", True),
        (Seen(), "winding_down", False),
        (Seen(), "trains_on", True),
        (Seen(writing=True), "trains_on", False),
        (Seen(says="evaluating"), "trains_on", False),
        (Seen(shutdown=1, threads=1), "trains_on", False),
        (Seen(pending=(2,)), "pending", True),
        (Seen(pending=(15,)), "pending", False),
        (Seen(delivered=False), "delivered", False),
        (Seen(start_ticks=71), "younger", True),
        (Seen(start_ticks=70), "younger", False),
        (Seen(start_ticks=69), "younger", False),
        (Seen(start_ticks=71), "same_process", False),
        (Seen(start_ticks=70), "same_process", True),
    ],
)
def test_each_piece_of_evidence_speaks_where_it_was_seen_and_nowhere_else(
    seen: Seen, evidence: str, *, speaks: bool
) -> None:
    """A mark that stood in the log before, one step, or another signal is no evidence."""
    assert (evidence in spoken(about(seen))) is speaks


@pytest.mark.parametrize(
    ("state", "stuck", "wakes"),
    [("D", True, False), ("S", False, True), ("I", False, True), ("Z", False, False)],
)
def test_a_process_state_speaks_only_where_it_is_one_that_is_known(
    state: str, *, stuck: bool, wakes: bool
) -> None:
    """An ended process neither sleeps nor wakes."""
    found = spoken(about(Seen(state=state)))
    assert ("state_uninterruptible" in found) is stuck
    assert ("state_interruptible" in found) is wakes


def test_before_the_first_interrupt_only_the_process_itself_speaks() -> None:
    """Whatever log and heartbeat show: it is nobody's answer."""
    asked = about(Seen(marks=1, shutdown=1, threads=1, pending=(2,), says="stopping"))
    assert spoken(replace(asked, act=None)) == {"sigint_not_ignored", "state_interruptible"}
    nobody = replace(asked, act=replace(asked.act, victims=()))  # type: ignore[type-var]  # an act
    assert "same_process" in spoken(nobody)
    assert asked.since == 2
    assert replace(asked, act=None).since == -1


def test_what_another_process_says_of_stopping_is_not_said_of_this_one() -> None:
    """Nor what was said before the interrupt."""
    asked = about(Seen(says="stopping"))
    other = replace(asked, process=replace(asked.process, pid=8))
    assert "winding_down" not in spoken(other)
    early = tuple(replace(sample, order=1) for sample in asked.view.state.samples)
    before = replace(asked.view.state, samples=early)
    assert "winding_down" not in spoken(replace(asked, view=replace(asked.view, state=before)))


def test_steps_are_counted_from_the_heartbeat_before_the_interrupt_where_there_is_one() -> None:
    """Else from the first after it, and one alone tells nothing."""
    asked = about(Seen(steps=5))
    first, last = asked.view.state.samples

    def made(*samples: Sample) -> int | None:
        state = replace(asked.view.state, samples=samples)
        return advance(replace(asked, view=replace(asked.view, state=state)))

    later = replace(last, order=5, step=18)
    assert made(first, last) == 5
    assert made(first, last, later) == 8
    assert made(last, later) == 3
    assert made(last, replace(last, order=5), later) == 3
    assert made(last) is None
    assert made(first) is None
    assert made() is None
    assert advance(replace(asked, act=None)) is None


def test_a_log_that_was_not_read_since_shows_neither_an_interrupt_nor_its_absence() -> None:
    """Absence of a look is no evidence of absence."""
    asked = about(Seen(marks=1, shutdown=1, threads=1))
    for tails in ((), asked.view.state.tails[:1]):
        state = replace(asked.view.state, tails=tails)
        unread = replace(asked, view=replace(asked.view, state=state))
        assert not interrupt_in_log(unread)
        assert {"no_interrupt_in_log", "finalizing"} & spoken(unread) == set()
    only = replace(asked.view.state, tails=asked.view.state.tails[1:])
    first_look = replace(asked, view=replace(asked.view, state=only))
    assert interrupt_in_log(first_look)
    assert "finalizing" in spoken(first_look)
    assert not interrupt_in_log(replace(asked, act=None))


def test_scores_are_sorted_and_tell_what_they_are_made_of() -> None:
    """Highest first, ties by name; the prior, and each piece that weighs on the hypothesis."""
    scores = weigh(about(Seen(delivered=False, steps=1)))
    assert [score.hypothesis for score in scores] == ["H1", "H7", "H3", "H2", "H4", "H5", "H6"]
    by_name = {score.hypothesis: score for score in scores}
    assert by_name["H1"] == Score("H1", 5, (("prior", 0), ("no_interrupt_in_log", 5)))
    assert by_name["H4"].because == (
        ("prior", -3),
        ("sigint_not_ignored", -20),
        ("no_interrupt_in_log", 3),
    )
    assert by_name["H4"].db == -20


@pytest.mark.parametrize(
    ("weights", "total"),
    [
        ([("a", 15), ("a", 15)], 20),
        ([("a", -15), ("a", -15)], -20),
        ([("a", 15), ("b", 15)], 30),
        ([("a", 15), ("a", 15), ("a", -15), ("b", -3)], 12),
        ([("a", 20), ("b", 21), ("c", -20)], 20),
        ([], 0),
    ],
)
def test_a_family_counts_for_twenty_decibans_at_most_in_either_direction(
    weights: list[tuple[str, int]], total: int
) -> None:
    """Lines that stem from one cause do not pile up; causes of their own add."""
    assert capped(weights, 20) == total


def test_kill_is_right_under_no_hypothesis() -> None:
    """Five seconds after an interrupt there is always something gentler."""
    assert all("kill" not in moves for moves in RIGHT.values())
    assert set(RIGHT) == set(PRIORS)


def test_the_cap_of_a_family_is_the_configured_one() -> None:
    """One that says twenty is heard with five where the policy file says so."""
    tight = config().limits.model_copy(update={"family_cap_db": 5})
    narrow = config().model_copy(update={"limits": tight})
    asked = about(Seen(steps=20, marks=1))
    said = replace(asked, view=replace(asked.view, config=narrow))
    by_name = {score.hypothesis: score.db for score in weigh(said)}
    # One family speaks for H3, and two against H4.
    assert by_name["H3"] == PRIORS["H3"] + 5
    assert by_name["H4"] == PRIORS["H4"] - 10


def test_without_a_lead_nobody_leads() -> None:
    """Nine decibans are not ten; those within the margin are live."""
    scores = (Score("H1", 9, ()), Score("H2", 0, ()), Score("H3", -1, ()), Score("H4", -20, ()))
    assert leader(scores, 10) is None
    assert leader(scores, 9) == "H1"
    assert live(scores, 10) == ("H1", "H2")
    assert live(scores, 11) == ("H1", "H2", "H3")
    assert leader(scores[2:], 10) == "H3"


def test_the_second_interrupt_needs_evidence_that_the_first_was_taken() -> None:
    """In every simulated run: an interrupt_again rests on H3, or on nothing else being right."""
    for seed in range(40):
        for _, _, decision in moments(seed):
            action = decision.action
            if not isinstance(action, Run) or action.purpose != "signal":
                continue
            if decision.rung == "interrupt_again":
                assert decision.lead in {"H3", ""}
                taken = {part for score in decision.hypotheses for part, _ in score.because}
                assert "taken_steps_advance" in taken


def test_evidence_is_only_what_was_positively_seen() -> None:
    """Without a look at log and heartbeat after the interrupt, neither speaks."""
    asked = about(Seen(steps=20, marks=1))
    blind = replace(asked.view.state, samples=asked.view.state.samples[:1], tails=())
    unseen = replace(asked, view=replace(asked.view, state=blind))
    spoken = {evidence.id for evidence in TABLE if evidence.seen(unseen)}
    assert spoken == {"sigint_not_ignored", "state_interruptible", "delivered", "same_process"}
    assert decide(blind, config(), NOW_US).action.kind == "close"
