"""The closed set of kinds: every payload class under its name, and which of them are outcomes."""

from typing import Annotated, get_args

from pydantic import Field

from journal.events import (
    ActingFrozen,
    ActingThawed,
    AnchorDropped,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
    CaptureFailed,
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
    Heartbeat,
    Imported,
    IncidentClosed,
    IncidentNoted,
    IncidentOpened,
    JournalRead,
    JournalRecovered,
    KeyRotated,
    ObservationParsed,
    Payload,
    ProposalReceived,
    Redacted,
    SealAnchored,
    Sealed,
    SegmentStarted,
    SessionEnded,
    SessionStarted,
    VerdictReached,
)

Outcome = CommandDenied | CommandNotSent | CommandCompleted | CommandFailed | CommandOutcomeUnknown
AnyPayload = Annotated[
    SessionStarted
    | SessionEnded
    | IncidentOpened
    | IncidentNoted
    | IncidentClosed
    | CommandIntended
    | CommandDenied
    | CommandNotSent
    | CommandCompleted
    | CommandFailed
    | CommandOutcomeUnknown
    | CommandReconciled
    | ObservationParsed
    | DecisionMade
    | VerdictReached
    | ProposalReceived
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalRefused
    | ApprovalExpired
    | DefinitionRecorded
    | ConfigurationLoaded
    | SegmentStarted
    | KeyRotated
    | Sealed
    | SealAnchored
    | AnchorDropped
    | Redacted
    | CaptureFailed
    | JournalRecovered
    | JournalRead
    | Heartbeat
    | ActingFrozen
    | ActingThawed
    | Imported,
    Field(discriminator="kind"),
]

PAYLOADS: dict[str, type[Payload]] = {
    model.model_fields["kind"].default: model for model in get_args(get_args(AnyPayload)[0])
}
"""Kind -> payload class, for all of them."""

KIND_OF: dict[type[Payload], str] = {model: kind for kind, model in PAYLOADS.items()}
"""Payload class -> kind."""

OUTCOME_KINDS = frozenset(
    {
        "command_not_sent",
        "command_completed",
        "command_failed",
        "command_outcome_unknown",
    }
)
"""The outcomes that settle an intent (``command_denied`` has none)."""
