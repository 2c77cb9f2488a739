"""C24: references resolve, and a generated report equals its regeneration.

A sentence that carries event labels and says that it was generated is held to the letter: the
journal is told again and must say the same. Not here: hand-written sentences' content.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from journal import Reader
from reports.build import report_on
from reports.evidence import Evidence, NoIncidentError, gather
from reports.lint.document import Document, read, split
from reports.lint.findings import Context, Finding, at
from reports.model import Depth
from reports.render.overrides import Overrides
from reports.render.plain import render_line
from reports.sections.author import Author
from reports.standing import possible
from reports.wording.catalogue import Catalogue, load

_RECHECK = re.compile(r"agentops verify JOURNAL (?:&&|&amp;&amp;) agentops lint REPORT")
_HEAD = re.compile(
    r"^Report of incident `[^`\n]+` · .*\[e\d{4,}·"
    r'|<p class="eyebrow">Report of incident <code>',
    re.MULTILINE,
)
_LINE = re.compile(r"[^\n:]+: (\S+)\. [^\n]*\s*\Z")
_SECTION = re.compile(r"^## |<h2\b", re.MULTILINE)
_WORDS = re.compile(r"\w+")
_INCIDENT = re.compile(r"[Rr]eport of incident (?:<code>)?`?([^`<\s]+)")


def references(context: Context) -> Iterator[Finding]:
    """C24: every label names an event of the journal, by its number and its hash."""
    for sentence in context.document.sentences:
        for number, leaf in sentence.labels:
            if leaf and context.record.resolve(number, leaf) is None:
                yield at(sentence, "C24", f"no event has the label e{number:04d}·{leaf}")


def regenerated(context: Context, reader: Reader) -> Iterator[Finding]:
    """C24: what claims to be generated from the journal is what the journal generates."""
    if not generated(context.source):
        return
    named = _INCIDENT.search(context.source)
    if named is None:
        yield Finding(1, "C24", "the report names no incident", "")
        return
    try:
        using = context.overrides or Overrides(load())
        until = _cut_off(context, named[1])
        evidence = _as_it_stood(context, gather(reader, named[1], until=until), using.words)
        report = report_on(evidence, _depth(context.source), words=using.words)
    except NoIncidentError as error:
        yield Finding(1, "C24", str(error), "")
        return
    page = context.source.lstrip().lower().startswith("<!doctype")
    right = read(using.as_html(report) if page else using.as_markdown(report))
    yield from differences(context.document, right)


def generated(source: str) -> bool:
    """Whether a text has the head of our reports, or says how it is checked again."""
    return _RECHECK.search(source) is not None or _HEAD.search(source) is not None


def one_line(context: Context, reader: Reader) -> bool:
    """Whether a text is our report in one line, as the journal gives it."""
    found = _LINE.match(context.source)
    if found is None or found[1] not in context.record.incidents:
        return False
    words = (context.overrides or Overrides(load())).words
    evidence = _as_it_stood(context, gather(reader, found[1]), words)
    return render_line(report_on(evidence, "line", words=words)) == context.source.strip()


def standing_lines(context: Context, reader: Reader) -> frozenset[int]:
    """Lines of a generated text that say how far its journal was verified, as it can have been.

    A seal's number and time are no event's, so nothing but regeneration holds them.
    """
    named = _INCIDENT.search(context.source) if generated(context.source) else None
    if named is None or named[1] not in context.record.incidents:
        return frozenset()
    words = (context.overrides or Overrides(load())).words
    evidence = gather(reader, named[1], until=_cut_off(context, named[1]))
    evidence = _as_it_stood(context, evidence, words)
    told = _plain(Author(evidence, words).say("journal.verified").text)
    return frozenset(b.line for b in context.document.blocks if _plain(b.text).startswith(told))


def _as_it_stood(context: Context, evidence: Evidence, words: Catalogue) -> Evidence:
    """The evidence verified as far as the text says, if it can have been; else as far as it can."""
    said = _plain(" ".join(block.text for block in context.document.blocks))
    last, tried = evidence, set()
    for standing in possible(evidence.seals):
        last = replace(evidence, standing=standing)
        told = _plain(Author(last, words).say("journal.verified").text)
        if told not in tried and told in said:
            return last
        tried.add(told)
    return last


def _plain(text: str) -> str:
    """The words and numbers alone, which every form of a report has in common."""
    return f" {' '.join(_WORDS.findall(text))} "


def _depth(source: str) -> Depth:
    """How much a generated text tells."""
    if _RECHECK.search(source):
        return "command" if "Commands, one by one" in source else "incident"
    return "summary" if _SECTION.search(source) else "line"


def _cut_off(context: Context, incident: str) -> str | None:
    """The incident's last event that the report names: an appendix names all, the end the last."""
    labels = {label for sentence in context.document.sentences for label in sentence.labels}
    named = {event.id for event in context.record.named(labels)}
    ids = [e.id for e in context.record.events if e.incident == incident and e.id in named]
    return ids[-1] if ids else None


def differences(document: Document, right: Document) -> Iterator[Finding]:
    """C24: blocks, list numbers included, that only one of two documents has, or out of order."""
    wanted = [(block.number, block.text) for block in right.blocks]
    given = [(block.number, block.text) for block in document.blocks]
    wrong = [b for b, key in zip(document.blocks, given, strict=True) if key not in wanted]
    missing = [text for number, text in wanted if (number, text) not in given]
    bags = [(set(text.split()), text) for text in missing]
    for block in wrong:
        words = set(block.text.split())
        _, nearest = max(bags, key=lambda bag: _shared(words, bag[0]), default=(words, ""))
        truth = _only(nearest, block.text)
        message = "not what the journal says" + (f"; it says: {truth}" if truth else "")
        yield Finding(block.line, "C24", message, _only(block.text, nearest) or block.text)
    for text in missing[len(wrong) :]:  # one wrong block stands where one right block was
        yield Finding(1, "C24", "left out", text)
    if sorted(given, key=str) == sorted(wanted, key=str) and given != wanted:
        yield Finding(1, "C24", "in another order than the journal tells it", "")


def _only(one: str, other: str) -> str:
    """The sentences of one text that the other has not."""
    return " ".join(sentence for sentence in split(one) if sentence not in split(other))


def _shared(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, len(one | other))


RULES = (references,)
