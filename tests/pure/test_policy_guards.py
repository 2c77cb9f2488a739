"""Each guard passes where it should and fails where it must; the door asks again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentops.commands.deploy import DeployFiles, FileToDeploy
from agentops.commands.launch import Launch
from agentops.commands.processes import ListProcesses
from agentops.commands.signals import SignalProcess
from agentops.hosts import Host
from agentops.policy import Decision, PolicyState, Run, approval_digest, authorize
from agentops.policy.guards import GUARDS
from agentops.policy.processes import TABLE
from agentops.policy.state import Approval
from agentops.policy.view import SECOND_US
from journal.events import Identity
from tests.support.acting import acting, failed, later_term, recorded, run_of, view_of
from tests.support.simulated import config, moments

DEV = Host(name="h", transport="local", tier="dev")
PROD = Host(name="h", transport="local", tier="prod")


def aged(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """The same eleven seconds later."""
    return state, now_us + 11 * SECOND_US, run_of(decision)


def reused(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """The pid belongs to a process that started later."""
    run = run_of(decision)
    meant = Identity.model_validate(run.arguments["victim"])
    later = meant.model_copy(update={"start_ticks": meant.start_ticks + 1})
    victim = later.model_dump(mode="json")
    return state, now_us, replace(run, arguments={**run.arguments, "victim": victim})


def unproven(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """Nothing proves the victim's role any more."""
    facts = state.facts.without(("heartbeat", "seen"))
    return replace(state, facts=facts, members=(), acts=()), now_us, run_of(decision)


def everybody(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """No victim is named."""
    run = run_of(decision)
    return state, now_us, replace(run, arguments={"signal": "TERM", "pattern": "python"})


def in_doubt(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """An earlier act's outcome is open."""
    act = replace(state.acts[-1], status="unknown", settled=None)
    return replace(state, acts=(*state.acts[:-1], act)), now_us, run_of(decision)


def unlooked(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """The last act ended after the newest listing."""
    act = replace(state.acts[-1], ended_order=state.order + 1)
    return replace(state, acts=(*state.acts[:-1], act)), now_us, run_of(decision)


def uninterruptible(
    state: PolicyState, now_us: int, decision: Decision
) -> tuple[PolicyState, int, Run]:
    """The victim went into uninterruptible sleep."""
    run = run_of(decision)
    victim = Identity.model_validate(run.arguments["victim"])
    key = (f"process:{victim.pid}:{victim.start_ticks}", "row")
    fact = state.facts[key]
    row = replace(fact.value, state="D")  # type: ignore[type-var]  # a row's value is a Process
    return replace(state, facts=state.facts.with_facts([replace(fact, value=row)])), now_us, run


def spent(state: PolicyState, now_us: int, decision: Decision) -> tuple[PolicyState, int, Run]:
    """Sixteen signals were sent to others before."""
    act = state.acts[-1]
    others = tuple(
        replace(
            act,
            command_id=f"x{number}",
            victims=(act.victims[0].model_copy(update={"pid": 9_000 + number}),),
        )
        for number in range(16)
    )
    return replace(state, acts=(*others, *state.acts)), now_us, run_of(decision)


Change = Callable[[PolicyState, int, Decision], tuple[PolicyState, int, Run]]
CASES: tuple[tuple[str, Change], ...] = (
    ("G1", reused),
    ("G2", aged),
    ("G4", everybody),
    ("G5", unproven),
    ("G6", spent),
    ("G7", unlooked),
    ("G10", uninterruptible),
    ("G11", spent),
    ("G14", in_doubt),
)


@pytest.mark.parametrize(("guard", "change"), CASES, ids=[name for name, _ in CASES])
def test_guard_fails_where_its_proof_is_missing(guard: str, change: Change) -> None:
    """A TERM that all guards let pass is stopped by this one after this change."""
    state, now_us, decision = later_term()
    assert failed(state, now_us, run_of(decision)) == set()
    assert guard in failed(*change(state, now_us, decision))


def test_escalation_waits_for_grace_and_a_living_victim() -> None:
    """G3: a TERM right after the INT, and a KILL as the first signal, do not pass."""
    state, now_us, decision = later_term()
    early = replace(state.acts[-1], at_us=now_us, ended_at_us=now_us)
    assert "G3" in failed(replace(state, acts=(*state.acts[:-1], early)), now_us, run_of(decision))
    run = run_of(decision)
    kill = replace(run, arguments={**run.arguments, "signal": "KILL"})
    assert "G3" in failed(replace(state, acts=()), now_us, kill)


def test_only_files_may_be_written_without_a_fresh_listing() -> None:
    """G2 is about processes: a start needs a fresh listing, a file does not."""
    state, now_us, _ = later_term()
    late_us = now_us + 11 * SECOND_US
    start = Run("relaunch", "launch", {"job": "job", "launch_id": "x"})
    files = Run("deploy", "deploy_files", {"repair": "r", "files": []})
    assert "G2" in failed(state, late_us, start)
    assert "G2" not in failed(state, late_us, files)


def test_continuing_a_stopped_process_is_no_escalation() -> None:
    """G3: CONT may follow at once, also after an INT; it is no rung."""
    state, now_us, decision = later_term()
    run = run_of(decision)
    cont = replace(run, arguments={**run.arguments, "signal": "CONT"})
    early = replace(state.acts[-1], at_us=now_us, ended_at_us=now_us)
    assert "G3" not in failed(replace(state, acts=(*state.acts[:-1], early)), now_us, cont)


def test_a_checkpoint_in_writing_holds_the_kill_back() -> None:
    """G9."""
    state, now_us, decision = acting("KILL")
    assert "G9" not in failed(state, now_us, run_of(decision))
    writing = replace(state.samples[-1], checkpoint_writing=True)
    busy = replace(state, samples=(*state.samples[:-1], writing))
    assert "G9" in failed(busy, now_us, run_of(decision))


def test_a_child_waits_for_its_supervisor() -> None:
    """G8: while the shell above lives untold, its child is not signalled."""
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            roles = view_of(state, now_us).roles
            action = decision.action
            if (
                roles.supervisors
                and roles.trainers
                and isinstance(action, Run)
                and action.arguments.get("signal") == "TERM"
                and not state.acts
            ):
                table = view_of(state, now_us).table
                assert table is not None
                child = table.identity(roles.trainers[0]).model_dump(mode="json")
                run = replace(action, arguments={"victim": child, "signal": "INT"})
                assert "G8" in failed(state, now_us, run)
                return
    raise AssertionError("no run has a supervisor")


def test_paths_must_be_absolute_and_plain() -> None:
    """G15."""
    state, now_us, _ = later_term()
    for path, passes in (("/job/code.py", True), ("job/code.py", False), ("/job/../etc/x", False)):
        run = Run("deploy", "deploy_files", {"files": [{"path": path, "sha256": "0" * 64}]})
        assert ("G15" not in failed(state, now_us, run)) is passes


def test_a_wait_without_bound_does_not_pass() -> None:
    """G16."""
    state, now_us, _ = later_term()
    assert "G16" in failed(state, now_us, Run("wait", "wait_until", {"timeout_ms": 60_000}))
    assert "G16" not in failed(state, now_us, Run("wait", "wait_until", {"timeout_ms": 45_000}))


def test_every_guard_is_asked_for_every_act() -> None:
    """Also those that pass are kept with the decision."""
    _, _, decision = later_term()
    asked = [(guard.guard, guard.note) for guard in decision.guards]
    assert asked == [(name, note) for name, _, note in GUARDS]


def test_nobody_is_signalled_before_anything_was_listed() -> None:
    """Without a table no victim stands in one."""
    state, now_us, decision = later_term()
    blind = replace(state, facts=state.facts.without(TABLE))
    assert {"G1", "G2", "G5", "G7", "G10"} <= failed(blind, now_us, run_of(decision))


def signal_of(decision: Decision) -> SignalProcess:
    """The command that the decision means."""
    return SignalProcess.model_validate(run_of(decision).arguments)


def test_a_fresh_decision_opens_the_door_once() -> None:
    """Allowed; not twice, not late, not for another victim, not unrecorded."""
    state, now_us, decision = later_term()
    known = recorded(state, decision, at_us=now_us)
    command = signal_of(decision)
    allowed = authorize(command, decision, known, config(), DEV, now_us)
    assert (allowed.answer, allowed.rule) == ("allow", "standing dev-hosts")
    unknown = authorize(command, decision, state, config(), DEV, now_us)
    assert unknown.answer == "deny"
    used = replace(
        known, decisions=(*known.decisions[:-1], replace(known.decisions[-1], used=True))
    )
    assert authorize(command, decision, used, config(), DEV, now_us).answer == "deny"
    late = authorize(command, decision, known, config(), DEV, decision.expires_at_us + 1)
    assert late.answer == "probe_first"
    other = command.model_copy(update={"signal": "KILL"})
    assert authorize(other, decision, known, config(), DEV, now_us).answer == "deny"


def test_a_prod_host_asks_and_an_approval_is_for_this_very_command() -> None:
    """Bound to verb, argv, host, identities and policy; unexpired; granted."""
    state, now_us, decision = later_term()
    known = recorded(state, decision, at_us=now_us)
    command = signal_of(decision)
    assert authorize(command, decision, known, config(), PROD, now_us).answer == "ask"
    bound = approval_digest(command, PROD, config())
    granted = Approval("a", bound, now_us + SECOND_US, "granted")
    approved = replace(known, approvals=(granted,))
    assert authorize(command, decision, approved, config(), PROD, now_us).rule == "approval a"
    for stale in (
        replace(granted, expires_at_us=now_us - 1),
        replace(granted, answer="open"),
        replace(granted, digest=approval_digest(command, DEV, config()) + "0"),
    ):
        asked = authorize(
            command, decision, replace(known, approvals=(stale,)), config(), PROD, now_us
        )
        assert asked.answer == "ask"


def test_frozen_and_shadow_change_nothing() -> None:
    """Looking stays allowed; acting is denied by name."""
    state, now_us, decision = later_term()
    known = recorded(state, decision, at_us=now_us)
    command = signal_of(decision)
    frozen = replace(known, frozen_hosts=("*",))
    assert authorize(command, decision, frozen, config(), DEV, now_us).rule == "G13"
    shadow = replace(known, terms=replace(known.terms, shadow=True))
    assert authorize(command, decision, shadow, config(), DEV, now_us).rule == "shadow"
    assert authorize(ListProcesses(), None, frozen, config(), DEV, now_us).answer == "allow"


def test_the_door_looks_again_when_the_listing_has_aged() -> None:
    """What was fresh when it was decided may not be when it is sent."""
    state, now_us, decision = later_term()
    known = recorded(state, decision, at_us=now_us)
    old = replace(known.facts[TABLE], at_us=now_us - 11 * SECOND_US)
    aged_state = replace(known, facts=known.facts.with_facts([old]))
    answer = authorize(signal_of(decision), decision, aged_state, config(), DEV, now_us)
    assert (answer.answer, answer.rule) == ("probe_first", "G2")


def test_a_direct_signal_needs_the_same_proof() -> None:
    """Without a decision the guards hold as well: a stranger's process is not signalled."""
    state, now_us, decision = later_term()
    victim = signal_of(decision).victim
    stranger = SignalProcess(victim=victim.model_copy(update={"pid": 1}), signal="TERM")
    answer = authorize(stranger, None, state, config(), DEV, now_us)
    assert answer.answer in {"deny", "probe_first"}
    nobody = authorize(stranger, None, PolicyState(), config(), DEV, now_us)
    assert nobody.answer == "ask"


def test_a_launch_must_be_the_configured_one() -> None:
    """A decision to start the job again opens the door for its own argv only."""
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            action = decision.action
            if isinstance(action, Run) and action.command == "launch":
                known = recorded(state, decision, at_us=now_us)
                wanted = config().job["job"].launch
                assert wanted is not None
                said = {
                    "argv": wanted.argv,
                    "cwd": wanted.cwd,
                    "log": wanted.log,
                    "env": wanted.env,
                    "launch_id": action.arguments["launch_id"],
                }
                right = Launch.model_validate(said)
                assert authorize(right, decision, known, config(), DEV, now_us).answer == "allow"
                for other in ({"argv": ("rm", "-rf", "/job")}, {"manner": "tmux"}):
                    wrong = Launch.model_validate({**said, **other})
                    assert authorize(wrong, decision, known, config(), DEV, now_us).answer == "deny"
                return
    raise AssertionError("no run starts the job")


def test_files_are_bound_by_content() -> None:
    """A deployment of other bytes than those decided on is denied."""
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            action = decision.action
            if isinstance(action, Run) and action.command == "deploy_files":
                other = DeployFiles(
                    files=(FileToDeploy(path="/job/code.py", content=b"x", expects="anything"),)
                )
                known = recorded(state, decision, at_us=now_us)
                assert authorize(other, decision, known, config(), DEV, now_us).answer == "deny"
                return
    raise AssertionError("no run deploys")
