"""Rules on causes in free prose: told as a fact of the machine, and held by no record.

Why somebody chose, said or does not know something is a reason and no cause; what would have been
is none; and a reason that something was absent rests on the record as a whole. Not here: sentences
that cite events, and transcripts (``causes``).
"""

import re
from collections.abc import Iterator

from reports.lint import words
from reports.lint.document import Sentence
from reports.lint.findings import Context, Finding, asserted, at
from reports.lint.rules.causes import on_record, reasoned

_TOLD = re.compile(
    r"\b(?:because|due to|owing to|thanks to|(?:was|were) caused by|(?:the |root )(?:cause|reason) "
    r"(?:for (?:it|this|that) )?(?:was|were|is)(?! (?:not|that no)\b)"
    r"|(?:is|was|were|that is) why\b[^:.]*:)"
    r"|(?P<behind>(?:was|is|were) the (?:root )?(?:cause|reason|culprit)|(?:is|was) what \w+ed)\b",
    re.IGNORECASE,
)
_PERSONAL = re.compile(r"\b(?:I|we|you|me|us|my|our|your|would|one)\b", re.IGNORECASE)
_DENIES = re.compile(
    r"\b(?:no|not|nobody|nothing|none|never|without|neither|lack\w*|missing)\b|n't\b", re.IGNORECASE
)
# What was chosen or said, not what befell the machine.
_CHOSEN = re.compile(
    r"\b(?:chos\w+|choice|prefer\w*|opted|decid\w+|picked|turned down|rejected|ruled out|skipped"
    r"|passed over|held back|left out|refused|denied|allowed|told|ranked|rated|put|call\w*"
    r"|mention\w*|evidence|reading|engine|policy|guard\w*|ladder)\b",
    re.IGNORECASE,
)
_HAPPENED = re.compile(
    r"\b(?:\w{2,}ed|was|were|had|did|went|hung|came|stood|lost|rose|fell|took|got|ran|stuck|grew|sank"
    r"|died|kept|held|broke|froze|shrank|needed|gone)\b",
    re.IGNORECASE,
)
# What a recorded deployment shows in whatever words: the file was not the one that is wanted.
_NOT_WANTED = re.compile(
    r"\b(?:file|script|launcher|wrapper|code|version|digest)\b(?=.*\b(?:differ\w*|deviat\w*"
    r"|other than|wrong|old|older|outdated|stale|mismatch\w*|match\w*)\b)"
    r"|\b(?:wrong|old|older|outdated|stale|different|mismatch\w*)\b"
    r"(?=.*\b(?:file|script|launcher|wrapper|code|version|digest)\b)",
    re.IGNORECASE,
)
_POINTS = re.compile(r"\s*(?:that|this|these|those|it)\b", re.IGNORECASE)
_OF_ACTS = re.compile(
    r"\s*(?:for|of|to) (?:the |our )?(?:stop|signal|relaunch|restart|recovery|act|deployment"
    r"|incident|request|choice|order)\w*\b",
    re.IGNORECASE,
)
_BY_MISTAKE = re.compile(
    r"\b(?:by|through|due to) (?:an? |some(?:body|one)'s )?(?:mistake|oversight)\b|\bby accident\b"
    r"|\baccidentally\b|\binadvertently\b",
    re.IGNORECASE,
)
_PROVED = re.compile(
    r"\b(?:(?:is|was|are|were) (?:\w+ )?(?:proven|proved|established)|proves|proved|establishes)"
    r" that\b",
    re.IGNORECASE,
)

_LIKE = re.compile(
    r"\b(?:compatible|suspect\w*|as if|as though|such as|look into|if|whether|rule\w* out"
    r"|ask\w*)\b",
    re.IGNORECASE,
)
_COULD_NOT = re.compile(r"\bcould(?: not|n't)\b", re.IGNORECASE)
_LATER_DENIED = re.compile(
    r"\b(?:(?:was|were|is|are|did|has|have|had) (?:not|never)|nobody|nothing|neither)\b"
)
_ADVISES = re.compile(
    r"\b(?:I|my|me|you|your|please|if|next time|network (?:connections?|sockets?|ports?))\b"
)


def told(context: Context) -> Iterator[Finding]:
    """C08: a cause, a slip or a proof that is told as a fact is on record."""
    for sentence in context.claims:
        text = sentence.plain
        if context.strict(sentence) or words.OPENS.search(text) or words.HEDGES.search(text):
            continue
        slip, proved = _BY_MISTAKE.search(text), _PROVED.search(text)
        if found := _TOLD.search(text):
            if _unrecorded(context, sentence, found):
                yield at(sentence, "C08", f"a cause without a recorded reason: {found[0][:40]!r}")
        elif slip and asserted(text, slip.start()) and not reasoned(context, sentence, text):
            yield at(sentence, "C08", f"a motive without a recorded reason: {slip[0]!r}")
        elif proved and asserted(text, proved.start()):
            shown = context.supports(sentence, text[proved.end() :])
            if not shown and not context.weighed(sentence).supported:
                yield at(sentence, "C08", f"no verdict says so: {proved[0][:40]!r}")


def _unrecorded(context: Context, sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether something that happened is given a cause of which nothing is on record."""
    text = sentence.plain
    before = re.split(r"[;:]", text[: found.start()])[-1]
    after = re.split(r"[,;]", text[found.end() :].lstrip(" ,"), maxsplit=1)[0]
    reason, effect = (before, after) if found["behind"] else (after, before)
    if found[0].lower() == "because" and _HAPPENED.search(effect) is None:
        return False  # advice, or what holds of any such thing
    if _POINTS.match(reason) or _OF_ACTS.search(text, found.end()) or _DENIES.search(reason):
        return False
    if _CHOSEN.search(effect) or _PERSONAL.search(before + after):
        return False
    if reasoned(context, sentence, reason) or on_record(context, sentence, reason):
        return False
    if _NOT_WANTED.search(reason) and any(w.of("deployment") for w in context.ground.worlds):
        return False
    return bool(context.weighed(sentence).wrong) or _new(context, reason)


def _new(context: Context, reason: str) -> bool:
    """Whether a reason names something that no recorded text does."""
    recorded = context.record.folded.lower()
    return any(
        w[:_STEM] not in recorded
        for w in re.findall(r"[a-z]{4,}", reason.lower())
        if not _PLAIN.fullmatch(w)
    )


_STEM = 5
# Words that anybody's reason may have, whatever it is about.
_PLAIN = words.family(
    "about|above|after|again|almost|already|also|always|another|anything|around",
    "away|been|before|being|below|between|both|came|could|does|done|down|each",
    "either|else|enough|even|ever|every|first|from|give|given|goes|going|gone",
    "have|having|here|into|itself|just|keep|kept|knew|know|known|last|later",
    "least|less|like|little|long|look|made|make|many|more|most|much|nearly",
    "needed|never|next|often|once|only|other|over|perhaps|quite|rather|really",
    "right|same|seen|short|should|simply|since|some|soon|still|such|take|taken",
    "than|that|their|them|then|there|these|they|thing|this|those|though",
    "through|time|together|told|took|towards|twice|under|until|upon|used|very",
    "want|well|went|were|what|when|where|which|while|whole|whose|will|with",
    "without",
)


def unseen(context: Context) -> Iterator[Finding]:
    """C08: what a trouble may come from is not told as a fact where nothing read speaks of it."""
    if not context.ground.worlds:
        return
    for sentence in context.claims:
        text = sentence.plain
        if _ADVISES.search(text):
            continue
        for found in words.ORIGINS.finditer(text):
            hedged = words.HEDGES.search(_COULD_NOT.sub(" ", text))
            open_said = words.OPENS.search(text) or hedged or _LIKE.search(text)
            if (
                open_said
                or not asserted(text, found.start())
                or _LATER_DENIED.search(text, found.end())
            ):
                continue
            if found[0].lower() not in context.ground.read:
                yield at(sentence, "C08", f"nothing that was read speaks of it: {found[0]!r}")
                break


RULES = (told, unseen)
