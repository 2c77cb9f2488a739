"""Predicates about progress: steps, throughput, loss and device memory, as they were read.

Not here: whether progress is enough (that is a verdict, ``reports.predicates.decisions``).
"""

from pydantic import JsonValue

from journal import Event
from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import Evidence, elapsed_ms
from reports.observed import gpu_rows, heartbeat, number, reading, text


def heartbeats(evidence: Evidence) -> tuple[Event, ...]:
    """Observation events that hold a trainer's heartbeat."""
    return tuple(e for e in evidence.events if heartbeat(evidence.observation(e)) is not None)


def gpu_readings(evidence: Evidence) -> tuple[Event, ...]:
    """Observation events that hold device readings."""
    return tuple(e for e in evidence.events if gpu_rows(evidence.observation(e)))


def beat(evidence: Evidence, args: JsonObject) -> Found:
    """What one heartbeat says, and how old it was when read."""
    event = evidence.event(str(args["event"]))
    observation = evidence.observation(event)
    found = heartbeat(observation)
    if found is None:
        return Found(None, (ref(event),), unknown=True)
    left = _left(evidence, event, found)
    value: JsonValue = {
        "step": number(found, "step"),
        "steps": number(found, "steps"),
        "state": text(found, "state"),
        "loss": text(found, "loss"),
        "tokens_per_s": text(found, "tokens_per_s"),
        "pid": number(found, "pid"),
        "age_ms": number(observation, "age_ms"),
        "resumed_from_step": number(found, "resumed_from_step"),
        "left": left is not None,
    }
    refs = (ref(event, "/observation/heartbeat"), *((ref(left),) if left else ()))
    return Found(value, refs)


def _left(evidence: Evidence, event: Event, beat: JsonObject) -> Event | None:
    """The last complete listing before a reading, if the writer of the heartbeat has left it."""
    pid, start = number(beat, "pid"), number(beat, "start_ticks")
    seen, last = False, None
    for event_id, listing in evidence.tables.items():
        if evidence.position[event_id] > evidence.position[event.id]:
            break
        is_in = any((key.pid, key.start_ticks) == (pid, start) for key in listing.rows)
        seen = seen or is_in
        if is_in:
            last = None
        elif listing.complete:
            last = evidence.by_id[event_id]
    return last if seen else None


def advance(evidence: Evidence, args: JsonObject) -> Found:
    """From which step to which one process of training went between two readings."""
    first, last = evidence.event(str(args["first"])), evidence.event(str(args["last"]))
    before = heartbeat(evidence.observation(first))
    after = heartbeat(evidence.observation(last))
    start, end = number(before, "step"), number(after, "step")
    same = number(before, "start_ticks") == number(after, "start_ticks")
    refs = (ref(first, "/observation/heartbeat/step"), ref(last, "/observation/heartbeat/step"))
    if start is None or end is None:
        return Found(None, refs, unknown=True)
    value: JsonValue = {
        "from": start,
        "to": end,
        "steps": end - start,
        "over_ms": elapsed_ms(first, last),
        "same_process": same,
    }
    return Found(value, refs)


def device_memory(evidence: Evidence, args: JsonObject) -> Found:
    """Memory in use on each device at one reading."""
    event = evidence.event(str(args["event"]))
    rows = gpu_rows(evidence.observation(event))
    devices: list[JsonValue] = [
        {"index": reading(row, "index"), "used_mib": reading(row, "memory_used_mib")}
        for row in rows
    ]
    value: JsonValue = {"devices": devices, "count": len(devices)}
    return Found(value, (ref(event, "/observation/devices"),), unknown=not devices)


def checkpoint(evidence: Evidence, _args: JsonObject) -> Found:
    """From which checkpoint step the last heartbeat says that training resumed."""
    for event in reversed(heartbeats(evidence)):
        step = number(heartbeat(evidence.observation(event)), "resumed_from_step")
        if step is not None:
            return Found({"step": step}, (ref(event, "/observation/heartbeat/resumed_from_step"),))
    return Found(None, (ref(evidence.last),), unknown=True)


PREDICATES = (
    Predicate("progress.heartbeat", "OBSERVED", "shown", beat),
    Predicate("progress.advance", "DERIVED", "computed", advance),
    Predicate("progress.devices", "OBSERVED", "shown", device_memory),
    Predicate("progress.resumed", "OBSERVED", "shown", checkpoint),
)
