"""Rules on numbers: units, arithmetic, sources, durations, counts.

A number is recorded, or it is recomputed from what is recorded; its unit says its base.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from reports.lint import words
from reports.lint.document import Sentence
from reports.lint.facts.clauses import Duration, clauses, durations
from reports.lint.findings import Context, Finding, at
from reports.lint.rules.instants import INSTANT, STOPWATCH

_UNITS = {
    "B": 1, "byte": 1, "bytes": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "kilobytes": 10**3, "megabytes": 10**6, "gigabytes": 10**9, "kibibytes": 2**10,
    "mebibytes": 2**20, "gibibytes": 2**30, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_TIMES = {
    "ms": 1, "millisecond": 1, "milliseconds": 1, "s": 1000, "second": 1000, "seconds": 1000,
    "sec": 1000, "min": 60_000,
    "minute": 60_000, "minutes": 60_000, "hour": 3_600_000, "hours": 3_600_000, "h": 3_600_000,
    "days": 86_400_000, "day": 86_400_000,
}  # fmt: skip
_QUANTITY = re.compile(
    r"(?<![\w.·/-])(\d[\d,]*(?:\.\d+)?)\s?("
    + "|".join([*_UNITS, *_TIMES, "%", "x", "K", "M", "k"])
    + r")?(?![\w·])"
)
_SIZE = re.compile(r"(\d[\d,]*(?:\.\d+)?)\+?\s?(" + "|".join(_UNITS) + r")\b")
_PAIRED = re.compile(
    r"(\d[\d,]*(?:\.\d+)?)\s?([KMGT]i?B)\b[^.;]*?"
    r"\((?:the )?(\d[\d,]{3,})(?: value)? in ([KMGT]i?B)\b"
)
_PARAMETERS = re.compile(r"\b(\d+(?:\.\d+)?)B(?:-parameter| parameters)?\b")
_BYTES_PER = {
    "bfloat16": 2,
    "bf16": 2,
    "fp16": 2,
    "float16": 2,
    "fp32": 4,
    "float32": 4,
    "fp8": 1,
    "int8": 1,
}
_BITS = re.compile(r"\b(bfloat16|bf16|fp16|float16|fp32|float32|fp8|int8|FP4|fp4|int4)\b")
# What may be longer than what happened: limits, and what was before the record began.
_ALLOWED = re.compile(
    r"\b(?:limit\w*|budget|window|time-?outs?|allow\w*|deadline|approv\w*|expir\w*|default|config\w*"
    r"|period|max\w*|grace|setting|policy|up|uptime|boot\w*|ago|set|valid|lease|every)\b",
    re.IGNORECASE,
)
_SHARES = frozenset({"%", "x", "K", "M", "k"})
_OF_READINGS = re.compile(
    r"\b(?:steps?|loss|pids?|checkpoint|bytes:|size) (?:of |at |was |is )?$", re.IGNORECASE
)
_READING = re.compile(
    r" (?:bytes|(?:kilo|mega|giga|kibi|mebi|gibi)bytes|tokens|dB)\b", re.IGNORECASE
)
_LISTED = re.compile(rf"(?:, [\d.,]+)*,? (?:and|or|to) [\d.,]+ ({'|'.join([*_UNITS, *_TIMES])})\b")
_COMPARES = re.compile(
    r"\b(?:negligible|compared|small|large|fraction|on an?|out of|versus)\b", re.IGNORECASE
)
_VAGUE = re.compile(
    r"\b(?:minutes|hours|seconds)-long\b|\b\d+\s?[\u2013-]\s?\d+ (?:minutes|seconds|hours)\b"
)
_NUMBERED = re.compile(
    r"\b(?:msg|message|section|rule|figure|table|phase|version)[ .#-]?$", re.IGNORECASE
)
_COMPOUND = re.compile(r"\b(\d+) min (\d\d) s\b")
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE = re.compile(rf"\b(?:\d{{1,2}} (?:{_MONTHS})|(?:{_MONTHS}) \d{{1,2}}),? \d{{4}}\b")
_ENTRIES = re.compile(r" entr(?:y|ies)\b")
_SMALL_MAX = 12
_ROUND_ZEROS_MIN = 2
_TOLERANCE = Fraction(3, 100)


@dataclass(frozen=True, slots=True)
class _Size:
    value: Fraction
    unit: str

    @property
    def bytes(self) -> Fraction:
        return self.value * _UNITS[self.unit]


def sources(context: Context) -> Iterator[Finding]:
    """C23: a number stands in the record, or follows from it."""
    for sentence in context.claims:
        if words.OPENS.search(sentence.plain) and not sentence.labels:
            continue
        plain = _DATE.sub(_blank, INSTANT.sub(_blank, STOPWATCH.sub(_blank, sentence.bare)))
        missing = [
            found[0]
            for found in _QUANTITY.finditer(_COMPOUND.sub(_blank, plain))
            if (context.strict(sentence) or _bound(sentence, found))
            and not (
                _counted(context, sentence, found)
                or _sourced(context, found)
                or context.ground.derives(sentence.bare, found[1].replace(",", ""), found[2])
            )
        ]
        missing += _beyond(context, sentence)
        missing += [
            duration.text
            for duration in (durations(plain) if context.ground.worlds else ())
            if _worded(duration) and not _lasted(context, duration)
        ]
        missing += [
            found[0]
            for found in _COMPOUND.finditer(plain)
            if not _near_duration(context, Fraction(int(found[1]) * 60 + int(found[2])), "s")
        ]
        if missing:
            yield at(sentence, "C23", f"not in the record and not computed from it: {missing[0]}")


def _bound(sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether a number in free prose is of a quantity whose readings are all on record.

    A span or a size has its unit; any other number needs the word of what it counts beside it. A
    share or a factor may be computed of anything, and a cell of a table has its unit elsewhere.
    """
    if found[2] in _SHARES:
        return False
    if found[2] is not None:
        return True
    before, after = sentence.bare[: found.start()], sentence.bare[found.end() :]
    cell = sentence.kind == "row"
    return not cell and bool(_OF_READINGS.search(before) or _READING.match(after))


def _beyond(context: Context, sentence: Sentence) -> list[str]:
    """Spans that are told of the past and are longer than the whole record."""
    if not context.ground.worlds:
        return []
    times = [event.ts_us for event in context.record.events]
    whole = max(times) - min(times)
    return [
        duration.text
        for clause in clauses(sentence)
        if clause.past and not (clause.supposed or clause.future or _ALLOWED.search(clause.text))
        for duration in clause.durations
        if duration.than != "<" and duration.us - duration.step_us > whole
    ]


def _worded(duration: Duration) -> bool:
    """Whether a span is given by a number in words: *three minutes*, not *a minute*."""
    return duration.text.split()[0].lower() in words.NUMBER_WORDS


def _lasted(context: Context, duration: Duration) -> bool:
    """Whether a span of about that length is recorded; a bound is held elsewhere."""
    width = max(duration.step_us / 2, duration.us / 5)
    if duration.than != "=":
        width = max(width, duration.us / 2)
    return context.record.lasted(duration.us - width, duration.us + width)


def _counted(context: Context, sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether a number is a thing's own, or how long a list in a cited observation is."""
    if _NUMBERED.search(sentence.bare[: found.start()]):
        return True
    if not _ENTRIES.match(sentence.bare, found.end()):
        return False
    seen = [context.record.observation(event) for event in context.record.named(sentence.labels)]
    parts = [part for one in seen if isinstance(one, dict) for part in one.values()]
    return found[1] in {str(len(part)) for part in parts if isinstance(part, list)}


def _sourced(context: Context, found: re.Match[str]) -> bool:
    digits, unit = found[1].replace(",", ""), found[2]
    if unit is None and (listed := _LISTED.match(found.string, found.end())):
        unit = listed[1]  # 3.8, 1.0 and 0.8 seconds
    if unit in _TIMES:
        near = _near_duration(context, Fraction(digits), unit)
        return near or _glued(context, digits, unit)
    if unit in _UNITS:
        return _near_size(context, _Size(Fraction(digits), unit)) or _glued(context, digits, unit)
    if digits in context.record.numbers or ("." in digits and _rounded(context, digits)):
        return True
    if unit is None and "." not in digits:
        near = any(abs(known - int(digits)) < 1 for known in context.record.decimals)
        return int(digits) <= _SMALL_MAX or near or _cut(context, digits)
    return False


def _rounded(context: Context, digits: str) -> bool:
    """Whether a recorded number with more places gives this one, cut off or rounded."""
    value, width = float(digits), 10 ** -len(digits.partition(".")[2])
    return any(abs(known - value) < width for known in context.record.decimals)


def _cut(context: Context, digits: str) -> bool:
    """Whether a round number is a recorded one to as many places as it gives."""
    zeros = len(digits) - len(digits.rstrip("0"))
    value, width = int(digits), 10**zeros
    if zeros < _ROUND_ZEROS_MIN - (len(digits) > 3):  # noqa: PLR2004  (1,490 is round, 40 is not)
        return False
    known = (*context.record.decimals, *map(float, context.record.wholes))
    return any(abs(number - value) < width for number in known)


def _glued(context: Context, digits: str, unit: str) -> bool:
    """Whether the record holds the number with its unit."""
    written = rf"(?<![\w.]){re.escape(digits)}\s?{unit}\b"
    return re.search(written, context.record.folded) is not None


def _near_duration(context: Context, value: Fraction, unit: str) -> bool:
    """Whether a duration equals a recorded one to the precision in which it is printed."""
    step = Fraction(_TIMES[unit] * 1_000, value.denominator)
    wanted = value * _TIMES[unit] * 1_000
    return context.record.lasted(wanted - step, wanted + step)


def _near_size(context: Context, size: _Size) -> bool:
    """Whether a size equals a recorded one to the precision in which it is printed."""
    step = Fraction(_UNITS[size.unit], size.value.denominator)
    return any(abs(size.bytes - known) < step for known in context.record.sizes_bytes)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def arithmetic(context: Context) -> Iterator[Finding]:
    """C23, C05: conversions and products are computed again."""
    for sentence in context.claims:
        for value, unit, other, base in _PAIRED.findall(sentence.bare):
            stated = _Size(Fraction(value), unit).bytes
            # ps and /proc count in KiB, whatever a sentence calls it.
            for rule, factor in (("C05", 1024), ("C23", _UNITS[base])):
                known = Fraction(other.replace(",", "")) * factor
                if abs(stated - known) > known * _TOLERANCE:
                    yield at(
                        sentence, rule, f"{other} {base} are not {value} {unit} (KiB count by 1024)"
                    )
                    break
        yield from _model_size(sentence)


def _model_size(sentence: Sentence) -> Iterator[Finding]:
    """Parameters times bytes a parameter, for every number format that the sentence names."""
    formats = _BITS.findall(sentence.bare)
    parameters = _PARAMETERS.search(sentence.bare)
    sizes = [_Size(Fraction(v.replace(",", "")), u) for v, u in _SIZE.findall(sentence.bare)]
    if len(formats) < 2 or not parameters or not sizes:  # noqa: PLR2004  (one size, two formats)
        return
    count = Fraction(parameters[1]) * 10**9
    for name in formats:
        width = (
            Fraction(1, 2)
            if name.lower() in {"fp4", "int4"}
            else Fraction(_BYTES_PER[name.lower()])
        )
        fits = any(abs(size.bytes - count * width) <= count * width / 5 for size in sizes)
        if not fits:
            yield at(
                sentence,
                "C23",
                f"{parameters[0]} in {name} are {float(count * width / 10**9):g} GB",
            )
            return


def units(context: Context) -> Iterator[Finding]:
    """C05: sizes of different things are not compared; a cost has a measured number."""
    for sentence in filter(context.strict, context.claims):
        text = sentence.bare
        kinds = {
            kind
            for kind, pattern in (
                ("host memory", r"\bRSS\b|\bresident\b|\bRAM\b"),
                ("device memory", r"\bGPU\b|\bVRAM\b"),
            )
            if re.search(pattern, text)
        }
        if len(kinds) > 1 and len(_SIZE.findall(text)) > 1 and _COMPARES.search(text):
            yield at(sentence, "C05", "compares host memory with device memory")
        elif _VAGUE.search(text) and words.OPENS.search(text) is None:
            yield at(sentence, "C05", "a cost that was not measured")


def counts(context: Context) -> Iterator[Finding]:
    """C18: parts add up to the whole that the sentence names."""
    pattern = re.compile(r"\bOf (\d+)\b[^:;]*?[,:] ((?:\d+ [^,;]+(?:, |; | and )?)+)")
    for sentence in context.claims:
        found = pattern.search(sentence.bare)
        if found is None or " ended " not in sentence.bare:
            continue
        parts = [int(n) for n in re.findall(r"\b(\d+) ended", found[2])]
        if parts and sum(parts) != int(found[1]):
            yield at(sentence, "C18", f"{' + '.join(map(str, parts))} is not {found[1]}")


RULES = (sources, arithmetic, units, counts)
