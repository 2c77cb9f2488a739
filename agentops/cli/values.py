"""What the value of one argument may be, as ``argparse`` asks for it.

Each takes the text that was typed and gives the value, or says what is wrong with it. Not here:
values that need the journal, the inventory or the policy to be judged.
"""

import argparse
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from difflib import get_close_matches

_MOST = 1_000_000_000
_AGES_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DIGITS = 9
_SLOWEST = 10


def age_us(text: str) -> int | None:
    """An age in microseconds; None where the text is none.

    >>> age_us("15m"), age_us("15")
    (900000000, None)
    """
    unit_s = _AGES_S.get(text[-1:])
    number = text[:-1]
    if unit_s is None or not (number.isascii() and number.isdecimal()) or len(number) > _DIGITS:
        return None
    return int(number) * unit_s * 1_000_000


def day_us(text: str, now_us: int, *, utc: bool) -> int | None:
    """When ``today`` or ``yesterday`` began, in UTC or the local zone; None for any other word.

    >>> day_us("yesterday", 90_000_000_000, utc=True), day_us("monday", 0, utc=True)
    (0, None)
    """
    back = {"today": 0, "yesterday": 1}.get(text)
    if back is None:
        return None
    now = datetime.fromtimestamp(now_us / 1_000_000, tz=UTC)
    day = (now if utc else now.astimezone()).date() - timedelta(days=back)
    begun = datetime.combine(day, time(), tzinfo=UTC if utc else None)
    return int(begun.timestamp() * 1_000_000)


def nearest(given: str, known: Iterable[str]) -> str:
    """What was probably meant, to put behind what is wrong; nothing where nothing is near.

    >>> nearest("verfy", ["log", "verify"])
    '; did you mean verify?'
    """
    found = get_close_matches(given, list(known), n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""


def positive(text: str) -> int:
    """A whole number from 1 to a thousand million.

    >>> positive("12")
    12
    """
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number from 0 to a thousand million."""
    return _whole(text, 0)


def pid(text: str) -> int:
    """A process id, as Linux counts them."""
    return _whole(text, 1, 2**22 - 1)


def port(text: str) -> int:
    """A TCP port; 0 is a free one."""
    return _whole(text, 0, 65_535)


def seconds(text: str) -> float:
    """A span of 0 seconds or more that ends."""
    return _number(text, zero=True)


def rate(text: str) -> float:
    """A number above nought that is no infinity."""
    return _number(text, zero=False)


def scale(text: str) -> float:
    """How much slower than real time a staged world may run: a number above 0, 10 at most."""
    value = rate(text)
    if value > _SLOWEST:
        raise argparse.ArgumentTypeError(f"{text!r} is above {_SLOWEST}; a world would take hours")
    return value


def job(text: str) -> str:
    """The name of a job, as a key of policy.toml without quotes."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,63}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not of letters, digits, _ and -, 63 at most")
    return text


def words(text: str) -> str:
    """What a person says for the record: something at least."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} says nothing; it goes on record, so say why")
    return text


def _whole(text: str, least: int, most: int = _MOST) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
    return value


def _number(text: str, *, zero: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        least = "0 or more" if zero else "above 0"
        raise argparse.ArgumentTypeError(f"{text!r} is no number {least}")
    return value
