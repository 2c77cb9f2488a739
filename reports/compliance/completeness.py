"""What happened on a host and is not ours: deaths and reboots that no recorded act explains.

Here: process tables and boot ids of one host, one after the other, held against signals and
launches on record. What remains is listed, not judged. Not here: a host's own logs; whoever has
them reconciles further.
"""

from dataclasses import dataclass

from journal import Event, Reader
from journal.events import CommandIntended
from reports.observed import ProcessKey, key_of, listing, text


@dataclass(frozen=True, slots=True)
class Unexplained:
    """One change between two readings that no act of ours accounts for."""

    what: str
    host: str
    before: str
    after: str


def unexplained(reader: Reader) -> tuple[Unexplained, ...]:
    """Processes that went and boots that changed between two complete tables of one host."""
    found: list[Unexplained] = []
    last: dict[str, tuple[Event, dict[ProcessKey, str], str]] = {}
    signalled: dict[str, set[ProcessKey]] = {}
    for event in reader.events():
        host = event.host.name if event.host else ""
        if isinstance(event.payload, CommandIntended):
            victims = (key_of(victim.model_dump()) for victim in event.payload.victims)
            signalled.setdefault(host, set()).update(key for key in victims if key is not None)
            continue
        if event.kind != "observation_parsed":
            continue
        value = reader.observation(event)
        table = listing(value) if isinstance(value, dict) else None
        if table is None or not table.complete:
            continue
        rows = {key: text(row, "comm") or "process" for key, row in table.rows.items()}
        boot = text(value, "boot_id") or "" if isinstance(value, dict) else ""
        if host in last:
            found += _changes(host, last[host], (event, rows, boot), signalled.get(host, set()))
        last[host] = (event, rows, boot)
    return tuple(found)


def _changes(
    host: str,
    before: tuple[Event, dict[ProcessKey, str], str],
    after: tuple[Event, dict[ProcessKey, str], str],
    signalled: set[ProcessKey],
) -> list[Unexplained]:
    first, second = (f"e{e.seq:04d}·{e.leaf[:8]}" for e in (before[0], after[0]))
    if before[2] != after[2]:
        return [Unexplained(f"the boot changed to {after[2]}", host, first, second)]
    gone = sorted(before[1].keys() - after[1].keys() - signalled)
    return [Unexplained(f"{before[1][key]} {key.pid} went", host, first, second) for key in gone]
