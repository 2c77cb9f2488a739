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
# As torchrun, Lightning, mpirun and srun label the lines of a rank; Ray names a process only.
_RANK = re.compile(
    r"^\s*\[(?:[Rr]ank:? ?|RANK:? ?|default)?(\d{1,5})\]:?\s?"
    r"|^\[\d+,(\d{1,5})\]<std(?:out|err)>:|^(\d{1,5}): (?=\S|  )"
)
_SOURCE = re.compile(r"^\((?:\w+ )?pid=\d+(?:, ip=[0-9a-fA-F.:]+)?\) ?|^std(?:err|out): ?")
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
        if text.startswith(("(", "std")):
            text = _SOURCE.sub("", text, count=1)
        found = _RANK.match(text)
        if found is not None and rank is None:
            rank = int(found[found.lastindex or 1])
            text = text[found.end() :]
    return LogLine(number, rank, text)


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The stream in blocks that end where a line ends, but the last; a line too long is cut."""
    rest = b""
    cut = False
    for chunk in chunks:
        data = rest + chunk
        # A "\r" at the very end may be the first half of "\r\n"; it stays until more is known.
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        block, rest = data[:end], data[end:]
        if block and cut:
            ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
            block, cut = block[min(ends) :], False
        if block:
            yield block
        if len(rest) > LINE_BYTES_MAX:
            if not cut:
                yield rest[:LINE_BYTES_MAX]
            rest, cut = b"", True
    if rest and not cut:
        yield rest


def split_block(block: bytes, number: int) -> Iterator[LogLine]:
    """The lines of one block, whose first line has *number*."""
    for part in block.split(b"\n"):
        for piece in part.split(b"\r"):
            if piece:
                yield undressed(piece[:LINE_BYTES_MAX].decode("utf-8", "replace"), number)
        number += 1


def split_lines(chunks: Iterable[bytes]) -> Iterator[LogLine]:
    """The lines of a stream of chunks, whatever their sizes."""
    number = 1
    for block in blocks(chunks):
        yield from split_block(block, number)
        number += block.count(b"\n")
