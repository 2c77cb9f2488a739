"""The evidence table: each situation of the design has its leader, and KILL is best under none."""

from dataclasses import dataclass, replace

import pytest

from agentops.policy import PolicyState, Run, decide
from agentops.policy.hypotheses import PRIORS, TABLE, Interrupted, Score, leader, live, weigh
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
    tails = (Tail(NOW_US, 1, "e1", LOG, ()), Tail(NOW_US, 5, "e5", LOG, counts))
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
        signals_pending=(),
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


def test_kill_is_right_under_no_hypothesis() -> None:
    """Five seconds after an interrupt there is always something gentler."""
    assert all("kill" not in moves for moves in RIGHT.values())
    assert set(RIGHT) == set(PRIORS)


def test_correlated_lines_do_not_pile_up() -> None:
    """A family counts for twenty decibans at most, whatever stands in it."""
    tight = config().limits.model_copy(update={"family_cap_db": 5})
    capped = config().model_copy(update={"limits": tight})
    asked = about(Seen(steps=20, marks=1))
    narrow = replace(asked, view=replace(asked.view, config=capped))
    families = len({evidence.family for evidence in TABLE})
    for score in weigh(narrow):
        assert abs(score.db - PRIORS[score.hypothesis]) <= 5 * families


def test_without_a_lead_nobody_leads() -> None:
    """Nine decibans are not ten; those within the margin are live."""
    scores = (Score("H1", 9, ()), Score("H2", 0, ()), Score("H3", -20, ()))
    assert leader(scores, 10) is None
    assert live(scores, 10) == ("H1", "H2")
    assert leader(scores[1:], 10) == "H2"


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
