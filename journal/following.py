"""Following the other writers: the ledger of all streams, kept up from their files.

A key is unique over all streams, and a host is blocked for all writers. So a writer, before it
writes an intent, takes the claims lock, reads what the others have added, asks the ledger, writes,
and lets go; the lock is not held while the disk syncs. Not here: the rules (``journal.ledger``).
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import JsonValue

from journal.bookmark import Bookmark, Position
from journal.disk import FILE_MODE
from journal.envelope import Event, HostRef
from journal.errors import LineProfileError, SegmentDamaged
from journal.events import JsonObject
from journal.kinds import PAYLOADS
from journal.layout import Layout
from journal.ledger import Entry, Ledger
from journal.lines import loads
from journal.segments import StoredLine, iterate
from journal.upcasting import upcast

# Only these lines matter to the rules; the rest is not parsed.
_MARKS = (b'"idem":"', b'"kind":"command_')
_FOLDER_LINKS = 2  # its name and its own "."


@dataclass(slots=True)
class Follower:
    """Keeps a ledger up to the files of the streams that it is told to follow.

    Attributes:
        ledger: The state over all streams.
        positions: Stream -> (segment's number, byte offset) up to which it was read.
    """

    layout: Layout
    ledger: Ledger = field(default_factory=Ledger)
    positions: dict[str, Position] = field(default_factory=dict)
    _log: str = ""
    _listed: tuple[int, int] = (0, 0)
    _streams: list[str] = field(default_factory=list)
    _paths: dict[tuple[str, str], tuple[str, str, str]] = field(default_factory=dict)

    @classmethod
    def from_bookmark(cls, layout: Layout, bookmark: Bookmark) -> Self:
        """Go on from where the bookmark lies."""
        return cls(layout, bookmark.ledger, dict(bookmark.positions))

    def refresh(self, *, except_stream: str | None = None) -> None:
        """Read what other writers have added since the last time."""
        if not self._log:
            self._log = str(self.layout.log)
        # A new stream is a new folder, so it adds a link to the one above. Where a file system
        # counts no such links, the folder is listed each time.
        state = os.stat(self._log)  # noqa: PTH116 - on every intent's way
        listed = (state.st_nlink, state.st_mtime_ns)
        if listed != self._listed or state.st_nlink < _FOLDER_LINKS + len(self._streams):
            self._listed, self._streams = listed, self.layout.streams()
        for stream in self._streams:
            if stream != except_stream:
                self._read_on(stream)

    def take(self, stored: StoredLine) -> None:
        """Take one line that the caller has read itself."""
        if any(mark in stored.line for mark in _MARKS):
            self.ledger.apply(_entry_on_disk(stored))

    def _read_on(self, stream: str) -> None:
        name, offset = self.positions.get(stream, ("", 0))
        if name and self._is_read(stream, name, offset):
            return
        for path in self.layout.segments(stream):
            number = path.name.partition(".")[0]
            if number < name:
                continue
            start = offset if number == name else 0
            for stored in iterate(path, start):
                self.take(stored)
                start = stored.offset + len(stored.line) + 1
            self.positions[stream] = (number, start)

    def _is_read(self, stream: str, number: str, offset: int) -> bool:
        """Whether nothing came since: on every intent's way, so without listing a folder."""
        here, *later = self._paths.get((stream, number)) or self._paths_at(stream, number)
        try:
            descriptor = os.open(here, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # compressed, and gone on elsewhere
        try:
            # The size tells nothing: a segment is laid out ahead, in zeros.
            grown = os.pread(descriptor, 1, offset) not in {b"", b"\x00"}
        finally:
            os.close(descriptor)
        return not grown and not any(map(os.path.exists, later))

    def _paths_at(self, stream: str, number: str) -> tuple[str, str, str]:
        """A plain segment, and both forms of the one after it."""
        folder, after = self.layout.stream(stream), f"{int(number) + 1:06d}.jsonl"
        paths = str(folder / f"{number}.jsonl"), str(folder / after), str(folder / f"{after}.zst")
        self._paths[stream, number] = paths
        return paths


def _entry_on_disk(stored: StoredLine) -> Entry:
    """An entry from a line, its payload unchecked: a log of a million events is opened at once.

    Whether stored lines are well formed is ``verify``'s business; here they only have to be
    readable enough for the rules.
    """
    try:
        value = loads(stored.line)
        kind, host = str(value["kind"]), value.get("host")
        data: dict[str, Any] = upcast(kind, _number(value["schema"]), dict(_fields(value["data"])))
        return Entry(
            stream=str(value["stream"]),
            payload=PAYLOADS[kind].model_construct(**data),
            host=HostRef(str(host["name"]), str(host["fingerprint"]))
            if isinstance(host, dict)
            else None,
            idem=None if (idem := value.get("idem")) is None else str(idem),
            event_id=str(value["id"]),
            incident=None if (incident := value.get("incident")) is None else str(incident),
            ts_us=_number(value["ts_us"]),
        )
    except (LineProfileError, KeyError, TypeError) as error:
        stream = stored.segment.parent.name
        said = f"the line is not an event: {error}"
        raise SegmentDamaged(said, stream=stream, where=stored.where, is_line=True) from error


def _fields(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _number(value: JsonValue) -> int:
    if not isinstance(value, int):
        raise TypeError("not a number")
    return value


class Claims:
    """The lock under which keys are claimed. One descriptor for the writer's life."""

    def __init__(self, layout: Layout) -> None:
        flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(layout.claims_lock, flags, FILE_MODE)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for a block; the caller's mutex keeps this process's threads apart."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self._descriptor)


def entry_of(event: Event) -> Entry:
    """As much of an event as the ledger needs."""
    return Entry(
        stream=event.stream,
        payload=event.payload,
        host=event.host,
        idem=event.idem,
        event_id=event.id,
        incident=event.incident,
        ts_us=event.ts_us,
    )
