"""What must hold right before a start.

Here: nothing of the job runs, the last failure is long enough ago, the model is whole, and a port
is free where the job needs one. Not here: what ended processes left in the way
(``agentops.policy.leftovers``), or the start itself (``agentops.policy.restoring``).
"""

from agentops.policy import moves
from agentops.policy.config import Launch
from agentops.policy.decision import Close, Judge, Pause, RuleHit, Step
from agentops.policy.learning import PORTS, model_subject
from agentops.policy.view import View
from journal.events import JsonObject, Verdict

INTACT = "model_intact"


def preflight(view: View, *, not_before_us: int) -> Step | None:
    """The look or pause that any start waits for; None when nothing runs and the time has come."""
    if not view.seen_after(view.acted_order) or not view.table_fresh(view.config.limits.fresh_s):
        return Step(moves.list_processes(), (RuleHit("preflight", "does anything run?"),))
    if view.now_us < not_before_us:
        hit = RuleHit("backoff", "the last start failed a moment ago")
        return Step(Pause(not_before_us, "backing off before another start"), (hit,))
    return None


def model_whole(view: View, launch: Launch) -> Step | None:
    """The look at the model and the verdict on it; one that is cut cannot be started on."""
    if launch.model is None:
        return None
    seen = view.fact(model_subject(launch.model), "seen")
    if seen is None or seen.order <= view.acted_order:
        return Step(moves.check_model(launch.model), (RuleHit("preflight", "is the model whole?"),))
    value = seen.value
    intact = isinstance(value, dict) and value.get("intact") is True
    broken = value.get("broken") if isinstance(value, dict) else 0
    judged = view.verdict(INTACT, after=seen.order)
    if judged is None:
        condition: JsonObject = {"kind": INTACT, "path": launch.model}
        reason = "every shard's header fits its file, and the index names them all"
        if not intact:
            reason = f"the model is not whole: {broken} shard(s) do not fit their headers"
        verdict: Verdict = "confirmed" if intact else "refuted"
        judge = Judge(condition, verdict, reason, (seen.event,))
        return Step(judge, (RuleHit("proof", reason, (seen.event,)),))
    if intact:
        return None
    reason = "the model's files are not whole; a start cannot succeed, and no repair puts them back"
    hit = RuleHit("preflight", reason, (seen.event,))
    return Step(Close("HANDED_OVER", reason, (judged.event, seen.event)), (hit,))


def port_found(view: View, launch: Launch) -> Step | None:
    """The look at the ports, or the handover where all are taken; None when one is free."""
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
