"""Items about the log itself: clocks, gaps, integrity, copies, access, retention, review."""

from collections import Counter
from itertools import pairwise

from journal import Event
from journal.events import Heartbeat, IncidentClosed
from journal.redaction import text_without_secrets
from reports.compliance.answers import Answer, Item, Records, every, labels, observed
from reports.observed import member, number

_HEARTBEATS_MISSED = 3
_DAY_US = 86_400_000_000
# What the journal writes of itself; nobody reviews it in a digest.
_UPKEEP = frozenset(
    {
        "session_started", "session_ended", "journal_recovered", "heartbeat", "sealed",
        "seal_anchored", "anchor_dropped", "segment_started", "journal_read",
        "definition_recorded", "configuration_loaded",
    }
)  # fmt: skip
_CLOCK_FIELDS = ("clock_us", "clock_skew_ms", "unix_ms", "time_unix_ms", "updated_unix_ms")
_GROUP_AND_OTHERS = 0o077


def clocks(records: Records) -> Answer:
    """L04: times in UTC with microseconds, sequences without a hole, remote clocks read."""
    holes = [b for a, b in pairwise(records.events) if a.stream == b.stream and b.seq != a.seq + 1]
    if holes:
        return Answer("fail", f"holes in a stream's sequence: {len(holes)}", labels(holes))
    remote = _remote_clocks(records)
    words = f"events with both clocks: {len(records.events)}; remote clock readings: {len(remote)}"
    return Answer("pass" if remote else "fail", words, labels(remote or records.events[:1]))


def _remote_clocks(records: Records) -> list[Event]:
    found = []
    for event in records.of("observation_parsed"):
        value = observed(records.reader, event)
        parts = (value, member(value, "heartbeat"))
        if any(number(part, name) is not None for part in parts for name in _CLOCK_FIELDS):
            found.append(event)
    return found


def reading(records: Records) -> Answer:
    """L09: reading and exporting are recorded too."""
    seen = records.of("journal_read")
    if not seen:
        return Answer("not applicable", "nobody is on record as having read it")
    return Answer("pass", f"readings on record: {len(seen)}", labels(seen))


def gaps(records: Records) -> Answer:
    """L10: starts and stops are recorded, and a silence of the writer can be seen."""
    started, ended = records.of("session_started"), records.of("session_ended", "journal_recovered")
    last: dict[str, Event] = {}
    silent = []
    for event in records.of("heartbeat", "session_ended"):
        if not isinstance(event.payload, Heartbeat):
            last.pop(event.stream, None)  # it ended in order: what follows owes it no heartbeat
            continue
        before = last.get(event.stream)
        last[event.stream] = event
        if before is None or before.boot != event.boot:
            continue
        apart_ms = (event.mono_ns - before.mono_ns) // 1_000_000
        if apart_ms > _HEARTBEATS_MISSED * event.payload.interval_ms:
            silent.append(event)
    if silent:
        return Answer(
            "fail", f"silences longer than three heartbeats: {len(silent)}", labels(silent)
        )
    beats = len(records.of("heartbeat"))
    words = f"sessions started {len(started)}, ended {len(ended)}, heartbeats {beats}"
    return Answer("pass" if started else "fail", words, labels(started))


def integrity(records: Records) -> Answer:
    """L12: alteration shows; ``verify`` decides."""
    status = records.surroundings.verification
    found = records.surroundings.finding
    words = f"verify says {status}{f': {found}' if found else ''}{_covered(records)}"
    return Answer("pass" if status == "intact" else "fail", words, labels(records.of("sealed")))


def _covered(records: Records) -> str:
    """How many events seals and anchors cover, where that was asked."""
    ranges = records.surroundings.ranges
    if not ranges:
        return ""
    size, sealed, anchored = (
        sum(getattr(each, name) for each in ranges) for name in ("size", "sealed", "anchored")
    )
    return f"; events good: {size}, of them sealed: {sealed}, anchored: {anchored}"


def copies(records: Records) -> Answer:
    """L13: seals were stored on another medium."""
    anchored = records.of("seal_anchored")
    if not anchored:
        return Answer("fail", "no seal was anchored outside the journal")
    return Answer("pass", f"anchored seals: {len(anchored)}", labels(anchored))


def access(records: Records) -> Answer:
    """L14: only the owner may read it."""
    mode = records.surroundings.mode
    if mode is None:
        return Answer("not applicable", "the folder's permissions were not looked at")
    wide = mode & _GROUP_AND_OTHERS
    return Answer("fail" if wide else "pass", f"folder mode {mode & 0o777:04o}")


def retention(records: Records) -> Answer:
    """L15: what the journal reaches back to; how long to keep it is the operator's rule."""
    days = (records.events[-1].ts_us - records.events[0].ts_us) // _DAY_US
    words = f"reaches over {days} days, nothing expired; the rule for keeping it is not in it"
    return Answer("not applicable", words, labels((records.events[0], records.events[-1])))


def secrets(records: Records) -> Answer:
    """L16: no secret is in a line; what was removed is counted."""
    found: Counter[str] = Counter()
    holding = []
    for event in records.events:
        counts: Counter[str] = Counter()
        text_without_secrets(event.line.decode("ascii", "replace"), counts)
        if counts:
            holding.append(event)
        found += counts
    removed = [e for e in records.events if e.redacted]
    words = (
        f"lines read: {len(records.events)}; with secrets removed before hashing: {len(removed)}"
    )
    if holding:
        return Answer(
            "fail", f"lines that look like holding a secret: {len(holding)}", labels(holding)
        )
    return Answer("pass", words, labels(removed))


def review(records: Records) -> Answer:
    """L17: no event waited longer than a day for a digest, as far as the journal reaches."""
    seen = [e for e in records.of("journal_read") if getattr(e.payload, "purpose", "") == "digest"]
    read_us = [e.ts_us for e in seen]
    end_us = max(e.ts_us for e in records.events)
    told = [e for e in records.events if e.kind not in _UPKEEP]
    due = [e for e in told if end_us - e.ts_us > _DAY_US]
    late = [e for e in due if not any(0 <= at_us - e.ts_us <= _DAY_US for at_us in read_us)]
    if late:
        words = f"events that no digest was read of within a day: {len(late)} of {len(due)}"
        return Answer("fail", f"{words}; digests read: {len(seen)}", labels(late))
    if not seen:
        return Answer("not applicable", "the journal does not reach a day beyond any event yet")
    return Answer(
        "pass", f"no event waited a day for a digest; digests read: {len(seen)}", labels(seen)
    )


def followed(records: Records) -> Answer:
    """L18: each incident was detected, evaluated, answered and ended."""
    opened = records.of("incident_opened")
    kinds: dict[str, set[str]] = {}
    for event in records.events:
        if event.incident is not None:
            kinds.setdefault(event.incident, set()).add(event.kind)
    needed = {"observation_parsed", "incident_closed"}
    wrong = [e for e in opened if not needed <= kinds.get(e.incident or "", set())]
    return every(
        "incidents detected, evaluated and ended",
        "incidents not followed through",
        opened,
        wrong,
        "no incident",
    )


def failing_log(records: Records) -> Answer:
    """L19: where an output could not be stored, nothing more was changed in that incident."""
    failed = records.of("capture_failed")
    if not failed:
        return Answer("not applicable", "every output could be stored")
    first = {e.incident: e.seq for e in reversed(failed)}
    wrong = [e for e, _ in records.acting if e.incident in first and e.seq > first[e.incident]]
    return every(
        "failures to store that stopped acting", "acts after a failure to store", failed, wrong, ""
    )


def exports(records: Records) -> Answer:
    """L22: bundles were exported, and the export is recorded."""
    seen = [e for e in records.of("journal_read") if "export" in getattr(e.payload, "purpose", "")]
    if not seen:
        return Answer("not applicable", "no bundle was exported")
    return Answer("pass", f"exports on record: {len(seen)}", labels(seen))


def lifecycle(records: Records) -> Answer:
    """L23: a new segment names the digest of the one before."""
    rolled = records.of("segment_started")
    if not rolled:
        return Answer("not applicable", "the log is in one segment a stream")
    whole = records.surroundings.verification != "tampered"
    return Answer("pass" if whole else "fail", f"segments chained: {len(rolled)}", labels(rolled))


def accurate(records: Records) -> Answer:
    """L24: generated reports have no lint finding."""
    findings = records.surroundings.findings
    if records.surroundings.unmade:
        return Answer("fail", f"no report can be made: {records.surroundings.unmade}")
    if findings is None:
        return Answer("not applicable", "no report was linted")
    return Answer("fail" if findings else "pass", f"findings on generated reports: {findings}")


def synchronised(records: Records) -> Answer:
    """L25: each host's clock was read on each day it was acted on."""
    read = {(e.host.name, e.ts_us // _DAY_US) for e in _remote_clocks(records) if e.host}
    acted = {(e.host.name, e.ts_us // _DAY_US): e for e, _ in records.intents if e.host}
    wrong = [event for key, event in acted.items() if key not in read]
    return every(
        "hosts and days with a clock reading",
        "hosts and days without",
        acted.values(),
        wrong,
        "no command",
    )


def separation(records: Records) -> Answer:
    """L26: who acts does not remove records."""
    removed = records.of("redacted")
    acting = {e.actor.id for e, _ in records.acting}
    wrong = [e for e in removed if e.actor.id in acting]
    return every(
        "removals by somebody else",
        "removals by an acting identity",
        removed,
        wrong,
        "nothing was removed",
    )


def resolutions(records: Records) -> Counter[str]:
    """How incidents ended, for the page's head."""
    return Counter(
        e.payload.resolution for e in records.events if isinstance(e.payload, IncidentClosed)
    )


ITEMS = (
    Item(
        "L04", "when, by which clocks", ("PCI DSS 10.6", "ISO 27001 A.8.17", "NIST 800-92"), clocks
    ),
    Item("L09", "reading the log is recorded", ("PCI DSS 10.2.1.3",), reading),
    Item("L10", "start, stop and gaps of the log", ("PCI DSS 10.2.1.6",), gaps),
    Item(
        "L12",
        "alteration shows",
        ("PCI DSS 10.3.2", "PCI DSS 10.3.4", "ISO 27001 A.8.15"),
        integrity,
    ),
    Item("L13", "a prompt copy elsewhere", ("PCI DSS 10.3.3", "SOC 2 CC7"), copies),
    Item("L14", "reading is limited", ("PCI DSS 10.3.1", "SOC 2 CC6.1"), access),
    Item("L15", "retention", ("PCI DSS 10.5.1", "AI Act 19", "AI Act 26(6)"), retention),
    Item("L16", "secrets are minimised", ("ISO 27001 A.8.15", "NIST 800-92", "GDPR"), secrets),
    Item("L17", "review at least daily", ("PCI DSS 10.4.1", "SOC 2 CC7.2"), review),
    Item("L18", "anomalies are followed through", ("SOC 2 CC7.2 to CC7.5",), followed),
    Item("L19", "a failing log stops acting", ("PCI DSS 10.7",), failing_log),
    Item("L22", "evidence can be exported", ("ISO 27001 A.5.28", "NIST 800-92"), exports),
    Item("L23", "rotation keeps integrity", ("NIST 800-92",), lifecycle),
    Item("L24", "reports agree with the log", ("own",), accurate),
    Item("L25", "clocks are synchronised", ("PCI DSS 10.6",), synchronised),
    Item("L26", "separation of duties", ("ISO 27001 A.5.3", "SOC 2 CC6"), separation),
)
