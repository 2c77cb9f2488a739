"""Numbers that go by a name: steps, pids, losses, statuses, weights, and counts of things.

Here: each is among those that the record has under its name. Not here: times and spans
(``reports.lint.facts.clocks``), units and arithmetic (``reports.lint.rules.numbers``).
"""

import re
from collections.abc import Iterator

from reports.lint.facts import clocks
from reports.lint.facts.accounted import OF_COUNTS, OF_SETS, accounted
from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import named
from reports.lint.facts.vocabulary import THINGS
from reports.lint.words import NUMBER_WORDS, family

EXIT = re.compile(r"\bexit(?:ed|s)?(?: status| code| with)?(?: status| code)? (?:of )?(\d+)\b")
_WORDS = "|".join(NUMBER_WORDS)
_THREADS = re.compile(rf"\b(\d+|{_WORDS}) threads?\b", re.IGNORECASE)
_DECIBAN = re.compile(r"\b(\d+) dB\b")
_LOSS = re.compile(r"\bloss(?:es)?\b(?: \w+){0,3} (\d+\.\d+)(?:(?: to | and )(\d+\.\d+))?")
_RATE = re.compile(r"\btokens(?: per |/)(minute|min|hour|h|ms|millisecond)\b", re.IGNORECASE)
_COUNTED = re.compile(
    rf"(?<![\w.:·-])(\d+|{_WORDS})((?: (?!of\b)[\w-]+){{0,2}}?) ([a-z]+)\b", re.IGNORECASE
)
# What a limit allows, in *two of 16 signals*.
_OF_LIMIT = re.compile(rf"\b(?:\d+|{_WORDS}) of $", re.IGNORECASE)
_USED_UP = re.compile(rf"\b(\d+|{_WORDS}) of (?:\d+|{_WORDS}) ([a-z]+)\b", re.IGNORECASE)
_SPENT = family("used|spent|used up|taken|sent")
_LISTED_COUNT = re.compile(r"\b([A-Za-z]+)\s?[:=]\s?(\d+)\b(?![:.]\d| [a-z])")
_MODIFIED = family(
    "other|further|more|second|additional|another|such|first|last|next|later|earlier|new"
)
_CHOSEN = re.compile(r"\b(?:the|these|those|last|first|next|between) $", re.IGNORECASE)
_BOUND = re.compile(
    r"\b(?:about|around|roughly|nearly|towards|until|before"
    r"|passed|past|beyond|above|over|below|under|short of|more than|less than) (?:step )?\d",
    re.IGNORECASE,
)
_ALL_OF = re.compile(r"\b(?:all|altogether|in total)(?: (?:the|of the|these))? $", re.IGNORECASE)
_IN_ALL = re.compile(
    r" (?:of|in) (?:the|this) (?:whole )?(?:incident|journal|recovery)\b", re.IGNORECASE
)
_PICKED = re.compile(
    r" (?:that|which|without|showing|holding|with|in which|where|who|whose|for|from|between|of"
    r"|by|on|at|after|before|\w+ (?:seconds?|minutes?) apart"
    r"|(?:a |an |some |about |roughly )?[\w. -]{1,24} (?:apart|later|earlier))\b",
    re.IGNORECASE,
)
_WINDOW = re.compile(r"\b(?:before|after|between|during|until|since|while|when)\b", re.IGNORECASE)
_OF_COUNTED = re.compile(f"{OF_COUNTS.pattern}|{OF_SETS.pattern}", re.IGNORECASE)
_COUNTED_BY = (
    "signal", "pid", "outcome", "verdict", "condition", "command", "complete", "met", "effect",
    "delivered", "action", "launched",
)  # fmt: skip


def number_of(word: str) -> int:
    """A number written in digits or as a word."""
    return NUMBER_WORDS.get(word.lower()) or int(word)


def named_numbers(world: World, clause: Clause) -> Iterator[tuple[str, str]]:
    """C23, C18, C05: numbers of a kind are among those that the record has of it."""
    given = named(world, clause.text)
    statuses = [] if clause.negated else EXIT.findall(clause.text)
    threads = [str(number_of(word)) for word in _THREADS.findall(clause.text)]
    steps = () if _BOUND.search(clause.text) else given.steps
    said = (
        ("pid", map(str, given.pids), "no recorded process has pid {}"),
        ("step", map(str, steps), "no recorded reading is at step {}"),
        ("exit", statuses, "no recorded command ended with status {}"),
        ("threads", threads, "no listed process has {} threads"),
        ("db", _DECIBAN.findall(clause.text), "no recorded weight or lead is {} dB"),
    )
    for name, numbers, message in said:
        known = world.numbers[name]
        for number in numbers:
            if known and number not in known:
                yield ("C23", message.format(number))
    for loss in (part for pair in _LOSS.findall(clause.text) for part in pair if part):
        if world.numbers["loss"] and not _near(loss, world.numbers["loss"]):
            yield ("C23", f"no recorded loss is {loss}")
    if found := _RATE.search(clause.text):
        yield ("C05", f"throughput is recorded per second, not per {found[1]}")
    if not clause.supposed and not clause.shortened and accounted(clause.text, _OF_COUNTED):
        yield from _counts(world, clause)
        yield from _spent(world, clause)


def _near(said: str, known: frozenset[str]) -> bool:
    """Whether a decimal is a recorded one, rounded or cut off."""
    width = 10 ** -len(said.partition(".")[2])
    return any(abs(float(number) - float(said)) < width for number in known)


def _counts(world: World, clause: Clause) -> Iterator[tuple[str, str]]:
    """C18: as many things as a clause counts are on record."""
    turned = _LISTED_COUNT.sub(r"\2 \1", clause.text)
    for found in _COUNTED.finditer(turned):
        thing = next((t for t in THINGS if t.words.fullmatch(found[3])), None)
        number, modifier = number_of(found[1]), found[2].strip()
        if thing is None or thing.name == "process" or _OF_LIMIT.search(turned[: found.start()]):
            continue
        if number == 1 and not clause.past and any(h.inside for h in world.of(thing.kind)):
            continue  # one of them; none at all is told apart below
        than = clocks.comparison(turned[: found.start()])
        if thing.name in {"event", "file"}:
            known = world.counts.get(thing.name)
            if known and not modifier and than == "=" and number not in known:
                yield ("C18", f"no count of {thing.name}s gives {number}")
            continue
        universe = [h for h in world.of(thing.kind) if thing.which(h)]
        inside = sum(h.inside for h in universe)
        if than != "=":
            if not modifier and _fails(inside, than, number):
                yield ("C18", f"{thing.name}s on record: {inside}")
        elif number > len(universe) or not (
            _some_of(turned, found) or _countable(universe, number, modifier, clause)
        ):
            yield ("C18", f"{thing.name}s on record: {len(universe)}, not {number}")


def _spent(world: World, clause: Clause) -> Iterator[tuple[str, str]]:
    """C18: of a limit as much is used up as is on record."""
    for found in _USED_UP.finditer(clause.text):
        thing = next((t for t in THINGS if t.words.fullmatch(found[2])), None)
        done = sum(h.inside for h in world.of(thing.kind) if thing.which(h)) if thing else 0
        if thing and number_of(found[1]) != done and _SPENT.search(clause.text, found.end()):
            yield ("C18", f"{thing.name}s on record: {done}")


def _some_of(text: str, found: re.Match[str]) -> bool:
    """Whether so many are meant as the words around the number pick out, not all there are."""
    before, after = text[: found.start()], text[found.end() :]
    if _IN_ALL.match(after):
        return False
    if _PICKED.match(after) or _WINDOW.search(text):
        return True
    return _CHOSEN.search(before) is not None and _ALL_OF.search(before) is None


def _fails(count: int, than: str, number: int) -> bool:
    return (than == "<" and count > number) or (than == ">" and count < number)


def _countable(universe: list[Happening], number: int, modifier: str, clause: Clause) -> bool:
    """Whether a way to count gives the number: all, the incident's, those of one attribute."""
    if modifier or clause.negated or _MODIFIED.search(clause.text):
        return True
    counts = {len(universe), sum(h.inside for h in universe)}
    for name in _COUNTED_BY:
        tally: dict[str, int] = {}
        for happening in universe:
            key = str(happening.get(name))
            tally[key] = tally.get(key, 0) + 1
        counts |= set(tally.values())
    return number in counts
