"""Quantified clauses: of all, none, most, half, two, one that a clause speaks of, is it so?

A clause is read as quantifier, subject and predicate; the subject is a set of happenings, the
predicate a test. Where the set is known the numbers decide; where only a greater set is known, the
clause is wrong only if no part of that set could make it right. Here: forms of quantifying and
truth. Not here: binding the subject (``reports.lint.facts.sets``).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reports.lint.facts.clauses import Clause
from reports.lint.facts.clocks import comparison
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.members import choices, predicate_of
from reports.lint.facts.mentions import named
from reports.lint.facts.predicates import Made, predicate
from reports.lint.facts.sets import Subject, bound, noun, number_before, plural, subject
from reports.lint.facts.vocabulary import THINGS, Thing
from reports.lint.words import NUMBER_WORDS

_WORDS = "|".join(NUMBER_WORDS)
_QUANTIFIER = re.compile(
    r"(?<![\w.:·-])(?P<only>only |just |exactly )?"
    r"(?P<word>all but (?:one|\d+)|every one|each one|all|every|each"
    rf"|both|none|no|neither|not (?:all|every|each|one|a single)|most|(?:about )?half|several|many"
    rf"|multiple|a few|a couple|some|one|a single|hardly any|few|\d+|{_WORDS})\b(?! (?:longer|more"
    r"|other than|in a row)\b)(?![:.]\d)",
    re.IGNORECASE,
)
OF_THEM = re.compile(r"\s+of (?:them|these|those|which)\b", re.IGNORECASE)
_FLOATING = re.compile(
    r"\b(?P<words>(?:[a-z-]+ )?)(?P<noun>[a-z]+s)(?: (?:were|are|had|have|was))? "
    r"(?P<word>all|both|each)\b",
    re.IGNORECASE,
)
_EXCEPT = re.compile(r"\b(?:except|but (?:one|the|for)|apart from|bar|other than|besides)\b")
_DENIED = re.compile(r"\b(?:not|never|without|failed to|nor)\b|n't\b", re.IGNORECASE)
_ALL = {"all", "every", "each", "both", "every one", "each one"}
_NONE = {"none", "no", "neither", "not one", "not a single"}
_NOT_ALL = {"not all", "not every", "not each"}
_SOME = {"some", "a few", "few", "hardly any", "a couple"}
_MANY = {"several", "many", "multiple"}
_PART = {"some", "a few", "few", "most", "half"}
_COUPLE = 2
_DEFINITE = re.compile(r"\b(?:the|these|those|its|our|of|all|both) $", re.IGNORECASE)
_PROCESS = next(thing for thing in THINGS if thing.name == "process")
_OF_THE = re.compile(
    rf"\s*(?P<of>of)(?= (?:the|these|those)\b).*?[ ,)](?P<only>only |just )?"
    rf"(?P<word>one|both|none|neither|all|most|half|\d+|{_WORDS})"
    r" (?=was|were|had|is|are|stay|remain)",
    re.IGNORECASE,
)
_OUT_OF = re.compile(
    rf"\s*(?P<of>(?:out )?of(?: all| the)*)(?= (?:\d+|{_WORDS}) [a-z]+\b)[^,]*?, "
    rf"(?P<only>only |just )?"
    rf"(?P<word>none|all|most|half|\d+|{_WORDS})(?= [a-z]+)",
    re.IGNORECASE,
)
_GOT = re.compile(r"\b(?:got|received|had|needed|took|given|sent)\s*$", re.IGNORECASE)
_HAD = re.compile(
    r"\b(?:(?:made|done|stopped|ended) (?:with|by)|weighed|considered|ranked|compared|held|had|"
    r"entertained|made|ran|took|needed|sent|issued|used|got|received|reached|passed|"
    r"(?:there|it) (?:was|were))\s*$",
    re.IGNORECASE,
)
_IN_THEM = re.compile(
    r"\b(is|are|was|were|appears?|appeared|stands?|stood|present|listed|seen|found|shown|missing"
    r"|absent|shows?|showed)(?: up)? (?:in|from|on|by)\s*$",
    re.IGNORECASE,
)
_WAS_HAD = re.compile(
    r" (?:was|were) (?:reached|made|sent|taken|run|recorded|needed|considered|weighed|passed|read)"
    r"[ .]*",
    re.IGNORECASE,
)
_SIZED = {"signal", "hypothesis", "wait", "verdict", "guard"}
# What is read again and again: a bare number speaks of some of them.
_REPEATED = {"listing", "heartbeat", "line", "guard"}
Answer = tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many of a set surely have a predicate, how many may, how many there are."""

    sure: int
    open: int
    total: int

    @property
    def most(self) -> int:
        """How many may have it at most."""
        return self.sure + self.open

    def denied(self) -> "Counted":
        """The same of the opposite."""
        return Counted(self.total - self.sure - self.open, self.open, self.total)


def quantified(world: World, clause: Clause) -> Iterator[Answer]:
    """C18: what is said of so many of a set is so."""
    for place, word, only, whole in _subjects(world, clause):
        rest = _own_words(clause.text[whole.end :])
        said = _said(world, clause, place, whole, rest)
        if said is None or _EXCEPT.search(clause.text):
            continue
        test, at = said
        denied = _DENIED.search(rest[:at]) is not None
        than = comparison(clause.text[:place])
        answers = []
        for members in _choices(world, clause, place, whole):
            results = [test(member) for member in members]
            found = Counted(results.count(True), results.count(None), len(results))
            found = found.denied() if denied else found
            bare = (word.isdigit() or word in NUMBER_WORDS) and not only
            least = ">" if than == "=" and bare and whole.thing.kind in _REPEATED else than
            wrong = _contradicted(word, found, than=least, known=whole.known)
            wrong = wrong or (only and word in _PART and 0 < found.total == found.sure)
            answers.append((wrong, found))
        if answers and all(wrong for wrong, _ in answers):
            found = answers[0][1]
            told = f"{found.sure} of {found.total} {plural(whole.thing.name)}"
            yield ("C18", f"{word!r}, and the record has {told}")
        elif whole.known and any(not wrong and found.total for wrong, found in answers):
            yield None


def _choices(
    world: World, clause: Clause, place: int, whole: Subject
) -> tuple[tuple[Happening, ...], ...]:
    """The sets that a subject may be; signals that somebody got are those to him."""
    if whole.thing.kind == "process":
        return choices(world, clause, whole)
    if whole.thing.kind == "signal":
        names = named(world, clause.text[:place])
        pids = frozenset(names.pids) or names.roles
        if pids and _GOT.search(clause.text[:place]):
            whole = replace(whole, members=tuple(h for h in whole.members if h.get("pid") in pids))
    return whole.readings()


def _said(world: World, clause: Clause, place: int, whole: Subject, rest: str) -> Made | None:
    """What a clause says of its subject, as a test, and where in its words."""
    if whole.thing.kind == "process":
        test = predicate_of(world, clause)
        return None if test is None else (test, len(rest))
    return (
        predicate(world, whole.thing.kind, rest)
        or _before(world, clause, place, whole)
        or _existing(clause, place, whole, rest)
    )


def _before(world: World, clause: Clause, place: int, whole: Subject) -> Made | None:
    """A predicate in front of its set: *it appears in none of the listings*."""
    found = _IN_THEM.search(clause.text[:place])
    if found is None or whole.thing.kind != "listing":
        return None
    subject_words = clause.text[: found.start()]
    lacks = "without " if found[1].lower() in {"missing", "absent"} else "with "
    return predicate(world, "listing", lacks + subject_words)


def _existing(clause: Clause, place: int, whole: Subject, rest: str) -> Made | None:
    """Where nothing more is said of a set than that somebody had it, its size is what is said."""
    had = _HAD.search(clause.text[:place]) and not rest.strip(" .")
    said = had or _WAS_HAD.fullmatch(rest)
    return ((lambda _: True), 0) if said and whole.thing.kind in _SIZED else None


def _subjects(world: World, clause: Clause) -> Iterator[tuple[int, str, bool, Subject]]:
    """Each quantifier of a clause with its subject: place, word, whether *only* so many, set."""
    text = clause.text
    for found in _QUANTIFIER.finditer(text):
        word, only = found["word"].lower(), found["only"] is not None
        them = OF_THEM.match(text, found.end())
        if them is not None:
            meant = _antecedent(clause, found.start())
            if meant is not None:
                whole = bound(world, meant[0], end=them.end(), number=meant[1])
                yield found.start(), word, only, whole
        elif (meant_by := subject(world, clause, found.end())) is not None:
            numbered = word.isdigit() or word in NUMBER_WORDS
            if numbered and _DEFINITE.search(text[: found.start()]):
                continue  # *the two listings* are two that were spoken of
            if text[: meant_by.end].split()[-1].isupper() and not numbered:
                continue  # *both SIGINT and SIGTERM* counts no signals that were sent
            pair = word in {"both", "neither"} and meant_by.number is None
            whole = replace(meant_by, number=_COUPLE) if pair else meant_by
            yield found.start(), word, only, whole
    yield from _fronted(world, clause)
    floating = _FLOATING.search(text)
    if floating is not None and (thing := noun(floating["noun"], floating["words"])):
        plain = floating["words"].strip().lower() in {"", "the", "its", "these", "those"}
        whole = bound(world, thing, end=floating.end(), known=plain)
        yield floating.start("word"), floating["word"].lower(), False, whole


def _fronted(world: World, clause: Clause) -> Iterator[tuple[int, str, bool, Subject]]:
    """*Of the two processes only one was …*: the set in front, the quantifier behind."""
    found = _OF_THE.match(clause.text) or _OUT_OF.match(clause.text)
    if found is None:
        return
    pids = named(world, clause.text).pids
    whole = subject(world, clause, found.end("of"))
    if whole is None and len(pids) > 1:
        members = tuple(h for h in world.of("process") if h.get("pid") in pids)
        whole = Subject(_PROCESS, members, known=True, end=0)
    if whole is not None:
        at, word = found.start("word"), found["word"].lower()
        yield at, word, found["only"] is not None, replace(whole, end=found.end("word"), known=True)


def _own_words(rest: str) -> str:
    """What is said of a subject: up to a comma, or to the next thing that is counted."""
    rest = re.split(r"[,;:(]", rest, maxsplit=1)[0]
    for found in _QUANTIFIER.finditer(rest):
        if re.search(r"(?:\band|\bof|\bbut|\bor)\s*$", rest[: found.start()]):
            return rest[: found.start()]
    return rest


def _antecedent(clause: Clause, start: int) -> tuple[Thing, int | None] | None:
    """The last noun before a place in its sentence that names things of ours."""
    texts = [clause.text[:start]]
    whole = clause.sentence.bare
    place = whole.find(clause.text)
    texts += [whole[: max(0, place)]] if place > 0 else []
    for text in texts:
        words = re.findall(r"[A-Za-z\d][\w'-]*", text)
        for at in range(len(words) - 1, -1, -1):
            thing = noun(words[at], " ".join(words[:at])) if words[at].endswith("s") else None
            if thing is not None:
                return thing, number_before(words[:at])
    return None


def _contradicted(word: str, found: Counted, *, than: str, known: bool) -> bool:  # noqa: PLR0911  (one line a word)
    """Whether no set that the subject may be makes the clause right."""
    if not found.total:
        return known and word in _MANY | {"both"} | _SOME
    if word == "neither" and found.total > _COUPLE:
        return found.total - found.sure < _COUPLE  # of two that are meant, whichever they are
    if word in _NONE:
        return found.sure > 0 if known else found.sure == found.total
    if word in _NOT_ALL:
        return found.sure == found.total
    if word in _ALL:
        least = _COUPLE if word == "both" else found.total
        return found.most < least if known else found.most == 0
    if word == "most":
        short = found.most * 2 <= found.total or found.sure == found.total
        return short if known else found.most == 0
    if word.endswith("half") and than != "=":
        short = found.sure * 2 >= found.total if than == "<" else found.most * 2 < found.total
        return short if known else than == ">" and found.most == 0
    if word.endswith("half"):
        low, high = found.sure * 5 > found.total * 3, found.most * 5 < found.total * 2
        return (low or high) if known else found.most == 0
    if word in _MANY or word in _SOME:
        return found.most < (_COUPLE if word in _MANY else 1)
    return _number_wrong(word, found, than=than, known=known)


def _number_wrong(word: str, found: Counted, *, than: str, known: bool) -> bool:
    if word.startswith("all but"):
        word = str(found.total - (NUMBER_WORDS.get(word[8:]) or int(word[8:])))
    number = 1 if word == "a single" else NUMBER_WORDS.get(word) or int(word)
    if than == "<":
        return known and found.sure > number
    if than == ">" or not known:
        return found.most < number
    return not found.sure <= number <= found.most
