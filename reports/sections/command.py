"""The command depth: one chapter for each command, in the form of a close reading.

Overview, context, why, how, assumptions, what went otherwise, input and output knowledge. Not
here: sections on the incident as a whole.
"""

import hashlib
import json
import shlex

from journal.events import CommandIntended
from reports.evidence import CommandThread
from reports.model import Block, Excerpt, Missing, Section, Sentence
from reports.predicates.commands import definition_of
from reports.predicates.learning import luck, mistakes, strengths
from reports.sections.author import Author, Named, bullets, paragraph
from reports.sections.opening import heading

_EXCERPT_BYTES = 2_000
_WORD_CHARS = 200


def chapters(author: Author) -> Section:
    """Every command, one after another."""
    blocks: list[Block | None] = []
    for thread in author.evidence.commands:
        blocks += _chapter(author, thread)
    return author.section("commands", *blocks)


def _chapter(author: Author, thread: CommandThread) -> list[Block | None]:
    args = {"command_id": thread.command_id}
    return [
        heading(thread.name, anchor=thread.first.id, code=True),
        *_part(
            author,
            "message",
            paragraph(author.say("command.sent", **args)),
            *_argv(author, thread),
            paragraph(
                author.say("command.outcome", **args), author.known("command.output", **args)
            ),
            *_outputs(author, thread),
        ),
        *_part(
            author,
            "why",
            paragraph(*author.known_of([("command.reason", args), ("command.authority", args)])),
        ),
        *_part(author, "how", paragraph(*_decision(author, thread))),
        *_part(
            author, "assumptions", bullets(author.known_of(_assumed(author, thread)), ordered=True)
        ),
        *_part(author, "mistakes", bullets(author.known_of(_about(author, thread)))),
        *_part(author, "input_knowledge", paragraph(author.known("command.silence", **args))),
        *_part(
            author,
            "output_knowledge",
            paragraph(*author.known_of([("command.observed", args), ("command.reconciled", args)])),
        ),
    ]


def _part(author: Author, title: str, *blocks: Block | None) -> list[Block]:
    """One part of a chapter under its own heading; it says so when nothing is recorded."""
    kept = [block for block in blocks if block is not None]
    return [heading(author.words.titles[title], level=4), *(kept or [Missing()])]


def _argv(author: Author, thread: CommandThread) -> list[Block]:
    """Arguments as typed, and the command line as sent, its long words by length and digest."""
    event = thread.first
    payload = event.payload
    if not isinstance(payload, CommandIntended):
        return []
    args = {"command_id": thread.command_id}
    words = [word if len(word) <= _WORD_CHARS else _digested(word) for word in payload.argv]
    typed = json.dumps(payload.arguments, sort_keys=True, ensure_ascii=False)
    given = Excerpt(sentence=author.say("command.typed", **args), text=typed[:_EXCERPT_BYTES])
    return [
        *([given] if payload.arguments else []),
        Excerpt(sentence=author.say("command.line", **args), text=shlex.join(words)),
    ]


def _digested(word: str) -> str:
    """A long word by its length and the beginning of its digest."""
    digest = hashlib.sha256(word.encode("utf-8", "surrogateescape")).hexdigest()
    return f"…{len(word)} characters, sha256 {digest[:12]}…"


def _outputs(author: Author, thread: CommandThread) -> list[Block | None]:
    blocks: list[Block | None] = []
    event = thread.outcome
    for owner, name in sorted(author.evidence.outputs):
        if event is None or owner != event.id or name not in {"stdout", "stderr"}:
            continue
        sentence = author.known(
            "command.excerpt", command_id=thread.command_id, stream=name, limit=_EXCERPT_BYTES
        )
        value = sentence.claim.value if sentence else None
        if sentence is not None and isinstance(value, dict) and value.get("bytes"):
            blocks.append(Excerpt(sentence=sentence, text=str(value["text"])))
    return blocks


def _decision(author: Author, thread: CommandThread) -> tuple[Sentence, ...]:
    payload = thread.first.payload
    event = author.evidence.decisions.get(getattr(payload, "decision_id", None) or "")
    if event is None:
        return ()
    args = {"event": event.id}
    names = ("decision.action", "decision.because", "decision.explanation", "decision.rejected",
             "decision.guards", "decision.expects")  # fmt: skip
    return author.known_of((name, args) for name in names)


def _assumed(author: Author, thread: CommandThread) -> list[Named]:
    definition = definition_of(author.evidence, thread)
    body = getattr(definition.payload, "body", {}) if definition else {}
    args = {"command_id": thread.command_id}
    return [
        ("command.assumption", {**args, "index": place})
        for place, _ in enumerate(body.get("assumptions") or ())
    ]


def _about(author: Author, thread: CommandThread) -> list[Named]:
    """Findings that name this command or its intent."""
    names = {thread.command_id, thread.first.id}
    evidence = author.evidence
    found = (*mistakes(evidence), *strengths(evidence), *luck(evidence))
    return [n for n in found if names & {str(value) for value in n[1].values()}]
