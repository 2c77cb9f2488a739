"""Clocks and order: whether times, spans and before and after fit what happened.

Not here: words (``reports.lint.facts.vocabulary``) and deeds (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from reports.lint.facts.clauses import TIME_OF_DAY, Clause, Duration
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import Mention, dated, mentions, named, ordinal
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
    r"\b(?<!before the )(?<!after the )(?<!during the )(?<!until the )"
    r"(?:incident(?! was (?:opened|closed))|recovery|whole (?:thing|affair|episode|matter)|in all"
    r"|altogether|overall|end to end|in total|from opening|open for|from (?:the )?request|all-clear"
    r"|start to finish)\b",
    re.IGNORECASE,
)
_LATER = re.compile(r"\s*(?:later|afterwards|after that|after this)\b", re.IGNORECASE)
_NTH = re.compile(
    r"\b(?:first|second|third|last) wait\b(?= (?:was|lasted|took|ended|ran))", re.IGNORECASE
)
_IN_FRONT = re.compile(
    r"\s*(?:by|at|in|on|from|with|of|during) (?:the |its |a |this )?(?:[\w-]+ ){0,4}$",
    re.IGNORECASE,
)
_TOOK = re.compile(r"\b(?:took|lasted|went by|passed)\b", re.IGNORECASE)
_PAUSED = re.compile(
    r"\b(?:pause|grace|period|wait|interval|timeout|break)s?(?: \w+)? of (?:about |some )?$"
    r"|\b(?:paused|waited|waiting)(?: for)?(?: another| about| some)? $",
    re.IGNORECASE,
)
_CPU = re.compile(r"\bCPU\b")
_AFTER = re.compile(r"\bafter (?:\w+ ){0,2}$", re.IGNORECASE)
_FROM = re.compile(r"\s*(?:later )?(?:after|before|from|of|than)\b", re.IGNORECASE)
_SIGNALLED = re.compile(r"\b(?:signal(?:s|led)?|stopped|interrupted|killed)\b", re.IGNORECASE)
_AGED = re.compile(r"\b(?:old|age|aged|stale)\b", re.IGNORECASE)
_GOING = re.compile(r"\bto (?:go|end|exit|die|stop)\b", re.IGNORECASE)
_AT_ONCE = family("at once|immediately|instantly|right away|straight away|promptly")
_AT_ONCE_US = 1_200_000
# Between seconds and milliseconds, minutes, hours.
_FACTORS = (Fraction(1, 1_000), Fraction(1, 60), 60, 1_000, 3_600)
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
        if _IN_FRONT.match(left):
            return  # *by the last reading before the stop* says which reading
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
    if not said and _SIGNALLED.search(clause.text):
        pids = pids or tuple(named(world, text).roles)
        happened = frozenset(s for s in world.of("signal") if s.get("pid") in pids)
        instants = [(s.start_us, s.end_us) for s in happened]
    else:
        happened = frozenset(h for m in said for h in m.holding)
        instants = [span for m in said for h in m.holding for span in moments(m, h)]
    if not instants:
        return None
    return min(a for a, _ in instants), max(b for _, b in instants), happened


def moments(mention: Mention, happening: Happening) -> Iterator[tuple[int, int]]:
    """When a happening was; a process counts by its going, if that is what is said."""
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
        whole = _WHOLE.search(clause.text) and _TOOK.search(clause.text)
        for duration in () if clause.times and not whole else clause.durations:
            if _PAUSED.search(clause.text[: duration.start]):
                continue  # how long was waited is held to all that is recorded (``numbers``)
            known = _candidates(world, clause, parts, before, duration)
            bound = duration.than in {"<", ">"}
            if known and (
                not any(_fits(duration, Fraction(us)) for us in known)
                or (bound and other_unit(duration, known))
            ):
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
    for words, measured in ((_CPU, worked), (_AGED, _ages)):
        if words.search(clause.text):
            return measured(world)
    said = [m for m in mentions(world, clause) if m.holding]
    if [m.kind for m in said] in (["wait"], ["command"]):
        return _own(_one_of(world, clause, said[0]))
    tail = clause.text[duration.start + len(duration.text) :]
    if _LATER.match(tail) or (_AFTER.search(clause.text[: duration.start]) and not tail.strip()):
        said += [m for each in before for m in mentions(world, each) if m.holding]
    kinds, bound = {m.kind for m in said}, duration.than in {"<", ">"}
    ends = any(m.ends for m in said)
    if (kinds == {"process"} and ends) or _GOING.search(clause.text):
        return _departures(world)
    if len(kinds) < 2:  # noqa: PLR2004  (one end of the span is not named)
        return _apart(clause, said) or (_paired(world, clause, duration) if bound else [])
    return _of_two(world, clause, parts, before, duration)


def _one_of(world: World, clause: Clause, mention: Mention) -> tuple[Happening, ...]:
    """The wait or command that an ordinal picks, else all that are meant."""
    meant = (*mention.holding, *mention.failing)
    place = _NTH.search(clause.text)
    return ordinal(place[0], world.of("wait")) if place and mention.kind == "wait" else meant


def _apart(clause: Clause, said: Sequence[Mention]) -> list[int]:
    """Spans between several of one kind; of two things one end is not named."""
    starts = [h.start_us for m in said for h in m.holding]
    return [abs(a - b) for a, b in combinations(starts, 2)] if _APART.search(clause.text) else []


def _of_two(
    world: World,
    clause: Clause,
    parts: Sequence[Clause],
    before: Sequence[Clause],
    duration: Duration,
) -> list[int]:
    """Spans between things of two kinds."""
    pairs = _paired(world, clause, duration) if duration.than in {"<", ">"} else []
    if pairs:
        return pairs
    instants = {
        us
        for each in (*parts, *before)
        for m in mentions(world, each)
        for h in m.holding
        for span in moments(m, h)
        for us in span
    } | {world.opened_us}
    instants |= {h.end_us for kind in ("verdict", "ending") for h in world.of(kind)}
    return _between(instants, instants) + _own(world.happenings)


def _ages(world: World) -> list[int]:
    return _own(world.of("heartbeat"), "age_ms")


def worked(world: World) -> list[int]:
    """CPU time between any two listings of a process, and in all, in microseconds."""
    by_pid: dict[object, list[int]] = {}
    for row in world.of("row"):
        if isinstance(spent := row.get("cpu_ms"), int):
            by_pid.setdefault(row.get("pid"), []).append(spent)
    found = [abs(a - b) for each in by_pid.values() for a, b in combinations(each, 2)]
    return [ms * 1_000 for ms in {*found, *(ms for each in by_pid.values() for ms in each)}]


def _paired(world: World, clause: Clause, duration: Duration) -> list[int]:
    """Spans between what stands before a duration and what stands behind *after* or *before*."""
    end = duration.start + len(duration.text)
    found = _FROM.match(clause.text[end:])
    if found is None:
        return []
    one = spanned(world, clause, clause.text[: duration.start])
    other = spanned(world, clause, clause.text[end + found.end() :])
    if one is None or other is None or one[2] & other[2]:
        return []
    ones = [us for h in one[2] for us in (h.start_us, h.end_us)] + [one[0], one[1]]
    others = [us for h in other[2] for us in (h.start_us, h.end_us)] + [other[0], other[1]]
    return _between(ones, others)


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
        return known >= duration.us - min(duration.step_us, duration.us / 10) / 5
    if duration.than == "=":  # rounded, or cut off
        return -duration.step_us / 2 <= known - duration.us <= duration.step_us
    return abs(known - duration.us) <= max(duration.step_us, duration.us * _AROUND)


def other_unit(duration: Duration, known: Collection[int]) -> bool:
    """Whether a bound has the number of a recorded span, with another unit."""
    worded = not duration.text[0].isdigit()
    return not worded and any(
        abs(us * factor - duration.us) <= duration.step_us for us in known for factor in _FACTORS
    )
