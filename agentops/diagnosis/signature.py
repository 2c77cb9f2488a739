"""The shape of a known failure text.

Here: ``Signature``. Not here: the catalogue (the neighbouring modules), nor how a log is walked
(``agentops.diagnosis.scan``).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Role = Literal["root", "cascade", "confirm", "info", "either"]
Relaunch = Literal["R0", "R1", "R2", "R3", "R4", "R5"]


@dataclass(frozen=True, slots=True)
class Signature:
    """One known failure text; a match is an observation with a role, never a cause by itself.

    needles are literals in lower case of which every match holds one: a cheap test before the
    pattern. unless excludes look-alikes on the same line; holds looks at the numbers in a match.
    relaunch says what may be done: R0 not unchanged, R1 once after cleanup, R2 with backoff, R3
    hardware path, R4 keep running, R5 probe first. probe settles it; not_proof is what must not be
    concluded. lasting: a condition that the job's going on does not disprove, such as a full disk.
    outside: a kernel, shell, tool or launcher wrote the line, or it tells of a wait: steps below it
    came after it.
    """

    id: str
    title: str
    role: Role
    relaunch: Relaunch
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    probe: str
    not_proof: str
    unless: re.Pattern[str] | None = None
    holds: Callable[[re.Match[str]], bool] | None = None
    lasting: bool = False
    outside: bool = False

    def matches(self, line: str, lowered: str) -> re.Match[str] | None:
        """The match in *line*, or None; *lowered* is the line in lower case."""
        if not any(needle in lowered for needle in self.needles):
            return None
        found = self.pattern.search(line)
        if found is None or (self.unless is not None and self.unless.search(line)):
            return None
        return found if self.holds is None or self.holds(found) else None


@dataclass(frozen=True, slots=True)
class Row:
    """A signature as the catalogue writes it, in texts; needles are parted by a bar."""

    id: str
    role: Role
    relaunch: Relaunch
    needles: str
    pattern: str
    title: str
    probe: str
    not_proof: str
    unless: str | None = None
    holds: Callable[[re.Match[str]], bool] | None = None
    lasting: bool = False
    outside: bool = False

    def compiled(self) -> Signature:
        """The signature, ready to match."""
        return Signature(
            id=self.id,
            title=self.title,
            role=self.role,
            relaunch=self.relaunch,
            needles=tuple(self.needles.lower().split("|")),
            pattern=re.compile(self.pattern),
            probe=self.probe,
            not_proof=self.not_proof,
            unless=None if self.unless is None else re.compile(self.unless),
            holds=self.holds,
            lasting=self.lasting,
            outside=self.outside,
        )
