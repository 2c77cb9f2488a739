"""Bytes of a log as lines that can be matched, in bounded memory.

Here: splitting, decoding, taking off what is only dress: escape sequences, progress bars that
overwrite themselves, ranks, timestamps. Not here: what a line means (``agentops.diagnosis.scan``).

A carriage return ends a line as a newline does, so what a progress bar overwrites is still read;
a line longer than ``LINE_BYTES_MAX`` is cut and its rest skipped; bytes that are no UTF-8 are
replaced.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LINE_BYTES_MAX = 8_192
# CSI, OSC (ended by BEL or ST) and the two-byte escapes. Source: ECMA-48, 5.4 and 8.3.89.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_RANK = re.compile(r"^\s*\[(?:rank|default|Rank ?)?(\d{1,5})\]:?\s?|^(\d{1,5}): (?=\S)")
_TIME = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s+"
    r"(?:\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?\s*[:|-]?\s*)?"
    r"|^\[ *\d+\.\d{3,6}\] "
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without its dress. number counts newlines from 1; rank is None where none stands."""

    number: int
    rank: int | None
    text: str


def undressed(raw: str, number: int) -> LogLine:
    r"""The line without escapes, timestamp and rank.

    >>> undressed("[rank3]: \x1b[31mKeyboardInterrupt\x1b[0m", 7)
    LogLine(number=7, rank=3, text='KeyboardInterrupt')
    """
    text = _ESCAPES.sub("", raw)
    rank: int | None = None
    # Launchers put ranks before or after the time; two rounds take off both orders.
    for _ in range(2):
        text = _TIME.sub("", text, count=1)
        found = _RANK.match(text)
        if found is not None and rank is None:
            rank = int(found[1] or found[2])
            text = text[found.end() :]
    return LogLine(number, rank, text)


def split_lines(chunks: Iterable[bytes]) -> Iterator[LogLine]:
    """The lines of a stream of chunks, whatever their sizes."""
    number = 1
    rest = b""
    cut = False
    for chunk in chunks:
        pieces = re.split(rb"(\r\n|\r|\n)", rest + chunk) if chunk else [rest]
        # A trailing "\r" may be the first half of "\r\n"; it stays until more is known.
        rest = pieces.pop()
        if not rest and pieces and pieces[-1] == b"\r":
            rest = pieces.pop(-2) + pieces.pop()
        for text, end in zip(pieces[::2], pieces[1::2], strict=True):
            if text and not cut:
                yield undressed(text[:LINE_BYTES_MAX].decode("utf-8", "replace"), number)
            cut = False
            if end != b"\r":
                number += 1
        if len(rest) > LINE_BYTES_MAX:
            if not cut:
                yield undressed(rest[:LINE_BYTES_MAX].decode("utf-8", "replace"), number)
            rest, cut = b"", True
    if rest.strip() and not cut:
        yield undressed(rest[:LINE_BYTES_MAX].decode("utf-8", "replace"), number)
