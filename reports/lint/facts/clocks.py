"""Clocks and order: whether times, spans and before and after fit what happened.

Not here: words (``reports.lint.facts.vocabulary``) and deeds (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

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
CONJUNCTION = re.compile(
    r"\b(before|after|followed by|prior to|preceded by|earlier than|later than"
    r"|sooner than|following)\b",
    re.IGNORECASE,
)
_LATER_THAN = {"after", "preceded by", "later than", "following"}
_THEN = re.compile(r",? (?:and )?(?:only )?(?:then|after that|afterwards)\b", re.IGNORECASE)
_ALREADY = re.compile(r"\balready\b.*?\b(when|by the time)\b", re.IGNORECASE)
_NOT_UNTIL = re.compile(r"\bnot\b.*?\b(until)\b", re.IGNORECASE)
_APART = re.compile(
    r"\b(?:apart|between the two|after the other)\b|\bafter the first(?: one)?(?=[.,;)]|$)",
    re.IGNORECASE,
)
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
_AT_ONCE = family("at once|immediately|instantly|right away|straight away|promptly")
_AT_ONCE_US = 1_200_000
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
        if clause.future:
            continue
        for early, late, word in _pairs(clause):
            first, second = spanned(world, clause, early), spanned(world, clause, late)
            if first is None or second is None or first[2] & second[2]:
                continue
            if first[0] > second[1]:
                yield ("C09", f"the record has it in the other order: {word}")
                break


def _pairs(clause: Clause) -> Iterator[tuple[str, str, str]]:
    """What a clause says to come first, what later, and by which word."""
    text = clause.text
    until = _NOT_UNTIL.search(text)
    if until is not None:
        yield text[until.end() :], text[: until.start(1)].replace("not ", ""), "not until"
    if clause.negated:
        return
    found = CONJUNCTION.search(text)
    if found is not None:
        left, right = text[: found.start()], text[found.end() :]
        if not left.strip():
            right, _, left = right.partition(",")
        pair = (right, left) if found[1].lower() in _LATER_THAN else (left, right)
        yield *pair, found[0]
    already = _ALREADY.search(text)
    if already is not None:
        yield text[: already.start(1)], text[already.end() :], already[1]
    whole = clause.sentence.bare
    then = _THEN.search(whole)
    if then is not None and text == clause.text and whole.count("then") < 2:  # noqa: PLR2004
        yield whole[: then.start()], whole[then.end() :], "then"


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
        if _AT_ONCE.search(clause.text) and not clause.negated:
            gone = any(m.ends and m.verb for m in mentions(world, clause))
            known = _departures(world) if gone else []
            if known and min(known) > _AT_ONCE_US:
                yield ("C23", f"it took {min(known) / 1e6:.1f} s and more")
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
        starts = [h.start_us for m in said for h in m.holding]
        apart = [abs(a - b) for a, b in combinations(starts, 2)]
        return apart if _APART.search(clause.text) else []
    moments = [
        span for each in (*parts, *before) for m in mentions(world, each) for span in _moments(m)
    ]
    instants = {us for span in moments for us in span} | {world.opened_us}
    instants |= {h.end_us for kind in ("verdict", "ending") for h in world.of(kind)}
    found = _between(instants, instants)
    return found + _own(world.happenings)


def _between(ones: Iterable[int], others: Collection[int]) -> list[int]:
    return [abs(a - b) for a in ones for b in others]


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
