"""Predicates about processes and signals: who was seen, who was signalled, who is gone.

A process is a key of boot, namespace, pid and start ticks; a pid alone is never compared. Not
here: what a trainer says of itself (``reports.predicates.progress``).
"""

from collections import Counter

from pydantic import JsonValue

from journal import Event
from journal.events import CommandIntended
from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import Evidence, elapsed_ms
from reports.observed import Listing, ProcessKey, key_of, number, text
from reports.predicates.signals import Signalled, listings, signals


def _listing(evidence: Evidence, event: Event) -> Listing:
    return evidence.tables.get(event.id) or Listing(complete=False, rows={})


def signalled(evidence: Evidence, args: JsonObject) -> Found:
    """One signal: to which process, delivered or refused, and with which race quality."""
    for sent in signals(evidence):
        if sent.args == args:
            value: JsonValue = {
                "signal": sent.signal,
                "pid": sent.victim.pid,
                "start_ticks": sent.victim.start_ticks,
                "delivered": sent.delivered,
                "quality": sent.quality,
                "refusal": sent.refusal,
                "comm": _name(evidence, sent.victim),
            }
            refs = (ref(sent.intent), *((ref(sent.answer),) if sent.answer else ()))
            return Found(value, refs)
    return Found(None, (), unknown=True)


def _name(evidence: Evidence, key: ProcessKey) -> str | None:
    """The command name that a listing gives for a process."""
    for event in listings(evidence):
        row = _listing(evidence, event).rows.get(key)
        if row is not None:
            return text(row, "comm")
    return None


def tally(evidence: Evidence, _args: JsonObject) -> Found:
    """Signals by name, and how many processes got one; each signal counts once."""
    sent = [s for s in signals(evidence) if s.delivered is not False]
    counts = Counter(s.signal for s in sent)
    value: JsonValue = {
        "total": len(sent),
        "parts": [{"signal": name, "count": count} for name, count in sorted(counts.items())],
        "processes": len({s.victim for s in sent}),
        "undelivered": sum(s.delivered is False for s in signals(evidence)),
    }
    return Found(value, tuple(ref(s.intent) for s in sent) or (ref(evidence.last),))


def innocents(evidence: Evidence, _args: JsonObject) -> Found:
    """Processes that got a signal though no listing and no intent names them as victims.

    A signal's victim must be one of the victims that its intent declares and must have been seen,
    under that identity, in a listing of this incident before the signal.
    """
    touched = [
        s for s in signals(evidence) if s.delivered is not False and not _entitled(evidence, s)
    ]
    delivered = [s for s in signals(evidence) if s.delivered is not False]
    value: JsonValue = {
        "touched": len(touched),
        "pids": [s.victim.pid for s in touched],
        "signals": len(delivered),
    }
    refs = [ref(s.intent) for s in delivered]
    return Found(value, tuple(refs) or (ref(evidence.last),))


def _entitled(evidence: Evidence, sent: Signalled) -> bool:
    payload = sent.intent.payload
    assert isinstance(payload, CommandIntended)  # noqa: S101
    declared = any(key_of(victim.model_dump()) == sent.victim for victim in payload.victims)
    place = evidence.position[sent.intent.id]
    return declared and any(
        sent.victim in _listing(evidence, event).rows
        for event in listings(evidence)
        if evidence.position[event.id] < place
    )


def bystanders(evidence: Evidence, _args: JsonObject) -> Found:
    """Processes listed before the first signal, not signalled: how many does the last listing hold?

    Unknown without a complete listing on both sides of the signals.
    """
    sent = [s for s in signals(evidence) if s.delivered is not False]
    whole = [e for e in listings(evidence) if _listing(evidence, e).complete]
    if not sent:
        return Found(None, (ref(evidence.last),), unknown=True)
    first, last = evidence.position[sent[0].intent.id], evidence.position[sent[-1].intent.id]
    before = [e for e in whole if evidence.position[e.id] < first]
    after = [e for e in whole if evidence.position[e.id] > last]
    if not before or not after:
        return Found(None, (ref(sent[-1].intent),), unknown=True)
    victims = {s.victim for s in sent}
    seen = {k for k in _listing(evidence, before[-1]).rows if k not in victims}
    still = seen & set(_listing(evidence, after[-1]).rows)
    value: JsonValue = {
        "before": len(seen),
        "still": len(still),
        "gone": [*sorted(key.pid for key in seen - still)],
    }
    return Found(value, (ref(before[-1]), ref(after[-1])))


def present(evidence: Evidence, args: JsonObject) -> Found:
    """Whether one process is in one listing: present, absent, or unknown when it is not whole."""
    event = evidence.event(str(args["event"]))
    key = key_of(args["identity"])
    found = _listing(evidence, event)
    row = found.rows.get(key) if key else None
    value: JsonObject = {"pid": key.pid if key else None, "present": row is not None}
    if row is not None:
        value |= {
            "state": text(row, "state"),
            "threads": number(row, "threads"),
            "rss_kib": number(row, "rss_kib"),
            "comm": text(row, "comm"),
        }
        return Found(value, (ref(event, "/observation/processes"),))
    return Found(value, (ref(event, "/observation"),), unknown=not found.complete)


def listed(evidence: Evidence, args: JsonObject) -> Found:
    """How many processes one listing holds and whether it is whole."""
    event = evidence.event(str(args["event"]))
    found = _listing(evidence, event)
    value: JsonValue = {"processes": len(found.rows), "complete": found.complete}
    return Found(value, (ref(event, "/observation/processes"),))


def ended(evidence: Evidence, args: JsonObject) -> Found:
    """Between which listings a process disappeared."""
    key = key_of(args["identity"])
    seen: Event | None = None
    for event in listings(evidence):
        found = _listing(evidence, event)
        if key in found.rows:
            seen = event
        elif seen is not None and found.complete:
            value: JsonValue = {
                "pid": key.pid if key else None,
                "within_ms": elapsed_ms(seen, event),
            }
            return Found(value, (ref(seen), ref(event)))
    refs = (ref(seen),) if seen else ()
    return Found({"pid": key.pid if key else None}, refs, unknown=True)


PREDICATES = (
    Predicate("signal.sent", "OBSERVED", "shown", signalled),
    Predicate("signal.tally", "DERIVED", "computed", tally),
    Predicate("signal.innocents", "DERIVED", "computed", innocents),
    Predicate("process.bystanders", "DERIVED", "computed", bystanders),
    Predicate("process.present", "OBSERVED", "shown", present),
    Predicate("process.listed", "OBSERVED", "shown", listed),
    Predicate("process.ended", "DERIVED", "computed", ended),
)
