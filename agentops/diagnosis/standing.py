"""Whether what a log once said still stands at its end.

Here: a mark for each exception or failure text, and when the job's progress after it disproves it.
Not here: reading counters (``agentops.diagnosis.progress``) or tracebacks
(``agentops.diagnosis.tracebacks``).

A program's standard output is mostly buffered and its standard error is not: the steps that stand
after the traceback of a program's end may have been made before it. So steps alone prove nothing
about an exception that nobody caught; a counter that went back, or a launcher's word about a new
start, does. For everything else steps must stand before and after, or the log must tell that it was
handled.
"""

import re
from collections import deque
from dataclasses import dataclass

from agentops.diagnosis.progress import Progress

_ADVANCES = 3
_NEAR_AFTER = 6
_NEAR_BEFORE = 3
_HANDLED = re.compile(
    r"(?i)\b(?:re-?try(?:ing)?|retried|caught|halv(?:ing|ed)|(?:decreas|reduc)(?:ing|ed) \w*[ -]?"
    r"(?:batch|size|length)|fall(?:ing|s)? back|continuing|trying|skipp(?:ing|ed)|ignor(?:ing|ed)"
    r"|recover(?:ing|ed)|attempt \d+)\b|\(expected\)|\bas expected\b|\bcould not be \w+; using\b"
)
_ENDING = re.compile(
    r"(?i)\btraining (?:has )?(?:failed|aborted|crashed)\b|(?<!non-)(?<!not )\bfatal\b"
    r"|\b(?:aborting|exiting|giving up|terminating)\b"
)
# What is written as a warning ended nothing by itself; NCCL warns of what ends it.
_WARNED = re.compile(r"\b\w*Warning: |^\[W\d{4} |(?<!NCCL )\bWARN(?:ING)?\b")
_STARTED_ANEW = re.compile(
    r"(?i)\bresum(?:ing|ed) (?:from|at)\b|\brestart(?:ing|ed|_count=[1-9])|\bwill restart\b"
)


@dataclass(slots=True)
class Mark:
    """One exception or failure text, and what the log told around it.

    uncaught: an exception that ended its program, as the traceback shows; ending: as words near it
    do. quoted: text of a note, a setting or a sample. outside: told by a kernel, a shell or a
    launcher. afterwards: a mere consequence, told after the job had said that it finished. line is
    where it ends, so far.
    """

    line: int
    advances: int
    backs: int
    told_before: bool
    uncaught: bool = False
    ending: bool = False
    quoted: bool = False
    outside: bool = False
    afterwards: bool = False
    handled: bool = False
    anew: bool = False

    @property
    def fatal(self) -> bool:
        """Whether the program ended with it; what is quoted ends nothing."""
        return (self.uncaught or self.ending) and not self.quoted

    def survived(self, progress: Progress) -> bool:
        """Whether the job demonstrably went on."""
        if self.afterwards:
            return True
        if progress.advances - self.advances < _ADVANCES:
            return False
        if self.fatal:
            return self.told_before and (self.anew or progress.backs > self.backs)
        return self.told_before or self.handled or self.quoted or self.outside


class Marks:
    """Makes marks, and lets the words around them tell of handling; memory is bounded."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._recent: list[Mark] = []
        self._latest: Mark | None = None
        self._before: deque[tuple[int, str]] = deque(maxlen=_NEAR_BEFORE)

    def mark(self, line: int, text: str = "") -> Mark:
        """A mark for what stands in *line*."""
        progress = self._progress
        made = Mark(line, progress.advances, progress.backs, told_before=progress.told)
        near = [said for at, said in self._before if line - at <= _NEAR_BEFORE]
        made.handled = _WARNED.search(text) is not None or any(map(_HANDLED.search, near))
        made.ending = any(map(_ENDING.search, near))
        self._recent.append(made)
        self._latest = made
        return made

    def outlived(self, mark: Mark) -> bool:
        """Whether the job has gone on after *mark* by now."""
        return mark.survived(self._progress)

    def hear(self, text: str, line: int) -> None:
        """Take one line's words; it may have a mark already."""
        self._before.append((line, text))
        if self._latest is None:
            return
        if _STARTED_ANEW.search(text):
            self._latest.anew = True
        if self._recent:
            handled = _HANDLED.search(text) is not None
            ending = _ENDING.search(text) is not None
            for mark in self._recent:
                mark.handled |= handled
                mark.ending |= ending
        self._recent = [mark for mark in self._recent if line - mark.line < _NEAR_AFTER]


@dataclass(slots=True)
class Run:
    """The same signature again and again without progress between: one run, one first place."""

    marks: list[Mark]

    def survived(self, progress: Progress, *, lasting: bool) -> bool:
        """Whether the job went on after all of it; a lasting condition is not disproved by that."""
        return all(mark.survived(progress) and (mark.quoted or not lasting) for mark in self.marks)

    def extend(self, mark: Mark, most: int = 16) -> None:
        """Take one more; the last ones decide, so that memory is bounded."""
        if mark not in self.marks[-1:]:
            self.marks = [*self.marks[-most:], mark]
