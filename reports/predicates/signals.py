"""Signals in an incident: which were sent to whom, and whether they were delivered.

Here: reading them out of intents and answers. Not here: what they amount to.
"""

from dataclasses import dataclass

from journal import Event
from journal.events import CommandIntended
from reports.evidence import Evidence
from reports.observed import ProcessKey, key_of, signal_answer, text


@dataclass(frozen=True, slots=True)
class Signalled:
    """One signal to one process. ``delivered`` is None when no answer says so."""

    intent: Event
    answer: Event | None
    signal: str
    victim: ProcessKey
    delivered: bool | None
    quality: str | None
    refusal: str | None


def signals(evidence: Evidence) -> tuple[Signalled, ...]:
    """Every signal that an intent names, in order."""
    found = []
    for thread in evidence.commands:
        payload = thread.first.payload
        if not isinstance(payload, CommandIntended):
            continue
        name = text(payload.arguments, "signal")
        victim = key_of(payload.arguments.get("victim"))
        if name is None or victim is None:
            continue
        answer = signal_answer(evidence.observation(thread.observed)) if thread.observed else None
        delivered = answer.get("delivered") if answer else None
        found.append(
            Signalled(
                intent=thread.first,
                answer=thread.observed,
                signal=name,
                victim=victim,
                delivered=delivered if isinstance(delivered, bool) else None,
                quality=text(answer, "quality"),
                refusal=text(answer, "refusal"),
            )
        )
    return tuple(found)


def listings(evidence: Evidence) -> tuple[Event, ...]:
    """Observation events that hold a process table."""
    return tuple(evidence.by_id[event_id] for event_id in evidence.tables)
