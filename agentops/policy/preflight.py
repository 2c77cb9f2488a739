"""What must hold right before a start.

Here: nothing of the job runs, the last failure is long enough ago, and a port is free where the job
needs one. Not here: the start itself (``agentops.policy.restoring``).
"""

from agentops.policy import moves
from agentops.policy.config import Launch
from agentops.policy.decision import Close, Pause, RuleHit, Step
from agentops.policy.learning import PORTS
from agentops.policy.view import View


def preflight(view: View, launch: Launch, *, not_before_us: int) -> Step | None:
    """The look, pause or handover that a start waits for; None when all is well."""
    if not view.seen_after(view.acted_order) or not view.table_fresh(view.config.limits.fresh_s):
        return Step(moves.list_processes(), (RuleHit("preflight", "does anything run?"),))
    if view.now_us < not_before_us:
        hit = RuleHit("backoff", "the last start failed a moment ago")
        return Step(Pause(not_before_us, "backing off before another start"), (hit,))
    if launch.port is None:
        return None
    seen = view.fact(*PORTS)
    if seen is None or seen.order <= view.acted_order:
        return Step(moves.listening_ports(), (RuleHit("preflight", "which port is free?"),))
    if port_for(view, launch) is not None:
        return None
    choices = launch.port.choices
    reason = f"ports {choices[0]} to {choices[-1]} are all taken, and none of them is freed for it"
    hit = RuleHit("preflight", reason, (seen.event,))
    return Step(Close("HANDED_OVER", reason, (seen.event,)), (hit,))


def port_for(view: View, launch: Launch) -> int | None:
    """The first configured port that nobody listened on; None where there is none to hand out."""
    taken = view.state.facts.value(*PORTS)
    if launch.port is None or not isinstance(taken, list):
        return None
    return next((port for port in launch.port.choices if port not in taken), None)
