"""A host's own logs held against the journal: whose log-ins, starts and ended processes they are.

Ours is a connection that comes from where the reading itself came from and that a recorded command
followed, a process that was a declared victim or a recorded launch, and what began and ended while
a recorded command ran. The rest is "not ours". What a source could not tell is said, since an
unread log excludes nothing. Pure over a reader. Not here: reading the logs
(``agentops.commands.history``), process tables (``reports.compliance.completeness``).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from journal import Event, Reader
from journal.events import CommandIntended, ObservationParsed
from reports.compliance.answers import labels, observed
from reports.observed import JsonObject, items, key_of, member, number, text

_FOLLOWED_MS = 60_000
_ROUNDING_MS = 2_000
_TICK_MS = 10
_RESTARTS = ("reboot", "poweroff", "shutdown", "halt", "kexec")
_SOURCES = ("wtmp", "ssh_log", "accounting")


@dataclass(frozen=True, slots=True)
class Unexplained:
    """One thing that no act of ours accounts for; ``refs`` label the events that show it."""

    what: str
    host: str
    refs: tuple[str, ...]


@dataclass
class _Acts:
    """What the journal says that we did on one host, by its wall clock in milliseconds."""

    first_ms: int
    spans: list[tuple[int, int]] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    identities: set[tuple[int, int]] = field(default_factory=set)


def unexplained(reader: Reader) -> tuple[Unexplained, ...]:
    """What the latest reading of each host's own logs tells that is not ours."""
    acts: dict[str, _Acts] = {}
    readings: dict[str, tuple[Event, JsonObject]] = {}
    began: dict[str, int] = {}
    for event in reader.events():
        if event.host is None:
            continue
        at_ms = event.ts_us // 1_000
        mine = acts.setdefault(event.host.name, _Acts(at_ms))
        if isinstance(event.payload, CommandIntended):
            began[event.payload.command_id] = at_ms
            _intended(mine, event.payload, at_ms)
        elif (command_id := getattr(event.payload, "command_id", None)) in began:
            mine.spans.append((began[command_id], at_ms))
        if isinstance(event.payload, ObservationParsed):
            seen = observed(reader, event)
            if not isinstance(seen, dict):
                continue
            _launched(mine, seen)
            if "wtmp" in seen and "records" in seen:
                readings[event.host.name] = (event, seen)
    return tuple(
        found
        for host, (event, seen) in readings.items()
        for found in _held_against(acts[host], host, event, seen)
    )


def unread(reader: Reader) -> tuple[str, ...]:
    """Hosts that commands were sent to and whose own logs no recorded reading has."""
    sent: dict[str, None] = {}
    read: set[str] = set()
    for event in reader.events(kinds=("command_intended", "observation_parsed")):
        if event.host is None:
            continue
        sent.setdefault(event.host.name)
        if getattr(event.payload, "command", "") == "host_history":
            read.add(event.host.name)
    return tuple(name for name in sent if name not in read)


def _intended(mine: _Acts, payload: CommandIntended, at_ms: int) -> None:
    for victim in payload.victims:
        mine.identities.add((victim.pid, victim.start_ticks))
    argv = payload.arguments.get("argv")
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    if any(restart in word for word in words for restart in _RESTARTS):
        mine.restarts.append(at_ms)


def _launched(mine: _Acts, seen: JsonObject) -> None:
    key = key_of(member(seen, "identity"))
    if key is not None:
        mine.identities.add((key.pid, key.start_ticks))


def _held_against(mine: _Acts, host: str, event: Event, seen: JsonObject) -> Iterator[Unexplained]:
    """The host's records since our first event there, in the journal's time."""
    skew = (number(seen, "now_unix_ms") or 0) - event.ts_us // 1_000
    refs = labels((event,))
    others: Counter[str] = Counter()
    for row in items(seen, "records"):
        at_ms = (number(row, "at_unix_ms") or 0) - skew
        ended = number(row, "ended_unix_ms")
        if max(at_ms, (ended or 0) - skew) < mine.first_ms:
            continue
        told = _foreign(mine, seen, row, at_ms, None if ended is None else ended - skew)
        if told is not None:
            others[told] += 1
    for told, count in others.items():
        yield Unexplained(told if count == 1 else f"{told}, {count} times", host, refs)
    unread = [name for name in _SOURCES if text(seen, name) != "read"]
    if unread:
        what = f"not read, so nothing is excluded: {', '.join(unread).replace('_', ' ')}"
        yield Unexplained(what, host, refs)


def _foreign(
    mine: _Acts, seen: JsonObject, row: JsonObject, at_ms: int, ended_ms: int | None
) -> str | None:
    """What a record tells, unless an act of ours accounts for it."""
    user, origin = text(row, "user") or "somebody", text(row, "origin") or "an unnamed place"
    match text(row, "kind"):
        case "ssh" if not _ours(mine, seen, row, at_ms):
            return f"{user} connected from {origin} ({text(row, 'name')})"
        case "login":
            return f"{user} logged in at a terminal from {origin}"
        case "boot" if not any(0 <= at_ms - restart < _FOLLOWED_MS for restart in mine.restarts):
            return f"the machine started ({text(row, 'name')})"
        case "process" if not _known(mine, seen, row, at_ms, ended_ms):
            return f"{text(row, 'name')} of user {number(row, 'uid')} ended"
        case _:
            return None


def _ours(mine: _Acts, seen: JsonObject, row: JsonObject, at_ms: int) -> bool:
    """Whether a connection is ours: this very one, or one from here that a command followed."""
    address, origin = text(seen, "own_address"), text(row, "origin")
    if address is not None and address != origin:
        return False
    if address is not None and number(seen, "own_port") == number(row, "port"):
        return True
    near = (-_ROUNDING_MS, _FOLLOWED_MS)
    return any(near[0] <= begin - at_ms <= near[1] for begin, _ in mine.spans)


def _known(
    mine: _Acts, seen: JsonObject, row: JsonObject, at_ms: int, ended_ms: int | None
) -> bool:
    """Whether an ended process was a victim, a launch, or a part of a recorded command."""
    booted = (number(seen, "booted_unix_ms") or 0) + at_ms - (number(row, "at_unix_ms") or 0)
    for pid, ticks in mine.identities:
        if pid == number(row, "pid") and abs(booted + ticks * _TICK_MS - at_ms) <= _ROUNDING_MS:
            return True
    end = at_ms if ended_ms is None else ended_ms
    return any(
        begin - _ROUNDING_MS <= at_ms and end <= until + _ROUNDING_MS for begin, until in mine.spans
    )
