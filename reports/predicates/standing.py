"""The predicate about the journal itself: how far the report's events were verified.

Its value comes from what whoever opened the journal found out (``reports.standing``) and from the
seals beside the log, so that evaluating it again asks both anew.
"""

from pydantic import JsonValue

from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import Evidence
from reports.standing import Seal, Standing, covering


def verified(evidence: Evidence, _args: JsonObject) -> Found:
    """Up to which seal of each stream, and how many of the report's events are after it."""
    standing = evidence.standing
    refs = (ref(evidence.last),)
    if standing is None or not (standing.is_trusted or standing.finding):
        return Found({"asked": standing is not None}, refs, unknown=True)
    if standing.finding:
        return Found({"finding": standing.finding}, refs)
    last: dict[str, int] = {}
    for event in evidence.events:
        last[event.stream] = event.seq
    seals = {
        stream: covering(evidence.seals, standing.sealed.get(stream, 0), stream, seq)
        for stream, seq in last.items()
    }
    after = sum(event.seq >= _size(seals[event.stream]) for event in evidence.events)
    streams: list[JsonValue] = [
        {
            "stream": stream,
            "seal": seal.number if seal else None,
            "size": _size(seal),
            "ts_us": seal.ts_us if seal else None,
        }
        for stream, seal in seals.items()
    ]
    value: JsonValue = {
        "finding": "",
        "streams": streams,
        "covered": len(evidence.events) - after,
        "after": after,
        "anchored": _anchored(standing, seals),
    }
    return Found(value, refs)


def _size(seal: Seal | None) -> int:
    return 0 if seal is None else seal.size


def _anchored(standing: Standing, seals: dict[str, Seal | None]) -> bool:
    """Whether anchors know every seal that is named, and one is."""
    sizes = {stream: seal.size for stream, seal in seals.items() if seal is not None}
    return bool(sizes) and all(
        standing.anchored.get(stream, 0) >= size for stream, size in sizes.items()
    )


PREDICATES = (Predicate("journal.verified", "DERIVED", "computed", verified),)
