"""What happened, as a journal records it: each thing with its time, its events and its attributes.

Here: signals, listings, processes, heartbeats, launches, deployments, verdicts, decisions,
commands, waits, openings and endings of one incident, read out of events and observations. Not
here: words (``reports.lint.facts.vocabulary``), judging (``reports.lint.facts.weighing``).
"""

from collections import Counter
from collections.abc import Iterator

from pydantic import JsonValue

from journal import Event
from journal.events import (
    CommandDenied,
    DecisionMade,
    Imported,
    IncidentClosed,
    IncidentOpened,
    ProposalReceived,
    VerdictReached,
)
from reports.evidence import CommandThread, Evidence
from reports.lint.facts import recorded
from reports.lint.facts.happenings import Happening, Kind, World
from reports.lint.facts.readings import readings
from reports.lint.record import Record
from reports.observed import (
    JsonObject,
    ProcessKey,
    heartbeat,
    items,
    key_of,
    member,
    number,
    text,
    wait_answer,
)
from reports.predicates.signals import Signalled, signals

_DEAD = {"Z", "X"}
_SIGNAL_NUMBERS = {1: "HUP", 2: "INT", 3: "QUIT", 9: "KILL", 15: "TERM", 18: "CONT", 19: "STOP"}


def worlds(record: Record) -> tuple[World, ...]:
    """One world for each incident that was recorded as it happened; imports make none."""
    made = []
    for incident in record.incidents:
        own = [event for event in record.events if event.incident == incident]
        if all(isinstance(e.payload, Imported | IncidentOpened) for e in own):
            continue
        events = tuple(e for e in record.events if e.incident in {incident, None})
        evidence = Evidence(incident, events, (), record.observations, {}, (), "")
        made.append(_world(evidence))
    return tuple(made)


def _world(evidence: Evidence) -> World:
    happenings = [
        *_signals(evidence),
        *_listings(evidence),
        *_processes(evidence),
        *_commands(evidence),
        *_told(evidence),
        *readings(evidence),
    ]
    happenings.sort(key=lambda h: (h.start_us, h.end_us))
    events = tuple(e for e in evidence.events if e.incident == evidence.incident)
    return World(
        happenings=tuple(happenings),
        events=events,
        numbers=recorded.numbers(evidence),
        reasons=tuple(recorded.reasons(evidence)),
        counts=_counts(evidence, happenings),
    )


def _counts(evidence: Evidence, happenings: list[Happening]) -> dict[str, frozenset[int]]:
    """Counts of things that are no happenings: events in all ways to count them, files."""
    own = [e for e in evidence.events if _inside(evidence, e)]
    kinds = Counter(event.kind for event in own)
    last = {e.seq + 1 for e in own[-1:]} | {e.seq + 1 for e in evidence.events if e.seq == 0}
    events = {len(own), len(evidence.events), *kinds.values(), *last}
    events |= set(range(max(last, default=0), len(evidence.events) + 1))
    # A report may have been made at the closing, before what was added later.
    closed = [place for place, event in enumerate(own, 1) if event.kind == "incident_closed"]
    events |= set(range(min(closed, default=1), len(own)))
    files = [h.get("files") for h in happenings if h.kind == "deployment"]
    inside = [h.get("files") for h in happenings if h.kind == "deployment" and h.inside]
    numbers = {n for n in files if isinstance(n, int)}
    numbers |= {sum(n for n in each if isinstance(n, int)) for each in (files, inside)}
    told = {"event": frozenset(events)}
    return told | {"file": frozenset(numbers)} if any(files) else told


def _inside(evidence: Evidence, event: Event) -> bool:
    return event.incident == evidence.incident


def _signals(evidence: Evidence) -> Iterator[Happening]:
    for sent in signals(evidence):
        end = sent.answer or sent.intent
        told = {
            "signal": sent.signal,
            "pid": sent.victim.pid,
            "delivered": sent.delivered,
            "quality": sent.quality,
            "refusal": sent.refusal,
        }
        ids = frozenset({sent.intent.id, end.id})
        inside = _inside(evidence, sent.intent)
        thread = evidence.threads[getattr(sent.intent.payload, "command_id", "")]
        start = _decided(evidence, thread).ts_us
        yield Happening("signal", start, end.ts_us, ids, told, inside)


def _listings(evidence: Evidence) -> Iterator[Happening]:
    for event_id, table in evidence.tables.items():
        event = evidence.by_id[event_id]
        living = {k.pid for k, row in table.rows.items() if text(row, "state") not in _DEAD}
        told: dict[str, object] = {
            "complete": table.complete,
            "size": len(table.rows),
            "pids": frozenset(living),
            "zombies": frozenset({k.pid for k in table.rows} - living),
        }
        start = _start(evidence, event)
        inside = _inside(evidence, event)
        yield Happening("listing", start, event.ts_us, frozenset({event_id}), told, inside)


def _start(evidence: Evidence, event: Event) -> int:
    """When the command behind an observation was intended."""
    thread = evidence.threads.get(getattr(event.payload, "command_id", ""))
    return thread.first.ts_us if thread else event.ts_us


def _processes(evidence: Evidence) -> Iterator[Happening]:
    """Each process that a listing, a launch, a heartbeat or a signal names."""
    tables = [(evidence.by_id[i], table) for i, table in evidence.tables.items()]
    sent = signals(evidence)
    rows: dict[ProcessKey, list[tuple[Event, JsonObject]]] = {}
    for event, table in tables:
        for key, row in table.rows.items():
            rows.setdefault(key, []).append((event, row))
    launched = dict(_launches(evidence))
    for key in dict.fromkeys((*rows, *(s.victim for s in sent), *launched)):
        yield _process(evidence, key, rows.get(key, []), sent, launched.get(key))


def _process(
    evidence: Evidence,
    key: ProcessKey,
    seen: list[tuple[Event, JsonObject]],
    sent: tuple[Signalled, ...],
    launched: Event | None,
) -> Happening:
    tables = [(evidence.by_id[i], table) for i, table in evidence.tables.items() if table.complete]
    alive = [event for event, row in seen if text(row, "state") not in _DEAD]
    last = alive[-1].ts_us if alive else None
    after = [event for event, _ in tables if last is not None and event.ts_us > last]
    signalled = [s for s in sent if s.victim == key and s.delivered is not False]
    first_signal = min((s.intent.ts_us for s in sent), default=None)
    before = any(first_signal is None or event.ts_us < first_signal for event in alive)
    told: dict[str, object] = {
        "pid": key.pid,
        "names": _names(row for _, row in seen),
        "role": _role(evidence, key),
        "gone": bool(after) if alive else None,
        "alive": (not after) if alive else None,
        "signalled": bool(signalled),
        "signals": len(signalled),
        "launched": launched is not None,
        "bystander": before and not signalled and key.pid != 1,
        "threads": {n for _, row in seen if (n := number(row, "threads")) is not None},
        "states": {s for _, row in seen if (s := text(row, "state")) is not None},
        "ignored": _set(seen, "signals_ignored"),
        "caught": _set(seen, "signals_caught"),
        "gone_us": after[0].ts_us if after else None,
    }
    times = [event.ts_us for event, _ in seen] + [e.ts_us for e in (launched,) if e]
    times += [s.intent.ts_us for s in signalled]
    ids = frozenset(event.id for event in [*(e for e, _ in seen), *after[:1]])
    return Happening("process", min(times, default=0), max(times, default=0), ids, told)


def _role(evidence: Evidence, key: ProcessKey) -> str | None:
    """Trainer: a heartbeat names it. Supervisor: the parent of one, the namespace's first aside."""
    beats = {
        number(beat, "pid")
        for event in evidence.events
        if (beat := heartbeat(evidence.observation(event))) is not None
    }
    if key.pid in beats:
        return "trainer"
    children = {
        number(row, "ppid")
        for table in evidence.tables.values()
        for other, row in table.rows.items()
        if other.pid in beats
    }
    return "supervisor" if key.pid in children and key.pid > 1 else None


def _names(rows: Iterator[JsonObject]) -> str:
    words = []
    for row in rows:
        cmdline = row.get("cmdline")
        words += [str(word) for word in cmdline] if isinstance(cmdline, list) else []
        words.append(text(row, "comm") or "")
    return " ".join(dict.fromkeys(words)).lower()


def _set(seen: list[tuple[Event, JsonObject]], name: str) -> frozenset[str] | None:
    """Signal names out of the numbers of a mask; None where no listing gives one."""
    known = [row[name] for _, row in seen if isinstance(row.get(name), list)]
    if not known:
        return None
    numbers = [n for each in known if isinstance(each, list) for n in each]
    return frozenset(_SIGNAL_NUMBERS.get(n, str(n)) for n in numbers if isinstance(n, int))


def _launches(evidence: Evidence) -> Iterator[tuple[ProcessKey, Event]]:
    for thread in evidence.commands:
        if thread.name != "launch" or thread.observed is None:
            continue
        key = key_of(member(evidence.observation(thread.observed), "identity"))
        if key is not None:
            yield key, thread.first


def _commands(evidence: Evidence) -> Iterator[Happening]:
    """Every command; launches, deployments, waits and heartbeat readings a second time as such."""
    for thread in evidence.commands:
        seen = evidence.observation(thread.observed) if thread.observed else None
        outcome = thread.outcome
        end = max(e.ts_us for e in (thread.first, outcome, thread.observed) if e is not None)
        told: dict[str, object] = {
            "command": thread.name,
            "outcome": thread.outcome_word.replace("_", " "),
            "exit": getattr(outcome.payload, "exit_status", None) if outcome else None,
            "effect": getattr(thread.first.payload, "effect", None),
            "took_ms": getattr(outcome.payload, "duration_ms", None) if outcome else None,
        }
        ids = frozenset(e.id for e in (thread.first, outcome, thread.observed) if e is not None)
        inside = _inside(evidence, thread.first)
        start = _decided(evidence, thread).ts_us
        yield Happening("command", start, end, ids, told, inside)
        for kind, more in _special(thread, seen):
            yield Happening(kind, start, end, ids, told | more, inside)


def _decided(evidence: Evidence, thread: CommandThread) -> Event:
    """The decision behind a command, where there is one: reports date an act by either."""
    decision_id = getattr(thread.first.payload, "decision_id", None)
    return evidence.decisions.get(decision_id or "", thread.first)


def _special(thread: CommandThread, seen: JsonValue) -> Iterator[tuple[Kind, dict[str, object]]]:
    if thread.name == "launch" and thread.outcome_word != "denied":
        started = member(seen, "started")
        pid = number(member(seen, "identity"), "pid") or number(seen, "pid")
        yield "launch", {"pid": pid, "started": started if isinstance(started, bool) else None}
    elif thread.name == "deploy_files" and thread.outcome_word != "denied":
        files = items(seen, "files")
        kept = sum(isinstance(file.get("backup"), str) for file in files)
        yield "deployment", {"files": len(files) or None, "backups": kept}
    elif (waited := wait_answer(seen)) is not None:
        condition = member(getattr(thread.first.payload, "arguments", {}), "condition", "kind")
        took = number(waited, "elapsed_ms")
        series = member(waited, "series")
        values = (
            [pair[1] for pair in series if isinstance(pair, list)]
            if isinstance(series, list)
            else []
        )
        told = {"met": waited["met"], "condition": condition, "elapsed_ms": took}
        yield "wait", {**told, "series": frozenset(v for v in values if isinstance(v, int))}
    elif (beat := heartbeat(seen)) is not None:
        yield "heartbeat", {**beat, "age_ms": number(seen, "age_ms")}


def _told(evidence: Evidence) -> Iterator[Happening]:
    """Openings, endings, verdicts, decisions, proposals, denials and approvals."""
    for event in evidence.events:
        found = _of(event)
        if found is not None:
            kind, told = found
            inside = _inside(evidence, event)
            yield Happening(kind, event.ts_us, event.ts_us, frozenset({event.id}), told, inside)


def _of(event: Event) -> tuple[Kind, dict[str, object]] | None:  # noqa: PLR0911  (one arm a kind)
    match event.payload:
        case IncidentOpened() as opened:
            return "opening", {"title": opened.title, "job": opened.job}
        case IncidentClosed() as closed:
            return "ending", {"resolution": closed.resolution}
        case VerdictReached() as reached:
            condition = reached.condition.get("kind")
            return "verdict", {"verdict": reached.verdict, "condition": condition}
        case DecisionMade(decision=decision):
            action = decision.get("action")
            return "decision", {"action": text(action, "kind"), "lead": decision.get("lead")}
        case ProposalReceived() as proposed:
            return "proposal", {"command": proposed.command}
        case CommandDenied() as denied:
            return "denial", {"command": denied.command, "rule": denied.rule}
        case _ if event.kind.startswith("approval_"):
            return "approval", {"answer": event.kind.removeprefix("approval_")}
        case _:
            return None
