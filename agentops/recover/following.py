"""Keeping a state up to a journal that others may write to as well.

Here: reading only what was added, in the order in which every reader merges the streams, so that a
replay folds exactly what the loop folded. Not here: what an event means (``agentops.policy.fold``).
"""

import json

from pydantic import JsonValue

from agentops.policy import PolicyState, fold
from agentops.policy.recompute import relevant
from journal import Event, Reader, Shredded
from journal.envelope import read_line, time_of
from journal.events import ObservationParsed
from journal.layout import stream_order
from journal.segments import iterate

_ALWAYS = b'"kind":"acting_'
Place = tuple[int, tuple[int, str], int]


class Following:
    """The state of one incident, kept up to the journal's files."""

    def __init__(self, reader: Reader, incident: str) -> None:
        self._reader = reader
        self._incident = incident
        self._mark = f'"incident":{json.dumps(incident)}'.encode()
        self._positions: dict[str, tuple[str, int]] = {}
        self._highest: dict[str, int] = {}
        self._known: list[tuple[Place, Event]] = []
        self.state = PolicyState()

    def refresh(self) -> tuple[Event, ...]:
        """Fold what was added since; gives the new events.

        An event of another stream that belongs before one already folded means folding anew.
        """
        new = sorted(
            (pair for stream in self._reader.layout.streams() for pair in self._read_on(stream)),
            key=lambda pair: pair[0],
        )
        late = bool(self._known and new and new[0][0] < self._known[-1][0])
        self._known += new
        if late:
            self._known.sort(key=lambda pair: pair[0])
            self.state = PolicyState()
        for _, event in self._known if late else new:
            self.state = fold(self.state, event, self._observation(event))
        return tuple(event for _, event in new)

    def _read_on(self, stream: str) -> list[tuple[Place, Event]]:
        name, offset = self._positions.get(stream, ("", 0))
        order = stream_order(stream)
        found: list[tuple[Place, Event]] = []
        for path in self._reader.layout.segments(stream):
            number = path.name.partition(".")[0]
            if number < name:
                continue
            start = offset if number == name else 0
            if path.suffix != ".zst" and path.stat().st_size == start:
                continue
            for stored in iterate(path, start):
                start = stored.offset + len(stored.line) + 1
                highest = max(self._highest.get(stream, 0), time_of(stored.line) or 0)
                self._highest[stream] = highest
                if self._mark in stored.line or _ALWAYS in stored.line:
                    event = read_line(stored.line)
                    # The sieve lets through what only quotes the mark; replay takes none of that.
                    if relevant((event,), self._incident):
                        found.append(((highest, order, event.seq), event))
            self._positions[stream] = (number, start)
        return found

    def _observation(self, event: Event) -> JsonValue | None:
        if not isinstance(event.payload, ObservationParsed):
            return None
        found = self._reader.observation(event)
        return None if isinstance(found, Shredded) else found
