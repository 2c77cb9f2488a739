"""Figures as data: lanes of commands and processes, steps, throughput, device and shared memory.

Here: which marks a figure holds and which event stands behind each. A reading that is missing
leaves a hole; nothing is interpolated. Not here: drawing (``reports.render.svg``).
"""

import re
from collections.abc import Iterator

from journal import Event
from journal.events import DecisionMade, VerdictReached
from reports.evidence import Evidence, elapsed_ms
from reports.model import Figure, Mark
from reports.observed import (
    JsonObject,
    ProcessKey,
    gpu_rows,
    heartbeat,
    number,
    reading,
    shared_memory,
    text,
)
from reports.predicates.progress import gpu_readings, heartbeats
from reports.predicates.signals import listings, signals

_LANES_MAX = 14
_MIB = 2**20
_COMMANDS, _DECISIONS, _VERDICTS = "commands", "decisions", "verdicts"


def figures(evidence: Evidence) -> tuple[Figure, ...]:
    """The figures that the journal has data for."""
    made = (
        lanes(evidence),
        steps(evidence),
        throughput(evidence),
        *devices(evidence),
        shared(evidence),
    )
    return tuple(figure for figure in made if figure is not None)


def lanes(evidence: Evidence) -> Figure | None:
    """Commands, decisions and verdicts above the processes, each process a lane."""
    marks = [*_commands(evidence), *_decisions(evidence), *_verdicts(evidence)]
    keys = _keys(evidence)
    for key in keys:
        marks += _lane(evidence, key)
    rows = [
        row
        for row in (_COMMANDS, _DECISIONS, _VERDICTS, *(_name(evidence, key) for key in keys))
        if any(mark.row == row for mark in marks)
    ]
    if not marks:
        return None
    return Figure(
        figure="lanes",
        title="Commands, decisions and processes",
        unit="ms",
        rows=tuple(dict.fromkeys(rows)),
        marks=tuple(marks),
        duration_ms=_duration(evidence),
    )


def steps(evidence: Evidence) -> Figure | None:
    """Training steps by heartbeat, at the time of writing; a new process starts a new line."""
    marks: list[Mark] = []
    for event in heartbeats(evidence):
        beat = heartbeat(evidence.observation(event))
        step = number(beat, "step")
        if step is None:
            continue
        pid = number(beat, "pid")
        row = f"pid {pid}" if pid is not None else "training"
        mark = _point(evidence, event, row, step, f"step {step}")
        marks.append(mark.model_copy(update={"at_ms": _written(evidence, event)}))
    return _line(evidence, "Training step", "step", marks)


def _written(evidence: Evidence, event: Event) -> int:
    """When a heartbeat was written: a stale one says how far training was then, not when read."""
    age = number(evidence.observation(event), "age_ms") or 0
    return max(0, _at(evidence, event) - age)


def throughput(evidence: Evidence) -> Figure | None:
    """Tokens a second by heartbeat, a small line for each process."""
    marks = []
    for event in heartbeats(evidence):
        beat = heartbeat(evidence.observation(event))
        said, pid = text(beat, "tokens_per_s"), number(beat, "pid")
        row = f"pid {pid}" if pid is not None else "training"
        if said is not None and re.fullmatch(r"\d+(?:\.\d+)?", said):
            rate = int(said.partition(".")[0])
            mark = _point(evidence, event, row, rate, f"{said} tokens/s")
        else:
            mark = _gap(evidence, event, row)
        marks.append(mark.model_copy(update={"at_ms": _written(evidence, event)}))
    marks += _unanswered(evidence, "read_heartbeat", marks)
    return _small(_line(evidence, "Throughput", "tokens/s", marks))


def shared(evidence: Evidence) -> Figure | None:
    """Shared memory in use, a small line for each host."""
    marks = []
    for event in evidence.events:
        found = shared_memory(evidence.observation(event))
        if found is not None:
            host = event.host.name if event.host else "host"
            used = found[0] // _MIB
            label = f"{used} of {found[1] // _MIB} MiB"
            marks.append(_point(evidence, event, f"shm {host}", used, label))
    marks += _unanswered(evidence, "shared_memory", marks)
    return _small(_line(evidence, "Shared memory in use", "MiB", marks))


def devices(evidence: Evidence) -> Iterator[Figure | None]:
    """Memory of each device, one line a device."""
    marks = []
    for event in gpu_readings(evidence):
        for row in gpu_rows(evidence.observation(event)):
            used, index = reading(row, "memory_used_mib"), reading(row, "index")
            if used is not None:
                marks.append(_point(evidence, event, f"device {index}", used, f"{used} MiB"))
    marks += _unanswered(evidence, "gpu_status", marks)
    yield _small(_line(evidence, "Device memory in use", "MiB", marks))


def _small(figure: Figure | None) -> Figure | None:
    """The figure as small lines on one scale, a row each."""
    return figure.model_copy(update={"figure": "multiples"}) if figure else None


def _unanswered(evidence: Evidence, command: str, marks: list[Mark]) -> Iterator[Mark]:
    """A gap in every row where a reading was asked for and did not come."""
    rows = dict.fromkeys(mark.row for mark in marks)
    for thread in evidence.commands:
        if thread.name == command and thread.observed is None:
            yield from (_gap(evidence, thread.first, row) for row in rows)


def _gap(evidence: Evidence, event: Event, row: str) -> Mark:
    at = _at(evidence, event)
    return Mark(row=row, at_ms=at, label="no reading", event=event.id, style="gap")


def _line(evidence: Evidence, title: str, unit: str, marks: list[Mark]) -> Figure | None:
    if all(mark.value is None for mark in marks):
        return None
    marks = sorted(marks, key=lambda mark: mark.at_ms)
    return Figure(
        figure="line",
        title=title,
        unit=unit,
        rows=tuple(dict.fromkeys(mark.row for mark in marks)),
        marks=tuple(marks),
        duration_ms=_duration(evidence),
    )


def _duration(evidence: Evidence) -> int:
    return max(1, elapsed_ms(evidence.first, evidence.last))


def _at(evidence: Evidence, event: Event) -> int:
    return max(0, elapsed_ms(evidence.first, event))


def _point(evidence: Evidence, event: Event, row: str, value: int, label: str) -> Mark:
    at = _at(evidence, event)
    return Mark(row=row, at_ms=at, value=value, label=label, event=event.id, style="point")


def _commands(evidence: Evidence) -> Iterator[Mark]:
    for thread in evidence.commands:
        start = _at(evidence, thread.first)
        end = _at(evidence, thread.outcome) if thread.outcome else start
        yield Mark(
            row=_COMMANDS,
            at_ms=start,
            until_ms=max(start, end),
            label=f"{thread.name}: {thread.outcome_word}",
            event=thread.first.id,
            style="command",
        )


def _decisions(evidence: Evidence) -> Iterator[Mark]:
    for event, payload in evidence.of(DecisionMade):
        kind = text(payload.decision.get("action"), "kind") or "decision"
        yield Mark(
            row=_DECISIONS,
            at_ms=_at(evidence, event),
            label=kind,
            event=event.id,
            style="decision",
        )


def _verdicts(evidence: Evidence) -> Iterator[Mark]:
    for event, payload in evidence.of(VerdictReached):
        yield Mark(
            row=_VERDICTS,
            at_ms=_at(evidence, event),
            label=payload.verdict,
            event=event.id,
            style="verdict",
        )


def _keys(evidence: Evidence) -> list[ProcessKey]:
    """The victims first, then processes of the same names, then any other, up to the limit."""
    victims = list(dict.fromkeys(signal.victim for signal in signals(evidence)))
    beats = {number(heartbeat(evidence.observation(e)), "pid") for e in heartbeats(evidence)}
    seen: dict[ProcessKey, str] = {}
    for event in listings(evidence):
        for key, row in _rows(evidence, event).items():
            seen.setdefault(key, text(row, "comm") or "")
    names = {seen.get(victim) for victim in victims}
    ours = [key for key in seen if key.pid in beats]
    alike = [key for key, name in seen.items() if name in names]
    return list(dict.fromkeys((*victims, *ours, *alike, *seen)))[:_LANES_MAX]


def _rows(evidence: Evidence, event: Event) -> dict[ProcessKey, JsonObject]:
    return evidence.tables[event.id].rows


def _name(evidence: Evidence, key: ProcessKey) -> str:
    for event in listings(evidence):
        row = _rows(evidence, event).get(key)
        if row is not None:
            return f"{key.pid} {_script(row) or text(row, 'comm') or 'process'}"
    return f"{key.pid} process"


def _script(row: JsonObject) -> str | None:
    """The script that an interpreter runs, by the command line's first path to one."""
    words = row.get("cmdline")
    for word in words if isinstance(words, list) else []:
        if isinstance(word, str) and word.endswith((".py", ".sh")):
            return word.rsplit("/", 1)[-1]
    return None


def _lane(evidence: Evidence, key: ProcessKey) -> Iterator[Mark]:
    """Spans over neighbouring listings that hold the process, and the signals that it got."""
    row = _name(evidence, key)
    start: Event | None = None
    last: Event | None = None
    for event in listings(evidence):
        found = evidence.tables[event.id]
        if key in found.rows:
            start, last = start or event, event
        elif start is not None and last is not None and found.complete:
            yield _span(evidence, row, start, last)
            start = last = None
    if start is not None and last is not None:
        yield _span(evidence, row, start, last)
    together: dict[str, list[str]] = {}
    for sent in signals(evidence):
        if sent.victim == key:
            said = sent.signal if sent.delivered else f"{sent.signal} not delivered"
            together.setdefault(sent.intent.id, []).append(said)
    for intent, names in together.items():
        at = _at(evidence, evidence.by_id[intent])
        yield Mark(row=row, at_ms=at, label=", ".join(names), event=intent, style="signal")


def _span(evidence: Evidence, row: str, start: Event, last: Event) -> Mark:
    return Mark(
        row=row,
        at_ms=_at(evidence, start),
        until_ms=_at(evidence, last),
        label="listed",
        event=start.id,
        style="span",
    )
