"""The bookmark: where the streams stood when a session sealed, so that opening reads on from there.

``bookmark.json`` is derived and may be deleted; it is written now and then, when enough was added.
It is believed only if it fits: its own digest, at each position the hash of the line that ends
there (which stands for all before it), and for a chain the root, which must be in ``seals.jsonl``.
Otherwise the streams are read from their beginning. ``verify`` never looks at it. Not here: how a
stream is read on (``journal.streams``, ``journal.following``).
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Literal

import zstandard
from pydantic import BaseModel, ConfigDict, Field

from journal.disk import write_whole
from journal.envelope import HostRef
from journal.errors import NotAJournal, SegmentDamaged, WriteFailed
from journal.layout import Layout, read_format
from journal.ledger import Intent, Ledger
from journal.lines import leaf_hash, quoted
from journal.merkle import Frontier
from journal.notes import Checkpoint
from journal.seals import stream_origin
from journal.segment_walk import open_segment
from journal.segments import ChainState

_WINDOW_BYTES = 64 << 10  # longer than nearly every line; doubled while no line end is in it
_SHARE = 64  # a bookmark of a million commands is worth writing every some 15,000 events
Position = tuple[str, int]
"""A segment's number as in its name, and the byte behind the last line that counts."""


@dataclass(frozen=True, slots=True)
class Start:
    """A stream's chain up to a position: where the reading of that stream may begin."""

    position: Position
    size: int
    leaf: str
    peaks: tuple[str, ...]

    @classmethod
    def of(cls, chain: ChainState, position: Position) -> "Start":
        """What a chain that ends at a position is continued from."""
        peaks = tuple(peak.hex() for peak in chain.frontier.peaks)
        return cls(position, chain.next_seq, chain.last_leaf, peaks)

    def chain(self, stream: str) -> ChainState:
        """The chain, to be continued."""
        peaks = [bytes.fromhex(peak) for peak in self.peaks]
        return ChainState(stream, self.size, self.leaf, Frontier(self.size, peaks))


@dataclass(frozen=True, slots=True)
class Bookmark:
    """What is known without reading the streams again: nothing, if there is no bookmark.

    ledger is the state over all streams up to positions; starts may lie before those.
    """

    ledger: Ledger = field(default_factory=Ledger)
    positions: dict[str, Position] = field(default_factory=dict)
    starts: dict[str, Start] = field(default_factory=dict)


_Offset = Annotated[int, Field(ge=0, lt=1 << 60)]
_IntentField = tuple[str, str, str, str, str, str | None, str | None, str | None]
_PositionField = tuple[str, _Offset, str]
_StartField = tuple[str, _Offset, _Offset, str, tuple[str, ...]]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _LedgerField(_Strict):
    """A command's id is its key, unless it is among the unkeyed."""

    settled: list[str]
    other_idems: list[str]
    unkeyed: list[str]
    open: list[_IntentField]
    unreconciled: list[_IntentField]
    looked_at: dict[str, int]
    reconciled: dict[str, int]


class _Stored(_Strict):
    """The file. form grows when what the ledger keeps comes to mean something else."""

    form: Literal[1] = 1
    ledger: _LedgerField
    positions: dict[str, _PositionField]
    starts: dict[str, _StartField]


def is_due(size: int, start: Start | None, every: int) -> bool:
    """Whether a stream of *size* events has grown enough behind its start for a new bookmark.

    every is the least number of events; a long journal's bookmark is long, and laid less often.
    """
    marked = 0 if start is None else start.size
    return size - marked >= max(every, size // _SHARE)


def lay_bookmark(layout: Layout, stream: str, start: Start, known: Bookmark) -> None:
    """Lay the bookmark at the end of *stream*, beside the starts that other writers have laid.

    A disk that refuses is no fault: the next opening reads more.
    """
    known.positions[stream] = start.position
    known.starts[stream] = start
    # Others' starts in the file are newer than what this writer saw when it was opened.
    starts = known.starts | read_bookmark(layout).starts | {stream: start}
    with suppress(OSError, WriteFailed):
        write_bookmark(layout, Bookmark(known.ledger, known.positions, starts))


def write_bookmark(layout: Layout, bookmark: Bookmark) -> None:
    """Put a bookmark in place of the one before.

    Raises:
        WriteFailed: The disk refused; the one before stays.
        OSError: A stream cannot be read at its position.
    """
    stored = _Stored(
        ledger=_ledger_value(bookmark.ledger),
        positions={
            stream: (*position, _leaf_before(layout, stream, position))
            for stream, position in bookmark.positions.items()
        },
        starts={
            stream: (*start.position, start.size, start.leaf, start.peaks)
            for stream, start in bookmark.starts.items()
        },
    )
    body = stored.model_dump_json().encode()
    write_whole(layout.bookmark, hashlib.sha256(body).hexdigest().encode() + b"\n" + body + b"\n")


def read_bookmark(layout: Layout) -> Bookmark:
    """The bookmark, if there is one that fits the streams; else an empty one."""
    try:
        digest, _, body = layout.bookmark.read_bytes().partition(b"\n")
        body = body.rstrip(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return Bookmark()
        return _fitting(layout, _Stored.model_validate_json(body))
    except (OSError, ValueError, NotAJournal, SegmentDamaged, zstandard.ZstdError):
        return Bookmark()


def _fitting(layout: Layout, stored: _Stored) -> Bookmark:
    """The bookmark if every position fits; of its starts, those whose root was sealed."""
    if not set(stored.positions) | set(stored.starts) <= set(layout.streams()):
        return Bookmark()
    positions: dict[str, Position] = {}
    for stream, (segment, offset, leaf) in stored.positions.items():
        positions[stream] = segment, offset
        if _leaf_before(layout, stream, positions[stream]) != leaf:
            return Bookmark()
    journal_id = read_format(layout)
    sealed = layout.seals.read_bytes()
    starts: dict[str, Start] = {}
    for stream, (segment, offset, size, leaf, peaks) in stored.starts.items():
        start = Start((segment, offset), size, leaf, peaks)
        beyond = start.position > positions.get(stream, ("", 0))
        if beyond or len(peaks) != size.bit_count():
            continue
        root = start.chain(stream).frontier.root()
        text = Checkpoint(stream_origin(journal_id, stream), size, root).text
        if (
            quoted(text)[1:-1].encode() in sealed
            and _leaf_before(layout, stream, start.position) == leaf
        ):
            starts[stream] = start
    return Bookmark(_ledger_of(stored.ledger), positions, starts)


def _leaf_before(layout: Layout, stream: str, position: Position) -> str:
    """The hash of the line that ends at a position; empty if none ends there."""
    segment, offset = position
    path = _segment(layout, stream, segment)
    if path is None or offset == 0:
        return ""
    line = _line_before(path, offset)
    return "" if line is None else leaf_hash(line).hex()


def _segment(layout: Layout, stream: str, number: str) -> Path | None:
    return next((path for path in layout.segments(stream) if path.name[:6] == number), None)


def _line_before(path: Path, offset: int) -> bytes | None:
    window = _WINDOW_BYTES
    while True:
        start = max(0, offset - window)
        with open_segment(path) as file:
            file.seek(start)
            block = _read(file, offset - start)
        if len(block) < offset - start or not block.endswith(b"\n"):
            return None
        end = block.rfind(b"\n", 0, -1)
        if end >= 0 or start == 0:
            return block[end + 1 : -1]
        window *= 2


def _read(file: IO[bytes], count: int) -> bytes:
    """As many bytes as asked for, unless the file ends."""
    block = b""
    while len(block) < count and (more := file.read(count - len(block))):
        block += more
    return block


def _ledger_value(ledger: Ledger) -> _LedgerField:
    return _LedgerField(
        settled=sorted(ledger.settled),
        other_idems=sorted(ledger.idems - ledger.settled - set(ledger.open)),
        unkeyed=sorted((ledger.settled | set(ledger.open)) - ledger.idems),
        open=[_intent_value(one) for one in ledger.open.values()],
        unreconciled=[_intent_value(one) for one in ledger.unreconciled.values()],
        looked_at=ledger.looked_at,
        reconciled=ledger.reconciled,
    )


def _ledger_of(value: _LedgerField) -> Ledger:
    opened = [_intent_of(one) for one in value.open]
    unreconciled = [_intent_of(one) for one in value.unreconciled]
    settled = set(value.settled)
    idems = settled | {one.command_id for one in opened} | set(value.other_idems)
    return Ledger(
        idems=idems - set(value.unkeyed),
        open={one.command_id: one for one in opened},
        settled=settled,
        unreconciled={one.command_id: one for one in unreconciled},
        looked_at=value.looked_at,
        reconciled=value.reconciled,
    )


def _intent_value(intent: Intent) -> _IntentField:
    host = intent.host
    name, fingerprint = (None, None) if host is None else (host.name, host.fingerprint)
    return (
        intent.command_id, intent.command, intent.effect, intent.stream, intent.event_id,
        intent.incident, name, fingerprint,
    )  # fmt: skip


def _intent_of(value: _IntentField) -> Intent:
    command_id, command, effect, stream, event_id, incident, name, fingerprint = value
    host = None if name is None else HostRef(name, fingerprint or "")
    return Intent(command_id, command, effect, stream, host, event_id, incident)
