"""Clocks and order: whether times, spans and before and after fit what happened.

Not here: words (``reports.lint.facts.vocabulary``) and deeds (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from reports.lint.facts.clauses import TIME_OF_DAY, Clause, Duration
from reports.lint.facts.happened import Happening, World
from reports.lint.facts.mentions import Mention, dated, mentions
from reports.lint.facts.vocabulary import RESOLUTIONS, pids_in
from reports.lint.words import family

_LESS = re.compile(
    family("within|under|less than|at most|no more than|up to|fewer than|below").pattern + r"\s*$",
    re.IGNORECASE,
)
_MORE = re.compile(
    family("over|more than|at least|no fewer than|no less than|above").pattern + r"\s*$",
    re.IGNORECASE,
)
CONJUNCTION = re.compile(r"\b(before|after|followed by|prior to|preceded by)\b", re.IGNORECASE)
_BY = re.compile(r"\b(before|by|until|after|since)\s*$", re.IGNORECASE)
_NOT_AT = re.compile(r"\b(?:between|from|to|and|past)\s*$", re.IGNORECASE)
_DAY_US = 86_400_000_000
_WHOLE = re.compile(
    r"\b(?:incident|recovery|whole (?:thing|affair|episode|matter)|in all|altogether|overall"
    r"|end to end|in total|from opening|open for)\b",
    re.IGNORECASE,
)
_LATER = re.compile(r"\s*(?:later|afterwards|after that|after this)\b", re.IGNORECASE)
_SIGNALLED = re.compile(r"\b(?:signal(?:s|led)?|stopped|interrupted|killed)\b", re.IGNORECASE)
_AGED = re.compile(r"\b(?:old|age|aged|stale)\b", re.IGNORECASE)
_GOING = re.compile(r"\bto (?:go|end|exit|die|stop)\b", re.IGNORECASE)
_AROUND = Fraction(1, 5)


def comparison(before: str) -> str:
    """The comparison that a text ends in: ``<``, ``>`` or ``=``.

    >>> comparison("not more than "), comparison("at least"), comparison("the")
    ('=', '>', '=')
    """
    if _LESS.search(before):
        return "<"
    return ">" if _MORE.search(before) and not before.rstrip().endswith("not more than") else "="


def times(world: World, clause: Clause) -> Iterator[tuple[str, str]]:
    """C09: what a clause dates is dated as recorded."""
    if len(clause.times) != 1 or clause.negated:
        return
    said = [m for m in mentions(world, clause) if m.holding and m.kind != "process"]
    if not said:
        return
    moments = [h for m in said for h in m.holding]
    ((at, width),) = clause.times
    before = _before_time(clause.text)
    if found := _BY.search(before):
        earlier = found[1].lower() in {"before", "by", "until"}
        fits = any(
            h.start_us % _DAY_US < at + width if earlier else h.end_us % _DAY_US > at - width
            for h in moments
        )
    else:
        fits = any(dated(h, at, width) for h in moments) or _NOT_AT.search(before) is not None
    if not fits:
        yield ("C09", f"not at that time on record: {said[0].what}")


def _before_time(text: str) -> str:
    found = TIME_OF_DAY.search(text)
    return text[: found.start()] if found else ""


def order(world: World, parts: Sequence[Clause]) -> Iterator[tuple[str, str]]:
    """C09: what is said to come before, comes before."""
    for clause in parts:
        found = CONJUNCTION.search(clause.text)
        if found is None or clause.negated or clause.future:
            continue
        left, right = clause.text[: found.start()], clause.text[found.end() :]
        if not left.strip():
            right, _, left = right.partition(",")
        first = spanned(world, clause, left)
        second = spanned(world, clause, right)
        if found[1].lower() in {"after", "preceded by"}:
            first, second = second, first
        if first is None or second is None or first[2] & second[2]:
            continue
        if first[0] > second[1]:
            yield ("C09", f"the record has it in the other order: {found[0]}")


def spanned(
    world: World, clause: Clause, text: str
) -> tuple[int, int, frozenset[Happening]] | None:
    """The earliest start and latest end of what a part of a clause mentions; None for nothing."""
    said = [m for m in mentions(world, Clause(text, clause.sentence), ordered=True) if m.holding]
    pids = pids_in(text)
    if not said and pids and _SIGNALLED.search(clause.text):
        happened = frozenset(s for s in world.of("signal") if s.get("pid") in pids)
        moments = [(s.start_us, s.end_us) for s in happened]
    else:
        happened = frozenset(h for m in said for h in m.holding)
        moments = [span for m in said for span in _moments(m)]
    if not moments:
        return None
    return min(a for a, _ in moments), max(b for _, b in moments), happened


def _moments(mention: Mention) -> Iterator[tuple[int, int]]:
    """When a mention's happenings were; a process counts by its going, if that is what is said."""
    for happening in mention.holding:
        if mention.kind != "process":
            yield happening.start_us, happening.end_us
        elif mention.ends and isinstance(gone := happening.get("gone_us"), int):
            yield gone, gone


def spans(
    world: World, parts: Sequence[Clause], before: Sequence[Clause]
) -> Iterator[tuple[str, str]]:
    """C23: a span between two things that are both named is that between them on record."""
    for clause in parts:
        for duration in () if clause.times else clause.durations:
            known = _candidates(world, clause, parts, before, duration)
            if known and not any(_fits(duration, Fraction(us)) for us in known):
                yield ("C23", f"no such span is on record between what is named: {duration.text}")


def _candidates(
    world: World,
    clause: Clause,
    parts: Sequence[Clause],
    before: Sequence[Clause],
    duration: Duration,
) -> list[int]:
    """Spans that a duration may mean, where the words pin them down; else none."""
    if (_WHOLE.search(clause.text) or RESOLUTIONS.search(clause.text)) and world.closed is not None:
        span = world.closed.end_us - world.opened_us
        first = world.events[0].ts_us
        return [span, world.closed.end_us - first]
    if _AGED.search(clause.text):
        return _own(world.of("heartbeat"), "age_ms")
    said = [m for m in mentions(world, clause) if m.holding]
    if [m.kind for m in said] in (["wait"], ["command"]):
        return _own((*said[0].holding, *said[0].failing))
    if _LATER.match(clause.text[duration.start + len(duration.text) :]):
        said += [m for each in before for m in mentions(world, each) if m.holding]
    kinds = {m.kind for m in said}
    ends = any(m.ends for m in said)
    if (kinds == {"process"} and ends) or _GOING.search(clause.text):
        return _departures(world)
    if len(kinds) < 2:  # noqa: PLR2004  (one end of the span is not named)
        return []
    moments = [
        span for each in (*parts, *before) for m in mentions(world, each) for span in _moments(m)
    ]
    instants = {us for span in moments for us in span} | {world.opened_us}
    instants |= {h.end_us for kind in ("verdict", "ending") for h in world.of(kind)}
    found = [abs(a - b) for a in instants for b in instants]
    return found + _own(world.happenings)


def _departures(world: World) -> list[int]:
    """From each signal to the first listing without its process, and waits for its absence."""
    found = []
    for process in (p for p in world.of("process") if p.get("signalled")):
        gone = process.get("gone_us")
        sent = [s for s in world.of("signal") if s.get("pid") == process.get("pid")]
        if isinstance(gone, int):
            found += [gone - us for s in sent for us in (s.start_us, s.end_us)]
    waits = [w for w in world.of("wait") if w.get("condition") == "process_absent" and w.get("met")]
    return found + _own(waits)


def _own(happenings: Sequence[Happening], *names: str) -> list[int]:
    """How long commands and waits took, and how old heartbeats were."""
    found = []
    for happening in happenings:
        for name in names or ("took_ms", "elapsed_ms", "age_ms"):
            value = happening.get(name)
            if isinstance(value, int):
                found.append(value * 1_000)
    return found


def _fits(duration: Duration, known: Fraction) -> bool:
    if duration.than == "<":
        return known <= duration.us
    if duration.than == ">":
        return known >= duration.us - min(duration.step_us, duration.us / 10)
    width = (
        duration.step_us if duration.than == "=" else max(duration.step_us, duration.us * _AROUND)
    )
    return abs(known - duration.us) <= width
