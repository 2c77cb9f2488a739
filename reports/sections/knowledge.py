"""Sections on knowing: input and output knowledge, recorded thinking, timeline, plots."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from journal.events import (
    CommandIntended,
    DecisionMade,
    VerdictReached,
)
from reports.claims import canonical
from reports.evidence import Evidence
from reports.model import Section, Sentence
from reports.plots import figures
from reports.predicates.commands import definition_of
from reports.predicates.decisions import action_of
from reports.predicates.progress import gpu_readings, heartbeats
from reports.sections.author import Author, Named, bullets, paragraph


def input_knowledge(author: Author) -> Section:
    """What silence and each metric mean, from the definitions in force."""
    evidence = author.evidence
    named: list[Named] = []
    seen = set()
    for thread in evidence.commands:
        definition = definition_of(evidence, thread)
        if definition is None or definition.id in seen:
            continue
        seen.add(definition.id)
        args = {"command_id": thread.command_id}
        named.append(("command.silence", {**args}))
        body = getattr(definition.payload, "body", {})
        named += [
            ("command.metric_card", {**args, "metric": metric})
            for metric in sorted(body.get("metric_cards") or {})
        ]
    return author.section(
        "input_knowledge",
        bullets(_each_once(author.known_of(named))),
        paragraph(author.say("incident.earlier")),
    )


def _each_once(said: tuple[Sentence, ...]) -> Iterator[Sentence]:
    """What several commands mean alike, told of the first one alone."""
    seen: set[str] = set()
    for sentence in said:
        value = sentence.claim.value
        meant = canonical({**value, "command": None} if isinstance(value, dict) else value)
        if sentence.claim.predicate != "command.metric_card" or meant not in seen:
            yield sentence
        seen.add(meant)


def output_knowledge(author: Author) -> Section:
    """What is known afterwards: verdicts, the change in progress, who ended when."""
    evidence = author.evidence
    beats = heartbeats(evidence)
    named: list[Named] = []
    if len(beats) > 1:
        named.append(("progress.advance", {"first": beats[0].id, "last": beats[-1].id}))
    if beats:
        named.append(("progress.resumed", {}))
    named += [
        ("process.ended", {"identity": victim.model_dump(mode="json")})
        for victim in dict.fromkeys(
            victim for _, intent in evidence.of(CommandIntended) for victim in intent.victims
        )
    ]
    verdicts = [{"event": event.id} for event, _ in evidence.of(VerdictReached)]
    return author.section(
        "output_knowledge",
        author.table("verdict.reached", verdicts),
        bullets(author.all_of(named)),
    )


def thinking(author: Author) -> Section:
    """Observation, weighing, choice and verdict in the order in which they were recorded."""
    evidence = author.evidence
    named: list[Named] = []
    beats = {event.id for event in heartbeats(evidence)}
    readings = {event.id for event in gpu_readings(evidence)}
    told_by_result = _told_by_result(evidence, {*beats, *readings, *evidence.tables})
    for event in evidence.events:
        args = {"event": event.id}
        if event.id in evidence.tables:
            named.append(("process.listed", {**args}))
        elif event.id in beats:
            named.append(("progress.heartbeat", {**args}))
        elif event.id in readings:
            named.append(("progress.devices", {**args}))
        elif isinstance(event.payload, DecisionMade) and event.id not in told_by_result:
            named.append(("decision.action", {**args}))
        elif isinstance(event.payload, VerdictReached):
            named.append(("verdict.reached", {**args}))
    return author.section("thinking", bullets(author.known_of(named), ordered=True))


def _told_by_result(evidence: Evidence, told: AbstractSet[str]) -> set[str]:
    """Decisions to look whose finding is told, and judgements: their verdict stands beside them."""
    found = {
        decided.id
        for thread in evidence.commands
        if thread.observed is not None
        and thread.observed.id in told
        and (decided := evidence.decisions.get(getattr(thread.first.payload, "decision_id", "")))
    }
    for event, said in evidence.of(DecisionMade):
        if action_of(said.decision)["kind"] in {"judge", "close"}:
            found.add(event.id)
    return found


def timeline(author: Author) -> Section:
    """Every event, in order, with both clocks."""
    return author.section(
        "timeline",
        paragraph(author.say("incident.clocks")),
        author.table("incident.timeline", [{"event": e.id} for e in author.evidence.events]),
    )


def plots(author: Author) -> Section:
    """Lanes of processes and commands, steps, device memory; the same numbers as a table."""
    beats = [{"event": event.id} for event in heartbeats(author.evidence)]
    readings = [("progress.devices", {"event": e.id}) for e in gpu_readings(author.evidence)]
    return author.section(
        "plots",
        *figures(author.evidence),
        author.table("progress.heartbeat", beats),
        bullets(author.known_of(readings)),
    )
