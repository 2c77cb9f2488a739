"""Weighing a sentence against a world: what in it is contradicted, and whether it is supported.

Three answers: contradicted, supported, and nothing said when the record or the words leave it
open. Here: deeds, quantifiers, counts, tense, order. Not here: clocks and spans
(``reports.lint.facts.clocks``), the words (``reports.lint.facts.vocabulary``).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reports.lint.facts import clocks, listings, numbers, trends
from reports.lint.facts.clauses import Clause, Quantifier
from reports.lint.facts.happened import Happening, World
from reports.lint.facts.mentions import Mention, mentions, named
from reports.lint.facts.numbers import EXIT, number_of
from reports.lint.facts.vocabulary import RESOLUTIONS, THINGS, Thing, signals_in
from reports.lint.words import NUMBER_WORDS

_WORDS = "|".join(NUMBER_WORDS)
_TIMES = re.compile(rf"\b(once|twice|(?:(\d+|{_WORDS}) times))\b", re.IGNORECASE)
_DELIVERED = re.compile(r"\bdelivered\b", re.IGNORECASE)
_THEM = re.compile(rf"\b(\d+|{_WORDS}) of (?:them|these|those)\b", re.IGNORECASE)
_ELSEWHEN = re.compile(r"\b(?:before|until|when|while|by then|at that|at this|by|as of|then)\b")
_OPEN = re.compile(r"\bincident (?:is|remains|stays) (?:still )?open\b", re.IGNORECASE)
_SETTLED = re.compile(
    r"\bincident (?:was|is|has been|had been|remains|stays|went|could)"
    r" ?(?P<not>(?:still )?(?:not|never)(?: be| been)? |un)?(?:resolved|recovered|fixed)\b",
    re.IGNORECASE,
)
_ACTOR = re.compile(r"\b(engine|agentops|trainer|operator)\b", re.IGNORECASE)
_IGNORES = re.compile(r"\bignor\w*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a sentence gets wrong, as (rule, message), and whether the record says it too."""

    wrong: tuple[tuple[str, str], ...]
    supported: bool


def weigh(world: World, parts: Sequence[Clause], before: Sequence[Clause]) -> Weighed:
    """A sentence, in clauses, against one world; *before* are the clauses of the one before it."""
    parts = [_completed(clause, before) for clause in parts]
    wrong: list[tuple[str, str]] = []
    supported = False
    for clause in parts:
        wrong += numbers.named_numbers(world, clause)
        if clause.supposed:
            continue
        found, right = _clause(world, clause)
        wrong += found
        supported = supported or right
    if not any(clause.supposed for clause in parts):
        wrong += clocks.order(world, parts)
        wrong += clocks.spans(world, parts, before)
    wrong += [
        each for clause in parts if not clause.supposed for each in clocks.times(world, clause)
    ]
    return Weighed(tuple(dict.fromkeys(wrong)), supported and not wrong)


def _completed(clause: Clause, before: Sequence[Clause]) -> Clause:
    """A clause that only says *delivered*, with the signal of the sentence before it."""
    if _DELIVERED.search(clause.text) is None or signals_in(clause.text):
        return clause
    named_before = sorted({name for each in before for name in signals_in(each.text)})
    if len(named_before) != 1 or "signal" in clause.text.lower():
        return clause
    return Clause(f"SIG{named_before[0]} {clause.text.lower()}", clause.sentence, clause.weighed)


def _clause(world: World, clause: Clause) -> tuple[list[tuple[str, str]], bool]:
    """What one clause gets wrong, and whether something of it is on record."""
    wrong: list[tuple[str, str]] = []
    said = mentions(world, clause)
    if clause.future:
        done = [m.what for m in said if m.holding] + _recorded(world, clause)
        done += [actor[1] for actor in [_ACTOR.search(clause.text)] if actor]
        if done and world.closed is not None:
            wrong.append(("C16", f"foretells what the record has behind it: {done[0]}"))
        return wrong, False
    if clause.not_yet:
        had = next((m for m in said if m.holding and not _ELSEWHEN.search(clause.text)), None)
        return ([("C09", f"the record has it: {had.what}")] if had else []), False
    answers = list(_quantities(world, clause))
    if not answers:
        placed = _placed(world, clause)
        answers = [
            answer for mention in placed if mention.verb for answer in _deed(clause, mention)
        ]
    answers += _resolution(world, clause)
    answers += _ignored(world, clause)
    answers += _repeated(clause, said)
    answers += _of_them(world, clause)
    answers += listings.held(world, clause)
    answers += [None for s in EXIT.findall(clause.text) if s in world.numbers["exit"]]
    answers += trends.trends(world, clause)
    wrong += [answer for answer in answers if answer is not None]
    if _OPEN.search(clause.text) and world.closed is not None:
        wrong.append(("C13", "the incident was closed"))
    settled = _SETTLED.search(clause.text)
    ended = world.closed.get("resolution") if world.closed is not None else None
    if settled and (ended == "RECOVERED") == bool(settled["not"]) and ended != "NOTHING_TO_DO":
        wrong.append(("C13", f"the incident ended as {ended}" if ended else "it has not ended"))
    return wrong, None in answers and not wrong


def _recorded(world: World, clause: Clause) -> list[str]:
    """Numbers of recorded processes and readings that a clause names."""
    given = named(world, clause.text)
    found = [f"pid {pid}" for pid in given.pids if str(pid) in world.numbers["pid"]]
    return found + [f"step {n}" for n in given.steps if str(n) in world.numbers["step"]]


def _placed(world: World, clause: Clause) -> tuple[Mention, ...]:
    """What a clause mentions; a denial before or after something is held to that part of the time.

    *Nothing was deployed after the incident opened* speaks of deployments from then on only.
    """
    found = clocks.CONJUNCTION.search(clause.text)
    main = clause.text[: found.start()] if found else ""
    if found is None or not clause.negated or not main.strip():
        return mentions(world, clause)
    edge = clocks.spanned(world, clause, clause.text[found.end() :])
    later = found[1].lower() == "after"
    made = []
    for mention in mentions(world, Clause(main, clause.sentence)):
        kept = (
            ()
            if edge is None
            else tuple(
                h
                for h in mention.holding
                if (h.start_us >= edge[1] if later else h.end_us <= edge[0])
            )
        )
        made.append(
            replace(mention, holding=kept, decidable=mention.decidable and edge is not None)
        )
    return tuple(made)


# An answer is None for what is supported, and a (rule, message) for what is contradicted.
Answer = tuple[str, str] | None


def _deed(clause: Clause, mention: Mention) -> Iterator[Answer]:
    """Whether what a clause says was done, was done."""
    denied = clause.negated != (clause.no_longer and not mention.ends)
    if not mention.decidable:
        if mention.holding and not denied:
            yield None
        return
    if denied:
        if not mention.holding:
            if mention.closed:
                yield None
        elif not mention.failing or mention.kind in {"signal", "launch", "deployment"}:
            yield (_rule(mention), f"the record says otherwise: {mention.what}")
    elif mention.holding:
        yield None
    elif (mention.closed or mention.failing) and not mention.open:
        yield (_rule(mention), f"nothing on record says so: {mention.what}")


def _rule(mention: Mention) -> str:
    return {"verdict": "C13", "process": "C13", "ending": "C13"}.get(mention.kind, "C12")


def _resolution(world: World, clause: Clause) -> Iterator[Answer]:
    """The resolution that a clause names is how the incident ended."""
    found = RESOLUTIONS.search(clause.text)
    if found is None or (found[1] == "STOPPED" and "closed" not in clause.text.lower()):
        return
    ended = world.closed.get("resolution") if world.closed else None
    if (found[1] == ended) != clause.negated:
        yield None
    else:
        yield ("C13", f"the incident ended as {ended}" if ended else "the incident is open")


def _ignored(world: World, clause: Clause) -> Iterator[Answer]:
    """A signal that a process is said to ignore is in its mask of ignored signals, or not."""
    if _IGNORES.search(clause.text) is None:
        return
    given = named(world, clause.text)
    processes = [p for p in world.of("process") if p.get("ignored") is not None]
    chosen = [p for p in processes if p.get("pid") in given.pids]
    chosen = chosen or _speaking_of(clause, processes)
    for signal in sorted(signals_in(clause.text)):
        holding = [p for p in chosen if signal in (p.get("ignored") or ())]  # type: ignore[operator]  # a frozenset
        if chosen and bool(holding) == (clause.negated or clause.no_longer):
            yield ("C12", f"the listing says otherwise of {signal} and being ignored")
        elif chosen:
            yield None


def _speaking_of(clause: Clause, processes: list[Happening]) -> list[Happening]:
    """Those that *it* may be: the victims, or what was launched after them."""
    victims = [p for p in processes if p.get("signalled")]
    later = [p for p in processes if p.get("launched") and not p.get("signalled")]
    if clause.still or clause.no_longer:
        return later or victims
    return victims if not (later and clause.negated) else []


def _of_them(world: World, clause: Clause) -> Iterator[Answer]:
    """*One of them SIGINT*: as many signals of that name are on record."""
    found = _THEM.search(clause.text)
    names = signals_in(clause.text)
    if found is None or len(names) != 1 or clause.negated:
        return
    sent = [s for s in world.of("signal") if s.get("delivered") is not False]
    number = sum(s.get("signal") in names for s in sent)
    said = number_of(found[1])
    yield None if number == said else ("C18", f"{min(names)} on record: {number}")


def _repeated(clause: Clause, said: Sequence[Mention]) -> Iterator[Answer]:
    """*Twice* and its like are how often a signal was sent or a launch made."""
    found = _TIMES.search(clause.text)
    if found is None or clause.negated:
        return
    often = {"once": 1, "twice": 2}.get(found[1].lower()) or number_of(found[2])
    for mention in said:
        if mention.verb and mention.kind in {"signal", "launch"} and mention.holding:
            number = len(mention.holding)
            yield None if number == often else ("C18", f"{mention.what}: {number} on record")


def _quantities(world: World, clause: Clause) -> Iterator[Answer]:
    """All, none, most, several, a single: said of things, of which each has it or not."""
    for quantifier in clause.quantifiers:
        thing = _thing(clause, quantifier)
        if thing is None:
            continue
        universe = [h for h in world.of(thing.kind) if h.inside and thing.which(h)]
        holding = _predicated(world, clause, thing, universe)
        if holding is None:
            continue
        yield _quantified(quantifier, clause, thing, len(universe), holding)


def _thing(clause: Clause, quantifier: Quantifier) -> Thing | None:
    """The noun that a quantifier stands before, with nothing but a number between."""
    after = re.match(
        rf"\s+(?:of )?(?:the |its |our |these |those )?(?:\d+ |(?:{_WORDS}) )?"
        r"(?:python )?([a-z-]+(?: tables?)?)",
        clause.text[quantifier.end :],
        re.IGNORECASE,
    )
    return next((t for t in THINGS if after and t.words.fullmatch(after[1])), None)


def _predicated(
    world: World, clause: Clause, thing: Thing, universe: list[Happening]
) -> int | None:
    """How many of the things have what the clause says of them; None when that is not known."""
    status = EXIT.search(clause.text)
    if thing.kind == "command" and status:
        return sum(str(h.get("exit")) == status[1] for h in universe)
    if thing.name in {"innocent", "process"}:
        deed = next((m for m in mentions(world, clause) if m.verb and m.kind == "process"), None)
        if deed is None or deed.open:
            return None
        return len([h for h in universe if h in deed.holding])
    said = [m for m in mentions(world, clause) if m.verb and m.kind == thing.kind]
    if said and not said[0].open:
        return len([h for h in universe if h in said[0].holding])
    if thing.kind == "signal" and not said and not named(world, clause.text).pids:
        return len(universe)
    return None


def _quantified(
    quantifier: Quantifier, clause: Clause, thing: Thing, total: int, holding: int
) -> Answer:
    denied = clause.negated and quantifier.of != "none"
    told = f"{holding} of {total} {thing.name}s"
    wrong = {
        "all": holding == total
        if denied
        else holding < (2 if quantifier.word == "both" else total),
        "none": holding > 0,
        "part": holding in {0, total} if not denied else False,
        "many": holding < 2,  # noqa: PLR2004  (several are two at least)
        "sole": holding != 1 if not denied else False,
        "only": False,
    }[quantifier.of]
    return ("C18", f"{quantifier.word!r}, and the record has {told}") if wrong and total else None
