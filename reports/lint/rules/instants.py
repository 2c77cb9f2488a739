"""Rules on times of day and of a stopwatch, and on waits where no clock was recorded.

Not here: spans of time (``numbers``).
"""

import re
from collections.abc import Iterator
from fractions import Fraction

from reports.lint import words
from reports.lint.document import Sentence
from reports.lint.facts.clauses import TIME_OF_DAY
from reports.lint.findings import Context, Finding, at

INSTANT = re.compile(r"\b(?:\d{4}-\d\d-\d\d|\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)\b")
STOPWATCH = re.compile(
    r"\[\+?(\d+\.\d+)\s?s?\]|(?<![\w.])(?:[Tt]\s?[+=]\s?|\+)(\d+(?:\.\d+)?)\s?s(?:ec(?:onds?)?)?\b"
)
"""A timeline counted in seconds from the incident's first event: *[4.50]*, *T+4.5 s*, *+4.5s*."""
_LOCAL = re.compile(r"\b(?:local|CET|CEST|EST|EDT|PST|PDT|my time|our time)\b")
_DAY_US = 86_400_000_000
_WAITED = re.compile(
    r"\b(?:waited?|waiting|sleep|sleeps?|pause\w*)\b[^.;]{0,30}?\b(\d+|"
    + "|".join(words.NUMBER_WORDS)
    + r")\s?s(?:econds?)?\b|"
    r"\b(\d+|"
    + "|".join(words.NUMBER_WORDS)
    + r") seconds? (?:is|are|was|were|after|before|later|between)\b|\bsleep \d+ is\b",
    re.IGNORECASE,
)


def instants(context: Context) -> Iterator[Finding]:
    """C09: a date or time of day is that of a recorded event."""
    for sentence in context.claims:
        for found in INSTANT.finditer(sentence.plain):
            if found[0] in context.record.instants or _near_instant(context, found[0]):
                continue
            if context.strict(sentence) or _outside(context, sentence, found[0]):
                yield at(sentence, "C09", f"no event was recorded at {found[0]}")
        for found in STOPWATCH.finditer(sentence.bare):
            digits = found[1] or found[2]
            apart = not context.strict(sentence) and _apart(context, Fraction(digits))
            if not (_on_stopwatch(context, digits) or apart):
                yield at(sentence, "C09", f"no event was recorded {found[0]} after the first one")


def _outside(context: Context, sentence: Sentence, said: str) -> bool:
    """Whether a time in free prose can be that of nothing on record.

    Between two events much may be told of a moment that has none; before the first one and after
    the last there is nothing. A time with a fraction was read somewhere.
    """
    found = TIME_OF_DAY.fullmatch(said)
    if found is None or _LOCAL.search(sentence.plain):
        return False
    hour, minute, second, rest = (part or "" for part in found.groups())
    at_us = ((int(hour) * 60 + int(minute)) * 60 + int(second or 0)) * 1_000_000
    width = 1_000_000 if second else 60_000_000
    told = [event.ts_us for event in context.record.events]
    first, last = min(told) % _DAY_US, max(told) % _DAY_US
    if first > last:
        return False  # a record over midnight
    if rest and not _stamped(context, at_us + int(rest.ljust(6, "0")), 10 ** (6 - len(rest))):
        return True
    return at_us + width <= first or at_us - width >= last


def _stamped(context: Context, at_us: int, width: int) -> bool:
    """Whether a reading holds a time within a width."""
    return any(
        abs(ms * 1_000 % _DAY_US - at_us) <= width
        for seen in context.record.observations.values()
        for ms in _stamps(seen)
    )


def _stamps(seen: object) -> Iterator[int]:
    """Times in milliseconds that a reading holds."""
    if isinstance(seen, dict):
        for name, inner in seen.items():
            if isinstance(inner, int) and str(name).endswith("unix_ms"):
                yield inner
            else:
                yield from _stamps(inner)
    elif isinstance(seen, list):
        for inner in seen:
            yield from _stamps(inner)


def _on_stopwatch(context: Context, digits: str) -> bool:
    """Whether an event stands so many seconds after an incident's first, to the last digit."""
    opened: dict[str, int] = {}
    for event in context.record.events:
        if event.incident is not None:
            opened.setdefault(event.incident, event.ts_us)
    wanted, width = float(digits) * 1e6, 10.0 ** (6 - len(digits.partition(".")[2]))
    return any(
        abs(event.ts_us - start_us - wanted) < width
        for event in context.record.events
        for start_us in opened.values()
    )


def _near_instant(context: Context, said: str) -> bool:
    """Whether an event stands within one unit of a time's last digit."""
    found = TIME_OF_DAY.fullmatch(said)
    if found is None:
        return False
    hour, minute, second, rest = (part or "" for part in found.groups())
    at_us = ((int(hour) * 60 + int(minute)) * 60 + int(second or 0)) * 1_000_000
    at_us += int(rest.ljust(6, "0")) if rest else 0
    width = 10 ** (6 - len(rest)) if second else 60_000_000
    return any(abs(event.ts_us % _DAY_US - at_us) < width for event in context.record.events)


def _apart(context: Context, seconds: Fraction) -> bool:
    """Whether any two events are so many seconds apart, to the last digit."""
    step = Fraction(1_000_000, seconds.denominator)
    return context.record.lasted(seconds * 1_000_000 - step, seconds * 1_000_000 + step)


def waits(context: Context) -> Iterator[Finding]:
    """C09: how long something took is read from clocks, not from the argument of a sleep."""
    if context.record.has_clock:
        return
    for sentence in context.claims:
        if _WAITED.search(sentence.bare) and words.OPENS.search(sentence.plain) is None:
            yield at(sentence, "C09", "the record holds no clock: the real time between is unknown")


RULES = (instants, waits)
