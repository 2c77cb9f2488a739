"""Cited values: the only things a sentence template may print.

Here: the wrapper that carries a claim's value into a template, and the filters that give it a
form. Not here: the templates (``en.toml``) and the environment that runs them
(``reports.wording.catalogue``).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from types import MappingProxyType

from pydantic import JsonValue

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017  (3.11 on purpose reads the same)
_KIB = 1024
_SECOND_MS = 1_000
_MINUTE_MS = 60_000


class Cited:
    """A value out of a claim. ``style`` is how it looks: value, code or quote."""

    __slots__ = ("cited_raw", "cited_style", "cited_text")

    def __init__(self, raw: JsonValue, text: str | None = None, style: str = "value") -> None:
        self.cited_raw = raw
        self.cited_text = text
        self.cited_style = style

    def __getitem__(self, key: str | int) -> "Cited":
        if isinstance(self.cited_raw, dict) and isinstance(key, str):
            return Cited(self.cited_raw[key])
        if isinstance(self.cited_raw, list) and isinstance(key, int):
            return Cited(self.cited_raw[key])
        raise KeyError(key)

    def __iter__(self) -> Iterator["Cited"]:
        if not isinstance(self.cited_raw, list):
            raise TypeError(f"cannot go through {self.cited_raw!r}")
        return (Cited(entry) for entry in self.cited_raw)

    def __len__(self) -> int:
        return len(self.cited_raw) if isinstance(self.cited_raw, list | dict | str) else 0

    def __bool__(self) -> bool:
        return bool(self.cited_raw)

    def __eq__(self, other: object) -> bool:
        return bool(self.cited_raw == (other.cited_raw if isinstance(other, Cited) else other))

    def __hash__(self) -> int:
        return hash(str(self.cited_raw))

    @property
    def printed(self) -> str:
        """The text that a reader sees.

        Raises:
            ValueError: There is nothing to print: the claim holds no such value.
        """
        if self.cited_text is not None:
            return self.cited_text
        match self.cited_raw:
            case bool() as flag:
                return "yes" if flag else "no"
            case int() as number:
                return str(number)
            case str() as text:
                return text
            case _:
                raise ValueError(
                    f"{self.cited_raw!r} is not printable; the template must ask first"
                )


def quote(value: Cited) -> Cited:
    """The words, to be set between quotation marks exactly as recorded."""
    return Cited(value.cited_raw, value.printed, "quote")


def code(value: Cited) -> Cited:
    """The value in fixed width: names, paths, commands."""
    raw = value.cited_raw
    if isinstance(raw, list):
        text = " ".join(str(part) for part in raw)
    elif isinstance(raw, dict):
        text = json.dumps(raw, sort_keys=True, ensure_ascii=False)
    else:
        text = value.printed
    return Cited(raw, text, "code")


def duration(value: Cited) -> Cited:
    """Milliseconds as a person reads them, cut off, never rounded up.

    >>> [duration(Cited(n)).printed for n in (340, 12_345, 125_000, -5)]
    ['340 ms', '12.34 s', '2 min 05 s', '-5 ms']
    """
    milliseconds = _integer(value)
    if milliseconds < _SECOND_MS:
        text = f"{milliseconds} ms"
    elif milliseconds < _MINUTE_MS:
        seconds, rest = divmod(milliseconds, _SECOND_MS)
        text = f"{seconds}.{rest // 10:02d} s"
    else:
        minutes, rest = divmod(milliseconds, _MINUTE_MS)
        text = f"{minutes} min {rest // _SECOND_MS:02d} s"
    return Cited(milliseconds, text)


def moment(value: Cited) -> Cited:
    """Microseconds since the epoch as UTC, to the millisecond.

    >>> moment(Cited(1_796_000_000_123_456)).printed
    '2026-11-30 00:53:20.123 UTC'
    """
    instant = _EPOCH + timedelta(microseconds=_integer(value))
    text = instant.strftime("%Y-%m-%d %H:%M:%S.") + f"{instant.microsecond // 1000:03d} UTC"
    return Cited(value.cited_raw, text)


def clock(value: Cited) -> Cited:
    """Microseconds since the epoch as time of day, UTC.

    >>> clock(Cited(1_796_000_000_123_456)).printed
    '00:53:20.123'
    """
    instant = _EPOCH + timedelta(microseconds=_integer(value))
    return Cited(
        value.cited_raw, instant.strftime("%H:%M:%S.") + f"{instant.microsecond // 1000:03d}"
    )


def kibibytes(value: Cited) -> Cited:
    """KiB with the larger unit where it helps; the base is always said.

    >>> kibibytes(Cited(8_912_896)).printed, kibibytes(Cited(512)).printed
    ('8.50 GiB', '512 KiB')
    """
    return size(Cited(_integer(value) * _KIB))


def size(value: Cited) -> Cited:
    """Bytes in the largest binary unit that leaves at least one, cut off to two places.

    >>> [size(Cited(n)).printed for n in (0, 312, 1536, 5 * 1024**3)]
    ['0 bytes', '312 bytes', '1.50 KiB', '5 GiB']
    """
    count = _integer(value)
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    place, scale = 0, 1
    while count >= scale * _KIB and place < len(units) - 1:
        place, scale = place + 1, scale * _KIB
    whole, rest = divmod(count, scale)
    hundredths = rest * 100 // scale
    text = (
        f"{whole} {units[place]}" if hundredths == 0 else f"{whole}.{hundredths:02d} {units[place]}"
    )
    return Cited(count, text)


def counted(value: Cited, one: str, many: str) -> Cited:
    """A number with the noun that fits it; a list counts its entries.

    >>> counted(Cited(1), "event", "events").printed, counted(Cited([]), "row", "rows").printed
    ('1 event', '0 rows')
    """
    number = len(value) if isinstance(value.cited_raw, list) else _integer(value)
    return Cited(number, f"{number} {one if number == 1 else many}")


def human(value: Cited) -> Cited:
    """A recorded word with spaces for underscores."""
    return Cited(value.cited_raw, value.printed.replace("_", " "))


def capital(value: Cited) -> Cited:
    """A recorded word at the beginning of a sentence."""
    text = value.printed.replace("_", " ")
    return Cited(value.cited_raw, text[:1].upper() + text[1:])


def short(value: Cited) -> Cited:
    """At most eighty characters of a long text, with a mark where it was cut."""
    text = value.printed
    limit = 80
    return Cited(
        value.cited_raw,
        text if len(text) <= limit else text[: limit - 1].rstrip(" _-.,;:/") + "…",
        value.cited_style,
    )


def stem(value: Cited) -> Cited:
    """The words without a last full stop, for a sentence that sets its own.

    >>> stem(Cited("Ask again.")).printed, stem(Cited("and so on...")).printed
    ('Ask again', 'and so on...')
    """
    text = value.printed
    bare = text[:-1] if text.endswith(".") and not text.endswith("..") else text
    return Cited(value.cited_raw, bare, value.cited_style)


def _integer(value: Cited) -> int:
    if not isinstance(value.cited_raw, int):
        raise TypeError(f"{value.cited_raw!r} is not a number")
    return value.cited_raw


FILTERS: Mapping[str, Callable[..., Cited]] = MappingProxyType(
    {
        "q": quote,
        "code": code,
        "ms": duration,
        "time": moment,
        "clock": clock,
        "kib": kibibytes,
        "size": size,
        "counted": counted,
        "cap": capital,
        "human": human,
        "short": short,
        "stem": stem,
    }
)
