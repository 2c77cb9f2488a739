"""Predicates about decisions and verdicts: what was chosen, why, what was passed over, what held.

A recorded decision is read by its fields; one that a decision lacks is unknown, never filled in.
"""

from pydantic import JsonValue

from journal import Event
from journal.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
    CommandIntended,
    DecisionMade,
    VerdictReached,
)
from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import Evidence, elapsed_ms
from reports.observed import briefly, items, member, number, text

# The lead in deciban at which the engine acts on an explanation.
_MARGIN_DB = 10


def decision_of(evidence: Evidence, args: JsonObject) -> JsonObject:
    """The decision in an event, or an empty one."""
    payload = evidence.event(str(args["event"])).payload
    return payload.decision if isinstance(payload, DecisionMade) else {}


def rule_of(hit: JsonValue) -> JsonObject:
    """Rule and words of a rule hit, whichever of the known fields it uses."""
    if isinstance(hit, str):
        return {"rule": hit, "words": None}
    rule = text(hit, "rule") or text(hit, "id") or text(hit, "guard")
    words = text(hit, "text") or text(hit, "note") or text(hit, "reason")
    return {"rule": rule, "words": words}


def action_of(decision: JsonObject) -> JsonObject:
    """Kind and object of a decision's action."""
    action = decision.get("action")
    given = member(action, "arguments")
    kind = text(action, "kind") or text(action, "action") or "unnamed"
    return {
        "kind": kind,
        "purpose": text(action, "purpose"),
        "command": text(action, "command"),
        "given": briefly(given) if isinstance(given, dict) else "",
        "verdict": text(action, "verdict"),
        "resolution": text(action, "resolution"),
        "words": text(action, "reason"),
    }


def action(evidence: Evidence, args: JsonObject) -> Found:
    """What was chosen."""
    event = evidence.event(str(args["event"]))
    return Found(action_of(decision_of(evidence, args)), (ref(event, "/data/decision/action"),))


def because(evidence: Evidence, args: JsonObject) -> Found:
    """The rules that led to it, each with its recorded words."""
    event = evidence.event(str(args["event"]))
    hits = decision_of(evidence, args).get("because")
    found: list[JsonValue] = [rule_of(hit) for hit in hits] if isinstance(hits, list) else []
    pointer = "/data/decision/because"
    return Found({"rules": found}, (ref(event, pointer),), unknown=not found)


def rejected(evidence: Evidence, args: JsonObject) -> Found:
    """The candidates that were passed over, each with the rule that says why."""
    event = evidence.event(str(args["event"]))
    found: list[JsonValue] = [
        {"candidate": text(entry, "candidate") or "unnamed", **rule_of(entry)}
        for entry in items(decision_of(evidence, args), "rejected")
    ]
    pointer = "/data/decision/rejected"
    return Found({"candidates": found}, (ref(event, pointer),), unknown=not found)


def guards(evidence: Evidence, args: JsonObject) -> Found:
    """How many guards were asked, and which did not pass."""
    event = evidence.event(str(args["event"]))
    results = items(decision_of(evidence, args), "guards")
    stopped: list[JsonValue] = [
        rule_of(result) for result in results if member(result, "passed") is False
    ]
    value: JsonValue = {"asked": len(results), "stopped": stopped}
    return Found(value, (ref(event, "/data/decision/guards"),), unknown=not results)


def hypotheses(evidence: Evidence, args: JsonObject) -> Found:
    """The explanations in play with their weights in deciban, the heaviest first."""
    event = evidence.event(str(args["event"]))
    rows = []
    for entry in items(decision_of(evidence, args), "hypotheses"):
        name = text(entry, "hypothesis") or text(entry, "id") or text(entry, "name")
        weight = next(
            (w for key in ("db", "deciban", "weight") if (w := number(entry, key)) is not None),
            None,
        )
        rows.append((-(weight or 0), name or "unnamed", weight))
    found: list[JsonValue] = [
        {"hypothesis": name, "deciban": weight}
        for _, name, weight in sorted(rows, key=lambda r: r[:2])
    ]
    pointer = "/data/decision/hypotheses"
    return Found({"hypotheses": found}, (ref(event, pointer),), unknown=not found)


def explanation(evidence: Evidence, args: JsonObject) -> Found:
    """Which explanation leads at a decision, by how much, with the others as alternatives."""
    found = hypotheses(evidence, args)
    rows = items(found.value, "hypotheses")
    if found.unknown or len(rows) < 2:  # noqa: PLR2004  (a lead needs a runner-up)
        return Found(None, found.refs, unknown=True)
    weights = _weights(decision_of(evidence, args), rows[0]["hypothesis"])
    if weights and all(member(piece, "evidence") == "prior" for piece in weights):
        return Found(None, found.refs, unknown=True)  # nothing was observed that weighs
    first, second = number(rows[0], "deciban"), number(rows[1], "deciban")
    value: JsonValue = {
        "leader": rows[0]["hypothesis"],
        "deciban": first,
        "lead": (first or 0) - (second or 0),
        "next": rows[1]["hypothesis"],
        "because": [*weights],
        "close": [
            row["hypothesis"]
            for row in rows
            if (first or 0) - (number(row, "deciban") or 0) < _MARGIN_DB
        ],
    }
    others = tuple(str(row["hypothesis"]) for row in rows[1:])
    strong = (first or 0) - (second or 0) >= _MARGIN_DB
    return Found(
        value, found.refs, alternatives=others, strength="likely" if strong else "possible"
    )


def _weights(decision: JsonObject, name: JsonValue) -> list[JsonValue]:
    """What one explanation's weight is made of, the heaviest pieces first."""
    for entry in items(decision, "hypotheses"):
        pieces = entry.get("because")
        if entry.get("hypothesis") != name or not isinstance(pieces, list):
            continue
        pairs = [p for p in pieces if isinstance(p, list) and len(p) == 2]  # noqa: PLR2004
        pairs.sort(key=lambda pair: -abs(pair[1]) if isinstance(pair[1], int) else 0)
        return [{"evidence": pair[0], "deciban": pair[1]} for pair in pairs if pair[1]]
    return []


def is_plain(decision: JsonObject) -> bool:
    """Whether a decision looks on or judges and weighs no guard, expectation or rival."""
    more = (decision.get(name) for name in ("rejected", "guards", "expects"))
    action = action_of(decision)
    looks = action["purpose"] in {"probe", "wait"} or action["kind"] in {"pause", "judge", "close"}
    return looks and not any(more)


def step(evidence: Evidence, args: JsonObject) -> Found:
    """A decision in a row: when, what was chosen, and the rules that led to it."""
    event = evidence.event(str(args["event"]))
    hits = decision_of(evidence, args).get("because")
    rules: list[JsonValue] = [rule_of(hit) for hit in hits] if isinstance(hits, list) else []
    chosen = action_of(decision_of(evidence, args))
    if chosen["words"] in [member(rule, "words") for rule in rules]:
        chosen["words"] = None  # the rule says it in the same words
    value: JsonValue = {"after_ms": elapsed_ms(evidence.first, event), **chosen, "rules": rules}
    return Found(value, (ref(event, "/data/decision"),))


def expects(evidence: Evidence, args: JsonObject) -> Found:
    """What had to be observed afterwards for the step to count as a success."""
    event = evidence.event(str(args["event"]))
    wanted = decision_of(evidence, args).get("expects")
    entries = wanted if isinstance(wanted, list) else []
    found: list[JsonValue] = [
        entry
        if isinstance(entry, str)
        else text(entry, "condition")
        or text(entry, "text")
        or text(member(entry, "condition"), "kind")
        for entry in entries
    ]
    pointer = "/data/decision/expects"
    return Found({"expectations": found}, (ref(event, pointer),), unknown=not found)


def verdict(evidence: Evidence, args: JsonObject) -> Found:
    """What was asked, what was answered, and on which events the answer rests."""
    event = evidence.event(str(args["event"]))
    payload = event.payload
    assert isinstance(payload, VerdictReached)  # noqa: S101
    rests = tuple(ref(evidence.by_id[e]) for e in payload.evidence if e in evidence.by_id)
    value: JsonValue = {
        "condition": text(payload.condition, "kind") or text(payload.condition, "condition"),
        "verdict": payload.verdict,
        "words": payload.reason,
        "evidence": len(payload.evidence),
    }
    return Found(value, (ref(event), *rests))


def verification(evidence: Evidence, _args: JsonObject) -> Found:
    """The last settled verdict after the last acting command; unknown when none was reached."""
    acts = [e for e, p in evidence.of(CommandIntended) if p.effect in {"changes", "destroys"}]
    after = evidence.position[acts[-1].id] if acts else -1
    later = [(e, p) for e, p in evidence.of(VerdictReached) if evidence.position[e.id] > after]
    if not later:
        return Found(None, (ref(acts[-1] if acts else evidence.last),), unknown=True)
    event, payload = later[-1]
    value: JsonValue = {
        "condition": text(payload.condition, "kind") or text(payload.condition, "condition"),
        "verdict": payload.verdict,
        "acted": bool(acts),
    }
    return Found(value, (ref(event), *((ref(acts[-1]),) if acts else ())))


def approval(evidence: Evidence, args: JsonObject) -> Found:
    """What a person was asked and answered."""
    event = evidence.event(str(args["event"]))
    payload = event.payload
    assert isinstance(payload, ApprovalRequested)  # noqa: S101
    answers: tuple[tuple[Event, ApprovalGranted | ApprovalRefused | ApprovalExpired], ...] = (
        *evidence.of(ApprovalGranted),
        *evidence.of(ApprovalRefused),
        *evidence.of(ApprovalExpired),
    )
    answer = next((e for e, p in answers if p.approval_id == payload.approval_id), None)
    value: JsonValue = {
        "command": payload.command,
        "rule": payload.rule,
        "answer": answer.kind.removeprefix("approval_") if answer else None,
        "actor_id": answer.actor.id if answer else None,
    }
    return Found(value, (ref(event), *((ref(answer),) if answer else ())), unknown=answer is None)


PREDICATES = (
    Predicate("decision.action", "STATED", "shown", action),
    Predicate("decision.because", "STATED", "shown", because),
    Predicate("decision.step", "STATED", "shown", step),
    Predicate("decision.rejected", "STATED", "shown", rejected),
    Predicate("decision.guards", "DERIVED", "computed", guards),
    Predicate("decision.hypotheses", "DERIVED", "computed", hypotheses),
    Predicate("decision.explanation", "INFERRED", "possible", explanation),
    Predicate("decision.expects", "STATED", "shown", expects),
    Predicate("verdict.reached", "OBSERVED", "shown", verdict),
    Predicate("verdict.verification", "OBSERVED", "shown", verification),
    Predicate("approval.asked", "OBSERVED", "shown", approval),
)
