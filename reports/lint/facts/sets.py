"""Which things a counted subject is: a noun with what narrows it, bound to happenings.

A subject whose narrowing words are all understood is *known*; of any other only the greatest
possible set is known, and the truth of what is said of it is held to bounds. Here: nouns, narrowing
words, times and ordinals. Not here: what is said of the set (``reports.lint.facts.predicates``),
truth (``reports.lint.facts.quantified``).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from reports.lint.facts.clauses import Clause
from reports.lint.facts.clocks import spanned
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import dated
from reports.lint.facts.vocabulary import THINGS, Thing, signals_in
from reports.lint.words import NUMBER_WORDS, family

_WORDS = "|".join(NUMBER_WORDS)
# Nouns that are counted here and not among the things that a bare number counts.
_NOUNS = (
    Thing("signal", "signal", family("interrupt|interrupts"), lambda h: h.get("signal") == "INT"),
    Thing("probe", "command", family("probe|probes"), lambda h: h.get("effect") == "observes"),
    Thing("reading", "heartbeat", family("reading|readings")),
    Thing("hypothesis", "hypothesis", family("hypothesis|hypotheses|explanation|explanations")),
    Thing("rung", "rung", family("rung|rungs")),
    Thing("guard", "guard", family("guard|guards")),
    Thing("line", "line", family("line|lines")),
    Thing("attempt", "wait", family("bounded wait|bounded waits")),
)
_ALL = (*_NOUNS, *THINGS)
_WINDOW = re.compile(r"\b(before|after|until|since|prior to|following)\b", re.IGNORECASE)
# What is weighed or climbed as a whole, whenever that was.
_TIMELESS = {"rung", "hypothesis", "guard"}
_BETWEEN = re.compile(
    r"(?: (?:taken|made|seen|read))? between (?:the )?(?P<first>(?:[\w-]+ ){1,2}[\w-]+?)"
    r" and (?:the )?(?P<second>[\w-]+)\b",
    re.IGNORECASE,
)
_LATER = {"after", "since", "following"}
# Words that narrow to what the record tells; the empty ones say what is so anyway.
_NARROWING: tuple[tuple[re.Pattern[str], Callable[[Happening], bool]], ...] = (
    (family("complete|whole|full"), lambda h: h.get("complete") is True),
    (family("partial|incomplete"), lambda h: h.get("complete") is not True),
    (family("delivered"), lambda h: h.get("delivered") is True),
    (
        family(
            "recorded|journalled|remote|typed|bounded|heartbeat|process|process-table|log|such|"
            "single|python|whole|very|these|those|the|of|all|incident's|its|our"
        ),
        lambda _: True,
    ),
)
_COMPOUND = re.compile(r"[ -]([a-z]+)\b", re.IGNORECASE)
_FURTHER = family("second|third|another|other|others|further|more|additional|next|such|new")
_PLACE = re.compile(
    r"\s+(?:in|of|on|from) (?:the |this )?(?:whole )?"
    r"(?:journal|incident|record|report|list|log|recovery|story|file|box|host|run|case|timeline)\b",
    re.IGNORECASE,
)
_OPEN_TAIL = re.compile(
    r"\s+(?:for|with|from|of|by|on|in|at|that|which|who|between|during|to|about|without|over|"
    r"under|not|left|taken|made|sent|seen|read|a|an|the|\d)\b",
    re.IGNORECASE,
)
_NOUN_AFTER = re.compile(
    rf"\s+(?:of )?(?:the |its |our |these |those |this )?(?:(?P<number>\d+|{_WORDS}) )?"
    r"(?P<words>(?:[a-z][\w'-]* ){0,3}?)(?P<noun>[a-z][a-z-]*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Subject:
    """Things that a clause speaks of, the greatest set that they may be; where the noun ends."""

    thing: Thing
    members: tuple[Happening, ...]
    known: bool
    end: int
    number: int | None = None

    def readings(self) -> tuple[tuple[Happening, ...], ...]:
        """What the set may be: those of the incident itself, or all of its journal.

        A number that fits one of them says which; one that fits neither leaves the set unknown.
        """
        inside = tuple(h for h in self.members if h.inside)
        fitting = [each for each in (inside, self.members) if len(each) == self.number]
        return tuple(dict.fromkeys(fitting or (inside, self.members)))


def subject(world: World, clause: Clause, start: int) -> Subject | None:
    """The noun phrase that begins at a place, bound; None where no noun of ours stands there."""
    text = clause.text
    for length in range(3):
        pattern = _NOUN_AFTER.pattern.replace("{0,3}?", f"{{{length}}}")
        found = re.compile(pattern, re.IGNORECASE).match(text, start)
        if found is None:
            continue
        if (more := _COMPOUND.match(text, found.end())) and noun(more[1]) is not None:
            continue
        thing = noun(found["noun"], found["words"])
        if thing is not None and _FURTHER.search(found["words"]):
            return None  # besides those that were spoken of: which, is not said
        if thing is not None:
            number = _number(found["number"])
            return _bound(world, clause, thing, found["words"], found.end(), number)
    return None


def plural(name: str) -> str:
    """A thing's name for several of it.

    >>> plural("process"), plural("hypothesis"), plural("wait")
    ('processes', 'hypotheses', 'waits')
    """
    if name.endswith("is"):
        return name[:-2] + "es"
    return name + ("es" if name.endswith("s") else "s")


def noun(word: str, words: str = "") -> Thing | None:
    """The thing that a noun names, with the word before it where that tells."""
    last = words.split()[-1:] or [""]
    if word.lower() in {"lines", "line"} and last[0].lower() == "command":
        return None
    if names := signals_in(word) if word.isupper() else frozenset():
        return Thing("signal", "signal", family(word), lambda h: h.get("signal") in names)
    return next((thing for thing in _ALL if thing.words.fullmatch(word)), None)


def _number(word: str | None) -> int | None:
    return None if word is None else NUMBER_WORDS.get(word.lower()) or int(word)


def number_before(words: list[str]) -> int | None:
    """The number right before a noun, or with one word between."""
    for word in reversed(words[-2:]):
        if word.isdigit() or word.lower() in NUMBER_WORDS:
            return _number(word)
    return None


def bound(
    world: World, thing: Thing, *, end: int, known: bool = True, number: int | None = None
) -> Subject:
    """All things that a noun names."""
    return Subject(thing, _universe(world, thing), known, end, number)


def _universe(world: World, thing: Thing) -> tuple[Happening, ...]:
    chosen = tuple(h for h in world.of(thing.kind) if thing.which(h))
    if thing.kind in {"hypothesis", "guard"} and chosen:
        last = max(h.start_us for h in chosen)
        chosen = tuple(h for h in chosen if h.start_us == last)
    return chosen


def _bound(
    world: World, clause: Clause, thing: Thing, words: str, end: int, number: int | None
) -> Subject:
    members, known = _universe(world, thing), True
    for word in words.split():
        test = next((test for pattern, test in _NARROWING if pattern.fullmatch(word)), None)
        if test is None:
            known = False
        else:
            members = tuple(h for h in members if test(h))
    tail = clause.text[end:]
    place = _PLACE.match(tail)
    if place is not None:
        end, tail = end + place.end(), tail[place.end() :]
    if _OPEN_TAIL.match(tail) and thing.kind not in _TIMELESS:
        known = False
    if len(clause.times) == 1:
        at = tuple(h for h in members if dated(h, *clause.times[0]))
        members, known = (at or members), False
    bound_to = _windowed(world, clause, Subject(thing, members, known, end, number))
    sizes = {len(bound_to.members), sum(h.inside for h in bound_to.members)}
    return bound_to if number is None or number in sizes else replace(bound_to, known=False)


def _windowed(world: World, clause: Clause, whole: Subject) -> Subject:
    """Only those before, after or between what the clause says, where that can be bound."""
    if between := _BETWEEN.match(clause.text, whole.end):
        first = spanned(world, clause, between["first"])
        # *the second* alone is the second of what the first is one of
        second = spanned(world, clause, f"{between['second']} {between['first'].split()[-1]}")
        if first and second and first[1] <= second[0]:
            inside = (h for h in whole.members if first[1] <= h.end_us <= second[0])
            return replace(whole, members=tuple(inside), known=True)
    found = _WINDOW.search(clause.text, whole.end)
    if found is None or whole.thing.kind in _TIMELESS:
        return whole
    edge = spanned(world, clause, clause.text[found.end() :])
    if edge is None:
        return replace(whole, known=False)
    later = found[1].lower() in _LATER
    kept = tuple(
        h for h in whole.members if (h.start_us >= edge[1] if later else h.end_us <= edge[0])
    )
    return replace(whole, members=kept)
