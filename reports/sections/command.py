"""The command depth: one chapter for each command, in the form of a close reading.

Overview, context, why, how, assumptions, what went otherwise, input and output knowledge. Not
here: sections on the incident as a whole.
"""

from journal.events import CommandIntended
from reports.evidence import CommandThread
from reports.model import Block, Excerpt, Section, Sentence
from reports.predicates.commands import definition_of
from reports.predicates.learning import luck, mistakes, strengths
from reports.sections.author import Author, Named, bullets, paragraph
from reports.sections.opening import heading

_EXCERPT_BYTES = 2_000


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
        _argv(author, thread) or paragraph(author.say("command.sent", **args)),
        paragraph(author.say("command.outcome", **args), author.known("command.output", **args)),
        *_outputs(author, thread),
        paragraph(*author.known_of([("command.reason", args), ("command.authority", args)])),
        paragraph(*_decision(author, thread)),
        bullets(author.known_of(_assumed(author, thread)), ordered=True),
        bullets(author.known_of(_about(author, thread))),
        paragraph(
            *author.known_of(
                [
                    ("command.observed", args),
                    ("command.silence", args),
                    ("command.reconciled", args),
                ]
            )
        ),
    ]


def _argv(author: Author, thread: CommandThread) -> Block | None:
    payload = thread.first.payload
    if not isinstance(payload, CommandIntended):
        return None
    sentence = author.say("command.sent", command_id=thread.command_id)
    return Excerpt(sentence=sentence, text=" ".join(payload.argv)[:_EXCERPT_BYTES])


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
