"""From the matches of a log to what a person should look at first.

Here: the first root, what follows it, what to check next and what not to conclude. Not here: the
catalogue, or any claim about a cause: a match is an observation with a role.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agentops.diagnosis.catalogue import BY_ID, CATALOGUE
from agentops.diagnosis.gathering import UNKNOWN, Gathered
from agentops.diagnosis.lines import blocks, split_block
from agentops.diagnosis.progress import FINISH_LITERALS
from agentops.diagnosis.scan import CONTEXT_NEEDLES, LineMatch
from agentops.diagnosis.signature import Relaunch, Role, Signature
from agentops.diagnosis.tracebacks import NEEDLE

TEXT_MAX = 300
_NEEDLES = tuple((row, tuple(needle.encode() for needle in row.needles)) for row in CATALOGUE)
_CONTEXT = (*CONTEXT_NEEDLES, *FINISH_LITERALS, NEEDLE)
# Most literals hold one of these: where it is absent from a block, so are they.
_SHARED = (b"err", b"exit", b"sig", b"nvidia", b"nco", b"tim", b"no ", b"ot ", b"kill", b"cuda")
_PARTS = {
    needle: next((part for part in _SHARED if part in needle), b"")
    for _, needles in _NEEDLES
    for needle in needles
}
_BARE_KILL = "F54"
_RECORD = "F53"


@dataclass(frozen=True, slots=True)
class Finding:
    """One signature in the log: its first place that stands, how often it stood, in which ranks."""

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
    log: then the cause is in another one. survived are failures after which the job went on. loop
    names a root that came back without a step between. progressed tells whether any line counted
    steps, epochs or a bar's units; last_step is None where none of them was a step.
    """

    first_root: Finding | None
    roots: tuple[Finding, ...]
    cascades: tuple[Finding, ...]
    others: tuple[Finding, ...]
    survived: tuple[Finding, ...]
    loop: str | None
    lines: int
    last_step: int | None
    progressed: bool

    @property
    def failed(self) -> bool:
        """Whether a failure stands at the log's end."""
        return bool(self.roots or self.cascades)

    def checks(self) -> tuple[str, ...]:
        """What to look at next, most telling first."""
        ordered = (*self.roots, *self.others, *self.cascades)
        return tuple(dict.fromkeys(finding.probe for finding in ordered))

    def not_concluded(self) -> tuple[str, ...]:
        """What must not be concluded from these lines."""
        ordered = (*self.roots, *self.cascades, *self.others)
        return tuple(dict.fromkeys(finding.not_proof for finding in ordered))


def diagnose(chunks: Iterable[bytes]) -> Diagnosis:
    """Read a log as a stream; memory does not grow with it.

    A block that holds none of the catalogue's literals is only counted.
    """
    gathered = Gathered()
    number = 1
    for block in blocks(chunks):
        lowered = block.lower()
        among = _possible(lowered)
        if among or gathered.waiting or any(needle in lowered for needle in _CONTEXT):
            for line in split_block(block, number):
                gathered.line(line, among)
        else:
            gathered.progress.take_edges(block)
        number += block.count(b"\n")
        gathered.lines = number if block[-1:] not in {b"\n", b"\r"} else number - 1
    return _concluded(gathered)


def _possible(lowered: bytes) -> list[Signature]:
    """The signatures of which a literal stands in the block, in the catalogue's order."""
    shared = {part for part in (b"", *_SHARED) if part in lowered}
    present = {needle for needle, part in _PARTS.items() if part in shared and needle in lowered}
    return [row for row, needles in _NEEDLES if not present.isdisjoint(needles)]


def _concluded(gathered: Gathered) -> Diagnosis:
    standing = gathered.standing()
    findings = [_finding(gathered, BY_ID.get(name, UNKNOWN), m) for name, m in standing.items()]
    findings.sort(key=lambda finding: finding.first_line)
    explained = any(f.signature == _RECORD for f in findings)
    killed = explained and any(f.signature == _BARE_KILL for f in findings)
    if killed:
        # The kernel's own record explains a bare kill: it is the root, and the kill is none.
        findings = [f for f in findings if f.signature != _BARE_KILL]
    roots = tuple(f for f in findings if f.role == "root" or (killed and f.signature == _RECORD))
    if not roots and explained and gathered.ended_with(_RECORD):
        roots = tuple(f for f in findings if f.signature == _RECORD)
    either = tuple(f for f in findings if f.role == "either")
    if not roots:
        roots, either = either, ()
    elif either:
        # A line that may be both is a cause only if it stands before every clear root, and no
        # hardware is at fault: the kernel's log is often appended to the program's.
        broken = any(root.relaunch == "R3" for root in roots)
        early = () if broken else tuple(f for f in either if f.first_line < roots[0].first_line)
        roots, either = (*early, *roots), tuple(f for f in either if f not in early)
    return Diagnosis(
        first_root=roots[0] if roots else None,
        roots=roots,
        cascades=(*(f for f in findings if f.role == "cascade"), *either),
        others=tuple(f for f in findings if f.role in {"info", "confirm"} and f not in roots),
        survived=tuple(
            _finding(gathered, BY_ID.get(name, UNKNOWN), match)
            for name, match in gathered.survived().items()
        ),
        loop=gathered.loop if gathered.loop in standing else None,
        lines=gathered.lines,
        last_step=gathered.progress.step,
        progressed=gathered.progress.told,
    )


def _finding(gathered: Gathered, row: Signature, match: LineMatch) -> Finding:
    return Finding(
        signature=row.id,
        title=row.title,
        role=row.role,
        relaunch=row.relaunch,
        first_line=match.number,
        count=gathered.count[row.id],
        ranks=tuple(sorted(gathered.ranks.get(row.id, ()))),
        text=match.text[:TEXT_MAX],
        probe=row.probe,
        not_proof=row.not_proof,
    )
