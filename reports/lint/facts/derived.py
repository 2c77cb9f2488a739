"""Numbers that follow from readings: differences, ratios, CPU time, how often something was done.

Here: whether a number that stands in no event is such a one, of what its sentence speaks of. Not
here: intervals between events (``reports.lint.record``).
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from reports.lint.facts.clocks import worked
from reports.lint.facts.happenings import World
from reports.lint.words import family

_READ = (
    (family("step|steps"), "heartbeat", "step", 1),
    (family("loss|losses"), "heartbeat", "loss", 1),
    (family("throughput|tokens|faster|slower|speed"), "heartbeat", "tokens_per_s", 1),
    (re.compile(r"\bdB\b|\bdeciban|\bH\d\b"), "hypothesis", "db", 1),
    (
        family("byte|bytes|smaller|larger|shorter|longer|bigger|file|files|script|shrank|grew"),
        "file",
        "size",
        1,
    ),
    (family("memory|resident|RSS|MiB|KiB|GiB"), "row", "rss_kib", 1_024),
    (family("memory|GPU|card|cards|MiB"), "card", "used", 1_048_576),
)
_CPU = re.compile(r"\bCPU\b")
_RATIO = {"%", "x"}
_SCALE = {"KiB": 1_024, "MiB": 1_048_576, "GiB": 1_073_741_824, "kB": 1_000, "MB": 1_000_000}
_TIME_US = {"ms": 1_000, "milliseconds": 1_000, "s": 1_000_000, "seconds": 1_000_000}
_COUNTED = ("command", "effect", "outcome", "verdict", "condition", "met", "complete", "kind")


def derives(world: World, text: str, digits: str, unit: str | None) -> bool:
    """Whether the number is computed from what the text speaks of."""
    value = float(digits)
    width = 10.0 ** -len(digits.partition(".")[2])
    if unit in _TIME_US:
        known = [us / _TIME_US[unit] for us in worked(world)] if _CPU.search(text) else []
    elif unit in _RATIO:
        known = [number for pair in _pairs(world, text) for number in _ratios(*pair, unit=unit)]
    elif unit in _SCALE:
        known = [abs(a - b) / _SCALE[unit] for a, b in _pairs(world, text)]
    else:
        known = [abs(a - b) for a, b in _pairs(world, text)]
        known += [float(n) for n in _counts(world)] if unit is None else []
    return any(abs(number - value) < width for number in known)


def _pairs(world: World, text: str) -> Iterator[tuple[float, float]]:
    """Pairs of readings of each quantity that the text speaks of."""
    for words, kind, name, scale in _READ:
        if words.search(text):
            values = {v * scale for h in world.of(kind) if (v := _number(h.get(name))) is not None}
            yield from combinations(sorted(values), 2)


def _ratios(low: float, high: float, *, unit: str | None) -> Iterator[float]:
    if low <= 0:
        return
    if unit == "x":
        yield high / low
    else:
        yield from (100 * low / high, 100 * (high - low) / high, 100 * (high - low) / low)


def _counts(world: World) -> set[int]:
    """How many things of a kind there are, in the incident and around it, and of an attribute."""
    found: set[int] = set()
    for chosen in (world.happenings, [h for h in world.happenings if h.inside]):
        kinds = Counter(h.kind for h in chosen)
        found |= set(kinds.values())
        for name in _COUNTED:
            found |= set(Counter((h.kind, str(h.get(name))) for h in chosen).values())
    return found


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
