"""Rules on support: truncation, states, verdicts, proofs, horizon.

Not here: motives, causes and guesses (``causes``).
"""

import re
from collections.abc import Iterator

from reports.lint import words
from reports.lint.document import Sentence
from reports.lint.findings import Context, Finding, asserted, at

_PREDICATE = (
    r"\b(?:is|are|was|were|be|been|being|has|have|had|remain\w*|stay\w*|left)\b[^.;:,]{0,40}$"
)
_FINITE = re.compile(
    r"^(?:survived|succeeded|exited|finished|crashed|recovered|stopped|continues|completed)$",
    re.IGNORECASE,
)
_CIRCUMSTANCE = re.compile(
    r"\b(?:while|when|whenever|as long as|before|after|until|once|by the time|would)\b[^,;]*$",
    re.IGNORECASE,
)
_OBJECT = re.compile(r" (?:its|the|an?|that|\d)\b", re.IGNORECASE)
_NOUNED = re.compile(
    r"^\W*(?:state|slate|exit|termination|restart|process|processes|shutdown)\b", re.IGNORECASE
)
_LISTING = re.compile(
    r"\b(?:list\w*|output|rows?|process\w*|capture\w*|story|picture)\b", re.IGNORECASE
)
_AT_PRESENT = re.compile(r"\b(?:is|are) (?:\w+ ){0,2}?\w+ing now\b", re.IGNORECASE)
_ASIDE = re.compile(r"\b(?:rather than|instead of|not) (?:an? )?[\w-]+(?: one)?\b", re.IGNORECASE)
_IS_SO = re.compile(
    r"\b(?:is|are|has been|have been) (?:still |now |again |back )?(?:up and )?"
    r"(?:training|running|stepping|progressing|advancing|working|alive|healthy|stable|up|fine|hung"
    r"|stuck|idle|still \w+ing|learning|converging|in good shape|back to normal)\b"
    r"(?! (?:in|under|on|as|with)\b)",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"\b(?:please|let|do not|don't|if|when|assume|I|you|we)\b", re.IGNORECASE)
_PRESENT = re.compile(r"\b(?:is|are|has|have|stands?|runs?|remains?)\b", re.IGNORECASE)
_SEEN_AT = re.compile(
    r"\d:\d|\b(?:at (?:\d|the|that|this|its|each)|in (?:\d|the|that|its|every|each)"
    r"|by|when|as of|until|last|listing|listed|heartbeat|readings?|read|said|says|"
    r"shows?|showed|according|confirmed|if|whether|would|that (?:it|the|they))\b",
    re.IGNORECASE,
)


def truncation(context: Context) -> Iterator[Finding]:
    """C07: over a truncated capture nothing is said of all, none, only or alone."""
    if not any(command.truncated for command in context.record.commands):
        return
    for sentence in context.claims:
        found = words.TOTALS.search(sentence.plain)
        if found and _LISTING.search(sentence.bare) and _open_sentence(sentence, found.start()):
            yield at(sentence, "C07", f"{found[0]!r} over a capture that was cut off")


def _open_sentence(sentence: Sentence, place: int) -> bool:
    return asserted(sentence.plain, place) and words.OPENS.search(sentence.plain) is None


def verdicts(context: Context) -> Iterator[Finding]:
    """C13: a state of the world is said with the event that showed it."""
    for sentence in filter(context.strict, context.claims):
        if words.OPENS.search(sentence.plain) or _shown(context, sentence):
            continue
        for found in words.STATES.finditer(_weighed_against(sentence.plain)):
            if _quoted(context, sentence, found[0]):
                continue
            if _stated(sentence.plain, found) and not _chosen(context, sentence, found[0]):
                yield at(sentence, "C13", f"a state without its evidence: {found[0]!r}")
                break


def _stated(text: str, found: re.Match[str]) -> bool:
    """Whether a state word is the predicate of an assertion."""
    before = text[: found.start()]
    if re.match(r" (?:on|up|through|back)\b", text[found.end() :]):
        return False  # it went on, and was not gone
    if _CIRCUMSTANCE.search(before) or _OBJECT.match(text[found.end() :]):
        return False  # when something was; what was finished, not that it is
    if before.endswith(("ended ", "command ")):
        return False  # the word of an outcome, not a state
    as_predicate = re.search(_PREDICATE, before, re.IGNORECASE) is not None
    as_verb = _FINITE.match(found[0]) is not None
    with_noun = _NOUNED.match(text[found.end() :]) is not None
    return (as_predicate or as_verb or with_noun) and asserted(text, found.start())


def _quoted(context: Context, sentence: Sentence, word: str) -> bool:
    """Whether a word stands in a quotation of what is recorded."""
    return any(word in quote and context.record.holds(quote) for quote in sentence.quotes)


def _shown(context: Context, sentence: Sentence) -> bool:
    """Whether the sentence says what is on record, or cites an outcome or reading."""
    if context.weighed(sentence).supported:
        return True
    named = context.record.named(sentence.labels)
    kinds = {"command_completed", "command_failed", "observation_parsed", "incident_closed"}
    return any(event.id in context.record.verdicts or event.kind in kinds for event in named)


def proofs(context: Context) -> Iterator[Finding]:
    """C13: ``confirms`` and its like stand for a verdict event."""
    for sentence in filter(context.strict, context.claims):
        found = words.PROOFS.search(_weighed_against(sentence.plain))
        if found is None or words.OPENS.search(sentence.plain) or _shown(context, sentence):
            continue
        told = _chosen(context, sentence, found[0])
        if asserted(sentence.plain, found.start()) and not told:
            yield at(sentence, "C13", f"{found[0]!r} without a verdict")


def _weighed_against(text: str) -> str:
    """The text with what it sets aside blanked, so that places stay."""
    return _ASIDE.sub(lambda found: " " * len(found[0]), text)


def _chosen(context: Context, sentence: Sentence, word: str) -> bool:
    """Whether the word is what a cited decision chose to say."""
    return any(
        event.kind == "decision_made" and f'"{word}"'.lower() in event.line.decode("ascii").lower()
        for event in context.record.named(sentence.labels)
    )


def horizon(context: Context) -> Iterator[Finding]:
    """C16: nothing later than the last recorded event is told."""
    for sentence in context.claims:
        beyond = [
            number
            for number, leaf in sentence.labels
            if not leaf and number > context.record.horizon
        ]
        ahead = (
            words.FUTURES.search(sentence.plain)
            or _AT_PRESENT.search(sentence.plain)
            or _lasting(context, sentence)
            if context.strict(sentence)
            else _at_this_hour(sentence)
        )
        if beyond:
            yield at(sentence, "C16", f"message {beyond[0]} is later than the record")
        elif (
            ahead
            and not sentence.labels
            and asserted(sentence.plain, ahead.start())
            and not (ahead[0].lower() == "next step" and context.ground.trains)
        ):
            yield at(sentence, "C16", f"told from after the record: {ahead[0]!r}")


def _at_this_hour(sentence: Sentence) -> re.Match[str] | None:
    """In free prose: a state that is told of the hour of writing, which no record reaches."""
    text = sentence.plain
    if words.HEDGES.search(text) or words.OPENS.search(text) or _ADVICE.search(text):
        return None
    found = words.NOW.search(text)
    return found if found is not None and _PRESENT.search(text) else None


def _lasting(context: Context, sentence: Sentence) -> re.Match[str] | None:
    """A state told in the present, without a time at which it was seen."""
    found = _IS_SO.search(sentence.plain)
    if found is None or not context.ground.worlds or _SEEN_AT.search(sentence.bare):
        return None
    return None if words.OPENS.search(sentence.plain) else found


RULES = (truncation, verdicts, proofs, horizon)
