"""Rules on command lines: grammar, silence, self-match, scope of tools, pattern kills."""

import re
from collections.abc import Iterator

from reports import shell
from reports.lint import words
from reports.lint.cards import CARDS
from reports.lint.document import Sentence
from reports.lint.findings import Context, Finding, asserted, at
from reports.lint.record import RecordedCommand

_CONDITIONAL = re.compile(
    r"\bonly (?:runs?|executes?|starts?)\b|\b(?:would|will) (?:never|not) (?:run|execute|start)\b"
    r"|\bis skipped\b|\bnever (?:runs?|executes?|execute)\b",
    re.IGNORECASE,
)
_NON_ZERO = re.compile(
    r"\bnon-?zero (?:exit|return|status|code)|\bexit (?:status|code) (?:1|one)\b", re.IGNORECASE
)
_SILENCE = re.compile(
    r"\bno[- ]output\b|\babsence of output\b|\bempty output\b"
    r"|\b(?:printed|returned|showed) nothing\b"
    r"|\bsilen(?:t|ce|tly)\b|\bwithout (?:any )?output\b",
    re.IGNORECASE,
)
_SUPPORTS = re.compile(
    r"\b(?:confirm\w*|show\w*|mean\w*|indicat\w*|prov\w+|clean|signal\w*|verif\w*|record|establish\w*|succeeded)\b",
    re.IGNORECASE,
)
_OR_TRUE = re.compile(r"\|\|\s*true")
_VIRTUE = re.compile(
    r"\b(?:prevent\w*|ensur\w*|critical|desired|safe\w*|so that|avoid\w*|allow\w*|clean|wants?)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(r"^(?:this|that|these|those|it|they|either way)\b", re.IGNORECASE)
_NAMED_KILL = re.compile(r"\b(?:pkill|killall|kill(?:s|ed|ing)?)\b", re.IGNORECASE)
_ALL_KILLED = re.compile(
    r"\bkill(?:s|ed)? (?:all|every|both|any)\b|\bpkill\b.*\b(?:killed|kills)\b|\bkilling both\b",
    re.IGNORECASE,
)


def grammar(context: Context) -> Iterator[Finding]:
    """C02: conditions and exit statuses said of a command line follow from its operators."""
    for sentence in filter(context.strict, context.claims):
        if _CONDITIONAL.search(sentence.bare):
            for command in _about(context, sentence):
                first = _subject(command, sentence)
                if first is not None:
                    yield at(
                        sentence, "C02", f"what follows {first!r} runs whether it succeeds or not"
                    )
                    break
        if _NON_ZERO.search(sentence.bare) and asserted(sentence.bare, 0):
            for command in _about(context, sentence):
                if shell.always_zero(command.inner):
                    yield at(
                        sentence, "C02", "the command line ends with status nought in any case"
                    )
                    break


def _subject(command: RecordedCommand, sentence: Sentence) -> str | None:
    """The named command whose success what follows is said to need, though it does not."""
    script = command.inner
    hidden = {simple.name for simple in shell.hidden_failures(script)}
    covered = {
        item.last.name
        for item, after in zip(script.items, script.items[1:], strict=False)
        if item.after == "||" and after.after in {";", ""}
    }
    named = [
        s.name for s in script.commands() if re.search(rf"\b{re.escape(s.name)}\b", sentence.bare)
    ]
    return next((name for name in named if name in hidden | covered), None)


def _about(context: Context, sentence: Sentence) -> list[RecordedCommand]:
    """Recorded commands that a sentence names by one of their programs; else all of them."""
    said = sentence.bare
    named = [
        command
        for command in context.record.commands
        if any(
            simple.name and re.search(rf"(?<![\w-]){re.escape(simple.name)}(?![\w-])", said)
            for level in command.levels
            for simple in level.script.commands()
        )
    ]
    return named or list(context.record.commands)


def silence(context: Context) -> Iterator[Finding]:
    """C03: empty output supports nothing without end marker and status; a status kept counts."""
    quiet = [c for c in context.record.commands if not c.stdout.strip() and not c.end_marker]
    thrown = [c for c in context.record.commands if shell.status_thrown_away(c.inner)]
    for sentence in filter(context.strict, context.claims):
        said = sentence.bare
        if quiet and _SILENCE.search(said) and _SUPPORTS.search(said) and _closed(sentence):
            yield at(sentence, "C03", "silence, with no end marker and no status, shows nothing")
        elif thrown and _OR_TRUE.search(sentence.text) and _VIRTUE.search(said):
            check = shell.status_thrown_away(thrown[0].inner)[0]
            yield at(
                sentence, "C03", f"the status of {check.name!r} was the evidence; it is thrown away"
            )
        elif quiet and re.search(r"\b(?:document|record)\w*\b", said) and _claims_record(said):
            yield at(sentence, "C03", "no time, identity or count was recorded by a silent command")


def _closed(sentence: Sentence) -> bool:
    return words.OPENS.search(sentence.bare) is None and asserted(sentence.bare, 0)


def _claims_record(said: str) -> bool:
    return (
        re.search(r"\bstate of the system\b|\bwhen\b.*\b(?:terminated|killed|stopped)\b", said)
        is not None
    )


def self_match(context: Context) -> Iterator[Finding]:
    """C04: what is said of an action by pattern reckons with the shell around it."""
    found = [c for c in context.record.commands if c.matches_itself]
    if not found:
        return
    simple, _ = found[0].matches_itself[0]
    for sentence in filter(context.strict, context.claims):
        said = sentence.bare
        told = _ALL_KILLED.search(said) or (_NAMED_KILL.search(said) and words.PROOFS.search(said))
        gone = _SILENCE.search(said) and words.PROOFS.search(said)
        if (told or gone) and _closed(sentence) and "own shell" not in said:
            yield at(
                sentence,
                "C04",
                f"the pattern of {simple.name!r} is in the command line of its own shell",
            )


def scope(context: Context) -> Iterator[Finding]:
    """C02, C06, C11, C13, C14, C17 to C19: a tool's answer or option read beyond its card."""
    patterns = any(
        shell.pattern_of(simple)
        for command in context.record.commands
        for level in command.levels
        for simple in level.script.commands()
        if simple.name in {"pkill", "killall"}
    )
    for sentence in filter(context.strict, context.claims):
        for card in CARDS:
            if card.rule == "C18" and not patterns:
                continue
            beyond = card.beyond.search(sentence.bare)
            if beyond is None or not card.mentions.search(_with_antecedent(context, sentence)):
                continue
            if not card.even_supposed and _taken_back(sentence, beyond.start()):
                continue
            yield at(sentence, card.rule, f"{card.name}: {card.scope}")


def _with_antecedent(context: Context, sentence: Sentence) -> str:
    """The sentence, with the one before it when it begins by pointing back."""
    if not _POINTS_BACK.match(sentence.bare):
        return sentence.bare
    sentences = context.document.sentences
    place = sentences.index(sentence)
    before = sentences[place - 1] if place else None
    if before is None or before.block != sentence.block:
        return sentence.bare
    return f"{before.bare} {sentence.bare}"


def _taken_back(sentence: Sentence, place: int) -> bool:
    """Whether the sentence denies the reading, or says that it is open."""
    said = sentence.bare
    return not asserted(said, place) or words.OPENS.search(said) is not None


RULES = (grammar, silence, self_match, scope)
