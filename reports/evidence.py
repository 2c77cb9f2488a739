"""Evidence: the events that one report may speak about, read once and never changed.

Here: one incident's events, the definitions and configuration that explain them, outputs and
observations by event, and commands put together from intent, outcome and observation. Nothing of
another incident gets in, and nothing later than the incident's last event. Not here: what is
concluded from it (``reports.predicates``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from pydantic import JsonValue

from journal import Event, Reader, Shredded
from journal.events import (
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
    IncidentOpened,
    ObservationParsed,
    Payload,
    SessionStarted,
)
from reports.observed import Listing, listing
from reports.standing import Seal, Standing, seals_of

P = TypeVar("P", bound=Payload)

OUTPUT_EXCERPT_BYTES = 16_384
_OUTCOMES = (CommandNotSent, CommandCompleted, CommandFailed, CommandOutcomeUnknown)
_CONTEXT = ("definition_recorded", "configuration_loaded", "session_started")


class NoIncidentError(LookupError):
    """The journal holds no event of that incident; the text names it and says what there is."""


@dataclass(frozen=True, slots=True)
class Output:
    """The first bytes of one stored output, and how long the whole was.

    ``shredded`` means removed after the fact: its commitment is in the event, its bytes are gone.
    """

    excerpt: bytes
    length_bytes: int
    truncated: bool
    shredded: bool = False


@dataclass(frozen=True, slots=True)
class CommandThread:
    """One command from intent to what was read out of its answer."""

    intent: Event | None
    outcome: Event | None
    observed: Event | None
    reconciled: Event | None

    @property
    def first(self) -> Event:
        """The event that it begins with: the intent, or the denial."""
        event = self.intent or self.outcome
        assert event is not None  # noqa: S101  (a thread is built from one of the two)
        return event

    @property
    def command_id(self) -> str:
        """The command's id, or the denial's event id."""
        payload = self.first.payload
        return payload.command_id if isinstance(payload, CommandIntended) else self.first.id

    @property
    def name(self) -> str:
        """The typed command's name."""
        payload = self.first.payload
        assert isinstance(payload, CommandIntended | CommandDenied)  # noqa: S101
        return payload.command

    @property
    def outcome_word(self) -> str:
        """One of denied, not_sent, completed, failed, unknown, or ``in doubt`` without any."""
        if self.outcome is None:
            return "in doubt"
        return self.outcome.kind.removeprefix("command_").removeprefix("outcome_")


@dataclass(frozen=True)
class Evidence:
    """What one report rests on."""

    incident: str
    events: tuple[Event, ...]
    context: tuple[Event, ...]
    observations: Mapping[str, JsonValue]
    outputs: Mapping[tuple[str, str], Output]
    incidents: tuple[tuple[Event, Event | None], ...]
    journal_id: str
    seals: tuple[Seal, ...] = ()
    standing: Standing | None = None

    @property
    def first(self) -> Event:
        """The incident's first event."""
        return self.events[0]

    @property
    def last(self) -> Event:
        """The cut-off: nothing later than this may be spoken of."""
        return self.events[-1]

    def of(self, payload_type: type[P]) -> tuple[tuple[Event, P], ...]:
        """The incident's events with this payload, in order."""
        return tuple((e, e.payload) for e in self.events if isinstance(e.payload, payload_type))

    def event(self, event_id: str) -> Event:
        """An event by its full id."""
        return self.by_id[event_id]

    def observation(self, event: Event) -> JsonValue:
        """What an observation event says; None when its bytes were shredded."""
        return self.observations.get(event.id)

    @cached_property
    def by_id(self) -> Mapping[str, Event]:
        """All events in reach, by id."""
        return {event.id: event for event in (*self.context, *self.events)}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Place of each of the incident's events, counted from zero."""
        return {event.id: place for place, event in enumerate(self.events)}

    @cached_property
    def commands(self) -> tuple[CommandThread, ...]:
        """The incident's commands in the order of their first event."""
        intents = {p.command_id: e for e, p in self.of(CommandIntended)}
        outcomes: dict[str, Event] = {}
        observed = {p.command_id: e for e, p in self.of(ObservationParsed)}
        settled = {p.command_id: e for e, p in self.of(CommandReconciled)}
        threads = []
        for event in self.events:
            if isinstance(event.payload, _OUTCOMES):
                outcomes[event.payload.command_id] = event
        for event in self.events:
            if isinstance(event.payload, CommandDenied):
                threads.append(CommandThread(None, event, None, None))
            elif isinstance(event.payload, CommandIntended):
                key = event.payload.command_id
                threads.append(
                    CommandThread(
                        intents[key], outcomes.get(key), observed.get(key), settled.get(key)
                    )
                )
        return tuple(threads)

    @cached_property
    def threads(self) -> Mapping[str, CommandThread]:
        """Commands by command id (denials by event id)."""
        return {thread.command_id: thread for thread in self.commands}

    @cached_property
    def decisions(self) -> Mapping[str, Event]:
        """Decision events by decision id."""
        return {p.decision_id: e for e, p in self.of(DecisionMade)}

    @cached_property
    def definitions(self) -> Mapping[str, Event]:
        """Definition events by digest."""
        return {
            event.payload.digest: event
            for event in (*self.context, *self.events)
            if isinstance(event.payload, DefinitionRecorded)
        }

    @cached_property
    def configurations(self) -> Mapping[str, Event]:
        """Configuration events by digest."""
        return {
            event.payload.digest: event
            for event in (*self.context, *self.events)
            if isinstance(event.payload, ConfigurationLoaded)
        }

    @cached_property
    def tables(self) -> Mapping[str, Listing]:
        """Process tables by the id of the observation event, in order; each read once."""
        read = ((event.id, listing(self.observation(event))) for event in self.events)
        return {event_id: found for event_id, found in read if found is not None}

    @cached_property
    def sessions(self) -> tuple[Event, ...]:
        """Session starts in reach, the latest last."""
        return tuple(e for e in self.context if isinstance(e.payload, SessionStarted))


def elapsed_ms(earlier: Event, later: Event) -> int:
    """Milliseconds between two events, by the monotonic clock within one boot."""
    if earlier.boot == later.boot:
        return (later.mono_ns - earlier.mono_ns) // 1_000_000
    return (later.ts_us - earlier.ts_us) // 1_000


def gather(
    reader: Reader, incident: str, *, until: str | None = None, standing: Standing | None = None
) -> Evidence:
    """Read all that a report on one incident may use, up to the event *until* (by id) if given.

    standing is what a verification of the journal found; None if nobody asked.

    Raises:
        NoIncidentError: The journal holds no event of that incident.
    """
    events = tuple(reader.events(incident=incident))
    ids = [event.id for event in events]
    if until in ids:
        events = events[: ids.index(until) + 1]
    if not events:
        raise NoIncidentError(f"incident {incident!r} has no event in this journal")
    last = events[-1]
    context = tuple(
        event
        for event in reader.events(kinds=_CONTEXT)
        if event.incident is None and _not_after(event, last)
    )
    return Evidence(
        incident=incident,
        events=events,
        context=context,
        observations=_observations(reader, events),
        outputs=_outputs(reader, events),
        incidents=_incidents(reader, last),
        journal_id=events[0].stream,
        seals=seals_of(reader),
        standing=standing,
    )


def _observations(reader: Reader, events: Iterable[Event]) -> dict[str, JsonValue]:
    """Observation values by event id; shredded ones are left out."""
    values: dict[str, JsonValue] = {}
    for event in events:
        if isinstance(event.payload, ObservationParsed):
            value = reader.observation(event)
            if not isinstance(value, Shredded):
                values[event.id] = value
    return values


def _outputs(reader: Reader, events: Iterable[Event]) -> dict[tuple[str, str], Output]:
    """Excerpts of stored outputs by event id and attachment name."""
    outputs = {}
    for event in events:
        for name, stored in event.out.items():
            raw = reader.attachment(event, name)
            gone = isinstance(raw, Shredded)
            outputs[event.id, name] = Output(
                excerpt=b"" if isinstance(raw, Shredded) else raw[:OUTPUT_EXCERPT_BYTES],
                length_bytes=stored.length_bytes,
                truncated=stored.truncated,
                shredded=gone,
            )
    return outputs


def _not_after(event: Event, last: Event) -> bool:
    """Whether an event is within the cut-off: by place in the same stream, else by wall clock."""
    return event.seq <= last.seq if event.stream == last.stream else event.ts_us <= last.ts_us


def _incidents(reader: Reader, last: Event) -> tuple[tuple[Event, Event | None], ...]:
    """Opening and closing events of every incident opened up to the cut-off, in order."""
    opened: dict[str, Event] = {}
    closed: dict[str, Event] = {}
    for event in reader.events(kinds=("incident_opened", "incident_closed")):
        if event.incident is None or not _not_after(event, last):
            continue
        if isinstance(event.payload, IncidentOpened):
            opened.setdefault(event.incident, event)
        elif isinstance(event.payload, IncidentClosed):
            closed[event.incident] = event
    return tuple((event, closed.get(incident)) for incident, event in opened.items())
