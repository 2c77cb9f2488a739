"""Where does it hang? A look inside before a process that stands still is stopped.

Here: the look at its kernel stack, and the signal by which a job that says so writes its threads'
stacks to its log. Not here: the ladder that comes after (``agentops.policy.ladder``). Once it is
stopped nothing tells any more where it stood.
"""

from collections.abc import Mapping
from types import MappingProxyType

from agentops.policy import moves
from agentops.policy.decision import Pause, RuleHit, Step
from agentops.policy.ledger import WITHOUT_FORCE
from agentops.policy.needs import NEEDED, needed
from agentops.policy.process import Process
from agentops.policy.view import SECOND_US, View
from journal.events import Identity

# Numbers on Linux, all architectures but alpha, mips and sparc. Source: signal(7).
DUMP_SIGNALS: Mapping[str, int] = MappingProxyType({"USR1": 10, "USR2": 12})
FAILURES_MAX = 2


def dumping(view: View, process: Process, victim: Identity) -> Step | None:
    """The next look inside *process*; None when all were taken, or nothing calls for them."""
    stands = needed(view) == "stalled" and process in view.roles.trainers
    if not stands and process.state != "D":
        return None
    if any(act.signal not in WITHOUT_FORCE for act in view.signals_to(victim)):
        return None
    judged = view.verdict(NEEDED)
    since = -1 if judged is None else judged.order
    row = view.probing("inspect_process")
    if row.last_order <= since and row.failed_in_row < FAILURES_MAX:
        hit = RuleHit("dump", "where does it wait in the kernel?", view.listed)
        return Step(moves.inspect_process(process.pid), (hit,))
    return _asked(view, process, victim) if stands else None


def _asked(view: View, process: Process, victim: Identity) -> Step | None:
    """The job's own dump: the signal, its time, and the log that holds the answer."""
    name = view.job.stop.dump_signal
    if name is None or process.state in {"T", "t", "D"}:
        return None
    sent = [act for act in view.signals_to(victim) if act.signal == name]
    if not sent:
        if DUMP_SIGNALS[name] not in process.signals_caught or _refused(view, victim, name):
            return None
        hit = RuleHit("dump", "the job writes its threads' stacks when asked", view.listed)
        return Step(moves.signal(victim, name), (hit,))
    act = sent[-1]
    unread = view.job.progress.log is not None and not view.tails_after(act.last_order)
    if not unread or view.probing("tail_log").failed_in_row >= FAILURES_MAX:
        return None
    due = act.done_us + view.job.stop.dump_s * SECOND_US
    hit = RuleHit("dump", "the log tells where its threads stand", act.events)
    if view.now_us < due:
        return Step(Pause(due, "the stacks are being written"), (hit,))
    return Step(moves.tail_log(view), (hit,))


def _refused(view: View, victim: Identity, name: str) -> bool:
    """Whether the host's own check refused this very signal."""
    return any(
        act.signal == name and victim in act.victims and act.delivered == "no"
        for act in view.signals
    )
