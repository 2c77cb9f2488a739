"""Predicates about the incident as a whole: opening, end, counts, instants, its neighbours.

Not here: single commands, processes, decisions.
"""

from collections import Counter

from pydantic import JsonValue

from journal import Event
from journal.events import (
    CommandCompleted,
    CommandIntended,
    ConfigurationLoaded,
    DecisionMade,
    IncidentClosed,
    IncidentNoted,
    IncidentOpened,
    ProposalReceived,
    SessionStarted,
    VerdictReached,
)
from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import Evidence, elapsed_ms
from reports.predicates.theme import theme

_OUTCOME_WORDS = ("completed", "failed", "unknown", "not_sent", "denied", "in doubt")
_ACTS = frozenset({"changes", "destroys"})


def opened(evidence: Evidence, _args: JsonObject) -> Found:
    """Who opened the incident, when, and under which title."""
    for event, payload in evidence.of(IncidentOpened):
        value: JsonValue = {
            "title": payload.title,
            "job": payload.job,
            "actor": event.actor.kind,
            "actor_id": event.actor.id,
            "ts_us": event.ts_us,
        }
        return Found(value, (ref(event),))
    return Found(None, (ref(evidence.first),), unknown=True)


def closed(evidence: Evidence, _args: JsonObject) -> Found:
    """How the incident ended: its resolution, the reason and what it rests on."""
    for event, payload in reversed(evidence.of(IncidentClosed)):
        rests = tuple(ref(evidence.by_id[e]) for e in payload.evidence if e in evidence.by_id)
        value: JsonValue = {
            "resolution": payload.resolution,
            "reason": payload.reason,
            "evidence": len(payload.evidence),
            "duration_ms": elapsed_ms(evidence.first, event),
        }
        return Found(value, (ref(event), *rests))
    return Found({"resolution": None}, (ref(evidence.last),), unknown=True)


def title(evidence: Evidence, _args: JsonObject) -> Found:
    """The theme that the rule table gives to the decision pattern."""
    name, events = theme(evidence)
    return Found({"theme": name, "incident": evidence.incident}, tuple(ref(e) for e in events))


def counted(evidence: Evidence, _args: JsonObject) -> Found:
    """How many events there are, over which span, from how many hosts and writers."""
    value: JsonValue = {
        "events": len(evidence.events),
        "hosts": [*sorted({event.host.name for event in evidence.events if event.host})],
        "streams": len({event.stream for event in evidence.events}),
        "duration_ms": elapsed_ms(evidence.first, evidence.last),
    }
    return Found(value, (ref(evidence.first), ref(evidence.last)))


def commands(evidence: Evidence, _args: JsonObject) -> Found:
    """Commands by how they ended; the parts add up to the whole."""
    tally = Counter(thread.outcome_word for thread in evidence.commands)
    value: JsonObject = {"total": len(evidence.commands)}
    value["parts"] = [
        {"outcome": word, "count": tally[word]} for word in _OUTCOME_WORDS if tally[word]
    ]
    acted = sum(
        isinstance(thread.first.payload, CommandIntended) and thread.first.payload.effect in _ACTS
        for thread in evidence.commands
    )
    value["acting"] = acted
    refs = tuple(ref(t.first) for t in (evidence.commands[:1] + evidence.commands[-1:]))
    return Found(value, tuple(dict.fromkeys(refs)))


def _instant(evidence: Evidence, which: str) -> Event | None:
    """The event that marks one of the instants: detect, decide, act, verify."""
    found: Event | None = None
    match which:
        case "detect":
            found = next((t.observed for t in evidence.commands if t.observed), None)
        case "decide":
            found = next((event for event, _ in evidence.of(DecisionMade)), None)
        case "act":
            found = next(
                (e for e, p in evidence.of(CommandIntended) if p.effect in _ACTS),
                None,
            )
        case "verify":
            settled = [e for e, p in evidence.of(VerdictReached) if p.verdict != "inconclusive"]
            found = settled[-1] if settled else None
        case _:
            pass
    return found


def instant(evidence: Evidence, args: JsonObject) -> Found:
    """When something happened first (``detect decide act``) or last (``verify``)."""
    which = str(args["which"])
    event = _instant(evidence, which)
    if event is None:
        return Found({"which": which}, (ref(evidence.last),), unknown=True)
    value: JsonValue = {
        "which": which,
        "after_ms": elapsed_ms(evidence.first, event),
        "ts_us": event.ts_us,
    }
    return Found(value, (ref(evidence.first), ref(event)))


def quoted(evidence: Evidence, args: JsonObject) -> Found:
    """A note or an agent's proposal, as a quotation."""
    event = evidence.event(str(args["event"]))
    match event.payload:
        case IncidentNoted(text=words):
            pointer = "/data/text"
        case ProposalReceived(words=words):
            pointer = "/data/words"
        case _:
            return Found(None, (ref(event),), unknown=True)
    value: JsonValue = {"actor": event.actor.kind, "actor_id": event.actor.id, "words": words}
    return Found(value, (ref(event, pointer),))


def proposed(evidence: Evidence, args: JsonObject) -> Found:
    """The command that an agent wished for."""
    event = evidence.event(str(args["event"]))
    if not isinstance(event.payload, ProposalReceived):
        return Found(None, (ref(event),), unknown=True)
    return Found({"command": event.payload.command, "actor_id": event.actor.id}, (ref(event),))


def configuration(evidence: Evidence, _args: JsonObject) -> Found:
    """The policy configuration that the decisions name."""
    digests = list(dict.fromkeys(p.configuration for _, p in evidence.of(DecisionMade)))
    events = [evidence.configurations[d] for d in digests if d in evidence.configurations]
    if not events:
        return Found(None, (ref(evidence.last),), unknown=True)
    shown: list[JsonValue] = [
        {"digest": e.payload.digest[:12], "source": e.payload.source}
        for e in events
        if isinstance(e.payload, ConfigurationLoaded)
    ]
    return Found({"configurations": shown}, tuple(ref(e) for e in events))


def session(evidence: Evidence, _args: JsonObject) -> Found:
    """Which program of which version wrote the incident's events."""
    for event in reversed(evidence.sessions):
        payload = event.payload
        if isinstance(payload, SessionStarted):
            value: JsonValue = {
                "version": payload.agentops_version,
                "python": payload.python,
                "machine": payload.machine,
            }
            return Found(value, (ref(event),))
    return Found(None, (ref(evidence.first),), unknown=True)


def clocks(evidence: Evidence, _args: JsonObject) -> Found:
    """Whether the controller's wall clock ever stepped against its monotonic clock."""
    steps: list[JsonValue] = []
    refs = []
    for before, after in zip(evidence.events, evidence.events[1:], strict=False):
        if before.boot != after.boot or before.stream != after.stream:
            continue
        drift_us = (after.ts_us - before.ts_us) - (after.mono_ns - before.mono_ns) // 1_000
        if abs(drift_us) >= 1_000_000:  # noqa: PLR2004  (one second: what a reader would notice)
            steps.append({"ms": drift_us // 1_000})
            refs += [ref(before), ref(after)]
    value: JsonValue = {"steps": steps, "boots": len({e.boot for e in evidence.events})}
    return Found(value, tuple(refs) or (ref(evidence.first), ref(evidence.last)))


def earlier(evidence: Evidence, _args: JsonObject) -> Found:
    """How many incidents of the same job the journal holds up to this one, and how they ended."""
    job = next((p.job for _, p in evidence.of(IncidentOpened)), None)
    same = [
        (event, end)
        for event, end in evidence.incidents
        if isinstance(event.payload, IncidentOpened) and event.payload.job == job
    ]
    if job is None or len(same) < 2:  # noqa: PLR2004  (a pattern needs two)
        return Found(None, (ref(evidence.first),), unknown=True)
    ends = Counter(
        end.payload.resolution if end and isinstance(end.payload, IncidentClosed) else "open"
        for _, end in same
    )
    days = (same[-1][0].ts_us - same[0][0].ts_us) // 86_400_000_000
    value: JsonValue = {
        "job": job,
        "incidents": len(same),
        "days": days,
        "ends": [{"end": end, "count": count} for end, count in sorted(ends.items())],
    }
    return Found(value, tuple(ref(event) for event, _ in same))


def timeline(evidence: Evidence, args: JsonObject) -> Found:
    """One row of the timeline: place, time since the first event, kind, actor, host."""
    event = evidence.event(str(args["event"]))
    value: JsonValue = {
        "seq": event.seq,
        "after_ms": elapsed_ms(evidence.first, event),
        "ts_us": event.ts_us,
        "kind": event.kind,
        "actor": event.actor.kind,
        "host": event.host.name if event.host else None,
        "gist": gist(event),
    }
    return Found(value, (ref(event),))


def gist(event: Event) -> str:
    """The one field of a payload that tells most, for a timeline row.

    No field is invented: the first that the payload has of a fixed list is taken as it is.
    """
    body = event.payload.model_dump(mode="json")
    action = (
        body.get("decision", {}).get("action") if isinstance(body.get("decision"), dict) else None
    )
    if isinstance(action, dict):
        named = (action.get("command"), action.get("verdict"), action.get("resolution"))
        kind = action.get("kind") or action.get("action") or ""
        return " ".join(str(part) for part in (kind, *named) if part)
    if isinstance(event.payload, CommandCompleted):
        return f"exit status {event.payload.exit_status}"
    names = (
        "title",
        "resolution",
        "verdict",
        "fault",
        "command",
        "rule",
        "settled",
        "reason",
        "text",
        "name",
        "source",
    )
    return next((str(body[name]) for name in names if body.get(name)), "")


PREDICATES = (
    Predicate("incident.opened", "OBSERVED", "shown", opened),
    Predicate("incident.closed", "OBSERVED", "shown", closed),
    Predicate("incident.title", "DERIVED", "computed", title),
    Predicate("incident.counted", "DERIVED", "computed", counted),
    Predicate("incident.commands", "DERIVED", "computed", commands),
    Predicate("incident.instant", "DERIVED", "computed", instant),
    Predicate("incident.quoted", "STATED", "shown", quoted),
    Predicate("incident.proposed", "STATED", "shown", proposed),
    Predicate("incident.configuration", "OBSERVED", "shown", configuration),
    Predicate("incident.session", "OBSERVED", "shown", session),
    Predicate("incident.clocks", "DERIVED", "computed", clocks),
    Predicate("incident.earlier", "DERIVED", "computed", earlier),
    Predicate("incident.timeline", "OBSERVED", "shown", timeline),
)
