"""One line per event, for ``log`` and the live account. Pure."""

from agentops.cli.printing import shown
from journal import Event
from journal.events import (
    ActingFrozen,
    ActingThawed,
    AnchorDropped,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    CommandReconciled,
    ConfigurationLoaded,
    DecisionMade,
    DefinitionRecorded,
    IncidentClosed,
    IncidentNoted,
    IncidentOpened,
    JournalRead,
    JournalRecovered,
    ObservationParsed,
    SealAnchored,
    Sealed,
    SessionEnded,
    SessionStarted,
    VerdictReached,
)

_WIDTH = 160


def summary(event: Event) -> str:
    """What the event says, in a few words of its own fields."""
    return _one_line(_words(event))


def _one_line(text: str) -> str:
    flat = " ".join(shown(text.encode("utf-8", "surrogateescape")).split())
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"


def _words(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one flat table of kinds
    payload = event.payload
    match payload:
        case CommandIntended():
            return f"{act(payload)}: {payload.reason}"
        case CommandDenied():
            return f"{payload.command} denied by {payload.rule}: {payload.reason}"
        case CommandNotSent():
            return f"not sent ({payload.reason}): {payload.detail}"
        case CommandCompleted():
            return f"completed, exit status {payload.exit_status}, {payload.duration_ms} ms"
        case CommandFailed():
            return f"failed, exit status {payload.exit_status}: {payload.fault}"
        case CommandOutcomeUnknown():
            return f"outcome unknown ({payload.reason}): {payload.detail}"
        case CommandReconciled():
            return f"{payload.command_id[:8]} settled: {payload.settled}"
        case ObservationParsed():
            return f"{payload.command} observed"
        case DecisionMade():
            return _decision(payload)
        case VerdictReached():
            return f"{payload.condition.get('kind')}: {payload.verdict}; {payload.reason}"
        case ApprovalRequested() | ApprovalGranted() | ApprovalRefused() | ApprovalExpired():
            return _approval(payload)
        case ActingFrozen() | ActingThawed():
            return f"«{payload.reason}»"
        case IncidentOpened():
            return payload.title
        case IncidentNoted():
            return f"«{payload.text}»"
        case IncidentClosed():
            return f"{payload.resolution}: {payload.reason}"
        case ConfigurationLoaded() | DefinitionRecorded():
            return (
                f"{getattr(payload, 'name', getattr(payload, 'source', ''))} {payload.digest[:12]}"
            )
        case Sealed() | SealAnchored():
            return f"size {payload.size}, root {payload.root[:12]}"
        case AnchorDropped():
            return payload.sink
        case SessionStarted():
            return f"process {payload.pid} on {payload.machine}"
        case SessionEnded():
            return payload.reason
        case JournalRead():
            return f"{payload.purpose}: {payload.query}"
        case JournalRecovered():
            return payload.what
        case _:
            return ""


def _approval(
    payload: ApprovalRequested | ApprovalGranted | ApprovalRefused | ApprovalExpired,
) -> str:
    match payload:
        case ApprovalRequested():
            what = f"{payload.command} {_aim(payload)}".strip()
            return f"{payload.approval_id}: may {what} run? asked by {payload.rule}"
        case ApprovalGranted():
            by = "" if payload.operator is None else f" by operator {payload.operator[:12]}"
            return f"{payload.approval_id}: yes, once{by}"
        case ApprovalRefused():
            return f"{payload.approval_id}: no; «{payload.reason}»"
        case ApprovalExpired():
            return f"{payload.approval_id}: {payload.reason}"


def act(payload: CommandIntended) -> str:
    """The command and what it is aimed at."""
    return f"{payload.command} {_aim(payload)}".strip()


def _aim(payload: CommandIntended | ApprovalRequested) -> str:
    if payload.victims:
        signal = payload.arguments.get("signal", "")
        return f"{signal} to pid {', '.join(str(victim.pid) for victim in payload.victims)}".strip()
    shown_keys = [
        key for key in ("path", "job", "launch_id", "condition") if key in payload.arguments
    ]
    return ", ".join(f"{key}={payload.arguments[key]}" for key in shown_keys)


def _decision(payload: DecisionMade) -> str:
    action = payload.decision.get("action")
    phase = payload.decision.get("phase", "")
    if not isinstance(action, dict):
        return str(phase)
    parts = [
        str(action[key]) for key in ("purpose", "command", "verdict", "resolution") if key in action
    ]
    lead = payload.decision.get("lead")
    return f"[{phase}] {' '.join(parts)}" + (f" (leading: {lead})" if lead else "")
