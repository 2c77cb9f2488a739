"""Rules on explanations: motives, causes, guesses with their alternatives.

Not here: states, verdicts and proofs (``evidence``).
"""

import re
from collections.abc import Iterator

from reports.lint import words
from reports.lint.document import Sentence
from reports.lint.facts.vocabulary import DEED_WORDS
from reports.lint.findings import Context, Finding, at

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

_ACTORS = words.family(
    "engine|operator|agent|person|human|policy|ladder|guard|rule|probe|check|wait|listing|kernel|"
    "signal|second|first|next|last|same|time|end|reading|controller|check|version|one|new"
)

# A contrast, or a noun with a clause behind it; a motive only where something was chosen.
_NO_CAUSE = words.family("rather than|signals that")

_CHOICE = re.compile(r"\b(?:chos\w+|choice|preferr?\w*|opted|decid\w+|picked)\b", re.IGNORECASE)

_NOBODY = re.compile(
    r"\s*(?:nobody|no one|nothing|not|unknown|the journal does not)\b", re.IGNORECASE
)

_SAID_OPEN = re.compile(rf"{words.OPENS.pattern},?\s*$", re.IGNORECASE)

_COUNTERFACTUAL = re.compile(r"\bwould (?:\w+ )?have\b", re.IGNORECASE)
_BACKWARDS = words.family("therefore|thus|hence|consequently")

# A reason that holds of any such thing is no event of this incident.
_OF_A_KIND = re.compile(
    r"\s*(?:an?|any|every) [\w-]+(?: [\w-]+)?(?: (?:that|which|who) \w+)? "
    r"(?:can|could|may|might|is|does|needs?|\w+s)\b(?! (?:was|were|had)\b)",
    re.IGNORECASE,
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

_STEM, _STEMS_MIN, _MOST = 5, 2, 0.6

_LINKS = frozenset({"that", "this", "which", "were", "have", "been", "with", "from", "recorded"})

_FORM = re.compile(r"^(?:this|that|it|these) (?:section|report|document|table)\b", re.IGNORECASE)


def causes(context: Context) -> Iterator[Finding]:
    """C08: a motive needs a recorded reason, a cause needs to be called an inference."""
    for sentence in context.claims:
        if not context.strict(sentence):
            continue  # held to what it binds (``told``)
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
        if reasoned(context, sentence, sentence.plain[found.end() :]) or _known(
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
    before, after = sentence.plain[: found.start()], sentence.plain[found.end() :]
    contrast = _NO_CAUSE.fullmatch(found[0]) is not None and _CHOICE.search(before) is None
    if contrast or _NOBODY.match(after) or _SAID_OPEN.search(before):
        return True  # no cause, or the reason of not knowing
    if _BACKWARDS.fullmatch(found[0]):
        return _follows(context, sentence, found)
    return _STATES_CAUSE.match(found[0]) is not None and on_record(context, sentence, after)


def _follows(context: Context, sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether what is said to follow is recorded, or what it follows from is."""
    rest = f"{sentence.plain[: found.start()]} {sentence.plain[found.end() :]}"
    before = context.before(sentence)
    return (
        not sentence.plain[: found.start()].strip()  # what it follows from is another sentence
        or _COUNTERFACTUAL.search(sentence.plain) is not None
        or context.supports(sentence, rest)
        or (before is not None and context.weighed(before).supported)
    )


def on_record(context: Context, sentence: Sentence, after: str) -> bool:
    """Whether a reason is recorded word by word, or holds of any such thing."""
    reason = re.split(r"[;,]", after, maxsplit=1)[0]
    if _OF_A_KIND.match(reason):
        return True
    recorded = context.record.folded.lower()
    said = [w for w in re.findall(r"[a-z]{4,}", reason.lower()) if w not in _LINKS]
    known = all(word[:_STEM] in recorded or DEED_WORDS.fullmatch(word) for word in said)
    return known and context.supports(sentence, reason)


def reasoned(context: Context, sentence: Sentence, clause: str) -> bool:
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


def alternatives(context: Context) -> Iterator[Finding]:
    """C19: a guess at an explanation names its alternatives or the probe that would decide."""
    for sentence in context.claims:
        found = words.HEDGES.search(sentence.plain) or _EITHER_OR.search(sentence.plain)
        if found is None or words.OPENS.search(sentence.plain) or sentence.bare.endswith("?"):
            continue
        cause = words.CAUSES.search(sentence.plain)
        if cause and reasoned(context, sentence, sentence.plain[cause.end() :]):
            continue
        if context.ground.worlds and _no_guess(sentence.plain, found):
            continue
        if _BUT_OTHERWISE.search(sentence.plain) or context.weighed(sentence).supported:
            continue
        if _in_other_words(context, set(re.findall(r"[a-z]{4,}", sentence.plain.lower())) - _LINKS):
            continue
        if not context.strict(sentence):
            continue
        if sentence.labels and context.record.named(sentence.labels) and context.record.has_clock:
            continue
        yield at(
            sentence, "C19", f"a guess ({found[0][:30]!r}) without alternatives or a deciding probe"
        )


def _no_guess(text: str, found: re.Match[str]) -> bool:
    """Whether a hedging word hedges no statement: what would have been, what is worth saying."""
    before, after = text[: found.start()], text[found.end() :]
    return (
        found[0].lower().startswith("would")
        or re.search(r"\bin case\b[^.;]*$", before, re.IGNORECASE) is not None
        or re.match(r" (?:worth|fair|enough|best|also)\b", after) is not None
    )


RULES = (causes, alternatives)
