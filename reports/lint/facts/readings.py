"""What was read, item by item: rows of listings, files, log lines, weights of hypotheses, guards.

Here: each as a happening with its number or text, out of observations and decisions. Not here:
the deeds (``reports.lint.facts.happened``), comparing (``reports.lint.facts.comparing``).
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from journal import Event
from journal.events import CommandIntended, DecisionMade
from reports.evidence import CommandThread, Evidence
from reports.lint.facts.happenings import Happening, Kind
from reports.observed import gpu_rows, items, listing, member, number, reading, text
from reports.predicates.signals import signals

_SIGNAL_NUMBERS = {1: "HUP", 2: "INT", 3: "QUIT", 9: "KILL", 15: "TERM", 18: "CONT", 19: "STOP"}


def readings(evidence: Evidence) -> Iterator[Happening]:
    """All that was read, in the order of the events."""
    for thread in evidence.commands:
        yield from _written(evidence, thread)
        if thread.observed is not None:
            seen = evidence.observation(thread.observed)
            for kind, told in _seen(thread, seen):
                yield _at(evidence, kind, thread.observed, told)
    for event in evidence.events:
        if isinstance(event.payload, DecisionMade):
            for kind, told in _considered(event.payload.decision):
                yield _at(evidence, kind, event, told)
    yield from _rungs(evidence)


def _rungs(evidence: Evidence) -> Iterator[Happening]:
    """The rungs of the ladder, where the incident climbed it: whether each was used."""
    sent = [s for s in signals(evidence) if s.delivered is not False]
    if not sent:
        return
    names = Counter(s.signal for s in sent)
    used = {
        "request": False,  # asked in a file, not by a signal
        "interrupt": names["INT"] > 0,
        "interrupt_again": names["INT"] > 1,
        "terminate": names["TERM"] > 0,
        "kill": names["KILL"] > 0,
    }
    for name, was in used.items():
        yield _at(evidence, "rung", sent[0].intent, {"name": name, "used": was})


def _at(evidence: Evidence, kind: Kind, event: Event, told: Mapping[str, object]) -> Happening:
    inside = event.incident == evidence.incident
    return Happening(kind, event.ts_us, event.ts_us, frozenset({event.id}), told, inside)


def _seen(thread: CommandThread, seen: JsonValue) -> Iterator[tuple[Kind, dict[str, object]]]:
    table = listing(seen)
    for row in table.rows.values() if table else ():
        yield "row", _row(row, number(seen, "ticks_per_s"))
    lines = member(seen, "lines")
    if isinstance(lines, list) and thread.name == "tail_log":
        for line in lines:
            yield "line", {"text": str(line)}
    arguments = getattr(thread.first.payload, "arguments", {})
    path, size = text(arguments, "path"), number(seen, "size_bytes")
    if path is not None and text(seen, "sha256") is not None and size is not None:
        yield "file", {"name": _base(path), "size": size, "written": False}
    for name, kind in (
        ("locks", "lock"),
        ("listening_ports", "port"),
        ("deleted_files", "unlinked"),
    ):
        held = member(seen, name)
        if isinstance(held, list) and thread.name == "inspect_process":
            yield "held", {"of": kind, "number": len(held)}
    if (sockets := number(seen, "connections")) is not None:
        yield "held", {"of": "connection", "number": sockets}
    for card in gpu_rows(seen):
        yield (
            "card",
            {"index": reading(card, "index"), "used": reading(card, "memory_used_mib")},
        )


def _row(row: Mapping[str, JsonValue], ticks_per_s: int | None) -> dict[str, object]:
    told: dict[str, object] = {
        name: row.get(name) for name in ("pid", "ppid", "threads", "rss_kib")
    }
    told |= {"state": row.get("state"), "launch_id": row.get("launch_id")}
    ticks = row.get("cpu_ticks")
    told["cpu_ms"] = (
        ticks * 1_000 // ticks_per_s if ticks_per_s and isinstance(ticks, int) else None
    )
    cmdline = row.get("cmdline")
    told["command"] = " ".join(map(str, cmdline)) if isinstance(cmdline, list) else ""
    for name in ("signals_ignored", "signals_caught"):
        mask = row.get(name)
        told[name.removeprefix("signals_")] = (
            frozenset(_SIGNAL_NUMBERS.get(n, str(n)) for n in mask if isinstance(n, int))
            if isinstance(mask, list)
            else None
        )
    return told


def _written(evidence: Evidence, thread: CommandThread) -> Iterator[Happening]:
    """Files that a deployment puts in place, with their sizes."""
    payload = thread.first.payload
    if not isinstance(payload, CommandIntended) or thread.outcome_word != "completed":
        return
    for file in items(payload.arguments, "files"):
        path, size = text(file, "path"), number(file, "size_bytes")
        if path is not None and size is not None:
            told = {"name": _base(path), "size": size, "written": True}
            yield _at(evidence, "file", thread.first, told)


def _considered(decision: Mapping[str, JsonValue]) -> Iterator[tuple[Kind, dict[str, object]]]:
    ranked = sorted(
        ((number(h, "db"), text(h, "hypothesis")) for h in items(dict(decision), "hypotheses")),
        key=lambda pair: -(pair[0] or 0),
    )
    for place, (weight, name) in enumerate(ranked):
        if weight is not None and name is not None:
            yield "hypothesis", {"name": name, "db": weight, "place": place}
    for guard in items(dict(decision), "guards"):
        yield "guard", {"name": guard.get("guard"), "passed": guard.get("passed")}


def _base(path: str) -> str:
    return path.rpartition("/")[2]
