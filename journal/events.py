"""What can happen: the closed set of payloads that a journal line may carry.

Each payload is a bare fact, frozen, past tense. Time, identity, host, incident and the outputs'
commitments are in the envelope (``journal.envelope``), so no model here reads a clock. Numbers are
integers with their unit in the name; rates and losses are decimal strings. The closed union of them
is in ``journal.kinds``.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Effect = Literal["observes", "changes", "destroys"]
Retry = Literal["repeat", "idempotent", "reconcile", "never"]
Verdict = Literal["confirmed", "refuted", "inconclusive"]
Resolution = Literal["RECOVERED", "STOPPED", "NOTHING_TO_DO", "HANDED_OVER"]
UnknownReason = Literal[
    "connection_lost",
    "deadline_still_running",
    "deadline_stopped",
    "frame_killed",
    "controller_died",
]
JsonObject = dict[str, JsonValue]


class Payload(BaseModel):
    """Base of all payloads: frozen, no unknown field, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Identity(Payload):
    """One process beyond doubt.

    A restarted container can come back with the same boot id, namespace inode and pid; the start
    ticks of the namespace's init tell the two apart. Source: proc_pid_stat(5), field 22.
    """

    boot_id: str
    pid_namespace: int
    namespace_init_start_ticks: int
    pid: int
    start_ticks: int


class SessionStarted(Payload):
    """One process opened the journal for writing. ``journal`` is the id in its ``format.json``."""

    kind: Literal["session_started"] = "session_started"
    journal: str
    agentops_version: str
    python: str
    platform: str
    machine: str
    pid: int
    uid: int


class SessionEnded(Payload):
    """That process closed it in order."""

    kind: Literal["session_ended"] = "session_ended"
    reason: str


class IncidentOpened(Payload):
    """Somebody or something saw a trouble; the envelope's incident is its id."""

    kind: Literal["incident_opened"] = "incident_opened"
    title: str
    job: str | None


class IncidentNoted(Payload):
    """A person or agent added a remark. It is quoted, never believed."""

    kind: Literal["incident_noted"] = "incident_noted"
    text: str


class IncidentClosed(Payload):
    """How the incident ended."""

    kind: Literal["incident_closed"] = "incident_closed"
    resolution: Resolution
    reason: str
    evidence: tuple[str, ...]


class CommandIntended(Payload):
    """Durable before any byte is sent. The envelope's idem is command_id, unique for ever."""

    kind: Literal["command_intended"] = "command_intended"
    command_id: str
    command: str
    definition: str
    arguments: JsonObject
    argv: tuple[str, ...]
    route: tuple[str, ...]
    effect: Effect
    intrusiveness: int = Field(ge=0, le=5)
    retry: Retry
    deadline_ms: int = Field(ge=0)
    victims: tuple[Identity, ...]
    decision_id: str | None
    authority: str
    reason: str


class CommandDenied(Payload):
    """Policy said no: the one outcome without an intent."""

    kind: Literal["command_denied"] = "command_denied"
    command: str
    arguments: JsonObject
    victims: tuple[Identity, ...]
    decision_id: str | None
    rule: str
    reason: str


class CommandNotSent(Payload):
    """No byte of the frame was written."""

    kind: Literal["command_not_sent"] = "command_not_sent"
    command_id: str
    reason: str
    detail: str


class CommandCompleted(Payload):
    """The end marker arrived and the parser accepted status and bytes."""

    kind: Literal["command_completed"] = "command_completed"
    command_id: str
    exit_status: int
    duration_ms: int


class CommandFailed(Payload):
    """The end marker arrived, but the answer is a declared failure or cannot be read."""

    kind: Literal["command_failed"] = "command_failed"
    command_id: str
    exit_status: int
    duration_ms: int
    fault: str


class CommandOutcomeUnknown(Payload):
    """Sent, and no end marker came: it may have run or not. A probe settles it, never a repeat."""

    kind: Literal["command_outcome_unknown"] = "command_outcome_unknown"
    command_id: str
    reason: UnknownReason
    detail: str
    duration_ms: int


class CommandReconciled(Payload):
    """A probe settled what an unknown outcome left open."""

    kind: Literal["command_reconciled"] = "command_reconciled"
    command_id: str
    settled: Literal["done", "not_done", "unknown"]
    evidence: tuple[str, ...]


class ObservationParsed(Payload):
    """What a command's answer says, typed.

    The value stands in ``observation`` for commands declared ``no_free_text``, otherwise in the
    blob pack as the attachment named "observation" (canonical JSON).
    """

    kind: Literal["observation_parsed"] = "observation_parsed"
    command_id: str
    command: str
    definition: str
    parser_version: int
    observation: JsonValue


class DecisionMade(Payload):
    """The engine chose the next step. Replay recomputes ``decision`` and compares the digest."""

    kind: Literal["decision_made"] = "decision_made"
    decision_id: str
    now_us: int
    configuration: str
    inputs_sha256: str
    decision: JsonObject
    decision_sha256: str


class VerdictReached(Payload):
    """A check was answered. ``evidence`` are the event ids that it rests on."""

    kind: Literal["verdict_reached"] = "verdict_reached"
    condition: JsonObject
    verdict: Verdict
    reason: str
    evidence: tuple[str, ...]


class ProposalReceived(Payload):
    """An agent wished for a command. Its words are a quotation."""

    kind: Literal["proposal_received"] = "proposal_received"
    command: str
    arguments: JsonObject
    words: str


class ApprovalRequested(Payload):
    """A person was asked. ``digest`` binds verb, argv, host key, identities and policy version.

    asker_processes are the asking process and those above it, up to its session's leader; they
    and asker_uid say who may not answer. None and empty where nobody knows.
    """

    kind: Literal["approval_requested"] = "approval_requested"
    approval_id: str
    digest: str
    command: str
    effect: Effect
    arguments: JsonObject
    argv: tuple[str, ...]
    route: tuple[str, ...]
    tier: str
    victims: tuple[Identity, ...]
    rule: str
    asker_uid: int | None
    asker_processes: tuple[int, ...]
    expires_at_us: int


class ApprovalGranted(Payload):
    """A person said yes, once.

    operator is the public key of the operator whose signature stands beside it, in hex; both are
    None where another user of the machine said yes.
    """

    kind: Literal["approval_granted"] = "approval_granted"
    approval_id: str
    digest: str
    operator: str | None = None
    signature: str | None = None


class ApprovalRefused(Payload):
    """A person said no."""

    kind: Literal["approval_refused"] = "approval_refused"
    approval_id: str
    reason: str


class ApprovalExpired(Payload):
    """Nobody answered in time, or the world changed under the question."""

    kind: Literal["approval_expired"] = "approval_expired"
    approval_id: str
    reason: str


class DefinitionRecorded(Payload):
    """What a command or condition means, once per digest: old journals explain themselves."""

    kind: Literal["definition_recorded"] = "definition_recorded"
    digest: str
    subject: Literal["command", "condition", "signature"]
    name: str
    body: JsonObject


class ConfigurationLoaded(Payload):
    """The policy configuration in force, whole, so that replay needs no other file."""

    kind: Literal["configuration_loaded"] = "configuration_loaded"
    digest: str
    source: str
    body: JsonObject


class SegmentStarted(Payload):
    """The stream went on in a new file; the one before is closed for ever with this digest."""

    kind: Literal["segment_started"] = "segment_started"
    number: int
    previous_bytes: int
    previous_sha256: str


class KeyRotated(Payload):
    """The signing key changed. Both keys signed ``statement``, which names both public lines."""

    kind: Literal["key_rotated"] = "key_rotated"
    old_key: str
    new_key: str
    statement: str


class Sealed(Payload):
    """A seal over this stream was signed and written to seals.jsonl.

    ``size`` and ``root`` (hex) are of the stream before this event.
    """

    kind: Literal["sealed"] = "sealed"
    size: int
    root: str
    key_id: str


class SealAnchored(Payload):
    """A copy of a seal was stored outside the journal."""

    kind: Literal["seal_anchored"] = "seal_anchored"
    size: int
    root: str
    sink: str


class AnchorDropped(Payload):
    """Seals are no longer sent to this place; what it holds is still evidence."""

    kind: Literal["anchor_dropped"] = "anchor_dropped"
    sink: str


class Redacted(Payload):
    """An attachment was removed after the fact; its commitment stays."""

    kind: Literal["redacted"] = "redacted"
    event: str
    attachment: str
    reason: str


class CaptureFailed(Payload):
    """An output could not be stored. The command's outcome is known, its bytes are not."""

    kind: Literal["capture_failed"] = "capture_failed"
    command_id: str
    detail: str


class JournalRecovered(Payload):
    """An opener found damage or a torn tail and set it aside."""

    kind: Literal["journal_recovered"] = "journal_recovered"
    what: str
    quarantined: str | None
    in_doubt: tuple[str, ...]


class JournalRead(Payload):
    """Somebody read or exported the journal."""

    kind: Literal["journal_read"] = "journal_read"
    purpose: str
    query: str


class Heartbeat(Payload):
    """The journal's writer is alive; a hole between two of these is a gap."""

    kind: Literal["heartbeat"] = "heartbeat"
    interval_ms: int


class ActingFrozen(Payload):
    """An operator stopped all acting, on the envelope's host or, if it names none, everywhere."""

    kind: Literal["acting_frozen"] = "acting_frozen"
    reason: str


class ActingThawed(Payload):
    """An operator allowed acting again."""

    kind: Literal["acting_thawed"] = "acting_thawed"
    reason: str


class Imported(Payload):
    """One record taken over from elsewhere, with the grade of what could be known."""

    kind: Literal["imported"] = "imported"
    source: str
    grade: Literal["A", "B", "C", "T"]
    body: JsonObject
