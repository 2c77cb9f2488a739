"""Reading a journal: events in a fixed order, outputs, incidents, SQL.

Needs no lock and works while the journal is written. Events come straight from the segments, so
that no index and no foreign program can delay or falsify them; only ``query`` uses DuckDB.
Not here: whether what is read may be trusted (``journal.verification``).
"""

import heapq
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from journal.blobs import BlobFault, read_blob
from journal.bookmark import read_bookmark
from journal.envelope import Event, read_line, time_of
from journal.errors import Corrupt, EventNotFound, LineProfileError
from journal.events import (
    IncidentClosed,
    IncidentOpened,
    ObservationParsed,
    Redacted,
    Resolution,
)
from journal.following import Follower
from journal.layout import Layout, read_format, stream_order
from journal.ledger import Intent
from journal.lines import leaf_hash
from journal.querying import Rows, query
from journal.segments import stream_lines

_LEAF = re.compile(r"[0-9a-f]{8,64}")
_SEQ = re.compile(r"0|[1-9][0-9]{0,6}")  # an id begins with 0, a leaf hash has eight digits
_SHORT_ID_CHARS = 8


@dataclass(frozen=True, slots=True)
class Shredded:
    """In place of an output that was destroyed on purpose; ``by`` is the redacting event's id."""

    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Incident:
    """One trouble, from its opening to its resolution; times in microseconds UTC."""

    id: str
    title: str
    job: str | None
    opened_us: int
    closed_us: int | None
    resolution: Resolution | None
    reason: str | None


class Reader:
    """A view of a journal's folder. Holds nothing open between calls."""

    def __init__(self, layout: Layout, journal_id: str) -> None:
        self.layout = layout
        self.journal_id = journal_id

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a journal's folder.

        Raises:
            NotAJournal: No journal is at the path.
        """
        layout = Layout(path)
        return cls(layout, read_format(layout))

    def events(
        self,
        incident: str | None = None,
        kinds: Collection[str] | None = None,
        host: str | None = None,
        since: int | None = None,
    ) -> Iterator[Event]:
        """All events that match, merged over the streams in a fixed order.

        Within a stream the order is seq. Streams are merged by wall clock (the highest so far in
        each stream, so that a clock set back reorders nothing), then by name. host is a host's
        name; since is a time in microseconds UTC, inclusive.

        Raises:
            Corrupt: A line cannot be read.
        """
        sieve = _Sieve.of(incident, kinds, host)
        merged = heapq.merge(
            *(self._keyed(stream, sieve, since) for stream in self.layout.streams()),
            key=lambda pair: pair[0],
        )
        for _, event in merged:
            if (
                (incident is None or event.incident == incident)
                and (kinds is None or event.kind in kinds)
                and (host is None or (event.host is not None and event.host.name == host))
                and (since is None or event.ts_us >= since)
            ):
                yield event

    def event(self, name: str) -> Event:
        """One event by any name that it is shown under.

        That is its id or an unambiguous prefix, the last eight characters of the id (as accounts
        and logs print it), its place ``stream:seq``, its seq alone where there is one stream, its
        leaf hash or the first eight or more digits of it, or a report's label ``e0042·9f86d081``.

        Raises:
            EventNotFound: None, or more than one.
        """
        if not name.strip():
            raise EventNotFound(f"{name!r} names no event")
        marks = _marks_of_event(name)
        leaf = _LEAF.fullmatch(name.rpartition("·")[2])
        found: dict[str, Event] = {}
        for stream in self.layout.streams():
            for stored in stream_lines(self.layout, stream):
                if any(mark in stored.line for mark in marks) or (
                    leaf is not None and leaf_hash(stored.line).hex().startswith(leaf[0])
                ):
                    event = _read(stored.line, stream, stored.where)
                    if _is_named(event, name):
                        found[event.id] = event
        if not found:
            raise EventNotFound(f"no event has the id or place {name!r}")
        if len(found) > 1:
            some = ", ".join(sorted(found)[:3])
            raise EventNotFound(f"{name!r} fits {len(found)} events ({some}); give more")
        return next(iter(found.values()))

    def attachment(self, event: Event, name: str) -> bytes | Shredded:
        """An output's kept bytes, checked against the commitment in the line.

        Raises:
            EventNotFound: The event has no such attachment.
            Corrupt: The blob is missing or altered.
        """
        reference = event.out.get(name)
        if reference is None:
            has = ", ".join(sorted(event.out)) or "none"
            raise EventNotFound(f"event {event.id} has no attachment {name!r} (it has: {has})")
        try:
            return read_blob(self.layout.blobs(event.stream), reference)
        except BlobFault as fault:
            for later in self.events(kinds={"redacted"}):
                said = later.payload
                if isinstance(said, Redacted) and (said.event, said.attachment) == (event.id, name):
                    return Shredded(said.reason, later.id)
            raise Corrupt(
                f"attachment {name}: {fault}", stream=event.stream, seq=event.seq,
                where=reference.file,
            ) from fault  # fmt: skip

    def observation(self, event: Event) -> JsonValue | Shredded:
        """What an ``observation_parsed`` says, wherever it is kept.

        Raises:
            EventNotFound: The event is of another kind.
            Corrupt: The blob is missing, altered or no JSON.
        """
        payload = event.payload
        if not isinstance(payload, ObservationParsed):
            raise EventNotFound(f"event {event.id} is {event.kind}, not an observation")
        if "observation" not in event.out:
            return payload.observation
        stored = self.attachment(event, "observation")
        if isinstance(stored, Shredded):
            return stored
        try:
            value: JsonValue = json.loads(stored)
        except ValueError as error:
            raise Corrupt(
                f"the observation is not JSON: {error}", stream=event.stream, seq=event.seq,
                where=event.out["observation"].file,
            ) from error  # fmt: skip
        return value

    def incidents(self) -> list[Incident]:
        """All incidents in the order in which they were opened."""
        found: dict[str, Incident] = {}
        for event in self.events(kinds={"incident_opened", "incident_closed"}):
            said, name = event.payload, event.incident
            if name is None:
                continue
            if isinstance(said, IncidentOpened):
                found[name] = Incident(name, said.title, said.job, event.ts_us, None, None, None)
            elif isinstance(said, IncidentClosed) and name in found:
                old = found[name]
                found[name] = Incident(
                    name, old.title, old.job, old.opened_us, event.ts_us, said.resolution,
                    said.reason,
                )  # fmt: skip
        return list(found.values())

    def in_doubt(self) -> list[Intent]:
        """Intents without an outcome. While a writer lives, its running commands are among them."""
        return list(self._folded().ledger.open.values())

    def unreconciled(self) -> list[Intent]:
        """Commands with an unknown outcome that no probe has settled."""
        return list(self._folded().ledger.unreconciled.values())

    def query(self, sql: str) -> Rows:
        """Run SQL on the index, which holds every event acknowledged before the call.

        Raises:
            QueryFailed: DuckDB refused it.
        """
        return query(self.layout, sql)

    def _folded(self) -> Follower:
        follower = Follower.from_bookmark(self.layout, read_bookmark(self.layout))
        follower.refresh()
        return follower

    def _keyed(
        self, stream: str, sieve: "_Sieve", since: int | None
    ) -> Iterator[tuple[tuple[int, tuple[int, str], int], Event]]:
        highest = 0
        order = stream_order(stream)
        for stored in stream_lines(self.layout, stream):
            # Every line's time counts, so that the order is the same whatever is asked for.
            ts_us = time_of(stored.line)
            if ts_us is not None:
                highest = max(highest, ts_us)
                if since is not None and ts_us < since:
                    continue
            if sieve.lets_through(stored.line):
                event = _read(stored.line, stream, stored.where)
                yield (highest, order, event.seq), event


@dataclass(frozen=True, slots=True)
class _Sieve:
    """Bytes that a line has if it holds what is asked for; not every line that has them does."""

    each: tuple[bytes, ...]
    one_of: tuple[bytes, ...]

    @classmethod
    def of(cls, incident: str | None, kinds: Collection[str] | None, host: str | None) -> Self:
        each = [] if incident is None else [_mark("incident", incident)]
        if host is not None:
            each.append(_mark("name", host))
        return cls(
            tuple(each), () if kinds is None else tuple(_mark("kind", kind) for kind in kinds)
        )

    def lets_through(self, line: bytes) -> bool:
        return all(mark in line for mark in self.each) and (
            not self.one_of or any(mark in line for mark in self.one_of)
        )


def _mark(field: str, value: str) -> bytes:
    return f'"{field}":{json.dumps(value, ensure_ascii=False)}'.encode()


def _read(line: bytes, stream: str, where: str) -> Event:
    try:
        return read_line(line)
    except LineProfileError as error:
        raise Corrupt(str(error), stream=stream, seq=-1, where=where) from error


def _marks_of_event(name: str) -> list[bytes]:
    """Bytes that stand in a line whose event may be the one named; a sieve, not the answer."""
    if _SEQ.fullmatch(name):
        return [f'"seq":{name},"stream":'.encode()]
    marks = [b'"id":"' + name.upper().encode()]
    if len(name) >= _SHORT_ID_CHARS:
        marks.append(name.upper().encode() + b'"')
    stream, colon, seq = name.rpartition(":")
    if colon:
        marks.append(f'"seq":{seq},"stream":"{stream}"'.encode())
    return marks


def _is_named(event: Event, name: str) -> bool:
    if _SEQ.fullmatch(name):
        return event.seq == int(name)
    identifier = name.upper()
    label = name.rpartition("·")[2]
    return (
        event.id.startswith(identifier)
        or (len(name) >= _SHORT_ID_CHARS and event.id.endswith(identifier))
        or event.place == name
        or (_LEAF.fullmatch(label) is not None and event.leaf.startswith(label))
    )
