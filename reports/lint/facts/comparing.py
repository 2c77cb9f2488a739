"""Comparisons: two quantities that a clause sets against each other stand so on record.

A clause such as *A is longer than B* names a quantity (a size, a loss, a weight, a count) and two
choices of its readings; it is wrong when no pair of them stands so. Here: quantities, choosing
readings, relations. Not here: spans between events (``reports.lint.facts.clocks``), trends from
reading to reading (``reports.lint.facts.trends``).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import named, ordinal
from reports.lint.facts.phases import phase
from reports.lint.facts.sets import bound, noun
from reports.lint.facts.vocabulary import Thing, pids_in
from reports.lint.words import NUMBER_WORDS, family

Answer = tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity by its name: where its readings are, and the words for it."""

    name: str
    kind: str
    attribute: str
    words: re.Pattern[str]


_QUANTITIES = (
    Quantity("loss", "heartbeat", "loss", family("loss|losses")),
    Quantity(
        "throughput", "heartbeat", "tokens_per_s", family("throughput|tokens per second|speed|rate")
    ),
    Quantity("age", "heartbeat", "age_ms", family("age|stale|old heartbeat|heartbeat age")),
    Quantity(
        "weight",
        "hypothesis",
        "db",
        re.compile(r"\bH\d\b|\bhypothes[ei]s\b|\bdB\b|\bweights?\b|\bexplanations?\b"),
    ),
    Quantity(
        "size",
        "file",
        "size",
        re.compile(
            r"\b(?:bytes?|files?|scripts?|size|version|replacement|launcher|copy)\b|\b[\w-]+\.(?:py|sh|json)\b",
            re.IGNORECASE,
        ),
    ),
    Quantity("resident memory", "row", "rss_kib", family("resident|RSS|memory")),
    Quantity("threads", "row", "threads", family("threads")),
    Quantity("wait", "wait", "elapsed_ms", family("wait|waits|waited")),
    Quantity("step", "heartbeat", "step", family("step|steps|progress")),
)
_MORE = "longer|larger|bigger|higher|greater|more|heavier|faster|older|stronger|later|further"
_LESS = (
    "shorter|smaller|lower|less|fewer|lighter|slower|younger|fresher|weaker|earlier|sooner|quicker"
)
_THAN = re.compile(
    rf"\b(?P<factor>twice|double|three times|half) as \w+ as\b"
    rf"|\b(?P<not>no |not (?:any )?)?(?:much |far |slightly |a little |a bit |well |even )?"
    rf"(?:(?P<more>{_MORE})|(?P<less>{_LESS}))\b(?: \w+){{0,3}}? than\b"
    rf"|\b(?P<ahead>ahead of|behind)\b"
    rf"|\b(?P<same>(?:exactly |about )?(?:(?:the )?same (?:\w+ )?as|level with|equal to|equals?|as "
    rf"(?:long|large|big|high|low|many|much|old|fast|strong) as|on a par with|neck and neck with"
    rf"|(?:only )?just ahead of))\b",
    re.IGNORECASE,
)
_EXCEEDS = re.compile(
    r"\b(?:(?P<more>exceed\w*|surpass\w*|outweigh\w*|outrank\w*|overt(?:ook|ake\w*)|led|leads"
    r"|beat|beats|topped)|(?P<less>trail\w*|lag\w* behind))\b",
    re.IGNORECASE,
)
_OLD = family("old|previous|original|earlier|before|former|replaced|broken|faulty|first")
_NEW = family(
    "new|repaired|replacement|corrected|fixed|later|after|afterwards|current|latest|second"
)
_REST = family(
    "any other|the others|every other|all others|all the others|the rest|all other|anything else"
)
_NEXT = family("next best|runner-up|second best|next|second-placed|nearest rival|closest rival")
_TOP = family("leading|lead|leader|best|top|favoured|chosen|winning")
_H = re.compile(r"\bH\d+\b")
_NUMBER = re.compile(
    rf"(?<![\w.])(\d[\d,]*(?:\.\d+)?|{'|'.join(NUMBER_WORDS)})\b(?!:)", re.IGNORECASE
)
_PLACES = {
    "first": 0, "start": 0, "beginning": 0, "initially": 0, "second": 1, "third": 2, "last": -1,
    "final": -1, "end": -1, "finally": -1,
}  # fmt: skip
_INCIDENT = family("incident|recovery|episode|whole thing")
_TIME = family("longer|shorter|more time|less time|as long|quicker|faster|slower|sooner|less|more")
_WAIT = family("wait|waits|waited")
_ORDINAL = family("first|second|third|last")
_RANKED = re.compile(r"\bH\d\b|\bhypothes[ei]s\b|\bexplanations?\b")
_PARTS = {
    "half": 1 / 2, "a third": 1 / 3, "a quarter": 1 / 4, "a fifth": 1 / 5, "a tenth": 1 / 10,
    "two thirds": 2 / 3, "three quarters": 3 / 4, "twice": 2.0, "double": 2.0,
}  # fmt: skip
_PART = re.compile(rf"\s*({'|'.join(_PARTS)})\b", re.IGNORECASE)
_FACTORS = {"twice": 2.0, "double": 2.0, "three times": 3.0, "half": 0.5}
_PROPORTION = re.compile(
    r"\b(?:times|twice|half|third|quarter|fifth|tenth|nearly|almost|not|roughly|about)\s*$",
    re.IGNORECASE,
)
_CLOSE, _WIDE = 0.05, 0.2


def compared(world: World, clause: Clause) -> Iterator[Answer]:
    """C12: a comparison of two recorded quantities, or of two counts, is as recorded."""
    found = _THAN.search(clause.text) or _EXCEEDS.search(clause.text)
    if found is None or (
        found.groupdict().get("same") and _PROPORTION.search(clause.text[: found.start()])
    ):
        return
    left = f"{clause.text[: found.start()]} {found[0]}"
    right = clause.text[found.end() :]
    relation = _relation(found, clause)
    if relation is None:
        return
    counts = _counts(world, found[0], left, right)
    if counts is not None:
        ones, others = counts
        yield from _weighed(relation, ones, others, "counts")
        return
    if _TIME.search(found[0]) and (took := _times(world, left, right)):
        yield from _weighed(relation, *took, "microseconds")
        return
    for quantity in _QUANTITIES:
        said = clause.text if quantity.kind != "file" else clause.sentence.bare
        if quantity.words.search(said) is None:
            continue
        part = _PART.match(right)
        sides = _sides(world, quantity, left, right)
        if sides is not None and part is not None:
            sides = (sides[0], [_PARTS[part[1].lower()] * value for value in sides[1]])
        if sides is not None:
            yield from _weighed(relation, *sides, quantity.name)
            return


def _weighed(
    relation: tuple[str, float], ones: Sequence[float], others: Sequence[float], what: str
) -> Iterator[Answer]:
    """Wrong when no pair stands so; said when every pair does."""
    holds = [_stands(relation, one, other) for one in ones for other in others]
    if not any(holds):
        yield ("C12", f"the record has it otherwise: {what} {_shown(ones)} and {_shown(others)}")
    elif all(holds):
        yield None


def _shown(values: Sequence[float]) -> str:
    return " or ".join(f"{value:g}" for value in sorted(set(values))[:4])


def _relation(found: re.Match[str], clause: Clause) -> tuple[str, float] | None:
    """What is said to hold between the sides, as a sign and a factor."""
    said = found.groupdict()
    denied = said.get("not") is not None or re.search(
        r"\b(?:not|never|nor|neither|no)\b|n't\b", clause.text[: found.start()], re.IGNORECASE
    )
    if said.get("factor"):
        return None if denied else ("*", _FACTORS[said["factor"].lower()])
    if said.get("same"):
        close = "just ahead" in said["same"].lower()
        return ("!=", 1.0) if denied else ("~" if close else "=", 1.0)
    ahead = (said.get("ahead") or "").lower()
    if ahead and not _RANKED.search(clause.text):
        return None
    more = said.get("more") is not None or ahead == "ahead of"
    if denied:
        return ("<=" if more else ">=", 1.0)
    return (">" if more else "<", 1.0)


def _stands(relation: tuple[str, float], one: float, other: float) -> bool:
    sign, factor = relation
    near = abs(one - other) <= _CLOSE * max(abs(one), abs(other), 1e-9)
    return {
        ">": one > other,
        "<": one < other,
        ">=": one >= other,
        "<=": one <= other,
        "=": near,
        "!=": not near,
        "~": one >= other and abs(one - other) <= _WIDE * max(abs(one), abs(other), 1.0),
        "*": abs(one - factor * other) <= _WIDE * abs(factor * other),
    }[sign]


def _counts(
    world: World, said: str, left: str, right: str
) -> tuple[list[float], list[float]] | None:
    """How many of two nouns there are: *more waits than listings*."""
    one = _last_noun(said) or (_last_noun(left) if said.lower().startswith("as many") else None)
    other = re.match(r"\s+(?:the |there were )?([a-z]+)\b", right)
    second = noun(other[1]) if other else None
    if one is None or second is None:
        return None
    return _sizes(world, one), _sizes(world, second)


def _times(world: World, left: str, right: str) -> tuple[list[float], list[float]] | None:
    """How long two things took: the incident, the n-th wait."""
    if _WAIT.search(left) and _ORDINAL.search(left) and _ORDINAL.search(right):
        return _second_and_first(world)
    ones, others = _took(world, left), _took(world, right)
    return (ones, others) if ones and others else None


def _second_and_first(world: World) -> tuple[list[float], list[float]] | None:
    """What the second and the first wait took; of more than two it is not said which are meant."""
    waits = [w for w in world.of("wait") if w.inside]
    took = [float(ms) for w in waits if isinstance(ms := w.get("elapsed_ms"), int)]
    return (took[1:], took[:1]) if len(took) == 2 else None  # noqa: PLR2004  (a first, a second)


def _took(world: World, text: str) -> list[float]:
    if _INCIDENT.search(text) and world.closed is not None:
        return [float(world.closed.end_us - world.opened_us)]
    waits = world.of("wait")
    if waits and _WAIT.search(text):
        chosen = ordinal(text + " ", waits) if _ORDINAL.search(text) else waits
        return [float(ms * 1_000) for w in chosen if isinstance(ms := w.get("elapsed_ms"), int)]
    return [float(us) for us in phase(world, text)]


def _last_noun(text: str) -> Thing | None:
    words = re.findall(r"[a-z]+", text)
    return next((thing for word in reversed(words) if (thing := noun(word))), None)


def _sizes(world: World, thing: Thing) -> list[float]:
    members = bound(world, thing, end=0).members
    return [float(len(members)), float(sum(h.inside for h in members))]


def _sides(
    world: World, quantity: Quantity, left: str, right: str
) -> tuple[list[float], list[float]] | None:
    """The readings that both sides choose; None where one cannot be bound."""
    readings = [h for h in world.of(quantity.kind) if _value(h, quantity) is not None]
    if quantity.kind == "row":
        readings = _of_processes(world, readings, f"{left} {right}")
    if not readings:
        return None
    ones, others = (
        _chosen(world, quantity, readings, left),
        _chosen(world, quantity, readings, right),
    )
    if ones is None and others is not None and quantity.kind not in {"heartbeat", "file"}:
        ones = [h for h in readings if h not in others]
    if quantity.kind == "file":
        ones, others = ones or _besides(readings, others), others or _besides(readings, ones)
    if not ones or not others or set(ones) & set(others):
        return None
    return _values(ones, quantity), _values(others, quantity)


def _besides(readings: list[Happening], chosen: list[Happening] | None) -> list[Happening]:
    """The other readings of the same files."""
    names = {h.get("name") for h in chosen or ()}
    return [h for h in readings if h.inside and h.get("name") in names and h not in (chosen or ())]


def _values(chosen: Sequence[Happening], quantity: Quantity) -> list[float]:
    return [value for h in chosen if (value := _value(h, quantity)) is not None]


def _value(happening: Happening, quantity: Quantity) -> float | None:
    value = happening.get(quantity.attribute)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _of_processes(world: World, readings: list[Happening], text: str) -> list[Happening]:
    names = named(world, text)
    pids = set(names.pids) | set(names.roles)
    trainers = {p.get("pid") for p in world.of("process") if p.get("role") == "trainer"}
    return [h for h in readings if h.get("pid") in (pids or trainers)]


def _chosen(
    world: World, quantity: Quantity, readings: list[Happening], text: str
) -> list[Happening] | None:
    """The readings that one side's words choose."""
    if quantity.kind == "hypothesis":
        return _hypotheses(readings, text)
    if quantity.kind == "file":
        return _files(world, readings, text)
    if pids := pids_in(text):
        return [h for h in readings if h.get("pid") in pids]
    words = text.lower()
    for word, place in _PLACES.items():
        if re.search(rf"\b{word}\b", words) and place < len(readings):
            return [readings[place]]
    return _by_pivot(world, readings, text)


def _by_pivot(world: World, readings: list[Happening], text: str) -> list[Happening] | None:
    """Those before or after the last launch or signal, by words such as *old* and *new*."""
    acts = [h.start_us for kind in ("launch", "signal") for h in world.of(kind) if h.inside]
    old, new = _OLD.search(text), _NEW.search(text)
    if not acts or bool(old) == bool(new):
        return None
    pivot = max(acts)
    return [h for h in readings if (h.start_us < pivot) == bool(old)]


def _hypotheses(readings: list[Happening], text: str) -> list[Happening] | None:
    last = max(h.start_us for h in readings)
    ranked = [h for h in readings if h.start_us == last]
    if ids := _H.findall(text):
        return [h for h in ranked if h.get("name") in ids] or None
    if _NEXT.search(text):
        return [h for h in ranked if h.get("place") == 1]
    if _REST.search(text):
        return [h for h in ranked if h.get("place") == 1]  # the strongest of them decides
    return [h for h in ranked if h.get("place") == 0] if _TOP.search(text) else None


def _files(world: World, readings: list[Happening], text: str) -> list[Happening] | None:
    """Sizes of a file before and after it was written in the incident."""
    written = [h for h in readings if h.get("written") and h.inside]
    deployed = [d.start_us for d in world.of("deployment") if d.inside]
    names = {str(h.get("name")) for h in readings if str(h.get("name")) in text}
    old, new = _OLD.search(text), _NEW.search(text)
    if not deployed or bool(old) == bool(new):
        return None
    paths = names or {str(h.get("name")) for h in written}
    pivot = min(deployed)
    own = [h for h in readings if h.get("name") in paths and h.inside]
    return [h for h in own if (h.start_us < pivot) == bool(old)] or None
