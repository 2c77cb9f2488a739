"""Signals in an incident: which were sent to whom, and whether they were delivered.

Here: reading them out of intents and answers. Not here: what they amount to.
"""

from dataclasses import dataclass, replace

from pydantic import JsonValue

from journal import Event
from journal.events import CommandIntended
from reports.evidence import CommandThread, Evidence
from reports.observed import ProcessKey, items, key_of, signal_answer, stopped_victims, text


@dataclass(frozen=True, slots=True)
class Signalled:
    """One signal to one process. ``delivered`` is None when no answer says so.

    place counts the signals of one intent from nought: a ladder on the host sends several.
    """

    intent: Event
    answer: Event | None
    signal: str
    victim: ProcessKey
    delivered: bool | None
    quality: str | None
    refusal: str | None
    place: int = 0

    @property
    def args(self) -> dict[str, JsonValue]:
        """What names this signal in a claim."""
        return {"event": self.intent.id, "place": self.place}


def signals(evidence: Evidence) -> tuple[Signalled, ...]:
    """Every signal that an intent names or an answer reports, in order."""
    found: list[Signalled] = []
    for thread in evidence.commands:
        payload = thread.first.payload
        if not isinstance(payload, CommandIntended):
            continue
        name = text(payload.arguments, "signal")
        victim = key_of(payload.arguments.get("victim"))
        if name is not None and victim is not None:
            found.append(_one(evidence, thread, name, victim))
        elif items(payload.arguments, "ladder"):
            found += _ladder(evidence, thread, payload)
    return tuple(found)


def _one(evidence: Evidence, thread: CommandThread, name: str, victim: ProcessKey) -> Signalled:
    """The signal of a command that sends one to one process."""
    answer = signal_answer(evidence.observation(thread.observed)) if thread.observed else None
    delivered = answer.get("delivered") if answer else None
    return Signalled(
        intent=thread.first,
        answer=thread.observed,
        signal=name,
        victim=victim,
        delivered=delivered if isinstance(delivered, bool) else None,
        quality=text(answer, "quality"),
        refusal=text(answer, "refusal"),
    )


def _ladder(evidence: Evidence, thread: CommandThread, intent: CommandIntended) -> list[Signalled]:
    """The signals of a command that goes down a ladder on the host, victim by victim."""
    observation = evidence.observation(thread.observed) if thread.observed else None
    answers = stopped_victims(observation)
    first = text(items(intent.arguments, "ladder")[0], "signal") or "unnamed"
    found = []
    for declared in intent.victims:
        victim = key_of(declared.model_dump())
        row = answers.get(victim) if victim else None
        if victim is None:
            continue
        taken = row.get("signals") if row else None
        names = [str(name) for name in taken] if isinstance(taken, list) else []
        refused = text(row, "refusal")
        delivered = None if row is None else not refused
        found += [
            Signalled(
                intent=thread.first,
                answer=thread.observed,
                signal=name,
                victim=victim,
                delivered=delivered,
                quality=text(row, "quality"),
                refusal=refused,
            )
            for name in (names or [first])
        ]
    return [replace(signal, place=place) for place, signal in enumerate(found)]


def listings(evidence: Evidence) -> tuple[Event, ...]:
    """Observation events that hold a process table."""
    return tuple(evidence.by_id[event_id] for event_id in evidence.tables)
