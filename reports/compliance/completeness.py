"""What happened on a host and is not ours: what no recorded act explains.

Here: process tables and boot ids of one host, one after the other, held against signals and
launches on record. What remains is listed, not judged. Not here: a host's own logs
(``reports.compliance.history``).
"""

from dataclasses import dataclass

from journal import Event, Reader
from journal.events import CommandIntended
from reports.compliance import history
from reports.compliance.answers import labels, observed
from reports.compliance.history import Unexplained
from reports.observed import ProcessKey, key_of, listing, text


@dataclass(frozen=True, slots=True)
class _Seen:
    event: Event
    rows: dict[ProcessKey, str]
    boot: str


def unexplained(reader: Reader) -> tuple[Unexplained, ...]:
    """What changed between two complete tables of one host, and what its own logs tell."""
    found: list[Unexplained] = []
    last: dict[str, _Seen] = {}
    signalled: dict[str, set[ProcessKey]] = {}
    for event in reader.events():
        host = event.host.name if event.host else ""
        if isinstance(event.payload, CommandIntended):
            victims = (key_of(victim.model_dump()) for victim in event.payload.victims)
            signalled.setdefault(host, set()).update(key for key in victims if key is not None)
            continue
        if event.kind != "observation_parsed":
            continue
        value = observed(reader, event)
        table = listing(value) if isinstance(value, dict) else None
        if table is None or not table.complete:
            continue
        rows = {key: text(row, "comm") or "process" for key, row in table.rows.items()}
        boot = text(value, "boot_id") or "" if isinstance(value, dict) else ""
        seen = _Seen(event, rows, boot)
        if host in last:
            found += _changes(host, last[host], seen, signalled.get(host, set()))
        last[host] = seen
    return (*found, *history.unexplained(reader))


def _changes(
    host: str, before: _Seen, after: _Seen, signalled: set[ProcessKey]
) -> list[Unexplained]:
    refs = labels((before.event, after.event))
    if before.boot != after.boot:
        return [Unexplained(f"the boot changed to {after.boot}", host, refs)]
    gone = sorted(before.rows.keys() - after.rows.keys() - signalled)
    return [Unexplained(f"{before.rows[key]} {key.pid} went", host, refs) for key in gone]
