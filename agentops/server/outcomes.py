"""What a command's outcome means as an answer: proof that it ran, code, reconciling call.

Pure. Here: the mapping from the journal's outcomes to codes. Not here: what was observed
(``agentops.server.looking``, ``agentops.server.acting``).
"""

import signal
from collections.abc import Mapping

from agentops.commands import Command
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.policy.state import APPROVAL
from agentops.server.answer import Answer, Changed, Code, CutBy, Deadline, Fault, Proof, ToolCall
from journal import Event
from journal.events import (
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandNotSent,
    CommandOutcomeUnknown,
)

_NOT_SENT: Mapping[str, Code] = {
    "auth": "AUTH",
    "host_key_changed": "HOST_KEY_CHANGED",
    "host_key_unknown": "HOST_KEY_UNKNOWN",
    "layer_down": "LAYER_DOWN",
}
_UNKNOWN: Mapping[str, Code] = {
    "deadline_still_running": "TIMEOUT_STILL_RUNNING",
    "deadline_stopped": "TIMEOUT_STOPPED",
}
# A shell reports a program that a signal ended as 128 and the signal's number.
_SIGNALLED = 128


def proof_of(outcome: Event, host: Host) -> Proof:
    """How it is known that the command ran, from its outcome alone."""
    payload = outcome.payload
    if isinstance(payload, CommandCompleted | CommandFailed):
        status = payload.exit_status
        return Proof(
            ran=True,
            exit_status=status,
            signal=_signal_name(status),
            marker=True,
            layers=host.route(),
        )
    unsent = isinstance(payload, CommandNotSent | CommandDenied)
    return Proof(ran=False if unsent else None, layers=host.route())


def _signal_name(status: int) -> str | None:
    try:
        return signal.Signals(status - _SIGNALLED).name if status > _SIGNALLED else None
    except ValueError:
        return None


def ids(executed: Executed) -> tuple[str, ...]:
    """The ids of intent, outcome and observation."""
    kept = [e.id for e in executed.events if e.kind != "definition_recorded"]
    return tuple(kept)


def deadline_of(command: Command, outcome: Event, asked_ms: int | None = None) -> Deadline:
    """Asked, applied, and who cut it short."""
    payload = outcome.payload
    cut: CutBy | None = None
    if isinstance(payload, CommandOutcomeUnknown):
        cut = "remote" if payload.reason.startswith("deadline") else "connection"
    elif asked_ms is not None and asked_ms > command.deadline():
        cut = "slice"
    return Deadline(asked_ms=asked_ms, applied_ms=command.deadline(), cut_by=cut)


def fault_answer(
    command: Command, host: Host, executed: Executed, reconcile: ToolCall | None = None
) -> Answer | None:
    """The answer for any outcome but a completed one; None for that."""
    payload = executed.outcome.payload
    acts = command.effect != "observes"
    changed: Changed = "no"
    match payload:
        case CommandDenied():
            denied: Code = "BUSY" if payload.rule == "acting-lease" else "DENIED"
            if payload.rule.startswith(APPROVAL) and payload.rule.endswith("stale"):
                denied = "APPROVAL_STALE"
            fault = Fault(code=denied, detail=payload.reason, rule=payload.rule)
        case CommandNotSent():
            code = _NOT_SENT.get(payload.reason, "NOT_SENT")
            fault = Fault(code=code, detail=payload.detail, layer=payload.reason)
        case CommandFailed():
            changed = "unknown" if acts else "no"
            fault = Fault(code="FAILED", detail=payload.fault, may_have_run=True)
        case CommandOutcomeUnknown():
            changed = "unknown" if acts else "no"
            fault = Fault(
                code=_UNKNOWN.get(payload.reason, "UNKNOWN"),
                detail=f"{payload.reason}: {payload.detail}",
                may_have_run=True,
                reconcile=reconcile if acts else None,
            )
        case _:
            return None
    what = "may have run" if fault.may_have_run and acts else "was not done"
    return Answer(
        ok=False,
        verdict="inconclusive" if not acts or fault.may_have_run else None,
        summary=f"{command.name} on {host.name} {what}: {fault.detail}",
        changed=changed,
        event_ids=ids(executed),
        proof=proof_of(executed.outcome, host),
        deadline=deadline_of(command, executed.outcome),
        error=fault,
        next=_next(fault),
    )


def _next(fault: Fault) -> tuple[str, ...]:
    if fault.reconcile is not None:
        return (f"make the call in error.reconcile ({fault.reconcile.tool}); do not repeat this",)
    return (_NEXT[fault.code],) if fault.code in _NEXT else ()


_LOOK_AGAIN = "silence proves nothing: look again before any claim"
_A_PERSON = "a person must look at the host's entry: agentops hosts"
_NEXT: Mapping[Code, str] = {
    "BUSY": "wait until the other has ended; only looking is free",
    "APPROVAL_STALE": "observe anew, and ask for what stands there now",
    "DENIED": "do not repeat it; next_step tells what policy proposes",
    "NOT_SENT": "nothing was sent: it is safe to try again later",
    "LAYER_DOWN": "nothing was sent: it is safe to try again later",
    "HOST_KEY_CHANGED": _A_PERSON,
    "HOST_KEY_UNKNOWN": _A_PERSON,
    "AUTH": _A_PERSON,
    "FAILED": _LOOK_AGAIN,
    "UNKNOWN": _LOOK_AGAIN,
    "TIMEOUT_STILL_RUNNING": _LOOK_AGAIN,
    "TIMEOUT_STOPPED": _LOOK_AGAIN,
}
