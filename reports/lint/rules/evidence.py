"""Rules on support: truncation, motives and causes, verdicts, horizon, alternatives."""

import re
from collections.abc import Iterator

from reports.lint import words
from reports.lint.document import Sentence
from reports.lint.facts.vocabulary import DEED_WORDS
from reports.lint.findings import Context, Finding, asserted, at

_PREDICATE = (
    r"\b(?:is|are|was|were|be|been|being|has|have|had|remain\w*|stay\w*|left)\b[^.;:,]{0,40}$"
)
_FINITE = re.compile(
    r"^(?:survived|succeeded|exited|finished|crashed|recovered|stopped|continues|completed)$",
    re.IGNORECASE,
)
_CIRCUMSTANCE = re.compile(
    r"\b(?:while|when|whenever|as long as|before|after|until|once|by the time)\b[^,;]*$",
    re.IGNORECASE,
)
_NOUNED = re.compile(
    r"^\W*(?:state|slate|exit|termination|restart|process|processes|shutdown)\b", re.IGNORECASE
)
_LISTING = re.compile(
    r"\b(?:list\w*|output|rows?|process\w*|capture\w*|story|picture)\b", re.IGNORECASE
)
_GENERAL = re.compile(
    r"\b(?:if|when|unless|would|can|could|may|might|whether|should)\b", re.IGNORECASE
)
_EITHER_OR = re.compile(r"\beither\b[^.;]{3,120}\bor\b", re.IGNORECASE)
_ORIGIN = re.compile(
    r"\b(?:came|comes|stemmed|stems|resulted|arose|originated) from\b|\b(?:is|was) what \w+ed\b"
    r"|\bdied (?:of|from)\b|\b(?:owing|thanks) to\b"
    r"|\bwas the (?:work|result|effect|consequence) of\b"
    r"|^(?:why|cause|reason|root cause)\b[^:.]{0,40}:(?=\s*\S+ \S+)",
    re.IGNORECASE,
)
_AGENT = re.compile(
    r"\b(?:was|were|been|being|is|are|got) (?:\w+ )?(?:to )?\w*(?:ed|en|wn|ught|set|hit|cut)\b"
    r"[^.,;:]{0,24}?"
    r" by (?:the |an? )([\w-]+(?: [\w-]+)?)",
    re.IGNORECASE,
)
_AT_PRESENT = re.compile(r"\b(?:is|are) (?:\w+ ){0,2}?\w+ing now\b", re.IGNORECASE)
_IS_SO = re.compile(
    r"\b(?:is|are|has been|have been) (?:still |now |again |back )?(?:up and )?"
    r"(?:training|running|stepping|progressing|advancing|working|alive|healthy|stable|up|fine|hung"
    r"|stuck|idle|learning|converging|in good shape|back to normal)\b"
    r"(?! (?:in|under|on|as|with)\b)",
    re.IGNORECASE,
)
_SEEN_AT = re.compile(
    r"\d:\d|\b(?:at (?:\d|the|that|this|its|each)|in (?:\d|the|that|its|every|each)"
    r"|by|when|as of|until|last|listing|listed|heartbeat|readings?|read|said|says|"
    r"shows?|showed|according|confirmed|if|whether|would|that|because|step)\b",
    re.IGNORECASE,
)
_ACTORS = words.family(
    "engine|operator|agent|person|human|policy|ladder|guard|rule|probe|check|wait|listing|kernel|"
    "signal|second|first|next|last|same|time|end|reading|controller|check|version|one|new"
)
_PURPOSE = re.compile(
    r"\b(?:used|chosen|picked|selected) (?:in order )?to\b"
    r"|\b(?:came|comes) from\b.*\bnot\b",
    re.IGNORECASE,
)
# One guess set against another: the alternative is named.
_BUT_OTHERWISE = re.compile(
    rf"{words.HEDGES.pattern}[^.;]*\b(?:but|or|though|equally)\b[^.;]*{words.HEDGES.pattern}",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(r"\bnot (?:during|by|in|from|because)\b.*\bbut\b", re.IGNORECASE)
_STATES_CAUSE = re.compile(r"(?:because|due to|caused|thanks to)", re.IGNORECASE)
_BACKWARDS = words.family("therefore|thus|hence|consequently")
# A reason that holds of any such thing is no event of this incident.
_OF_A_KIND = re.compile(
    r"\s*(?:an?|any|every) [\w-]+(?: [\w-]+)?(?: (?:that|which|who) \w+)? "
    r"(?:can|could|may|might|is|does|needs?|\w+s)\b(?! (?:was|were|had)\b)",
    re.IGNORECASE,
)
_STEM, _STEMS_MIN, _MOST = 5, 2, 0.6
_LINKS = frozenset({"that", "this", "which", "were", "have", "been", "with", "from", "recorded"})
_FORM = re.compile(r"^(?:this|that|it|these) (?:section|report|document|table)\b", re.IGNORECASE)


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


def causes(context: Context) -> Iterator[Finding]:
    """C08: a motive needs a recorded reason, a cause needs to be called an inference."""
    for sentence in context.claims:
        found = next(
            (
                f
                for p in (words.CAUSES, _NOT_BUT, _PURPOSE, _ORIGIN)
                if (f := p.search(sentence.plain))
            ),
            None,
        ) or _unknown_agent(context, sentence)
        if found is None or _FORM.search(sentence.plain):
            continue
        admitted = words.OPENS.search(sentence.plain)
        if admitted and not (_STATES_CAUSE.match(found[0]) and found.start() > admitted.end()):
            continue
        if _reasoned(context, sentence, sentence.plain[found.end() :]) or _known(
            context, sentence, found
        ):
            continue
        yield at(sentence, "C08", f"a cause or motive without a recorded reason: {found[0][:40]!r}")


def _unknown_agent(context: Context, sentence: Sentence) -> re.Match[str] | None:
    """Something is said to have been done by a thing that no record names."""
    found = _AGENT.search(sentence.plain)
    if found is None or not context.ground.worlds or _ACTORS.search(found[1]):
        return None
    recorded = context.record.folded.lower()
    unknown = [w for w in re.findall(r"[a-z]{4,}", found[1].lower()) if w not in recorded]
    return found if unknown else None


def _known(context: Context, sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether the cause is itself on record, or is said of all things of a kind."""
    if not context.ground.worlds:
        return False
    if _BACKWARDS.fullmatch(found[0]):
        before = context.before(sentence)
        return context.supports(sentence, sentence.plain[: found.start()]) or (
            before is not None and context.weighed(before).supported
        )
    reason = re.split(r"[;,]", sentence.plain[found.end() :], maxsplit=1)[0]
    if _STATES_CAUSE.match(found[0]) is None:
        return False
    if _OF_A_KIND.match(reason):
        return True
    recorded = context.record.folded.lower()
    said = [w for w in re.findall(r"[a-z]{4,}", reason.lower()) if w not in _LINKS]
    known = all(word[:_STEM] in recorded or DEED_WORDS.fullmatch(word) for word in said)
    return known and context.supports(sentence, reason)


def _reasoned(context: Context, sentence: Sentence, clause: str) -> bool:
    """Whether the sentence cites an event whose recorded reason holds the clause's words."""
    if any(quote in reason for quote in sentence.quotes for reason in context.ground.reasons):
        return True
    content = set(re.findall(r"[a-z]{4,}", clause.lower())) - _LINKS
    if _in_other_words(context, content):
        return True
    named = context.record.named(sentence.labels)
    for event in named:
        if event.id in context.record.reasons:
            recorded = event.line.decode("utf-8", "replace").lower()
            if all(word in recorded for word in content):
                return True
    return False


def _in_other_words(context: Context, content: set[str]) -> bool:
    """Whether one recorded reason holds most of the words, endings aside."""
    stems = {word[:_STEM] for word in content}
    if len(stems) < _STEMS_MIN:
        return False
    return any(
        sum(stem in reason.lower() for stem in stems) >= _MOST * len(stems)
        for reason in context.ground.reasons
    )


def verdicts(context: Context) -> Iterator[Finding]:
    """C13: a state of the world is said with the event that showed it."""
    for sentence in context.claims:
        if words.OPENS.search(sentence.plain) or _shown(context, sentence):
            continue
        for found in words.STATES.finditer(sentence.plain):
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
    if _CIRCUMSTANCE.search(before):
        return False  # when something was, not that it was
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
    for sentence in context.claims:
        found = words.PROOFS.search(sentence.plain)
        if found is None or words.OPENS.search(sentence.plain) or _shown(context, sentence):
            continue
        told = _chosen(context, sentence, found[0])
        if asserted(sentence.plain, found.start()) and not told:
            yield at(sentence, "C13", f"{found[0]!r} without a verdict")


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


def _lasting(context: Context, sentence: Sentence) -> re.Match[str] | None:
    """A state told in the present, without a time at which it was seen."""
    found = _IS_SO.search(sentence.plain)
    if found is None or not context.ground.worlds or _SEEN_AT.search(sentence.bare):
        return None
    return None if words.OPENS.search(sentence.plain) else found


def alternatives(context: Context) -> Iterator[Finding]:
    """C19: a guess at an explanation names its alternatives or the probe that would decide."""
    for sentence in context.claims:
        found = words.HEDGES.search(sentence.plain) or _EITHER_OR.search(sentence.plain)
        if found is None or words.OPENS.search(sentence.plain) or sentence.bare.endswith("?"):
            continue
        cause = words.CAUSES.search(sentence.plain)
        if cause and _reasoned(context, sentence, sentence.plain[cause.end() :]):
            continue
        if _BUT_OTHERWISE.search(sentence.plain) or context.weighed(sentence).supported:
            continue
        if _in_other_words(context, set(re.findall(r"[a-z]{4,}", sentence.plain.lower())) - _LINKS):
            continue
        if sentence.labels and context.record.named(sentence.labels) and context.record.has_clock:
            continue
        yield at(
            sentence, "C19", f"a guess ({found[0][:30]!r}) without alternatives or a deciding probe"
        )


RULES = (truncation, causes, verdicts, proofs, horizon, alternatives)
