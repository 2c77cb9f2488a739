"""Readings that went up or down: steps, losses, throughput from heartbeat to heartbeat.

Not here: single readings (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from reports.lint.facts.clauses import Clause
from reports.lint.facts.clocks import spanned
from reports.lint.facts.happenings import World
from reports.lint.facts.mentions import dated
from reports.lint.words import NUMBER_WORDS, family

_METRICS = {
    "loss": family("loss|losses"),
    "tokens_per_s": family("throughput|tokens per second|tokens/s"),
    "step": family("step|steps|step count"),
}
_UP = family("rose|rise|grew|increased|increase|went up|climbed|higher|faster|advanced|up from")
_DOWN = family("fell|fall|dropped|decreased|decrease|went down|sank|lower|slower|down from")
_BELOW = {"below", "under", "short of"}
_BOUND = re.compile(
    r"\b(?:(?:steps?\b[^.;,]{0,14}|advanced |got |gone |went |was |stayed )\b|(?=passed step))"
    r"(passed|below|under|short of|above|over|past|beyond) (?:step )?(\d+)\b"
    r"(?! ?(?:s|ms|min|M|K|G)\w*\b)",
    re.IGNORECASE,
)
# Readings of the log, at steps at which no heartbeat may have been read.
_AT_STEPS = re.compile(r"\b(?:at|than) steps? \d", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:before|until)\b", re.IGNORECASE)
_MOVED = family("moved|move|advanced|advance|changed|progressed|gone on")
_BEAT = family("heartbeat|heartbeats|step|steps|counter")
_BY = re.compile(rf"\b(?:up|rose|advanced|grew|increased|on) by (\d+|{'|'.join(NUMBER_WORDS)})\b")
_OLDER = re.compile(r"\b(?:first|earlier|before)\b.*\bthan\b.*\b(?:second|later|after|last)\b")


def trends(world: World, clause: Clause) -> Iterator[tuple[str, str] | None]:
    """C12, C18: a reading is said to go the way that it went, and by as much."""
    if clause.negated and _MOVED.search(clause.text) and _BEAT.search(clause.text):
        yield from _stood(world)
    for metric, words in _METRICS.items():
        if metric == "step" and any(
            other.search(clause.text) for name, other in _METRICS.items() if name != metric
        ):
            continue  # the step says which reading is meant
        if words.search(clause.text) is None or clause.negated or _AT_STEPS.search(clause.text):
            continue
        readings = [v for h in world.of("heartbeat") if (v := _number(h.get(metric))) is not None]
        changes = [b - a for a, b in pairwise(readings) if a != b]
        up, down = _UP.search(clause.text), _DOWN.search(clause.text)
        if bool(up) == bool(down) or not changes:
            continue
        rising = bool(up) != bool(_OLDER.search(clause.text))
        if any((change > 0) == rising for change in changes):
            yield None
        else:
            yield ("C12", f"every recorded change of {metric} goes the other way")
    yield from _bounded(world, clause)
    by = _BY.search(clause.text)
    steps = [v for h in world.of("heartbeat") if (v := _number(h.get("step"))) is not None]
    if by and _METRICS["step"].search(clause.text) and steps:
        said = NUMBER_WORDS.get(by[1].lower()) or int(by[1])
        if not any(b - a == said for a in steps for b in steps):
            yield ("C18", f"no two readings are {said} steps apart")


def _bounded(world: World, clause: Clause) -> Iterator[tuple[str, str] | None]:
    """A step that is said to be below or above a number, at a time or at any reading."""
    found = _BOUND.search(clause.text)
    if found is None:
        return
    readings = [h for h in world.of("heartbeat") if _number(h.get("step")) is not None]
    if len(clause.times) == 1:
        readings = [h for h in readings if dated(h, *clause.times[0])]
    until = _UNTIL.search(clause.text, found.end())
    edge = spanned(world, clause, clause.text[until.end() :]) if until else None
    if edge is not None:
        readings = [h for h in readings if h.start_us < edge[0]] or readings
    limit, below = float(found[2]), found[1].lower() in _BELOW
    steps = [step for h in readings if (step := _number(h.get("step"))) is not None]
    passed = [step < limit if below else step > limit for step in steps]
    if clause.negated:
        over = edge is not None or clause.times or not any(h.inside for h in world.of("launch"))
        if passed and all(passed if not over else [any(passed)]):
            yield ("C12", f"recorded readings are {found[1]} step {found[2]}")
    elif steps and not any(passed):
        yield ("C12", f"no recorded reading is {found[1]} step {found[2]}")


def _stood(world: World) -> Iterator[tuple[str, str] | None]:
    """Whether some process's readings stood at one step, as is said."""
    steps: dict[object, list[object]] = {}
    for reading in world.of("heartbeat"):
        steps.setdefault(reading.get("pid"), []).append(reading.get("step"))
    several = [each for each in steps.values() if len(each) > 1]
    if several and all(len(set(each)) > 1 for each in several):
        yield ("C12", "the recorded steps advance")
    elif several:
        yield None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
