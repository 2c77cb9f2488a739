"""C24: references resolve, and a generated report equals its regeneration.

A sentence that carries event labels and says that it was generated is held to the letter: the
journal is told again and must say the same. Not here: hand-written sentences' content.
"""

import re
from collections.abc import Iterator

from journal import Reader
from reports.build import build_report
from reports.evidence import NoIncidentError
from reports.lint.document import Document, read
from reports.lint.findings import Context, Finding, at
from reports.model import Depth
from reports.render.overrides import Overrides
from reports.wording.catalogue import load

_GENERATED = re.compile(r"agentops verify JOURNAL (?:&&|&amp;&amp;) agentops lint REPORT")
_INCIDENT = re.compile(r"[Rr]eport of incident (?:<code>)?`?([^`<\s]+)")


def references(context: Context) -> Iterator[Finding]:
    """C24: every label names an event of the journal, by its number and its hash."""
    for sentence in context.document.sentences:
        for number, leaf in sentence.labels:
            if leaf and context.record.resolve(number, leaf) is None:
                yield at(sentence, "C24", f"no event has the label e{number:04d}·{leaf}")


def regenerated(context: Context, reader: Reader) -> Iterator[Finding]:
    """C24: what claims to be generated from the journal is what the journal generates."""
    if not _GENERATED.search(context.source):
        return
    named = _INCIDENT.search(context.source)
    if named is None:
        yield Finding(1, "C24", "the report names no incident", "")
        return
    depth: Depth = "command" if re.search(r"Commands, one by one", context.source) else "incident"
    try:
        using = context.overrides or Overrides(load())
        until = _cut_off(context, named[1])
        report = build_report(reader, named[1], depth, words=using.words, until=until)
    except NoIncidentError as error:
        yield Finding(1, "C24", str(error), "")
        return
    page = context.source.lstrip().lower().startswith("<!doctype")
    right = read(using.as_html(report) if page else using.as_markdown(report))
    yield from differences(context.document, right)


def _cut_off(context: Context, incident: str) -> str | None:
    """The incident's last event that the report names: its appendix names them all."""
    labels = {label for sentence in context.document.sentences for label in sentence.labels}
    named = {event.id for event in context.record.named(labels)}
    ids = [e.id for e in context.record.events if e.incident == incident and e.id in named]
    return ids[-1] if ids else None


def differences(document: Document, right: Document) -> Iterator[Finding]:
    """C24: blocks, list numbers included, that only one of two documents has, or out of order."""
    wanted = [(block.number, block.text) for block in right.blocks]
    given = [(block.number, block.text) for block in document.blocks]
    wrong = [b for b, key in zip(document.blocks, given, strict=True) if key not in wanted]
    for block in wrong:
        yield Finding(block.line, "C24", "not what the journal says", block.text)
    missing = [text for number, text in wanted if (number, text) not in given]
    for text in missing[len(wrong) :]:  # one wrong block stands where one right block was
        yield Finding(1, "C24", "left out", text)
    if sorted(given, key=str) == sorted(wanted, key=str) and given != wanted:
        yield Finding(1, "C24", "in another order than the journal tells it", "")


RULES = (references,)
