"""Python's tracebacks as logs hold them: chains of exceptions, per rank.

Here: which exception began a chain, whether it ended its program, and whether it is a quotation.
Not here: known texts (``agentops.diagnosis.catalogue``), nor whether the job went on
(``agentops.diagnosis.standing``).

A traceback whose outermost frame is a module's top level, run as the program, was caught by nobody.
One whose outermost frame is a function was printed by whoever caught it. One that is indented,
or whose frames are all in ``<string>``, is a quotation or somebody else's code.

What stands before a traceback's header (a container's or pod's name) is taken off its lines, and
tells sources apart as ranks do. Structured logs hold a whole traceback in one line, escaped.
"""

import re
from dataclasses import dataclass

from agentops.diagnosis.lines import LogLine
from agentops.diagnosis.standing import Mark, Marks

HEADER = "Traceback (most recent call last)"
NEEDLE = b"traceback (most recent call last)"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+(?:, in (?P<where>\S+))?')
_BOXED_FRAME = re.compile(r"^\s*(?P<file>\S+\.py):\d+ in (?P<where>\S+)")
_END = re.compile(r"^(?P<module>(?:\w{1,80}\.){0,12})(?P<type>[A-Za-z_]\w{0,80})(?:$|: ?|\()")
_TYPE = re.compile(
    r"(?i:error|timeout)$|(?:Exception|Interrupt|Exit|Fail(?:ed|ure)|Fault|Violation|Warning)$"
)
_CAUSED = "The above exception was the direct cause of the following exception"
_DURING = "During handling of the above exception, another exception occurred"
_IGNORED = ("Exception ignored in", "Exception ignored on", "--- Logging error ---")
_ASKED = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit", "BrokenPipeError"})
# A look-up that misses is the common way to learn that something else must be tried.
_MISSES = frozenset({"KeyError", "AttributeError", "StopIteration", "Empty", "ImportError"})
_UNCAUGHT = frozenset({"<module>", "_run_module_as_main", "_wrap"})
_LINES_MAX = 400
_IGNORED_WITHIN = 2
_CONNECT_WITHIN = 80
_MESSAGE_WITHIN = 10
_OPEN_MAX = 64
_KEPT = 64
_PREFIX_MAX = 120


@dataclass(slots=True)
class Chain:
    """Exceptions that led to one another; text and line are those of the first that tells why."""

    rank: int | None
    mark: Mark
    begun: int
    prefix: str = ""
    boxed: bool = False
    open: bool = True
    ignored: bool = False
    known: bool = False
    asked: bool = False
    kind: str = ""
    text: str = ""
    line: int = 0
    ended: int = 0
    frames: int = 0
    strings: int = 0
    _caused: bool = False

    def undressed(self, line: LogLine) -> LogLine:
        """The line without what stood before the header."""
        if not self.prefix or not line.text.startswith(self.prefix):
            return line
        return LogLine(line.number, line.rank, line.text[len(self.prefix) :])

    def frame(self, file: str, where: str) -> None:
        """Take one frame; the outermost stands first."""
        if self.frames == 0:
            foreign = file.startswith("<") and not file.startswith("<frozen")
            self.mark.uncaught |= where in _UNCAUGHT and not foreign
        self.frames += 1
        self.strings += file.startswith(("<string", "<stdin"))

    def end(self, text: str, kind: str, number: int) -> None:
        """Take the line that names the exception."""
        missed = self.kind in _MISSES and not self._caused
        if not self.kind or missed:
            self.kind, self.text, self.line = kind, text, number
        self.asked |= kind in _ASKED
        self.open, self.ended, self.mark.line = False, number, number
        self.mark.quoted |= self.frames > 0 and self.frames == self.strings

    def forget(self) -> None:
        """The exception just ended tells of a consequence only: the next one may tell why."""
        self.kind = ""

    def again(self, number: int, *, caused: bool) -> None:
        """The next exception of the chain follows; its frames tell who caught it."""
        self.open, self.frames, self.strings, self._caused = True, 0, 0, caused
        self.mark.uncaught, self.begun = False, number


class Tracebacks:
    """Follows the tracebacks of all ranks in a stream of lines; memory is bounded."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._now: dict[tuple[int | None, str], Chain] = {}
        self._ignored_at: dict[int | None, int] = {}
        self.chains: list[Chain] = []
        self.dropped = 0

    @property
    def waiting(self) -> bool:
        """Whether a traceback has not ended yet."""
        return any(chain.open for chain in self._now.values())

    def take(self, line: LogLine) -> Chain | None:
        """The chain that *line* belongs to, or None."""
        at = line.text.find(HEADER)
        if line.text.startswith(_IGNORED):
            self._ignored_at[line.rank] = line.number
        if at >= 0:
            chain = self._header(line, at)
            for part in line.text[at:].replace('\\"', '"').split("\\n")[1:]:
                # Escaped into one line by a structured log.
                if chain.open:
                    self._inside(chain, LogLine(line.number, line.rank, part.rstrip('"}')))
            return chain
        found = self._of(line) if self._now else None
        if found is None:
            return None
        line = found.undressed(line)
        return self._inside(found, line) if found.open else self._after(found, line)

    def _of(self, line: LogLine) -> Chain | None:
        """The newest chain of the line's rank, of its own source where that is told."""
        newest = None
        for (rank, prefix), chain in self._now.items():
            if rank == line.rank:
                if prefix and line.text.startswith(prefix):
                    return chain
                newest = chain
        return newest

    def _header(self, line: LogLine, at: int) -> Chain:
        before = line.text[:at]
        boxed = "\u256d" in before
        named = not boxed and before.strip() != "" and len(before) <= _PREFIX_MAX
        prefix = before if named and not before[-1:].isalnum() else ""
        chain = self._now.get((line.rank, prefix))
        connected = chain is not None and chain.open and chain.frames == 0 and chain.ended > 0
        if chain is None or not connected:
            chain = Chain(line.rank, self._marks.mark(line.number), line.number, prefix)
            self._keep(chain)
        chain.boxed = boxed
        chain.mark.quoted |= before[:1] in {" ", "\t"} and not chain.boxed
        # A header in the middle of another line: a buffer was cut where the program ended.
        chain.mark.uncaught |= before[-1:].isalnum()
        ignored = self._ignored_at.get(line.rank)
        chain.ignored |= ignored is not None and line.number - ignored <= _IGNORED_WITHIN
        return chain

    def _keep(self, chain: Chain) -> None:
        key = (chain.rank, chain.prefix)
        self._now.pop(key, None)
        if len(self._now) >= _OPEN_MAX:
            self._now.pop(next(iter(self._now)))
        self._now[key] = chain
        if len(self.chains) >= _KEPT:
            told = [
                kept
                for kept in self.chains
                if not (kept.known or kept.ignored or self._marks.outlived(kept.mark))
            ]
            self.chains = told[: _KEPT // 2]
            self.dropped += len(told) - len(self.chains)
        self.chains.append(chain)

    def _inside(self, chain: Chain, line: LogLine) -> Chain | None:
        text = line.text
        if chain.boxed:
            text = text.lstrip().removeprefix("\u2502").strip("\u2502 ")
        frame = (_BOXED_FRAME if chain.boxed else _FRAME).match(text)
        if frame is not None:
            chain.frame(frame["file"], frame["where"] or "<module>")
            return chain
        shown = line.text.strip() if chain.mark.quoted else line.text.rstrip()
        ended = None if shown[:1] in {" ", "\t"} else _END.match(shown)
        if ended is not None and chain.frames and _names_exception(ended):
            chain.end(shown, ended["type"], line.number)
        elif line.number - chain.begun > _LINES_MAX:
            self._now.pop((chain.rank, chain.prefix), None)
        return chain

    def _after(self, chain: Chain, line: LogLine) -> Chain | None:
        """A line behind an ended traceback: its message's next line, or a link to the next one."""
        since = line.number - chain.ended
        caused = _CAUSED in line.text
        if (caused or _DURING in line.text) and since <= _CONNECT_WITHIN:
            chain.again(line.number, caused=caused)
            return chain
        message = since <= 1 or (line.text[:1] in {" ", "\t"} and since <= _MESSAGE_WITHIN)
        return chain if message else None


def _names_exception(ended: re.Match[str]) -> bool:
    """By its ending, or a class of some module: other lines may stand between the frames."""
    named = ended["module"] != "" and ended["type"][:1].isupper()
    return named or _TYPE.search(ended["type"]) is not None
