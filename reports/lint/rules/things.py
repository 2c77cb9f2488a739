"""Rules on things and statements about them: kinds, processes and threads, agreement, order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reports.lint.document import Document, Sentence
from reports.lint.findings import Context, Finding, at

_KINDS = (
    "host", "hypervisor", "machine", "container", "server", "cluster", "node", "gpu", "process",
    "thread", "file", "script", "model", "drafter", "method", "system", "library", "program",
    "service", "device",
)  # fmt: skip
_KIND = "|".join(_KINDS)
_NAME = r"([A-Z][A-Za-z]*[A-Z0-9][A-Za-z0-9-]*)"
_IS_A = re.compile(rf"\b{_NAME}\b,? (?:is|was|,|names) ?an? (?:[\w-]+ ){{0,5}}?({_KIND})s?\b")
_APPOSED = re.compile(rf"\b{_NAME}, an? (?:[\w-]+ ){{0,3}}?({_KIND})\b")
_BRACKETED = re.compile(rf"\b({_KIND})(?: with)?(?: [\w-]+){{0,2}} \({_NAME}\)", re.IGNORECASE)
_PREFIXED = re.compile(rf"\b({_KIND}) {_NAME}\b")
_ADJOINED = re.compile(rf"\b{_NAME}(?: (?:speculative|decoding|draft))*? ({_KIND})\b")
_SAME = {"hypervisor": "host", "node": "host", "server": "host", "program": "script"}
_THREADS = re.compile(r"\b((?:[A-Z]\w+ )?[a-z]+) threads?\b")
_AS_PROCESSES = re.compile(
    r"\bprocess(?:es)? ?(?:\(|such as|like|including)[^;)]{0,60}\bthreads?\b", re.IGNORECASE
)
_OUTLIVES = re.compile(
    r"\bthreads?\b[^.;]*\bafter\b[^.;]*\bprocess\w* (?:exit|end|die|is gone|is over|finish)\w*",
    re.IGNORECASE,
)
_NUMBER_OF = re.compile(
    r"\b(single|one|sole|multi|multiple|several|many)[- ]?(?:main )?(process)(?:es)?\b",
    re.IGNORECASE,
)
_ONE = re.compile(
    r"\b(?:a|one|single) ((?:small\w*|larg\w*|main|big\w*) (?:\W?\w+\W? )?\w+)\b", re.IGNORECASE
)
_MANY = re.compile(
    r"\b(?:multiple|several|many|two|three) "
    r"((?:small\w*|larg\w*|main|big\w*) (?:\W?\w+\W? )?\w+?)s\b",
    re.IGNORECASE,
)
_SINGLE = {"single", "one", "sole"}
_AT_ONCE = re.compile(r"\b(?:immediate\w*|instant\w*|terminates at once)\b", re.IGNORECASE)
_NOT_AT_ONCE = re.compile(
    r"\bnot (?:immediate\w*|instant\w*)|\bdoes not immediately\b|\basynchronous\w*", re.IGNORECASE
)
_FREES = re.compile(r"\b(?:frees?|releas\w*|terminat\w*)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Said:
    subject: str
    value: str
    sentence: Sentence


def entities(context: Context) -> Iterator[Finding]:
    """C10: a name stands for one kind of thing, in this report and in earlier ones."""
    seen: dict[str, str] = {}
    for document in context.earlier:
        for said in _kinds(document):
            seen.setdefault(said.subject, said.value)
    for said in _kinds(context.document):
        first = seen.setdefault(said.subject, said.value)
        if first != said.value and _held(context, said.sentence):
            yield at(said.sentence, "C10", f"{said.subject} is a {first} and a {said.value}")


def _held(context: Context, sentence: Sentence) -> bool:
    """Whether a sentence is held to others on the same."""
    return bool(context.earlier) or context.strict(sentence)


def _kinds(document: Document) -> Iterator[_Said]:
    for sentence in document.sentences:
        text = sentence.bare
        for pattern in (_IS_A, _APPOSED, _ADJOINED):
            for name, kind in pattern.findall(text):
                yield _Said(name, _SAME.get(kind.lower(), kind.lower()), sentence)
        for kind, name in (*_BRACKETED.findall(text), *_PREFIXED.findall(text)):
            yield _Said(name, _SAME.get(kind.lower(), kind.lower()), sentence)


def threads(context: Context) -> Iterator[Finding]:
    """C11: a thread is not a process: it neither is a child nor outlives it."""
    known = {name for s in context.claims for name in _THREADS.findall(s.bare) if " " in name}
    for sentence in filter(context.strict, context.claims):
        text = sentence.bare
        among = [name for name in known if re.search(rf"{re.escape(name)}(?! threads?)\b", text)]
        if _AS_PROCESSES.search(text):
            yield at(sentence, "C11", "threads named as processes")
        elif _OUTLIVES.search(text):
            yield at(sentence, "C11", "a thread does not outlive its process")
        elif among and re.search(r"\bprocess(?:es)?\b", text):
            yield at(sentence, "C11", f"{among[0]!r}, a thread elsewhere, among processes")


def agreement(context: Context) -> Iterator[Finding]:
    """C12: statements on one subject agree within the report and with earlier ones."""
    seen: dict[str, str] = {}
    for document in context.earlier:
        for said in _statements(document):
            seen.setdefault(said.subject, said.value)
    for said in _statements(context.document):
        first = seen.setdefault(said.subject, said.value)
        if first != said.value and _held(context, said.sentence):
            yield at(said.sentence, "C12", f"{said.subject}: {first} and {said.value}")


def _statements(document: Document) -> Iterator[_Said]:
    """Typed statements: how many, and how soon."""
    for sentence in document.sentences:
        text = sentence.bare
        for count, noun in _NUMBER_OF.findall(text):
            yield _Said(
                f"number of {noun.lower()}es",
                "one" if count.lower() in _SINGLE else "many",
                sentence,
            )
        for phrase in _ONE.findall(text):
            yield _Said(f"number of {_phrase(phrase)}", "one", sentence)
        for phrase in _MANY.findall(text):
            yield _Said(f"number of {_phrase(phrase)}", "many", sentence)
        if _FREES.search(text) and re.search(r"\b(?:SIGKILL|kill -9|kills?)\b", text):
            if _NOT_AT_ONCE.search(text):
                yield _Said("when memory is free after SIGKILL", "later", sentence)
            elif _AT_ONCE.search(text):
                yield _Said("when memory is free after SIGKILL", "at once", sentence)


def _phrase(text: str) -> str:
    plain = re.sub(r"[^a-z ]", "", text.lower()).rstrip("s")
    return re.sub(r"\b(small|larg|big)\w*", r"\1", plain)


_ACTIONS = {
    "deploy": {"scp", "rsync", "cp", "tee", "git", "install", "cat", "deploy_files"},
    "restart": {"python", "python3", "systemctl", "tmux", "nohup", "torchrun", "launch"},
    "launch": {"python", "python3", "systemctl", "tmux", "nohup", "torchrun", "launch"},
}
_DONE = re.compile(
    r"\b(?:was to|was the|(?:had|has|have|was|were)(?: been)?(?: just)?|just|message|and) "
    r"(?:apply\w*|applied|deploy\w*|restart\w*|launch\w*)",
    re.IGNORECASE,
)
_YET = re.compile(
    r"\b(?:before|until) [^.;]*\b(?:could|can) be (deploy|restart|launch|appl)\w*", re.IGNORECASE
)


def order(context: Context) -> Iterator[Finding]:
    """C09: what a message is said to have done is in its command; done comes after not yet."""
    text = context.document.text
    yet = {found.lower() for found in _YET.findall(text)}
    for sentence in filter(context.strict, context.claims):
        done = _DONE.search(sentence.bare)
        if done is None:
            for stem in yet:
                if _YET.search(sentence.bare) and re.search(rf"\b{stem}ment\b", text):
                    yield at(sentence, "C09", f"not yet done here, done elsewhere: {stem}")
            continue
        for verb, programs in _ACTIONS.items():
            if re.search(rf"\b{verb}", sentence.bare, re.IGNORECASE) and not _did(
                context, sentence, programs
            ):
                yield at(sentence, "C09", f"no recorded command did it: {verb}")
                break


def _did(context: Context, sentence: Sentence, programs: set[str]) -> bool:
    """Whether a recorded command of the messages named (or of any) runs one of the programs."""
    named = {event.id for event in context.record.named(sentence.labels)}
    if programs & {command.name for command in context.record.commands}:
        return True
    return any(
        simple.name in programs
        for command in context.record.commands
        if not named or command.event.id in named
        for level in command.levels
        for simple in level.script.commands()
    )


RULES = (entities, threads, agreement, order)
