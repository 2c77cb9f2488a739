"""Walks log lines past the catalogue.

Here: which signatures stand in which line. Not here: what follows from them
(``agentops.diagnosis.diagnose``), nor decoding bytes (``agentops.diagnosis.lines``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentops.diagnosis.catalogue import CATALOGUE
from agentops.diagnosis.signature import Signature

LINE_MAX = 8_192


@dataclass(frozen=True, slots=True)
class LineMatch:
    """One signature found in one line; number is 1-based."""

    signature: str
    number: int
    text: str


def first_match(line: str) -> Signature | None:
    """The first signature of the catalogue that *line* matches: specific ones stand first."""
    shown = line[:LINE_MAX]
    lowered = shown.lower()
    for candidate in CATALOGUE:
        if candidate.matches(shown, lowered):
            return candidate
    return None


def scan_lines(lines: Iterable[str]) -> Iterator[LineMatch]:
    """The matches in *lines*, at most one a line, in order."""
    for number, line in enumerate(lines, start=1):
        found = first_match(line)
        if found is not None:
            yield LineMatch(found.id, number, line[:LINE_MAX])
