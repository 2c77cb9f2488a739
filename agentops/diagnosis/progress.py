"""Progress as logs tell it: counters of steps, epochs and bars.

Here: reading a line's counter, and whether counters went up or back. Not here: what progress says
of a failure (``agentops.diagnosis.standing``).

A counter that only repeats, as it does when eight ranks print the same step, is no advance. Bars of
loading, downloading and preparing are no progress of the job; a fraction or an epoch counts where
the same line tells a loss.
"""

import re
from dataclasses import dataclass, field

_STEP = re.compile(
    r"(?:(?<![a-zA-Z])(?:global_?)?[Ss]tep|\b[Ii]ter(?:ation)?)['\"]?[=: ]\s*(?P<at>\d{1,15})"
)
_EPOCH = re.compile(
    r"['\"](?:train_)?loss['\"]: .{0,400}['\"]epoch['\"]: (?P<at>\d{1,9}(?:\.\d{1,9})?)"
)
_BAR = re.compile(r"%\|[^|]*\|\s*(?P<at>\d{1,12})/\d+\s+\[[\d:]+<")
_FRACTION = re.compile(r"(?<![\d/.])(?P<at>\d{1,12})/\d{1,12}(?![\d/.])")
_EPOCH_WORD = re.compile(r"(?i)\bepoch\W{0,3}(?P<at>\d{1,9})\b")
_JOB = re.compile(r"(?i)\b(?:epoch|train|step|iter|fit)|^[\s\d]*$")
# Literals of which a line that tells progress holds one; with the first, most lines are decided.
LITERALS = (b"step", b"Step", b"iter", b"Iter", b"epoch", b"%|", b"loss", b"Loss")
_WORDS = tuple(literal.decode() for literal in LITERALS)
_FINISHED = re.compile(
    r"'train_runtime': |\b[Tt]rain(?:ing)? (?:is |has )?(?:finished|completed?|done)\b"
    r"|`max_(?:epochs|steps)=\d+` reached|\bworker group successfully finished\b"
    r"|\b(?:state|status)[=:] ?\"?finished\b"
)
# Literals, in lower case, of which a line that tells of the end holds one.
FINISH_LITERALS = (
    b"train_runtime",
    b"` reached",
    b"finished",
    b"train done",
    *(b"training " + word for word in (b"is", b"has", b"complete", b"done")),
)
_FINISH_WORDS = ("finished", "omplete", " done", "reached", "train_runtime")
_EDGE_BYTES = 400
_BACK_STEPS = 2


@dataclass(frozen=True, slots=True)
class Told:
    """One counter in one line."""

    kind: str
    at: float


def told_by(text: str) -> Told | None:
    """The counter in *text*, or None.

    >>> told_by("step=12 loss=3.4"), told_by("{'loss': 2.1, 'epoch': 0.5}")
    (Told(kind='step', at=12.0), Told(kind='epoch', at=0.5))
    >>> told_by("Loading shards:  12%|#   | 1/8 [00:04<00:31,  4.5s/it]") is None
    True
    """
    if not any(word in text for word in _WORDS):
        return None
    for kind, pattern in (("step", _STEP), ("epoch", _EPOCH), ("bar", _BAR)):
        found = pattern.search(text)
        if found is None:
            continue
        if kind == "bar" and not (_JOB.search(text[: found.start()]) or "loss" in text):
            continue
        return Told(kind, float(found["at"]))
    return _told_with_loss(text) if "loss" in text or "Loss" in text else None


def _told_with_loss(text: str) -> Told | None:
    """The last fraction in the line, else its epoch: the first ones may be dates."""
    fractions = _FRACTION.findall(text)
    if fractions:
        return Told("bar", float(fractions[-1]))
    found = _EPOCH_WORD.search(text)
    return None if found is None else Told("epoch", float(found["at"]))


@dataclass(slots=True)
class Progress:
    """What the lines so far told.

    advances counts how often a counter of one kind went beyond all before it; backs how often a
    step went back, as after a new start; step is the last step told; finished is whether the job
    said so, and no counter went on after that.
    """

    advances: int = 0
    backs: int = 0
    step: int | None = None
    finished: bool = False
    _highest: dict[str, float] = field(default_factory=dict)
    _last: dict[tuple[str, int | None], float] = field(default_factory=dict)

    @property
    def told(self) -> bool:
        """Whether any line told progress."""
        return bool(self._highest)

    def take(self, text: str, rank: int | None = None) -> bool:
        """Take one line; True where it told progress."""
        if any(word in text for word in _FINISH_WORDS) and _FINISHED.search(text):
            self.finished = True
        told = told_by(text)
        if told is None:
            return False
        kind, at = told.kind, told.at
        before = self._last.get((kind, rank))
        self._last[kind, rank] = at
        if kind == "step":
            self.step = int(at)
        highest = self._highest.get(kind)
        if before is not None and at <= before - _BACK_STEPS and kind != "epoch":
            # A bar begins again with each epoch; a step goes back only with a new start.
            self.backs += kind == "step"
            self._highest[kind] = at
        elif highest is None or at > highest:
            self.advances += 1
            self._highest[kind] = at
            self.finished = self.finished and _FINISHED.search(text) is not None
        return True

    def take_edges(self, block: bytes) -> None:
        """Take the first and the last counter of a block whose lines are not read one by one."""
        for literal in LITERALS:
            first, last = block.find(literal), block.rfind(literal)
            if first >= 0:
                told = [self.take(_around(block, at)) for at in dict.fromkeys((first, last))]
                if any(told):
                    return


def _around(block: bytes, at: int) -> str:
    """The line about *at*, as far as it matters."""
    begin = max(block.rfind(b"\n", 0, at), block.rfind(b"\r", 0, at), at - _EDGE_BYTES) + 1
    ends = [
        end for end in (block.find(b"\n", at, at + _EDGE_BYTES), block.find(b"\r", at)) if end >= 0
    ]
    return block[begin : min([*ends, at + _EDGE_BYTES])].decode("utf-8", "replace")
