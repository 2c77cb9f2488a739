"""The exact bounds of guards: what passes at the limit, and what fails one past it."""

from dataclasses import replace

import pytest

from agentops.policy import PolicyState, Run
from agentops.policy.config import PolicyConfig
from agentops.policy.guards import ask_all, g3_escalation, g6_blast_radius, g11_budget, intended
from agentops.policy.ledger import Act
from agentops.policy.processes import TABLE
from agentops.policy.stopping import told
from agentops.policy.view import SECOND_US, look
from journal.events import Identity
from tests.support.acting import failed, later_term, run_of, view_of
from tests.support.simulated import config, moments

GRACE_US = 5 * SECOND_US


def with_table(state: PolicyState, at_us: int, order: int) -> PolicyState:
    """The state with its newest listing taken then, at that place in the fold."""
    fact = replace(state.facts[TABLE], at_us=at_us, order=order)
    return replace(state, facts=state.facts.with_facts([fact]))


def with_last(state: PolicyState, act: Act) -> PolicyState:
    """The state with another last act."""
    return replace(state, acts=(*state.acts[:-1], act))


@pytest.mark.parametrize(
    ("ended_us", "sent_us", "listed_us", "order", "passes"),
    [
        (0, -GRACE_US, 0, 1, True),
        (0, -GRACE_US + 1, 0, 1, False),
        (-GRACE_US, 0, 0, 1, True),
        (-GRACE_US + 1, -60 * SECOND_US, 0, 1, False),
        (-GRACE_US, -GRACE_US, -1, 1, False),
        (-GRACE_US, -GRACE_US, 0, 0, False),
    ],
)
def test_a_rung_waits_for_grace_and_for_a_later_listing(
    ended_us: int, sent_us: int, listed_us: int, order: int, *, passes: bool
) -> None:
    """G3 counts from the outcome, or from the intent where none came; to the microsecond."""
    state, now_us, decision = later_term()
    last = state.acts[-1]
    ended = 0 if ended_us == 0 else now_us + ended_us
    known = with_last(state, replace(last, ended_at_us=ended, at_us=now_us + sent_us))
    known = with_table(known, now_us + listed_us, last.last_order + order)
    view = look(known, config(), config().job["job"], now_us)
    assert g3_escalation(intended(view, run_of(decision))) is passes


def test_a_first_signal_may_be_anything_but_a_kill() -> None:
    """G3 for a victim that had none."""
    state, now_us, decision = later_term()
    fresh = replace(state, acts=())
    run = run_of(decision)
    for name, passes in (("INT", True), ("TERM", True), ("KILL", False), ("CONT", True)):
        asked = replace(run, arguments={**run.arguments, "signal": name})
        assert ("G3" not in failed(fresh, now_us, asked)) is passes


@pytest.mark.parametrize(("pid", "passes"), [(0, False), (1, False), (2, True)])
def test_no_pid_below_two_is_signalled(pid: int, *, passes: bool) -> None:
    """G4: 0 is one's own group, 1 is init."""
    state, now_us, decision = later_term()
    run = run_of(decision)
    meant = Identity.model_validate(run.arguments["victim"]).model_copy(update={"pid": pid})
    asked = replace(run, arguments={**run.arguments, "victim": meant.model_dump(mode="json")})
    assert ("G4" not in failed(state, now_us, asked)) is passes


def budget(**changes: int) -> PolicyConfig:
    """The configuration with another budget."""
    return config().model_copy(update={"budget": config().budget.model_copy(update=changes)})


def test_as_many_victims_as_the_budget_says() -> None:
    """G6 counts the victim itself once, however often it was signalled."""
    state, now_us, decision = later_term()
    job = config().job["job"]
    act = state.acts[-1]
    other = act.victims[0].model_copy(update={"pid": 9_000})
    more = replace(state, acts=(replace(act, command_id="x", victims=(other,)), *state.acts))
    for allowed, passes in ((2, True), (1, False)):
        view = look(more, budget(victims=allowed), job, now_us)
        assert g6_blast_radius(intended(view, run_of(decision))) is passes
    start = Run("relaunch", "launch", {})
    assert g6_blast_radius(intended(look(more, budget(victims=1), job, now_us), start))


def test_as_many_signals_and_starts_as_the_budget_says() -> None:
    """G11 fails at the bound, passes one below it, and asks nothing of a deployment."""
    state, now_us, decision = later_term()
    job = config().job["job"]
    sent = len([act for act in state.acts if act.signal])
    for signals, passes in ((sent + 1, True), (sent, False)):
        view = look(state, budget(signals=signals), job, now_us)
        assert g11_budget(intended(view, run_of(decision))) is passes
    launch = replace(state.acts[-1], command="launch", arguments={"launch_id": "x"}, victims=())
    started = replace(state, acts=(*state.acts, launch))
    start = Run("relaunch", "launch", {"launch_id": "y"})
    for relaunches, passes in ((2, True), (1, False)):
        view = look(started, budget(relaunches=relaunches), job, now_us)
        assert g11_budget(intended(view, start)) is passes
    none_left = look(started, budget(relaunches=0), job, now_us)
    assert g11_budget(intended(none_left, Run("deploy", "deploy_files", {})))


def test_guards_about_signals_ask_nothing_of_files_and_starts() -> None:
    """A deployment has no victim: what is said about victims does not hold it up."""
    state, now_us, _ = later_term()
    empty = replace(state, facts=state.facts.without(TABLE), acts=())
    view = look(empty, config(), config().job["job"], now_us)
    run = Run("deploy", "deploy_files", {"files": [{"path": "/job/code.py", "sha256": "0" * 64}]})
    assert [guard.guard for guard in ask_all(view, run) if not guard.passed] == []
    start = Run("relaunch", "launch", {"launch_id": "y"})
    assert {guard.guard for guard in ask_all(view, start) if not guard.passed} == {"G2", "G7"}


def test_a_protected_process_is_no_victim_whatever_proves_it() -> None:
    """G5 also where the listing shows it below a member."""
    state, now_us, decision = later_term()
    run = run_of(decision)
    victim = Identity.model_validate(run.arguments["victim"])
    key = (f"process:{victim.pid}:{victim.start_ticks}", "row")
    fact = state.facts[key]
    row = replace(fact.value, comm="sshd")  # type: ignore[type-var]  # a row's value is a Process
    guarded = replace(state, facts=state.facts.with_facts([replace(fact, value=row)]))
    assert "G5" in failed(guarded, now_us, run)


@pytest.mark.parametrize(
    ("timeout", "passes"), [(45_000, True), (45_001, False), (None, False), ("9", False)]
)
def test_a_wait_is_bounded_by_a_number(timeout: object, *, passes: bool) -> None:
    """G16."""
    state, now_us, _ = later_term()
    run = Run("wait", "wait_until", {"timeout_ms": timeout})  # type: ignore[dict-item]  # also no number
    assert ("G16" not in failed(state, now_us, run)) is passes


@pytest.mark.parametrize(
    ("name", "age_s", "passes"),
    [("TERM", 10, True), ("TERM", 11, False), ("KILL", 5, True), ("KILL", 6, False)],
)
def test_a_kill_needs_a_fresher_listing_than_a_term(name: str, age_s: int, *, passes: bool) -> None:
    """G2: five seconds against ten."""
    state, now_us, decision = later_term()
    run = run_of(decision)
    asked = replace(run, arguments={**run.arguments, "signal": name})
    aged = with_table(state, now_us - age_s * SECOND_US, state.facts[TABLE].order)
    assert ("G2" not in failed(aged, now_us, asked)) is passes


def asked_with(name: str) -> tuple[PolicyState, int, Run]:
    """A later signal under this name, to a process that had an interrupt."""
    state, now_us, decision = later_term()
    run = run_of(decision)
    return state, now_us, replace(run, arguments={**run.arguments, "signal": name})


@pytest.mark.parametrize(
    ("name", "sent", "passes"),
    [
        ("KILL", (("TERM", "yes"),), True),
        ("KILL", (("TERM", "unknown"),), False),
        ("KILL", (("INT", "unknown"), ("TERM", "unknown")), False),
        ("KILL", (("CONT", "yes"), ("TERM", "unknown")), False),
        ("TERM", (("INT", "unknown"),), True),
    ],
)
def test_a_kill_follows_only_on_a_signal_that_surely_arrived(
    name: str, sent: tuple[tuple[str, str], ...], *, passes: bool
) -> None:
    """G3: of two signals, too, nobody may know whether either was sent."""
    state, now_us, run = asked_with(name)
    first = state.acts[-1]
    long_ago = now_us - 600 * SECOND_US
    acts = tuple(
        replace(
            first,
            command_id=f"s{number}",
            arguments={**first.arguments, "signal": signal},
            status="completed" if arrived == "yes" else "unknown",
            settled=None if arrived == "yes" else "unknown",
            observation={"delivered": True} if arrived == "yes" else None,
            at_us=long_ago,
            ended_at_us=long_ago,
        )
        for number, (signal, arrived) in enumerate(sent)
    )
    known = replace(state, acts=acts)
    assert ("G3" not in failed(known, now_us, run)) is passes
    early = replace(acts[-1], at_us=now_us, ended_at_us=now_us)
    assert "G3" in failed(replace(known, acts=(*acts[:-1], early)), now_us, run)


def test_a_dump_is_asked_only_of_a_process_that_catches_the_signal() -> None:
    """G10: USR1 is 10 and USR2 is 12; where neither is caught, either would be the end."""
    for name, caught, passes in (
        ("USR1", (2, 10), True),
        ("USR1", (2, 12), False),
        ("USR2", (2, 12), True),
        ("USR2", (), False),
        ("INT", (), True),
    ):
        state, now_us, run = asked_with(name)
        victim = Identity.model_validate(run.arguments["victim"])
        fact = state.facts[f"process:{victim.pid}:{victim.start_ticks}", "row"]
        row = replace(fact.value, signals_caught=caught)  # type: ignore[type-var]  # a Process
        known = replace(state, facts=state.facts.with_facts([replace(fact, value=row)]))
        assert ("G10" not in failed(known, now_us, run)) is passes


@pytest.mark.parametrize(
    ("name", "writing", "passes"),
    [("KILL", True, False), ("KILL", False, True), ("TERM", True, True), ("KILL", None, True)],
)
def test_no_kill_while_a_checkpoint_is_written(
    name: str, *, writing: bool | None, passes: bool
) -> None:
    """G9: whatever else may be sent, and where no heartbeat was read nothing is being written."""
    state, now_us, run = asked_with(name)
    samples = tuple(replace(s, checkpoint_writing=writing is True) for s in state.samples[-1:])
    known = replace(state, samples=samples if writing is not None else ())
    assert samples
    assert ("G9" not in failed(known, now_us, run)) is passes


def test_a_supervisor_that_was_not_told_comes_before_its_child() -> None:
    """G8: one above the victim, or one that has nothing to do with it."""
    seen = set()
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            view = view_of(state, now_us)
            if view.table is None or not view.roles.supervisors or not view.roles.trainers:
                continue
            trainer, above = view.roles.trainers[0], view.roles.supervisors[0]
            if above not in view.table.ancestors(trainer):
                continue
            victim = view.table.identity(trainer).model_dump(mode="json")
            run = Run("signal", "signal_process", {"victim": victim, "signal": "INT"})
            was_told = told(view, above, view.table.identity(above))
            assert ("G8" not in failed(state, now_us, run)) is was_told
            fact = state.facts[f"process:{trainer.pid}:{trainer.start_ticks}", "row"]
            orphan = replace(fact.value, ppid=1)  # type: ignore[type-var]  # a Process
            free = replace(state, facts=state.facts.with_facts([replace(fact, value=orphan)]))
            if view_of(free, now_us).roles.supervisors:
                assert "G8" not in failed(free, now_us, run)
            seen.add(was_told)
            del decision
    assert seen == {True, False}
