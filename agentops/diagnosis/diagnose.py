"""From the matches of a log to what a person should look at first.

Here: the first root, what follows it, what to check next and what not to conclude. Not here: the
catalogue, or any claim about a cause: a match is an observation with a role.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentops.diagnosis.catalogue import BY_ID, CATALOGUE
from agentops.diagnosis.lines import LogLine, blocks, split_block
from agentops.diagnosis.scan import CONTEXT_NEEDLES, LineMatch, Scanner
from agentops.diagnosis.signature import Relaunch, Role

TEXT_MAX = 300
_STEP = re.compile(r"\bstep[=: ]\s*(\d+)")
_NEEDLES = tuple((row, tuple(needle.encode() for needle in row.needles)) for row in CATALOGUE)
_SETS_BACK = frozenset({"F54"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One signature in the log: its first place, how often it stood there, in which ranks."""

    signature: str
    title: str
    role: Role
    relaunch: Relaunch
    first_line: int
    count: int
    ranks: tuple[int, ...]
    text: str
    probe: str
    not_proof: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log shows, in the order of first appearance.

    first_root is the earliest line that may be a cause; None where only consequences stand in this
    log: then the cause is in another one. loop names a root that came back without a step between.
    """

    first_root: Finding | None
    roots: tuple[Finding, ...]
    cascades: tuple[Finding, ...]
    others: tuple[Finding, ...]
    loop: str | None
    lines: int
    last_step: int | None

    def checks(self) -> tuple[str, ...]:
        """What to look at next, most telling first."""
        ordered = (*self.roots, *self.others, *self.cascades)
        return tuple(dict.fromkeys(finding.probe for finding in ordered))

    def not_concluded(self) -> tuple[str, ...]:
        """What must not be concluded from these lines."""
        ordered = (*self.roots, *self.cascades, *self.others)
        return tuple(dict.fromkeys(finding.not_proof for finding in ordered))


class _Tally:
    """Findings as they gather; bounded by the catalogue's size, whatever the log's."""

    def __init__(self) -> None:
        self.first: dict[str, LineMatch] = {}
        self.count: dict[str, int] = {}
        self.ranks: dict[str, set[int]] = {}
        self.step: int | None = None
        self.steps_at: dict[str, int | None] = {}
        self.loop: str | None = None
        self.lines = 0

    def passed(self, block: bytes, number: int) -> None:
        """Take the end of a block: how many lines there were, and the last step in it."""
        self.lines = number if block[-1:] not in {b"\n", b"\r"} else number - 1
        at = block.rfind(b"step")
        told = None if at < 0 else _STEP.search(block[at : at + 40].decode("ascii", "replace"))
        if told is not None:
            self.step = int(told[1])

    def line(self, line: LogLine, match: LineMatch | None) -> None:
        """Take one line and what was found in it."""
        told = _STEP.search(line.text)
        if told is not None:
            self.step = int(told[1])
        if match is None:
            return
        name = match.signature
        self.first.setdefault(name, match)
        self.count[name] = self.count.get(name, 0) + 1
        if match.rank is not None:
            self.ranks.setdefault(name, set()).add(match.rank)
        self._looped(name, match)

    def _looped(self, name: str, match: LineMatch) -> None:
        """The same root again in the same rank, and the step did not advance in between."""
        if BY_ID.get(name) is None or BY_ID[name].role != "root":
            return
        key = f"{name}/{match.rank}"
        if key in self.steps_at and self.steps_at[key] == self.step and self.loop is None:
            self.loop = name
        self.steps_at[key] = self.step


def diagnose(chunks: Iterable[bytes]) -> Diagnosis:
    """Read a log as a stream; memory does not grow with it.

    A block that holds none of the catalogue's literals is only counted.
    """
    scanner, tally = Scanner(), _Tally()
    number = 1
    for block in blocks(chunks):
        lowered = block.lower()
        among = [row for row, needles in _NEEDLES if any(needle in lowered for needle in needles)]
        if among or any(needle in lowered for needle in CONTEXT_NEEDLES):
            for line in split_block(block, number):
                tally.line(line, scanner.look(line, among))
        number += block.count(b"\n")
        tally.passed(block, number)
    return _concluded(tally)


def _concluded(tally: _Tally) -> Diagnosis:
    findings = [_finding(tally, name) for name in tally.first]
    findings.sort(key=lambda finding: finding.first_line)
    confirmed = any(f.signature == "F53" for f in findings)
    if confirmed:
        # The kernel's own record explains a bare kill; the kill is then no root of its own.
        findings = [f for f in findings if f.signature not in _SETS_BACK]
    roots = tuple(f for f in findings if f.role == "root")
    either = tuple(f for f in findings if f.role == "either")
    if not roots:
        roots, either = either, ()
    elif either:
        # A line that may be both is a cause only if it stands before every clear root.
        early = tuple(f for f in either if f.first_line < roots[0].first_line)
        roots, either = (*early, *roots), tuple(f for f in either if f not in early)
    return Diagnosis(
        first_root=roots[0] if roots else None,
        roots=roots,
        cascades=(*(f for f in findings if f.role == "cascade"), *either),
        others=tuple(f for f in findings if f.role in {"info", "confirm"}),
        loop=tally.loop,
        lines=tally.lines,
        last_step=tally.step,
    )


def _finding(tally: _Tally, name: str) -> Finding:
    row, match = BY_ID[name], tally.first[name]
    return Finding(
        signature=name,
        title=row.title,
        role=row.role,
        relaunch=row.relaunch,
        first_line=match.number,
        count=tally.count[name],
        ranks=tuple(sorted(tally.ranks.get(name, ()))),
        text=match.text[:TEXT_MAX],
        probe=row.probe,
        not_proof=row.not_proof,
    )
