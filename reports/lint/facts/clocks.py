"""Clocks and order: whether times, spans and before and after fit what happened.

Not here: words (``reports.lint.facts.vocabulary``) and deeds (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from reports.lint.facts.accounted import OF_ORDER, OF_SPANS, accounted
from reports.lint.facts.clauses import TIME_OF_DAY, Clause, Duration
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import Mention, dated, mentions, named, ordinal
from reports.lint.facts.vocabulary import pids_in, signals_in
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
_FIRST_AND = re.compile(
    r"\b(?P<verb>\w+ed|sent|told) (?P<early>[^,;.]{3,40}?) first,? and (?P<late>[^,;.]{3,40}?)"
    r" (?:second|next|afterwards|later|then)\b",
    re.IGNORECASE,
)
_ALREADY = re.compile(r"\balready\b.*?\b(when|by the time)\b", re.IGNORECASE)
_NOT_UNTIL = re.compile(r"\bnot\b.*?\b(until)\b", re.IGNORECASE)
_APART = re.compile(
    r"\b(?:apart|between the two|after the other)\b|\bafter the first(?: one)?(?=[.,;)]|$)",
    re.IGNORECASE,
)
_BY = re.compile(r"\b(before|by|until|after|since)\s*$", re.IGNORECASE)
_NOT_AT = re.compile(r"\b(?:between|from|to|and|past)\s*$", re.IGNORECASE)
_DAY_US = 86_400_000_000
_NTH = re.compile(
    r"\b(?:first|second|third|last) wait\b(?= (?:was|lasted|took|ended|ran))", re.IGNORECASE
)
_IN_FRONT = re.compile(
    r"\s*(?:by|at|in|on|from|with|of|during) (?:the |its |a |this )?(?:[\w-]+ ){0,4}$",
    re.IGNORECASE,
)
_SIGNALLED = re.compile(r"\b(?:signal(?:s|led)?|stopped|interrupted|killed)\b", re.IGNORECASE)
_AGED = re.compile(r"\s*(?:old|of age)\b", re.IGNORECASE)
# Up to a duration, with the words that go with its number set aside.
_BARE_END = re.compile(
    r"(?:\b(?:only|just|about|around|roughly|nearly|almost|some|under|over|within|after"
    r"|(?:more|less|longer|shorter|later|earlier|no more|no less|not more) than|at least|at most"
    r"|exactly|well|circa|approximately|already)\s+)*$",
    re.IGNORECASE,
)
_BEAT = re.compile(
    r"\bheartbeat(?: file)?\b(?: (?:of|from) (?:the |its )?(?:\w+ )?(?:trainer|job|process"
    r"|pid \d+))?"
    r"(?: (?:was|is|then|already|itself|being))*\s*$",
    re.IGNORECASE,
)
# A line on one heartbeat: whatever is old in it is the heartbeat.
_OF_A_BEAT = re.compile(
    r"[^a-z]*(?:(?:first|last|second|next|the|its) )*heartbeat(?: read)?:", re.IGNORECASE
)
_LASTED = re.compile(
    r"\b(?:incident|recovery|whole (?:thing|affair|episode|matter|recovery|incident))\b(?: itself)?"
    r" (?:took|lasted|was over)\s*$",
    re.IGNORECASE,
)
_AFTER_OPENING = re.compile(
    r"\s*after (?:the |its )?(?:opening|request|it (?:was|had been) opened)\b|\s*later\b",
    re.IGNORECASE,
)
_LATER_CLOSED = re.compile(
    r"\s*later,? (?:the incident|it) (?:was|had been) closed\b", re.IGNORECASE
)
_OPENED = re.compile(r"\b(?:open(?:ed|s|ing)|request(?:ed|s)?|ask(?:ed|s)?)\b", re.IGNORECASE)
_CLOSED = re.compile(
    r"\bclosed\b(?: as)?(?: \W?(?:RECOVERED|STOPPED|NOTHING_TO_DO|HANDED_OVER)\W?)?\W*$",
    re.IGNORECASE,
)
_WAIT_TOOK = re.compile(
    r"\bwait\b(?: (?:that|which) \w+| for \w+ \w+)?"
    r" (?:took|lasted|ran for|was|was over|timed out|ended)\s*$",
    re.IGNORECASE,
)
_A_WAIT, _LONG = re.compile(r"\bwait,?\s*$", re.IGNORECASE), re.compile(r"\s*long\b")
_OF_CPU = re.compile(r"\s*of CPU\b")
_FROM = re.compile(r"\s*(?:after|before|from)\b")
_MORE_OR_LESS = re.compile(r"\s*(?:longer|shorter|more|less|earlier|later|sooner|too|apart|old)\b")
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
    if len(clause.times) != 1 or clause.negated or not accounted(clause.text, OF_ORDER):
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
        if clause.future or not accounted(clause.text, OF_ORDER):
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
    ranked = _FIRST_AND.search(text)
    if ranked is not None:
        yield f"{ranked['verb']} {ranked['early']}", f"{ranked['verb']} {ranked['late']}", "first"
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


def spans(world: World, parts: Sequence[Clause]) -> Iterator[tuple[str, str]]:
    """C23: how long the incident or a wait took, how old a heartbeat was, is as recorded."""
    for clause in parts:
        if _AT_ONCE.search(clause.text) and accounted(clause.text) and not clause.negated:
            gone = any(m.ends and m.verb for m in mentions(world, clause))
            known = _departures(world) if gone else []
            if known and min(known) > _AT_ONCE_US:
                yield ("C23", f"it took {min(known) / 1e6:.1f} s and more")
        for duration in () if clause.negated else clause.durations:
            known = _candidates(world, clause, duration)
            bound = duration.than in {"<", ">"}
            if known and (
                not any(_fits(duration, Fraction(us)) for us in known)
                or (bound and other_unit(duration, known))
            ):
                yield ("C23", f"no such span is on record of what is named: {duration.text}")


def _candidates(  # noqa: PLR0911  (one line a quantity)
    world: World, clause: Clause, duration: Duration
) -> list[int]:
    """Spans that a duration right beside what it measures may be; else none."""
    before = _BARE_END.sub("", clause.text[: duration.start])
    behind = clause.text[duration.start + len(duration.text) :]
    if _MORE_OR_LESS.match(behind):
        return []
    if _AGED.match(behind) and (_BEAT.search(before) or _OF_A_BEAT.match(clause.sentence.bare)):
        return _ages(world)
    if world.closed is not None and (_LASTED.search(before) or _closes(clause, before, behind)):
        return [
            world.closed.end_us - world.opened_us,
            world.closed.end_us - world.events[0].ts_us,
        ]
    if _WAIT_TOOK.search(before) and not _FROM.match(behind):
        place = _NTH.search(clause.text)
        waits = world.of("wait")
        return _own(ordinal(place[0], waits) if place else waits)
    if _A_WAIT.search(before) and _LONG.match(behind):
        return _own(world.of("wait"))
    if _OF_CPU.match(behind):
        return worked(world)
    if (
        _APART.match(behind.lstrip())
        and signals_in(clause.text)
        and accounted(clause.text, OF_SPANS)
    ):
        starts = [h.start_us for h in world.of("signal")]
        return [abs(a - b) for a, b in combinations(starts, 2)]
    return []


def _closes(clause: Clause, before: str, behind: str) -> bool:
    """Whether a span is that from the opening of the incident to its end."""
    if _CLOSED.search(before) is not None and _AFTER_OPENING.match(behind) is not None:
        return True
    said = clause.sentence.bare
    return _LATER_CLOSED.match(behind) is not None and _OPENED.search(said) is not None


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
