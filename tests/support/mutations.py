"""Small lies: one change to one sentence, by kind of change.

Each operator takes a sentence and gives the changed one, or None where it does not apply.
"""

import re
from collections.abc import Callable, Mapping

_NUMBER = re.compile(r"(?<![\w.·:-])(\d+)(?![\w·:]|\.\d|-\d)")
_UNIT = re.compile(r"(?<=\d )(ms|s|min|KiB|MiB|GiB|bytes|dB)\b")
_OTHER_UNIT = {
    "ms": "s", "s": "min", "min": "s", "KiB": "MiB", "MiB": "GiB", "GiB": "MiB", "bytes": "KiB",
    "dB": "ms",
}  # fmt: skip
_TENSE = re.compile(r"\b(was|were|is|are|ended|came|went|stands|holds|says|shows?|chose|resumed)\b")
_OTHER_TENSE = {
    "was": "will be", "were": "will be", "is": "was no longer", "are": "will be",
    "ended": "will end", "came": "will come", "went": "will go", "stands": "stood until now",
    "holds": "will hold", "says": "will say", "show": "will show", "shows": "will show",
    "chose": "will choose", "resumed": "will resume",
}  # fmt: skip
_QUANTIFIED = re.compile(
    r"\b(Of \d+ [a-z]+|\d+ (?:events|signals|commands|processes)|one|two|both|each|a|A)\b"
)
_EXCHANGED = (
    ("`;`", "`&&`"), ("`|| true`", "`&& true`"), ("before", "after"), ("after", "before"),
    ("first", "last"), ("from", "to"),
)  # fmt: skip
_NEGATED = re.compile(r"\b(is|was|were|are|ended|came out|shows|holds|says|not|chose)\b")
_OTHER_NEGATION = {
    "is": "is not", "was": "was not", "were": "were not", "are": "are not",
    "ended": "did not end", "came out": "did not come out", "shows": "does not show",
    "holds": "does not hold", "says": "does not say", "not": "surely", "chose": "did not choose",
}  # fmt: skip


def value(sentence: str) -> str | None:
    """The first number, changed."""
    found = _NUMBER.search(_masked(sentence))
    if found is None:
        return None
    changed = str(int(found[1]) + 3)
    return sentence[: found.start()] + changed + sentence[found.end() :]


def unit(sentence: str) -> str | None:
    """The first unit, exchanged for another."""
    return _replace(_UNIT, _OTHER_UNIT, sentence)


def tense(sentence: str) -> str | None:
    """The first verb, in another tense."""
    return _replace(_TENSE, _OTHER_TENSE, sentence)


def quantifier(sentence: str) -> str | None:
    """The first quantity made total."""
    found = _QUANTIFIED.search(_masked(sentence))
    if found is None:
        return None
    word = "All" if found[0][0].isupper() else "all"
    return sentence[: found.start()] + word + sentence[found.end() :]


def negation(sentence: str) -> str | None:
    """The first verb denied, or its denial made certain."""
    return _replace(_NEGATED, _OTHER_NEGATION, sentence)


def cause(sentence: str) -> str | None:
    """A cause added that nobody recorded."""
    found = re.search(r"[.](?=\s*(?:\[|$))", sentence)
    if found is None:
        return None
    added = " because the driver was overloaded"
    return sentence[: found.start()] + added + sentence[found.start() :]


def operator(sentence: str) -> str | None:
    """A shell operator or a comparison, exchanged."""
    for one, other in _EXCHANGED:
        place = _masked(sentence).find(one)
        if place >= 0:
            return sentence[:place] + other + sentence[place + len(one) :]
    return None


def _replace(pattern: re.Pattern[str], others: Mapping[str, str], sentence: str) -> str | None:
    found = pattern.search(_masked(sentence))
    if found is None:
        return None
    return sentence[: found.start()] + others[found[1]] + sentence[found.end() :]


def _masked(sentence: str) -> str:
    """The sentence with labels and quotations blanked, at the same length."""
    blank = lambda found: " " * len(found[0])  # noqa: E731  (used twice, below)
    return re.sub(r"«[^»]*»", blank, re.sub(r"\[e\d+·[0-9a-f]+\]", blank, sentence))


OPERATORS: Mapping[str, Callable[[str], str | None]] = {
    "value": value,
    "operator": operator,
    "unit": unit,
    "tense": tense,
    "quantifier": quantifier,
    "negation": negation,
    "cause": cause,
}
