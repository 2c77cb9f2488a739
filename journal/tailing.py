"""What is new: events since the last look, for ``agentops log --follow`` and for watchers.

Keeps a byte position per stream, so a look costs what was added and nothing else. Not here: waiting
between looks, which is the caller's; the whole journal in order (``journal.reader``).
"""

from dataclasses import dataclass, field
from pathlib import Path

from journal.envelope import Event, read_line
from journal.layout import Layout, stream_order
from journal.segments import iterate, torn_tail


@dataclass(slots=True)
class Tail:
    """A place in each stream; ``new`` moves it to the present end."""

    layout: Layout
    _positions: dict[str, tuple[str, int]] = field(default_factory=dict)

    def skip(self) -> None:
        """Forget what is there already: ``new`` gives only what comes after this call."""
        for stream in self.layout.streams():
            for path in self.layout.segments(stream)[-1:]:
                self._positions[stream] = (path.name.partition(".")[0], _end(path))

    def new(self) -> list[Event]:
        """Events that no call before has given, by wall clock, then stream, then seq.

        Raises:
            LineProfileError: A line is not an event.
        """
        found: list[Event] = []
        for stream in self.layout.streams():
            found += self._read_on(stream)
        return sorted(found, key=lambda event: (event.ts_us, stream_order(event.stream), event.seq))

    def _read_on(self, stream: str) -> list[Event]:
        name, offset = self._positions.get(stream, ("", 0))
        found: list[Event] = []
        for path in self.layout.segments(stream):
            number = path.name.partition(".")[0]
            if number < name:
                continue
            start = offset if number == name else 0
            for stored in iterate(path, start):
                found.append(read_line(stored.line))
                start = stored.offset + len(stored.line) + 1
            self._positions[stream] = (number, start)
        return found


def _end(path: Path) -> int:
    """The byte behind the last complete line."""
    try:
        if path.suffix != ".zst":
            return torn_tail(path)[0]
    except FileNotFoundError:
        pass  # compressed just now
    end = 0
    for stored in iterate(path):
        end = stored.offset + len(stored.line) + 1
    return end
