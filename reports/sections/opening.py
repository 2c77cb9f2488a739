"""Sections for a reader in a hurry: summary, key numbers, overview of the commands, context."""

from collections.abc import Mapping

from pydantic import JsonValue

from journal.events import ApprovalRequested, IncidentNoted, ProposalReceived, VerdictReached
from reports.claims import canonical
from reports.model import Block, Heading, Section
from reports.predicates.decisions import decision_of, is_plain
from reports.predicates.learning import mistakes, questions
from reports.predicates.signals import signals
from reports.sections.author import Author, Named, bullets, paragraph

_PROGRESS_MIN = 2


def summary(author: Author) -> Section:
    """First symptom, what was done, how it was checked, what stays open; the end is in the head."""
    evidence = author.evidence
    reached = [event for event, _ in evidence.of(VerdictReached)]
    weighed = author.known_of(
        ("decision.explanation", {"event": event.id}) for event in evidence.decisions.values()
    )
    return author.section(
        "summary",
        paragraph(
            author.say("incident.opened"),
            author.say("verdict.reached", event=reached[0].id) if len(reached) > 1 else None,
            *weighed[-1:],
            author.say("signal.tally"),
            *author.all_of(list(mistakes(evidence))[:2]),
            author.known("progress.resumed"),
            author.say("verdict.verification"),
            *author.all_of(list(questions(evidence))[:1]),
        ),
    )


def key_numbers(author: Author) -> Section:
    """Instants, counts and innocents; each computed even when it is nought."""
    instants = [
        author.say("incident.instant", which=w) for w in ("detect", "decide", "act", "verify")
    ]
    return author.section(
        "key_numbers",
        bullets(
            [
                author.say("incident.counted"),
                author.say("incident.commands"),
                author.say("signal.innocents"),
                author.say("process.bystanders"),
                *instants,
            ]
        ),
    )


def overview(author: Author) -> Section:
    """What was sent, and how each command ended."""
    commands = [{"command_id": thread.command_id} for thread in author.evidence.commands]
    sent = signals(author.evidence)
    return author.section(
        "overview",
        author.table("command.account", commands),
        author.table("signal.sent", [s.args for s in sent]),
    )


def context(author: Author) -> Section:
    """Goal and terms: who asked, under which configuration, with which program."""
    evidence = author.evidence
    notes = [("incident.quoted", {"event": e.id}) for e, _ in evidence.of(IncidentNoted)]
    wishes = [("incident.proposed", {"event": e.id}) for e, _ in evidence.of(ProposalReceived)]
    words = [("incident.quoted", {"event": e.id}) for e, _ in evidence.of(ProposalReceived)]
    return author.section(
        "context",
        paragraph(
            author.say("incident.opened"),
            author.known("incident.session"),
            author.say("incident.configuration"),
        ),
        bullets(author.all_of([*notes, *wishes, *words])),
    )


def why(author: Author) -> Section:
    """Each command with the reason recorded before it ran; the same one for the same once."""
    each: dict[str, Named] = {}
    for thread in author.evidence.commands:
        args = {"command_id": thread.command_id}
        claim = author.draw("command.reason", **args)
        if claim.kind != "UNKNOWN":
            each.setdefault(canonical(claim.value), ("command.reason", args))
    return author.section(
        "why", author.table("command.reason", [args for _, args in each.values()])
    )


def how(author: Author) -> Section:
    """Decisions in order: those that only look on as rows, those that weigh something at length."""
    evidence = author.evidence
    blocks: list[Block | None] = []
    plain: list[Mapping[str, JsonValue]] = []
    for event in evidence.decisions.values():
        args: dict[str, JsonValue] = {"event": event.id}
        if is_plain(decision_of(evidence, args)) and not author.known(
            "decision.explanation", **args
        ):
            plain.append(args)
            continue
        blocks.append(author.table("decision.step", plain))
        plain = []
        names = (
            "decision.action", "decision.because", "decision.explanation", "decision.rejected",
            "decision.guards", "decision.expects",
        )  # fmt: skip
        blocks.append(paragraph(*author.known_of((name, args) for name in names)))
    blocks.append(author.table("decision.step", plain))
    asked = [("approval.asked", {"event": e.id}) for e, _ in evidence.of(ApprovalRequested)]
    return author.section("how", *blocks, bullets(author.all_of(asked)))


def assumptions(author: Author) -> Section:
    """What each command type takes for granted, once per type, and whether anything checked it."""
    evidence = author.evidence
    rows: list[Mapping[str, JsonValue]] = []
    seen = set()
    for thread in evidence.commands:
        args = {"command_id": thread.command_id}
        definition = evidence.definitions.get(getattr(thread.first.payload, "definition", ""))
        if definition is None or definition.id in seen:
            continue
        seen.add(definition.id)
        body = getattr(definition.payload, "body", {})
        rows += [{**args, "index": place} for place, _ in enumerate(body.get("assumptions") or ())]
    return author.section("assumptions", author.table("command.assumption", rows))


def mistaken(author: Author) -> Section:
    """What was taken for granted and then contradicted by the record."""
    return author.section("mistakes", bullets(author.all_of(mistakes(author.evidence))))


def heading(
    title: str, anchor: str | None = None, *, code: bool = False, level: int = 3
) -> Heading:
    """A heading inside a section."""
    return Heading(title=title, anchor=anchor, code=code, level=level)
