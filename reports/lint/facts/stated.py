"""Readings that a clause states or denies: a step, a loss, a size, a number of threads, a state.

Here: a value right behind its quantity, or before its unit, and whether it is among the recorded
readings. Not here: that an affirmed number is none of them (``reports.lint.facts.numbers``).
"""

import re
from collections.abc import Iterator

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.words import NUMBER_WORDS

_N = rf"(?P<value>\d[\d,]*(?:\.\d+)?|{'|'.join(NUMBER_WORDS)})(?![\w.:]*\d)"
_LINK = r"(?: (?:was|is|were|stood|stands|at|of|from|reads?|says?|said|step|about|roughly))*"
_CHECKPOINT, _STEP = ("checkpoint_step", "resumed_from_step"), ("step", "resumed_from_step")
_STATED: tuple[tuple[re.Pattern[str], str, tuple[str, ...], bool], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind, names, timeless)
    for pattern, kind, names, timeless in (
        (
            rf"\bcheckpoints?{_LINK} {_N}",
            "heartbeat",
            ("checkpoint_step", "resumed_from_step"),
            False,
        ),
        (rf"(?<!than )\bsteps?{_LINK} {_N}", "heartbeat", ("step", "resumed_from_step"), False),
        (rf"\bloss(?:es)?{_LINK} {_N}", "heartbeat", ("loss",), False),
        (rf"{_N} bytes\b", "file", ("size",), True),
        (rf"{_N} threads?\b", "row", ("threads",), True),
        (rf"{_N} dB\b", "hypothesis", ("db",), True),
    )
)
_BEAT_AT = re.compile(
    r"\bheartbeats?\b[^.;,]*?\b(?:stood|stands|was|were|showed|shows|said|says|read|reads|stuck"
    r"|remained|stayed)\b(?: at| on)? step (\d[\d,]*)\b",
    re.IGNORECASE,
)
_DENYING = re.compile(
    r"(?:\bnot|n't|\bnever)"
    r"(?: (?!yet|only|until|because|just)[\w-]+){0,4}?\s*$",
    re.IGNORECASE,
)
_AT_A_TIME = re.compile(
    r"\b(?:yet|until|before|after|when|while|by|at that|then|any more|any longer|further|beyond|"
    r"past|again|more|less|fewer|lost)\b",
    re.IGNORECASE,
)
Answer = tuple[str, str] | None


def denied(world: World, clause: Clause) -> Iterator[Answer]:
    """C12: a reading that a clause denies is not the only one of its kind on record."""
    timed = bool(clause.times) or _AT_A_TIME.search(clause.text) is not None
    for place, value, recorded, timeless in _values(world, clause):
        if _DENYING.search(clause.text[:place]) and value in recorded and (timeless or not timed):
            yield ("C12", f"the record has it: {value:g}")


def beaten(world: World, clause: Clause) -> Iterator[Answer]:
    """C12: a heartbeat that is said to stand at a step was read there."""
    found = _BEAT_AT.search(clause.text)
    if found is None or clause.negated or clause.times:
        return
    known = {h.get("step") for h in world.of("heartbeat")}
    known |= {n for w in world.of("wait") if isinstance(s := w.get("series"), frozenset) for n in s}
    if known and int(found[1].replace(",", "")) not in known:
        yield ("C12", f"no heartbeat was read at step {found[1]}")


def on_record(world: World, clause: Clause) -> bool:
    """Whether a clause states readings, and each of them is recorded."""
    found = list(_values(world, clause))
    return bool(found) and not clause.negated and all(v in known for _, v, known, _ in found)


def _values(world: World, clause: Clause) -> Iterator[tuple[int, float, frozenset[float], bool]]:
    """Values in a clause: place, value, the recorded ones, whether they hold at any time."""
    for pattern, kind, names, timeless in _STATED:
        for found in pattern.finditer(clause.text):
            word = found["value"].lower().replace(",", "")
            value = float(NUMBER_WORDS.get(word, 0) or word)
            known = _known(world, kind, names, len(word.partition(".")[2]))
            yield found.start(), value, known, timeless


def _known(world: World, kind: str, names: tuple[str, ...], places: int) -> frozenset[float]:
    """Recorded readings, rounded to as many places as a text gives."""
    found: set[float] = set()
    for happening in world.of(kind):
        for name in names:
            value = _number(happening, name)
            if value is not None:
                cut = 10**places
                found |= {round(value, places), int(value * cut) / cut}
    return frozenset(found)


def _number(happening: Happening, name: str) -> float | None:
    value = happening.get(name)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
