"""Rules on words alone: absolutes, praise and blame, structure, quotations, secrets."""

import re
from collections import Counter
from collections.abc import Iterator

from journal.redaction import text_without_secrets
from reports.lint import words
from reports.lint.document import Block, Sentence
from reports.lint.findings import Context, Finding, asserted, at

_ATTRIBUTED = re.compile(
    r"\b(?:is|was|runs as|runs in) an? ([a-z]+) (container|host|machine|server|process|device)\b"
)
_WORDS = "|".join(words.NUMBER_WORDS)
_PAST_VERB = re.compile(
    r"\bnever (?:\w+ly )?(?:\w+ed|had|was|were|got|went|came|saw|ran|sent|took|left|rose|fell|did|"
    r"gave|became|began|made|kept|held|stood|needed|lost|showed|read|wrote|put)\b",
    re.IGNORECASE,
)
_NO_PAST = re.compile(r"\bnever (?:\w+ )?(?:will|can|does|is|are)\b", re.IGNORECASE)
_OF_ONESELF = re.compile(r"\bI (?:\w+ ){0,4}$")
_NEUTRAL = frozenset({"different", "new", "remote", "second", "separate", "single", "other"})
_FAREWELL = re.compile(
    r"(?:(?:best|kind|warm) regards|regards|cheers|yours|thanks|sincerely)\b", re.IGNORECASE
)
_QUOTE_WORDS_MIN = 3
# A page shows some labels and counts the rest: `[e0098·2aa21109] +1`.
_TERMINAL = re.compile(r"(?:[.!?:;…»”\")\]|`*]|\] \+\d+)$")


def quotations(context: Context) -> Iterator[Finding]:
    """C01: words between quotation marks are in the record, byte for byte."""
    for sentence in context.document.sentences:
        for quote in sentence.quotes:
            if len(quote.split()) < _QUOTE_WORDS_MIN and not sentence.labels:
                continue
            if context.record.holds(quote):
                continue
            if context.strict(sentence) or _misquoted(context, quote):
                yield at(sentence, "C01", f"nobody's recorded words: «{quote}»")


def _misquoted(context: Context, quote: str) -> bool:
    """Whether most of a quotation is recorded, one after the other, and the rest is not."""
    said = quote.split()
    run = max(_QUOTE_WORDS_MIN, len(said) // 2 + 1)
    runs = (" ".join(said[at : at + run]) for at in range(len(said) - run + 1))
    return len(said) > run and any(context.record.holds(each) for each in runs)


def attributes(context: Context) -> Iterator[Finding]:
    """C01: what a thing is said to be like is in the record too."""
    for sentence in filter(context.strict, context.claims):
        for adjective, kind in _ATTRIBUTED.findall(sentence.plain):
            if adjective.lower() not in _NEUTRAL and not context.record.holds(adjective):
                yield at(sentence, "C01", f"nothing recorded says {adjective} {kind}")


def absolutes(context: Context) -> Iterator[Finding]:
    """C21: no word that leaves no room for the world, outside proven predicates."""
    for sentence in filter(context.strict, context.claims):
        if context.weighed(sentence).supported:
            continue
        for found in words.ABSOLUTES.finditer(sentence.plain):
            if _plain(context, sentence, found):
                continue
            if _free(sentence, found.start()):
                yield at(sentence, "C21", f"an absolute: {found[0]!r}")
                break


def _plain(context: Context, sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether a word says no more than that something was not, or was so many, on record."""
    if not context.ground.worlds:
        return False
    past = _PAST_VERB.search(sentence.plain) is not None and _NO_PAST.search(sentence.plain) is None
    numbered = re.match(rf" (?:\d|(?:{_WORDS})\b)", sentence.plain[found.end() :])
    word = found[0].lower()
    return (word == "never" and past) or (word == "exactly" and numbered is not None)


def _free(sentence: Sentence, start: int) -> bool:
    """Whether a word is asserted and not taken back by the sentence."""
    return asserted(sentence.plain, start) and words.OPENS.search(sentence.plain) is None


def judgements(context: Context) -> Iterator[Finding]:
    """C20: no evaluative word; nobody is graded."""
    for sentence in filter(context.strict, context.claims):
        found = words.PRAISES.search(sentence.plain) or words.BLAMES.search(sentence.plain)
        if found is not None and _OF_ONESELF.search(sentence.plain[: found.start()]) is None:
            yield at(sentence, "C20", f"an evaluation, not an observation: {found[0]!r}")


def structure(context: Context) -> Iterator[Finding]:
    """C15: sections hold something, announced lists follow, numbers go on, the end is an end."""
    blocks = context.document.blocks
    free = bool(context.ground.worlds) and not any(s.labels for s in context.claims)
    for place, block in enumerate(blocks):
        following = blocks[place + 1] if place + 1 < len(blocks) else None
        previous = blocks[place - 1] if place else None
        if block.kind == "heading" and place and (following is None or _same(blocks, place)):
            if (free and block.guessed) or (following is None and _FAREWELL.match(block.text)):
                continue  # a line of its own that may be no heading at all
            yield Finding(block.line, "C15", "a section without content", block.text)
        announces = block.kind == "paragraph" and block.text.endswith(":")
        if announces and (
            following is None or (following.kind in {"heading", "paragraph"} and not free)
        ):
            yield Finding(block.line, "C15", "a list is announced and missing", block.text)
        if previous is not None and _hole(previous.number, block.number):
            yield Finding(block.line, "C15", "the numbering has a hole", block.text)
    if (
        not free
        and blocks
        and blocks[-1].kind == "paragraph"
        and not _TERMINAL.search(blocks[-1].text)
    ):
        yield Finding(blocks[-1].line, "C15", "the text breaks off", blocks[-1].text)


def _hole(before: int | None, after: int | None) -> bool:
    """Whether two neighbouring numbered items do not follow each other."""
    return before is not None and after is not None and after not in {before + 1, 1}


def _same(blocks: tuple[Block, ...], place: int) -> bool:
    """Whether a heading is followed by another one that is not below it."""
    following = blocks[place + 1]
    return following.kind == "heading" and following.level <= blocks[place].level


def secrets(context: Context) -> Iterator[Finding]:
    """C22: what the journal would redact stands in no report."""
    for number, line in enumerate(context.source.splitlines(), 1):
        counts: Counter[str] = Counter()
        text_without_secrets(line, counts)
        for rule in sorted(counts):
            yield Finding(number, "C22", f"a secret ({rule})", "")


RULES = (quotations, attributes, absolutes, judgements, structure, secrets)
