"""Predicates about what an incident teaches: what went wrong, what went well, what was luck.

Each is a rule over recorded events, never a judgement of a person. Here too: which of them apply
(``mistakes``, ``strengths``, ``luck``, ``questions``). Not here: how a decision was made.
"""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from journal import Event
from journal.events import (
    CommandIntended,
    IncidentClosed,
    VerdictReached,
)
from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import Evidence, elapsed_ms
from reports.observed import member, text
from reports.predicates.decisions import explanation
from reports.predicates.signals import Signalled, listings, signals

Named = tuple[str, Mapping[str, JsonValue]]
_GENTLE = frozenset({"INT", "TERM", "HUP", "QUIT"})
_ALARMS = frozenset({"intervention_needed"})


def mistakes(evidence: Evidence) -> Iterator[Named]:
    """Rules of this module that find something that went otherwise than assumed."""
    for thread in evidence.commands:
        if thread.outcome_word in {"failed", "unknown", "in doubt"}:
            yield "mistake.unanswered", {"command_id": thread.command_id}
    for sent in signals(evidence):
        if sent.refusal:
            yield "mistake.refused", sent.args
        elif sent.delivered is not False and _outlived(evidence, sent):
            yield "mistake.outlived", sent.args
        if sent.signal == "KILL" and not _gentler_before(evidence, sent):
            yield "mistake.force_first", sent.args
    for event, payload in evidence.of(VerdictReached):
        if _earlier_verdict(evidence, event, payload):
            yield "mistake.verdict_changed", {"event": event.id}


def strengths(evidence: Evidence) -> Iterator[Named]:
    """Rules that find a safeguard at work."""
    for thread in evidence.commands:
        if thread.outcome_word == "denied":
            yield "strength.denied", {"command_id": thread.command_id}
        if thread.reconciled is not None:
            yield "strength.reconciled", {"command_id": thread.command_id}
    sent = [s for s in signals(evidence) if s.delivered]
    if sent:
        yield "strength.by_identity", {}
    if _wanted(evidence):
        yield "strength.verified", {}


def luck(evidence: Evidence) -> Iterator[Named]:
    """Rules that find a good end on thin support."""
    for sent in signals(evidence):
        if sent.delivered and sent.quality == "recheck":
            yield "luck.recheck", sent.args
    good = any(p.resolution in {"RECOVERED", "STOPPED"} for _, p in evidence.of(IncidentClosed))
    for thread in evidence.commands:
        if good and thread.outcome_word in {"unknown", "in doubt"} and thread.reconciled is None:
            yield "luck.unsettled", {"command_id": thread.command_id}


def questions(evidence: Evidence) -> Iterator[Named]:
    """Rules that find something the record leaves open."""
    for thread in evidence.commands:
        if thread.outcome_word in {"unknown", "in doubt"} and thread.reconciled is None:
            yield "question.outcome", {"command_id": thread.command_id}
    latest: dict[str, tuple[Event, VerdictReached]] = {}
    for event, payload in evidence.of(VerdictReached):
        latest[str(sorted(payload.condition.items()))] = (event, payload)
    for event, payload in latest.values():
        if payload.verdict == "inconclusive":
            yield "question.verdict", {"event": event.id}
    if not evidence.of(IncidentClosed):
        yield "question.open", {}
    last = _last_hypotheses(evidence)
    if last is not None and explanation(evidence, {"event": last.id}).strength == "possible":
        yield "question.cause", {"event": last.id}
    if _acted(evidence) and not _verified(evidence):
        yield "question.unverified", {}


def _last_hypotheses(evidence: Evidence) -> Event | None:
    found = [
        event
        for event in evidence.decisions.values()
        if not explanation(evidence, {"event": event.id}).unknown
    ]
    return found[-1] if found else None


def _acted(evidence: Evidence) -> list[Event]:
    return [e for e, p in evidence.of(CommandIntended) if p.effect in {"changes", "destroys"}]


def _verified(evidence: Evidence) -> bool:
    acts = _acted(evidence)
    place = evidence.position[acts[-1].id] if acts else -1
    return any(
        evidence.position[e.id] > place and p.verdict != "inconclusive"
        for e, p in evidence.of(VerdictReached)
    )


def _outlived(evidence: Evidence, sent: Signalled) -> Event | None:
    """The last listing before the next signal to the victim, if it still shows the victim."""
    place = evidence.position[sent.intent.id]
    following = [
        evidence.position[s.intent.id]
        for s in signals(evidence)
        if s.victim == sent.victim and evidence.position[s.intent.id] > place
    ]
    until = min(following, default=len(evidence.events))
    later = [e for e in listings(evidence) if place < evidence.position[e.id] < until]
    row = evidence.tables[later[-1].id].rows.get(sent.victim) if later else None
    if row is None or text(row, "state") in {"Z", "X"}:
        return None
    return later[-1]


def _gentler_before(evidence: Evidence, sent: Signalled) -> bool:
    place = evidence.position[sent.intent.id]
    return any(
        s.victim == sent.victim
        and s.signal in _GENTLE
        and (evidence.position[s.intent.id], s.place) < (place, sent.place)
        for s in signals(evidence)
    )


def _earlier_verdict(evidence: Evidence, event: Event, payload: VerdictReached) -> Event | None:
    """The last earlier settled verdict on the same condition that said the opposite."""
    opposite = {"confirmed": "refuted", "refuted": "confirmed"}.get(payload.verdict)
    earlier = [
        e
        for e, p in evidence.of(VerdictReached)
        if p.condition == payload.condition
        and p.verdict == opposite
        and evidence.position[e.id] < evidence.position[event.id]
    ]
    return earlier[-1] if earlier else None


def _sent(evidence: Evidence, args: JsonObject) -> Signalled:
    return next(s for s in signals(evidence) if s.args == args)


def command_rule(evidence: Evidence, args: JsonObject) -> Found:
    """A command and the word for how it ended."""
    thread = evidence.threads[str(args["command_id"])]
    event = thread.outcome or thread.first
    refs = (ref(event), *((ref(thread.reconciled),) if thread.reconciled else ()))
    settled = thread.reconciled.payload.model_dump().get("settled") if thread.reconciled else None
    value: JsonValue = {
        "command": thread.name,
        "outcome": thread.outcome_word,
        "rule": getattr(event.payload, "rule", None),
        "settled": settled,
    }
    return Found(value, refs)


def signal_rule(evidence: Evidence, args: JsonObject) -> Found:
    """A signal, its victim, the answer, and the listing that still shows the victim."""
    sent = _sent(evidence, args)
    later = _outlived(evidence, sent)
    refs = [ref(sent.intent)]
    refs += [ref(event) for event in (sent.answer, later) if event]
    value: JsonValue = {
        "signal": sent.signal,
        "pid": sent.victim.pid,
        "refusal": sent.refusal,
        "quality": sent.quality,
        "seen_after_ms": elapsed_ms(sent.intent, later) if later else None,
    }
    return Found(value, tuple(refs))


def verdict_rule(evidence: Evidence, args: JsonObject) -> Found:
    """A verdict and the earlier one that it overturns, if any."""
    event = evidence.event(str(args["event"]))
    payload = event.payload
    assert isinstance(payload, VerdictReached)  # noqa: S101
    before = _earlier_verdict(evidence, event, payload)
    value: JsonValue = {
        "condition": _condition(payload),
        "verdict": payload.verdict,
        "before": getattr(before.payload, "verdict", None) if before else None,
        "words": payload.reason,
    }
    return Found(value, (ref(event), *((ref(before),) if before else ())))


def incident_rule(evidence: Evidence, _args: JsonObject) -> Found:
    """Something about the whole: how many signals were delivered, how many verdicts confirmed."""
    sent = [s for s in signals(evidence) if s.delivered]
    settled = [e for e, p in evidence.of(VerdictReached) if p.verdict == "confirmed"]
    value: JsonValue = {
        "signals": len(sent),
        "pidfd": sum(s.quality == "pidfd" for s in sent),
        "confirmed": len(settled),
    }
    refs = [ref(s.intent) for s in sent] or [ref(e) for e in settled]
    return Found(value, tuple(refs) or (ref(evidence.last),))


def verified_rule(evidence: Evidence, _args: JsonObject) -> Found:
    """The confirmed verdicts on a wanted state, each a positive answer."""
    settled = _wanted(evidence)
    value: JsonValue = {"confirmed": len(settled)}
    return Found(value, tuple(ref(e) for e in settled) or (ref(evidence.last),))


def _wanted(evidence: Evidence) -> list[Event]:
    """Confirmed verdicts that say that something is as it should be; an alarm says the opposite."""
    return [
        event
        for event, said in evidence.of(VerdictReached)
        if said.verdict == "confirmed" and _condition(said) not in _ALARMS
    ]


def _condition(said: VerdictReached) -> str | None:
    return text(said.condition, "kind") or text(said.condition, "condition")


def unverified_rule(evidence: Evidence, _args: JsonObject) -> Found:
    """The last acting command, after which no settled verdict stands."""
    acts = _acted(evidence)
    event = acts[-1] if acts else evidence.last
    payload = event.payload
    name = payload.command if isinstance(payload, CommandIntended) else None
    return Found({"command": name}, (ref(event), ref(evidence.last)))


def cause_rule(evidence: Evidence, args: JsonObject) -> Found:
    """The explanations that were still close to each other at the last decision that names any."""
    found = explanation(evidence, args)
    value: JsonValue = {"hypotheses": member(found.value, "close") or []}
    return Found(value, found.refs)


PREDICATES = (
    Predicate("mistake.unanswered", "DERIVED", "computed", command_rule),
    Predicate("mistake.refused", "DERIVED", "computed", signal_rule),
    Predicate("mistake.outlived", "DERIVED", "computed", signal_rule),
    Predicate("mistake.force_first", "DERIVED", "computed", signal_rule),
    Predicate("mistake.verdict_changed", "DERIVED", "computed", verdict_rule),
    Predicate("strength.denied", "DERIVED", "computed", command_rule),
    Predicate("strength.reconciled", "DERIVED", "computed", command_rule),
    Predicate("strength.by_identity", "DERIVED", "computed", incident_rule),
    Predicate("strength.verified", "DERIVED", "computed", verified_rule),
    Predicate("luck.recheck", "DERIVED", "computed", signal_rule),
    Predicate("luck.unsettled", "DERIVED", "computed", command_rule),
    Predicate("question.outcome", "UNKNOWN", "unknown", command_rule),
    Predicate("question.verdict", "UNKNOWN", "unknown", verdict_rule),
    Predicate("question.open", "UNKNOWN", "unknown", incident_rule),
    Predicate("question.cause", "UNKNOWN", "unknown", cause_rule),
    Predicate("question.unverified", "UNKNOWN", "unknown", unverified_rule),
)

# Which kind of remedy each finding asks for; the remedy's words are in the wording.
REMEDIES: dict[str, str] = {
    "mistake.unanswered": "mitigate",
    "mistake.refused": "detect",
    "mistake.outlived": "prevent",
    "mistake.force_first": "process",
    "mistake.verdict_changed": "detect",
    "question.outcome": "mitigate",
    "question.verdict": "detect",
    "question.open": "process",
    "question.cause": "detect",
    "question.unverified": "process",
    "luck.recheck": "prevent",
    "luck.unsettled": "mitigate",
}


def remedy(evidence: Evidence, args: JsonObject) -> Found:
    """The action item that a finding asks for: its type, and the finding it answers."""
    rule = str(args["rule"])
    inner = args.get("args")
    found = RULES_BY_NAME[rule].evaluate(evidence, inner if isinstance(inner, dict) else {})
    value: JsonValue = {"type": REMEDIES[rule], "rule": rule, "finding": found.value}
    return Found(value, found.refs)


RULES_BY_NAME = {predicate.name: predicate for predicate in PREDICATES}
REMEDY = Predicate("action.item", "DERIVED", "computed", remedy)
