"""Moments of simulated runs at which the engine acts, for tests of guards and of the door."""

from dataclasses import replace

from agentops.commands import Command
from agentops.policy import Decision, PolicyState, Run
from agentops.policy.decision import binding
from agentops.policy.guards import ask_all
from agentops.policy.ledger import Decided
from agentops.policy.view import View, look
from tests.support.simulated import config, moments


def acting(signal: str) -> tuple[PolicyState, int, Decision]:
    """The first moment of the simulated runs at which *signal* was decided on a single trainer."""
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            action = decision.action
            if isinstance(action, Run) and action.arguments.get("signal") == signal:
                return state, now_us, decision
    raise AssertionError(f"no run sends {signal}")


def view_of(state: PolicyState, now_us: int) -> View:
    """The view of the simulated job."""
    return look(state, config(), config().job["job"], now_us)


def failed(state: PolicyState, now_us: int, run: Run) -> set[str]:
    """The guards that do not pass."""
    return {guard.guard for guard in ask_all(view_of(state, now_us), run) if not guard.passed}


def run_of(decision: Decision) -> Run:
    """The decided run."""
    assert isinstance(decision.action, Run)
    return decision.action


def later_term() -> tuple[PolicyState, int, Decision]:
    """A TERM to a process that had an INT before."""
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            action = decision.action
            if (
                isinstance(action, Run)
                and action.arguments.get("signal") == "TERM"
                and [act for act in state.acts if act.signal == "INT"]
            ):
                return state, now_us, decision
    raise AssertionError("no run sends TERM after INT")


def recorded(
    state: PolicyState,
    decision: Decision,
    command: Command | None = None,
    *,
    at_us: int | None = None,
) -> PolicyState:
    """The state after *decision* was recorded, bound to *command* if one is given."""
    bound = decision.bound_to
    made = Decided(
        decision_id=decision.decision_id,
        action="run",
        purpose="signal",
        rung=decision.rung,
        phase=decision.phase,
        lead=decision.lead,
        at_us=decision.now_us if at_us is None else at_us,
        order=state.order,
        expires_at_us=decision.expires_at_us,
        bound_to=bound if command is None else binding(command.name, command.arguments()),
        alive=1,
    )
    return replace(state, decisions=(*state.decisions, made))
