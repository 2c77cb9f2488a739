"""Weighing a sentence against a world: what in it is contradicted, and whether it is supported.

Three answers: contradicted, supported, and nothing said when the record or the words leave it
open. Here: deeds, quantifiers, counts, tense, order. Not here: clocks and spans
(``reports.lint.facts.clocks``), the words (``reports.lint.facts.vocabulary``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from reports.lint.facts import accounted as known
from reports.lint.facts import (
    aftermath,
    clocks,
    comparing,
    exact,
    filed,
    listings,
    logged,
    masks,
    numbers,
    quantified,
    trends,
)
from reports.lint.facts import (
    stated as readings,
)
from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import World
from reports.lint.facts.mentions import MANY_OF, Mention, mentions, named
from reports.lint.facts.numbers import EXIT, number_of
from reports.lint.facts.vocabulary import PLANNED, RESOLUTIONS, signals_in
from reports.lint.words import NUMBER_WORDS

# An answer is None for what is supported, and a (rule, message) for what is contradicted.
Answer = tuple[str, str] | None
_WORDS = "|".join(NUMBER_WORDS)
_TIMES = re.compile(rf"\b(once|twice|(?:(\d+|{_WORDS}) times))\b", re.IGNORECASE)
_DELIVERED = re.compile(r"\bdelivered\b", re.IGNORECASE)
_THEM = re.compile(rf"\b(\d+|{_WORDS}) of (?:them|these|those)\b", re.IGNORECASE)
_ELSEWHEN = re.compile(r"\b(?:before|until|when|while|by then|at that|at this|by|as of|then)\b")
_BACK_THEN = re.compile(r"\d:\d\d|^\W*\d|\b(?:had|was|were)\b")
_OF_OTHERS = re.compile(r"\b(?:I|you|whoever|next (?:time|shift)|again if)\b")
_AWAITED = re.compile(
    r"\b(?:expected|due|pending|planned|scheduled|outstanding|under ?way|in progress|on hold|open"
    r"|to (?:come|follow|be))\b",
    re.IGNORECASE,
)
_WILL_NOT = re.compile(r"\b(?:will|shall)(?: not|n't| never)\b|\bwon't\b", re.IGNORECASE)
_ABOUT_TO = re.compile(r"\b(?:will|shall|to)(?: then| soon| now| first| also)? $", re.IGNORECASE)
_OPEN = re.compile(r"\bincident (?:is|remains|stays) (?:still )?open\b", re.IGNORECASE)
_GOING_ON = re.compile(
    r"\b(?:engine|agentops|we|operator) (?:is|are) (?:still |currently |now )?(?:\w+ing)\b",
    re.IGNORECASE,
)
_SETTLED = re.compile(
    r"\bincident (?:was|is|has been|had been|has|had|remains|stays|went|could)"
    r" ?(?P<not>(?:still )?(?:not|never)(?: be| been)? |un)?(?:resolved|recovered|fixed)\b",
    re.IGNORECASE,
)
_DURING = re.compile(
    r"\b(?:while|when|during|as long as|as soon as|by the time|whenever)\b", re.IGNORECASE
)
_EXCEPT = re.compile(r"\b(?:other than|except|apart from|besides|but for)\b", re.IGNORECASE)
_FURTHER = re.compile(
    r"\b(second|third|another|further|more|additional|other)\b(?= (?:\w+ )?(?:SIG\w+|signals?|"
    r"interrupts?|launch\w*|relaunch\w*|restarts?|starts?|deployments?|TERM|INT|KILL)\b)",
    re.IGNORECASE,
)
_OF_SOMEBODY = frozenset({"signal", "process"})
_SUCH = re.compile(
    r"\b(?:an?|any|no) (?!single|further|second|third|other|more|new)(?!SIG)[a-z-]+ signals?\b",
    re.IGNORECASE,
)
_ONLY_CAN = re.compile(r"\bwill\b.*\bcan\b", re.IGNORECASE)
_HAD_NOT = re.compile(r"\bhad (?:not|never|n't)\b|\bhadn't\b", re.IGNORECASE)
# Of an end: not by the time that is told of, unless it is said of all the time or after what.
_NOT_THEN = re.compile(
    r"(?<!is )(?<!was )(?<!are )(?<!were )(?<!has )(?<!have )\bnot \w+"
    r"(?!.*\b(?:ever|at all|to the end|after|despite)\b)",
    re.IGNORECASE,
)
# Nobody's sentence has more characters; each word looks back at all of them.
_LENGTH_MAX = 2_000
_EXISTING = frozenset({"signal", "launch", "deployment"})


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a sentence gets wrong, as (rule, message), and whether the record says it too."""

    wrong: tuple[tuple[str, str], ...]
    supported: bool


def weigh(world: World, parts: Sequence[Clause], before: Sequence[Clause]) -> Weighed:
    """A sentence, in clauses, against one world; *before* are the clauses of the one before it."""
    if sum(len(clause.text) for clause in parts) > _LENGTH_MAX:
        return Weighed((), supported=False)
    parts = [_completed(clause, before) for clause in parts]
    told = " ".join(clause.text for clause in before)
    parts = [replace(clause, given=f"{clause.given} {told}".strip()) for clause in parts]
    wrong: list[tuple[str, str]] = []
    supported = False
    for clause in parts:
        wrong += numbers.named_numbers(world, clause)
        wrong += exact.exact(world, clause)
        if clause.supposed and not (clause.future and _ONLY_CAN.search(clause.text)):
            wrong += _ranked(world, clause) if clause.ranks else ()
            continue
        found, right = _clause(world, clause)
        wrong += found
        supported = supported or right
    stated = [clause for clause in parts if not clause.supposed]
    wrong += clocks.order(world, stated)
    wrong += clocks.spans(world, stated)
    wrong += [
        each for clause in parts if not clause.supposed for each in clocks.times(world, clause)
    ]
    return Weighed(tuple(dict.fromkeys(wrong)), supported and not wrong)


def _ranked(world: World, clause: Clause) -> list[tuple[str, str]]:
    """What a clause gets wrong of the weights of hypotheses, without supposing one."""
    answers = [*quantified.quantified(world, clause), *comparing.compared(world, clause)]
    return [answer for answer in answers if answer is not None]


def _completed(clause: Clause, before: Sequence[Clause]) -> Clause:
    """A clause that only says *delivered*, with the signal of the sentence before it."""
    if _DELIVERED.search(clause.text) is None or signals_in(clause.text):
        return clause
    named_before = sorted({name for each in before for name in signals_in(each.text)})
    if len(named_before) != 1 or "signal" in clause.text.lower():
        return clause
    return replace(clause, text=f"SIG{named_before[0]} {clause.text.lower()}")


def _clause(world: World, clause: Clause) -> tuple[list[tuple[str, str]], bool]:
    """What one clause gets wrong, and whether something of it is on record."""
    wrong: list[tuple[str, str]] = []
    said = mentions(world, clause)
    if _OPEN.search(clause.text) and world.closed is not None:
        return [("C13", "the incident was closed")], False
    if clause.future or clause.not_yet:
        return _still_to_come(world, clause, said), False
    counted = quantified.quantified(world, clause)
    answers = list(_sure(clause, counted, known.OF_SETS, quantified.OF_THEM))
    if not answers:
        placed = _placed(world, clause)
        deeds = (a for mention in placed if mention.verb for a in _deed(world, clause, mention))
        answers = list(_sure(clause, deeds))
    answers += [None for s in EXIT.findall(clause.text) if s in world.numbers["exit"]]
    for said_of, words in (
        (masks.masked(world, clause), known.OF_MASKS),
        (_resolution(world, clause), known.OF_SPANS),
        (_repeated(clause, said), None),
        (_of_them(world, clause), None),
        (listings.held(world, clause), known.OF_SETS),
        (trends.trends(world, clause), known.OF_TRENDS),
        (comparing.compared(world, clause), known.OF_COMPARISONS),
        (aftermath.aftermath(world, clause), known.OF_AFTERMATH),
        (readings.denied(world, clause), known.OF_READINGS),
        (readings.beaten(world, clause), known.OF_READINGS),
        (logged.logged(world, clause), known.OF_LOGS),
        (filed.filed(world, clause), known.OF_FILES),
    ):
        answers += _sure(clause, said_of, words)
    wrong += [answer for answer in answers if answer is not None]
    if _GOING_ON.search(clause.text) and world.closed is not None:
        wrong.append(("C16", "told as going on, and the incident was closed"))
    settled = _SETTLED.search(clause.text)
    ended = world.closed.get("resolution") if world.closed is not None else None
    if settled and (ended == "RECOVERED") == bool(settled["not"]) and ended != "NOTHING_TO_DO":
        wrong.append(("C13", f"the incident ended as {ended}" if ended else "it has not ended"))
    return wrong, None in answers and not wrong


def _sure(
    clause: Clause,
    answers: Iterable[Answer],
    words: re.Pattern[str] | None = None,
    bound: re.Pattern[str] | None = None,
) -> Iterator[Answer]:
    """What is supported, and what is contradicted where the whole clause is understood."""
    understood = not clause.shortened and known.accounted(clause.text, words, bound=bound)
    yield from (answer for answer in answers if answer is None or understood)


def _still_to_come(world: World, clause: Clause, said: Sequence[Mention]) -> list[tuple[str, str]]:
    """What a clause has still to come, and the record has behind it."""
    if _OF_OTHERS.search(clause.text) or (clause.future and _WILL_NOT.search(clause.text)):
        return []
    if not clause.future:
        anchored = _ELSEWHEN.search(clause.text) or _BACK_THEN.search(clause.sentence.bare)
        had = next((m for m in said if m.holding and not anchored), None)
        return [("C09", f"the record has it: {had.what}")] if had else []
    awaited = _AWAITED.search(clause.text) is not None
    done = [m.what for m in said if m.holding and (m.verb or awaited)]
    done += [
        found[0]
        for words, kind in PLANNED
        if any(h.inside for h in world.of(kind))
        and (found := words.search(clause.text))
        and (awaited or _ABOUT_TO.search(clause.text[: found.start()]))
    ]
    if done and world.closed is not None:
        return [("C16", f"foretells what the record has behind it: {done[0]}")]
    return []


def _placed(world: World, clause: Clause) -> tuple[Mention, ...]:
    """What a clause mentions; a denial before or after something is held to that part of the time.

    *Nothing was deployed after the incident opened* speaks of deployments from then on only.
    """
    if clause.negated and (_DURING.search(clause.text) or _EXCEPT.search(clause.text)):
        return ()
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
                if all(
                    a >= edge[1] if later else b <= edge[0] for a, b in clocks.moments(mention, h)
                )
            )
        )
        made.append(
            replace(mention, holding=kept, decidable=mention.decidable and edge is not None)
        )
    return tuple(made)


def _deed(world: World, clause: Clause, mention: Mention) -> Iterator[Answer]:
    """Whether what a clause says was done, was done."""
    denied = clause.negated != (clause.no_longer and not mention.ends)
    if not mention.decidable:
        if mention.holding and not denied:
            yield None
    elif denied:
        yield from _denied(world, clause, mention)
    elif mention.holding:
        yield None
    elif (mention.closed or mention.failing) and not mention.open:
        yield (_rule(mention), f"nothing on record says so: {mention.what}")


def _denied(world: World, clause: Clause, mention: Mention) -> Iterator[Answer]:
    """Whether what a clause says was not done, was not."""
    if mention.kind == "signal" and _SUCH.search(clause.text):
        return  # a signal of which kind, is left open
    several = mention.ends and _more_than_one(mention) and "after" not in clause.text
    then = mention.kind == "process" and _HAD_NOT.search(clause.text) is not None
    then |= mention.ends and _NOT_THEN.search(clause.text) is not None
    if several or then or (mention.kind in _OF_SOMEBODY and _unnamed(world, clause)):
        return  # not by then, not by that one, not of those: which, the clause does not say
    if sum(h.inside for h in mention.holding) < _least(clause, mention):
        if mention.closed:
            yield None
    elif not mention.failing or mention.kind in _EXISTING or _once(mention):
        yield (_rule(mention), f"the record says otherwise: {mention.what}")


def _more_than_one(mention: Mention) -> bool:
    """Whether a process that is gone got several signals."""
    return any(isinstance(n := h.get("signals"), int) and n > 1 for h in mention.holding)


def _once(mention: Mention) -> bool:
    """Whether one happening is enough, whatever the others are."""
    return mention.what == "resumed" or mention.what.startswith("looked at")


def _unnamed(world: World, clause: Clause) -> bool:
    """Whether a clause speaks of several by a pronoun, and nothing before names them."""
    if MANY_OF.search(clause.text) is None or named(world, clause.text).pids:
        return False
    before = named(world, clause.given)
    return not (before.pids or before.roles)


def _least(clause: Clause, mention: Mention) -> int:
    """How many there have to be for a denial to be wrong: *no second interrupt* lets one be."""
    found = _FURTHER.search(clause.text) if mention.kind in _EXISTING else None
    return 1 if found is None else 3 if found[1].lower() == "third" else 2


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
