"""Walks log lines past the catalogue.

Here: which signature stands in which line, and the few that need to know what stood before. Not
here: what follows from them (``agentops.diagnosis.diagnose``), nor decoding bytes
(``agentops.diagnosis.lines``).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentops.diagnosis.catalogue import CATALOGUE
from agentops.diagnosis.lines import LINE_BYTES_MAX, LogLine
from agentops.diagnosis.signature import Signature

# An out-of-memory error below these frames struck while kernels were being timed.
_AUTOTUNE = re.compile(r"benchmark_all_configs|benchmark_gpu|do_bench|autotun\w*\.py")
_AUTOTUNE_LINES = 60
_STREAMS = re.compile(
    r"(?i)\basync\w* (?:d2h|post-?process\w*|copy|copies)|\bsecond(?:ary)? (?:cuda )?stream"
    r"|\bside stream|\brecord_stream|\bnon_blocking=True"
)
# Literals of which a line that matters to what follows holds one.
CONTEXT_NEEDLES = (
    b"benchmark_all_configs",
    b"benchmark_gpu",
    b"do_bench",
    b"autotun",
    b"async",
    b"stream",
    b"non_blocking=true",
)
_CONTEXT_WORDS = tuple(needle.decode() for needle in CONTEXT_NEEDLES)
_OOM = frozenset({"F01", "F02", "F03"})


@dataclass(frozen=True, slots=True)
class LineMatch:
    """One signature found in one line."""

    signature: str
    number: int
    rank: int | None
    text: str


class Scanner:
    """Matches line after line; remembers a bounded amount of what stood before."""

    def __init__(self) -> None:
        self._autotune: dict[int | None, int] = {}
        self._streams = False

    def look(self, line: LogLine, among: Sequence[Signature] = CATALOGUE) -> LineMatch | None:
        """What stands in *line*, or None; *among* may leave out what cannot stand in it."""
        shown = line.text[:LINE_BYTES_MAX]
        lowered = shown.lower()
        if any(word in lowered for word in _CONTEXT_WORDS):
            if _AUTOTUNE.search(shown):
                self._autotune[line.rank] = line.number
            self._streams = self._streams or _STREAMS.search(shown) is not None
        # Specific ones stand first.
        found = next((row for row in among if row.matches(shown, lowered)), None)
        if found is None:
            return None
        return LineMatch(self._in_context(found.id, line), line.number, line.rank, line.text)

    def _in_context(self, name: str, line: LogLine) -> str:
        timed = self._autotune.get(line.rank)
        if name in _OOM and timed is not None and line.number - timed <= _AUTOTUNE_LINES:
            return "F04"
        if name == "F59" and self._streams:
            return "F58"
        return name
