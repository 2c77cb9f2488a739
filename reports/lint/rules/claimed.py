"""C24: a sentence that cites events as ours do is one of our claims, or in words of its own.

The incident is told again to its last depth. A sentence that ends in event labels and is nearly a
sentence of that telling, on some of the same events, has to be it: words and labels. Not here:
whole documents that say that they were generated (``integrity``), sentences in other words (the
rules on what happened).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from journal import Reader
from reports.build import report_on
from reports.evidence import gather
from reports.lint.document import Block, Document, read, split
from reports.lint.facts.vocabulary import RESOLUTIONS
from reports.lint.findings import Context, Finding
from reports.render.overrides import Overrides
from reports.render.plain import render_line
from reports.wording.catalogue import load

_NEAR = 0.75
_CITED = re.compile(
    r"((?:\[e\d{4,}·[0-9a-f]{8,64}\]\s*)+)(\[?\+\d+\]?)?"  # labels, and how many more there are
)
_LABEL = re.compile(r"\[e(\d{4,})·([0-9a-f]{8,64})\]")
_MARKS = re.compile(r"[\\`*«»“”\"|—]")
_LEAD = re.compile(rf"^(?:.* · |{RESOLUTIONS.pattern} (?=[A-Z]))")  # the head and the badge


@dataclass(frozen=True)
class Said:
    """Words without marks, and the labels behind them; ``more``: some labels are only counted."""

    words: str
    labels: tuple[tuple[int, str], ...]
    more: bool

    @cached_property
    def bag(self) -> Counter[str]:
        """The words, each with its number."""
        return Counter(self.words.split())

    def near(self, other: "Said") -> float:
        """How much of both is the same words, 0 to 1."""
        return 2 * (self.bag & other.bag).total() / (self.bag.total() + other.bag.total())

    def same(self, other: "Said") -> bool:
        """Whether both say the same of the same events, as far as both list them."""
        shown = min(len(self.labels), len(other.labels))
        whole = len(self.labels) == len(other.labels) or self.more or other.more
        return self.words == other.words and whole and self.labels[:shown] == other.labels[:shown]


def told(document: Document) -> Iterator[tuple[Block, Said, Said]]:
    """What stands before each group of labels: all of it, and its last sentence alone."""
    for block in document.blocks:
        start = 0
        for cited in _CITED.finditer(block.text) if block.kind != "code" else ():
            words = split(block.text[start : cited.start()].strip())
            start = cited.end()
            labels = tuple((int(number), leaf) for number, leaf in _LABEL.findall(cited[1]))
            whole, last = _flat(" ".join(words)), _flat(words[-1] if words else "")
            if whole and last:
                more = cited[2] is not None
                yield block, Said(whole, labels, more), Said(last, labels, more)


def _flat(words: str) -> str:
    return " ".join(_MARKS.sub(" ", _LEAD.sub("", words)).strip(" .,;").split())


def claimed(context: Context, reader: Reader) -> Iterator[Finding]:
    """C24: what is nearly a sentence of ours, on the same events, is that sentence."""
    given = list(told(context.document))
    if not given:
        return
    ours = _ours(context, reader, {label for _, whole, _ in given for label in whole.labels})
    for block, whole, last in given:
        on_same = [other for other in ours if set(whole.labels) & set(other.labels)]
        for one in dict.fromkeys((whole, last)):
            nearest = max(on_same, key=one.near, default=None)
            if nearest is None or one.near(nearest) < _NEAR:
                continue
            if not any(one.same(other) for other in on_same):
                message = f"not what these events say; they say: {_shown(nearest)}"
                yield Finding(block.line, "C24", message, _shown(one))
            break


def _shown(one: Said) -> str:
    return one.words + " " + "".join(f"[e{number:04d}·{leaf}]" for number, leaf in one.labels)


def _ours(context: Context, reader: Reader, labels: set[tuple[int, str]]) -> tuple[Said, ...]:
    """All that the incidents of the labels let a report say, now and when it may have been made."""
    cited = context.record.named(tuple(labels))
    using = context.overrides or Overrides(load())
    found: dict[Said, None] = {}
    for incident in dict.fromkeys(e.incident for e in cited if e.incident is not None):
        named = {event.id for event in cited}
        own = [e.id for e in context.record.events if e.incident == incident]
        last = next((event for event in reversed(own) if event in named), None)
        for until in dict.fromkeys((None if last == own[-1] else last, None)):
            report = report_on(gather(reader, incident, until=until), "command", words=using.words)
            for text in (using.as_markdown(report), render_line(report)):
                for _, one, other in told(read(text)):
                    found |= {one: None, other: None}
    return tuple(found)
