"""Which intents are open, settled or blocked: the rules between events. Pure.

One ledger sees the events of all streams. It is asked before an append (``admit`` refuses without a
trace) and told afterwards (``apply``); recovery, readers and the verifier fold the same rules. Not
here: storage, and what a policy makes of an unknown outcome (``agentops.policy``).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from journal.envelope import HostRef
from journal.errors import DoubleOutcome, DuplicateIdem, HostBlocked, OrphanOutcome
from journal.events import (
    CommandIntended,
    CommandOutcomeUnknown,
    CommandReconciled,
    ObservationParsed,
    Payload,
)
from journal.kinds import OUTCOME_KINDS, PAYLOADS

_OUTCOMES = frozenset(PAYLOADS[kind] for kind in OUTCOME_KINDS)


class Entry(NamedTuple):
    """As much of an event as the rules need."""

    stream: str
    payload: Payload
    host: HostRef | None
    idem: str | None
    event_id: str
    incident: str | None
    ts_us: int


@dataclass(frozen=True, slots=True)
class Intent:
    """An intent and where it was written."""

    command_id: str
    command: str
    effect: str
    stream: str
    host: HostRef | None
    event_id: str
    incident: str | None


@dataclass(slots=True)
class Ledger:
    """The state of all commands.

    Attributes:
        idems: Every idempotency key ever used.
        open: Intents in doubt, by command id.
        settled: Command ids that have their outcome.
        unreconciled: Intents whose outcome is unknown and that no probe has settled.
        looked_at: Command ids that a probe was about, and when it last was.
        reconciled: Those that a probe settled, and when.
    """

    idems: set[str] = field(default_factory=set)
    open: dict[str, Intent] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    unreconciled: dict[str, Intent] = field(default_factory=dict)
    looked_at: dict[str, int] = field(default_factory=dict)
    reconciled: dict[str, int] = field(default_factory=dict)

    def admit(self, batch: Iterable[Entry], *, alone: bool = False) -> None:
        """Refuse a batch that would break a rule, taken in its order; nothing changes.

        alone says that this ledger saw one stream only, so that rules between streams (a host
        blocked, a reconciliation of another writer's command) cannot be judged.

        Raises:
            DuplicateIdem: A key was used before.
            OrphanOutcome: No open intent in this stream; or an observation without an intent.
            DoubleOutcome: The intent has its outcome.
            HostBlocked: A changing command on a host with an unknown outcome that nobody looked at.
        """
        trial = _Trial(self, alone=alone)
        for entry in batch:
            trial.take(entry)

    def apply(self, entry: Entry) -> None:
        """Take an event that is part of the journal; nothing is refused any more."""
        payload = entry.payload
        if entry.idem is not None:
            self.idems.add(entry.idem)
        # By exact type: isinstance asks pydantic's metaclass, which costs more than all the rest.
        if type(payload) is CommandIntended:
            self.open[payload.command_id] = intent_of(entry, payload)
        elif payload_settles(payload):
            command_id = command_id_of(payload)
            intent = self.open.pop(command_id, None)
            self.settled.add(command_id)
            if type(payload) is CommandOutcomeUnknown and intent is not None:
                self._doubt(intent, entry.ts_us)
        elif type(payload) is CommandReconciled:
            self.looked_at[payload.command_id] = entry.ts_us
            if payload.settled != "unknown":
                self.reconciled[payload.command_id] = entry.ts_us
                self.unreconciled.pop(payload.command_id, None)

    def _doubt(self, intent: Intent, since_us: int) -> None:
        """An outcome is unknown, unless a later probe settled it.

        Streams are read one after the other, so a probe may have been seen before the outcome that
        it settles. A probe that is older than the outcome settles nothing: the command still ran.
        """
        if self.reconciled.get(intent.command_id, -1) < since_us:
            self.unreconciled[intent.command_id] = intent
        if self.looked_at.get(intent.command_id, -1) < since_us:
            self.looked_at.pop(intent.command_id, None)

    def blocking(self, host: HostRef | None) -> list[Intent]:
        """Acts on this host whose outcome is unknown and after which nobody looked, oldest first.

        Once somebody looked and could not say, what may follow is policy's business: it knows the
        evidence, and a host that nothing may ever change again helps nobody.
        """
        name = host_name(host)
        return [
            intent
            for intent in self.unreconciled.values()
            if host_name(intent.host) == name
            and intent.effect != "observes"
            and intent.command_id not in self.looked_at
        ]


def host_name(host: HostRef | None) -> str | None:
    """The host's name: a changed fingerprint does not make it another host."""
    return None if host is None else host.name


def intent_of(entry: Entry, payload: CommandIntended) -> Intent:
    """The intent that an entry writes down."""
    return Intent(
        command_id=payload.command_id,
        command=payload.command,
        effect=payload.effect,
        stream=entry.stream,
        host=entry.host,
        event_id=entry.event_id,
        incident=entry.incident,
    )


def payload_settles(payload: Payload) -> bool:
    """Whether it is an outcome that settles an intent."""
    return type(payload) in _OUTCOMES


def command_id_of(payload: Payload) -> str:
    """The command that an outcome, observation or reconciliation is about."""
    command_id: str = getattr(payload, "command_id", "")
    return command_id


class _Trial:
    """A batch tried on a ledger without touching it."""

    def __init__(self, ledger: Ledger, *, alone: bool) -> None:
        self._ledger = ledger
        self._alone = alone
        self._idems: set[str] = set()
        self._opened: dict[str, str] = {}  # command id -> the stream of its intent
        self._settled: set[str] = set()
        self._reconciled: set[str] = set()

    def take(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.idem is not None:
            if entry.idem in self._ledger.idems or entry.idem in self._idems:
                raise DuplicateIdem(f"the idempotency key {entry.idem} was used before")
            self._idems.add(entry.idem)
        if type(payload) is CommandIntended:
            self._refuse_blocked(entry, payload)
            self._opened[payload.command_id] = entry.stream
        elif payload_settles(payload):
            self._settle(entry, command_id_of(payload), payload)
        elif type(payload) is ObservationParsed:
            self._refuse_unknown(payload.command_id, "an observation")
        elif type(payload) is CommandReconciled:
            if not self._alone:
                self._refuse_unknown(payload.command_id, "a reconciliation")
            self._reconciled.add(payload.command_id)

    def _settle(self, entry: Entry, command_id: str, payload: Payload) -> None:
        if command_id in self._ledger.settled or command_id in self._settled:
            raise DoubleOutcome(f"command {command_id} has its outcome already")
        stream = self._opened.get(command_id)
        if stream is None and (intent := self._ledger.open.get(command_id)) is not None:
            stream = intent.stream
        if stream != entry.stream:
            kind = getattr(payload, "kind", "outcome")
            raise OrphanOutcome(f"{kind} for {command_id}, which has no open intent in this stream")
        self._settled.add(command_id)

    def _refuse_unknown(self, command_id: str, what: str) -> None:
        known = (
            command_id in self._ledger.settled
            or command_id in self._ledger.open
            or command_id in self._opened
        )
        if not known:
            raise OrphanOutcome(f"{what} of {command_id}, which was never intended")

    def _refuse_blocked(self, entry: Entry, payload: CommandIntended) -> None:
        if payload.effect == "observes" or self._alone:
            return
        for intent in self._ledger.blocking(entry.host):
            if intent.command_id not in self._reconciled:
                raise HostBlocked(
                    f"{payload.command} may not run on {host_name(entry.host)}: the outcome of "
                    f"{intent.command} ({intent.command_id}) is unknown; reconcile it by a probe"
                )
