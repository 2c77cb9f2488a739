"""What a log's lines say, gathered while they pass; bounded by the catalogue, not by the log.

Here: first places, counts and ranks per signature, and which of them the job outlived. Not here:
roots and cascades (``agentops.diagnosis.diagnose``).
"""

from collections.abc import Iterable, Sequence

from agentops.diagnosis.catalogue import BY_ID, CATALOGUE
from agentops.diagnosis.lines import LogLine, undressed
from agentops.diagnosis.progress import Progress
from agentops.diagnosis.scan import LineMatch, Scanner
from agentops.diagnosis.signature import Row, Signature
from agentops.diagnosis.standing import Mark, Marks, Run
from agentops.diagnosis.tracebacks import Chain, Tracebacks

UNKNOWN = Row(
    "exception",
    "either",
    "R5",
    "\0",
    r"(?!)",
    "an exception that no signature knows",
    "the frames of the program's own files, innermost first; the same input again",
    "that a later message of the same chain, or of another rank, is the cause",
).compiled()
INTERRUPTED = "interrupt_taken"
_EXPLAINS = frozenset({"root", "either"})
_DISPROVABLE = frozenset({"root", "either", "cascade"})


class Gathered:
    """Findings as they gather."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.count: dict[str, int] = {}
        self.ranks: dict[str, set[int]] = {}
        self.loop: str | None = None
        self.lines = 0
        self._scanner = Scanner()
        self._marks = Marks(self.progress)
        self._tracebacks = Tracebacks(self._marks)
        self._first: dict[str, LineMatch] = {}
        self._runs: dict[str, Run] = {}
        self._gone: dict[str, LineMatch] = {}
        self._steps_at: dict[str, int | None] = {}

    @property
    def waiting(self) -> bool:
        """Whether the next lines matter whatever they hold: a traceback has not ended."""
        return self._tracebacks.waiting

    def line(self, line: LogLine, among: Sequence[Signature] = CATALOGUE) -> None:
        """Take one line; *among* may leave out signatures that cannot stand in it."""
        self.progress.take(line.text, line.rank)
        chain = self._tracebacks.take(line)
        shown = line if chain is None else chain.undressed(line)
        match = self._scanner.look(shown, among)
        if match is not None:
            self._take(match, chain)
        self._marks.hear(line.text, line.number)

    def _take(self, match: LineMatch, chain: Chain | None) -> None:
        name = match.signature
        row = BY_ID[name]
        if chain is not None and row.role in _EXPLAINS:
            chain.known = True
        elif chain is not None and row.role == "cascade" and chain.ended == match.number:
            chain.forget()
        if chain is not None and chain.ignored and row.role in _DISPROVABLE and not row.lasting:
            return
        mark = self._marks.mark(match.number, match.text) if chain is None else chain.mark
        mark.outside |= row.outside
        mark.afterwards |= row.role == "cascade" and self.progress.finished
        mark.quoted |= chain is None and _quoted(match.text, row)
        self._tally(name, match.rank)
        run = self._runs.get(name)
        if run is not None and not self._outlived(name, run):
            run.extend(mark)
        else:
            if run is not None:
                self._gone.setdefault(name, self._first[name])
            self._first[name] = match
            self._runs[name] = Run([mark])
        self._looped(name, match)

    def _outlived(self, name: str, run: Run) -> bool:
        row = BY_ID[name]
        lasting = row.relaunch == "R3" or row.lasting
        return row.role in _DISPROVABLE and run.survived(self.progress, lasting=lasting)

    def _comes_down(self, name: str, run: Run) -> bool:
        row = BY_ID[name]
        consequence = row.role in _DISPROVABLE and not row.lasting and not row.outside
        return consequence and self._interrupted_before(run.marks[0])

    def _interrupted_before(self, mark: Mark) -> bool:
        """Whether it happened while a program that was interrupted came down."""
        interrupted = self._runs.get(INTERRUPTED)
        if interrupted is None:
            return False
        last = interrupted.marks[-1]
        return mark.line > last.line and mark.advances == last.advances

    def _tally(self, name: str, rank: int | None) -> None:
        self.count[name] = self.count.get(name, 0) + 1
        if rank is not None:
            self.ranks.setdefault(name, set()).add(rank)

    def _looped(self, name: str, match: LineMatch) -> None:
        """The same root again in the same rank, and the step did not advance in between."""
        if BY_ID[name].role != "root":
            return
        key = f"{name}/{match.rank}"
        step = self.progress.step
        if key in self._steps_at and self._steps_at[key] == step and self.loop is None:
            self.loop = name
        self._steps_at[key] = step

    def standing(self) -> dict[str, LineMatch]:
        """By signature, the first place of what the job did not outlive."""
        found = {
            name: self._first[name]
            for name, run in self._runs.items()
            if not self._outlived(name, run) and not self._comes_down(name, run)
        }
        unknown = [chain for chain in self._unknown() if not chain.mark.survived(self.progress)]
        for chain in unknown:
            asked = self._interrupted_before(chain.mark)
            if not asked and not (chain.mark.handled and not chain.mark.fatal):
                self._count_unknown(unknown, self._tracebacks.dropped)
                found[UNKNOWN.id] = LineMatch(UNKNOWN.id, chain.line, chain.rank, chain.text)
                break
        return found

    def ended_with(self, name: str) -> bool:
        """Whether the job did not go on after this signature, whatever its role."""
        return not self._runs[name].survived(self.progress, lasting=False)

    def survived(self) -> dict[str, LineMatch]:
        """By signature, the first place of what the job outlived, where nothing of it stands."""
        standing = self.standing()
        gone = {
            name: self._gone.get(name, match)
            for name, match in self._first.items()
            if name not in standing
        }
        unknown = [chain for chain in self._unknown() if chain.mark.survived(self.progress)]
        if unknown and UNKNOWN.id not in standing:
            self._count_unknown(unknown)
            first = unknown[0]
            gone[UNKNOWN.id] = LineMatch(UNKNOWN.id, first.line, first.rank, first.text)
        return gone

    def _unknown(self) -> list[Chain]:
        return [
            chain
            for chain in self._tracebacks.chains
            if chain.kind and not (chain.known or chain.ignored or chain.asked)
        ]

    def _count_unknown(self, chains: Sequence[Chain], dropped: int = 0) -> None:
        self.count[UNKNOWN.id] = len(chains) + dropped
        ranks = {chain.rank for chain in chains if chain.rank is not None}
        self.ranks[UNKNOWN.id] = ranks


def standing_in(lines: Iterable[str]) -> tuple[tuple[LineMatch, int], ...]:
    """Known signatures that stand at the end of *lines*, with their first place and count.

    For deciding: what the job outlived is left out, and so are exceptions that no signature knows.
    """
    gathered = Gathered()
    for number, line in enumerate(lines, start=1):
        gathered.line(undressed(line, number))
    standing = gathered.standing()
    return tuple(
        (match, gathered.count[name]) for name, match in standing.items() if name != UNKNOWN.id
    )


def _quoted(text: str, row: Signature) -> bool:
    """Whether what matched stands inside quotation marks: a note, a setting, a sample."""
    found = row.pattern.search(text)
    if found is None:
        return False
    before = text[: found.start()]
    return before.count('"') % 2 == 1 or before.rstrip().endswith(("'", '"', "`"))
