"""The shape of a known failure text.

Here: ``Signature``. Not here: the catalogue (the neighbouring modules), nor how a log is walked
(``agentops.diagnosis.scan``).
"""

import re
from dataclasses import dataclass
from typing import Literal

Role = Literal["root", "cascade", "confirm", "info", "either"]
Relaunch = Literal["R0", "R1", "R2", "R3", "R4", "R5"]


@dataclass(frozen=True, slots=True)
class Signature:
    """One known failure text; a match is an observation with a role, never a cause by itself.

    needle is a literal in lower case that every match holds: a cheap test before the pattern.
    unless excludes look-alikes on the same line. relaunch says what may be done:
    R0 not unchanged, R1 once after cleanup, R2 with backoff, R3 hardware path, R4 keep running,
    R5 probe first. probe settles it, not_proof is what must not be concluded.
    """

    id: str
    title: str
    role: Role
    relaunch: Relaunch
    needle: str
    pattern: re.Pattern[str]
    probe: str
    not_proof: str
    unless: re.Pattern[str] | None = None

    def matches(self, line: str, lowered: str) -> re.Match[str] | None:
        """The match in *line*, or None; *lowered* is the line in lower case."""
        if self.needle not in lowered:
            return None
        found = self.pattern.search(line)
        if found is None or (self.unless is not None and self.unless.search(line)):
            return None
        return found


def signature(  # noqa: PLR0917 - a catalogue reads as a table, column by column
    id_: str,
    role: Role,
    relaunch: Relaunch,
    needle: str,
    pattern: str,
    title: str,
    probe: str,
    not_proof: str,
    *,
    unless: str | None = None,
) -> Signature:
    """One row of the catalogue, its patterns compiled."""
    return Signature(
        id=id_,
        title=title,
        role=role,
        relaunch=relaunch,
        needle=needle.lower(),
        pattern=re.compile(pattern),
        probe=probe,
        not_proof=not_proof,
        unless=None if unless is None else re.compile(unless),
    )
