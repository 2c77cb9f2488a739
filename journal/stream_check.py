"""Checking one stream's lines from its bytes: form, chain, rules, outputs.

The bytes are read anew and hashed anew; nothing is taken from the index. The stream's size is
noted first, so that a log being written is checked up to there and raises no false alarm. Not
here: seals and anchors (``journal.note_check``), the other copy (``journal.index_check``).
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from journal.blobs import BlobFault, read_blob
from journal.envelope import Event, read_parsed
from journal.errors import (
    DoubleOutcome,
    DuplicateIdem,
    LineProfileError,
    OrphanOutcome,
    Refused,
    SegmentDamaged,
)
from journal.events import (
    Heartbeat,
    KeyRotated,
    Redacted,
    SealAnchored,
    Sealed,
    SegmentStarted,
    SessionStarted,
)
from journal.findings import Code, Copy, Finding, Remark
from journal.following import entry_of
from journal.layout import Layout
from journal.ledger import Ledger
from journal.lines import ZERO_LEAF, leaf_hash, parse
from journal.merkle import Frontier
from journal.segment_walk import open_segment
from journal.segments import (
    CHUNK_BYTES,
    StoredLine,
    iterate,
    link_of,
    plain_size,
    torn_tail,
)

_RULES: dict[type[Refused], Code] = {
    DuplicateIdem: "DUP_IDEM",
    OrphanOutcome: "ORPHAN_OUTCOME",
    DoubleOutcome: "DOUBLE_OUTCOME",
}


@dataclass(slots=True)
class StreamCheck:
    """What the lines of one stream show.

    Attributes:
        size: Good events from the beginning.
        roots: Root (hex) at each size that was asked for and reached.
        finding: The first fault, or None.
        shredded: (event id, attachment) -> seq of outputs that hold only zeros.
        redacted: (event id, attachment) that a ``redacted`` event names.
        idems: Idempotency keys and where they stand.
        ledger: The rules over this stream alone; its open intents are in doubt.
        latest: The latest wall clock (microseconds UTC) of an event, and its seq.
    """

    stream: str
    size: int = 0
    last_leaf: str = ZERO_LEAF
    frontier: Frontier = field(default_factory=Frontier)
    roots: dict[int, str] = field(default_factory=dict)
    finding: Finding | None = None
    remarks: list[Remark] = field(default_factory=list)
    seals_claimed: list[tuple[int, Sealed]] = field(default_factory=list)
    anchors_claimed: list[SealAnchored] = field(default_factory=list)
    latest: tuple[int, int] = (0, 0)
    rotations: list[KeyRotated] = field(default_factory=list)
    shredded: dict[tuple[str, str], int] = field(default_factory=dict)
    redacted: set[tuple[str, str]] = field(default_factory=set)
    idems: dict[str, int] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)


class StreamChecker:
    """Checks one stream, line by line, so that ``journal.index_check`` can look on.

    sizes are the tree sizes whose roots are wanted. outputs False leaves the blobs unread.
    """

    def __init__(
        self,
        layout: Layout,
        stream: str,
        journal_id: str,
        sizes: Iterable[int],
        *,
        outputs: bool = True,
    ) -> None:
        self._layout = layout
        self._journal_id = journal_id
        self._sizes = frozenset(sizes)
        self._outputs = outputs
        self._clock_us = 0
        self._machine: str | None = None
        self._in_session = False
        self._expected_us: int | None = None
        self.outputs_read: dict[str, bytes] = {}
        self.check = StreamCheck(stream)
        self._segments = layout.segments(stream)
        self._limits = {path: plain_size(path) for path in self._segments}

    def lines(self) -> Iterator[tuple[StoredLine, Event]]:
        """The good lines in order; ends at the first fault, which is then in ``check.finding``."""
        check = self.check
        if 0 in self._sizes:
            check.roots[0] = check.frontier.root().hex()
        stored: StoredLine | None = None
        path = self._layout.stream(check.stream)
        try:
            for path in self._segments:
                previous = None if stored is None else stored.segment
                for stored in self._complete_lines(path):
                    event = self._take(stored, previous)
                    if event is None:
                        self._blame(stored, path)
                        return
                    yield stored, event
                    previous = None
                self._check_end(path)
        except SegmentDamaged as damage:
            code: Code = "LINE_MALFORMED" if damage.is_line else "SEGMENT_CHANGED"
            self._found(code, damage.where, damage.reason)
        except (OSError, zstandard.ZstdError) as error:
            self._found("SEGMENT_CHANGED", path.name, f"cannot be read: {error}")
        if self._in_session and check.finding is None:
            check.remarks.append(
                Remark("SESSION_OPEN", check.stream, check.size - 1, "the last session has no end")
            )

    def _complete_lines(self, path: Path) -> Iterator[StoredLine]:
        limit = self._limits[path]
        for stored in iterate(path):
            if limit is not None and stored.offset + len(stored.line) >= limit:
                return
            yield stored

    def _take(self, stored: StoredLine, previous: Path | None) -> Event | None:
        check = self.check
        try:
            parse(stored.line)
            event = read_parsed(stored.line)
        except LineProfileError as error:
            self._found("LINE_MALFORMED", stored.where, str(error))
            return None
        if event.stream != check.stream:
            self._found("FOREIGN", stored.where, f"the line belongs to stream {event.stream}")
        elif event.seq != check.size:
            self._found("SEQ_WRONG", stored.where, f"expected seq {check.size}, got {event.seq}")
        elif event.prev != check.last_leaf:
            self._found("LINE_CHANGED", stored.where, "prev does not match the line before")
        else:
            self._check_rules(event, stored)
            self._check_said(event, stored, previous)
            self.outputs_read = {}
            if self._outputs and event.out:
                self._check_outputs(event)
        if check.finding is not None:
            return None
        leaf = bytes.fromhex(event.leaf)
        check.frontier.add(leaf)
        check.last_leaf = event.leaf
        check.size += 1
        if check.size in self._sizes:
            check.roots[check.size] = check.frontier.root().hex()
        return event

    def _check_rules(self, event: Event, stored: StoredLine) -> None:
        entry = entry_of(event)
        try:
            self.check.ledger.admit([entry], alone=True)
        except Refused as error:
            self._found(_RULES.get(type(error), "LINE_MALFORMED"), stored.where, str(error))
            return
        self.check.ledger.apply(entry)
        if event.idem is not None:
            self.check.idems[event.idem] = event.seq

    def _check_said(self, event: Event, stored: StoredLine, previous: Path | None) -> None:
        """What an event says about the journal itself must be so."""
        check, said = self.check, event.payload
        match said:
            case SessionStarted():
                if said.journal != self._journal_id:
                    text = f"written for journal {said.journal}, format.json says another"
                    self._found("FOREIGN", stored.where, text)
                self._check_session(said, event)
            case SegmentStarted() if previous is not None:
                if _digest(previous) != said.previous_sha256:
                    self._found("SEGMENT_CHANGED", previous.name, "its digest is another one")
            case Sealed():
                check.seals_claimed.append((event.seq, said))
            case SealAnchored():
                check.anchors_claimed.append(said)
            case KeyRotated():
                check.rotations.append(said)
            case Redacted():
                check.redacted.add((said.event, said.attachment))
            case _:
                self._in_session = self._in_session and event.kind != "session_ended"
        if event.ts_us < self._clock_us:
            back = _span(self._clock_us - event.ts_us)
            text = f"the wall clock went back by {back}; the order is that of seq"
            check.remarks.append(Remark("CLOCK_WENT_BACK", check.stream, event.seq, text))
        self._clock_us = event.ts_us
        check.latest = max(check.latest, (event.ts_us, event.seq))
        self._check_gap(event)

    def _check_gap(self, event: Event) -> None:
        """Between a heartbeat and what follows in its session lies at most twice its interval."""
        if self._in_session and self._expected_us is not None and event.ts_us > self._expected_us:
            late = _span(event.ts_us - self._expected_us)
            text = f"nothing was written for {late} longer than two heartbeats"
            self.check.remarks.append(Remark("GAP", self.check.stream, event.seq, text))
        said = event.payload
        self._expected_us = (
            event.ts_us + 2_000 * said.interval_ms if isinstance(said, Heartbeat) else None
        )

    def _check_session(self, said: SessionStarted, event: Event) -> None:
        if self._machine not in {None, said.machine}:
            text = f"continued on {said.machine}, before that on {self._machine}"
            self.check.remarks.append(Remark("MACHINE_CHANGED", self.check.stream, event.seq, text))
        self._machine = said.machine
        self._in_session = True

    def _check_outputs(self, event: Event) -> None:
        folder = self._layout.blobs(event.stream)
        for name, reference in event.out.items():
            try:
                self.outputs_read[name] = read_blob(folder, reference)
            except BlobFault as fault:
                if fault.reason == "SHREDDED":
                    self.check.shredded[event.id, name] = event.seq
                    continue
                code: Code = "BLOB_MISSING" if fault.reason == "MISSING" else "BLOB_CORRUPT"
                self._found(code, reference.file, f"{name}: {fault}", copy="blob")
                return

    def _check_end(self, path: Path) -> None:
        """Bytes behind the last line end: a write under way or torn; never in a closed segment.

        Zeros are room that was laid out ahead, and no bytes; in a closed segment they too are.
        """
        limit = self._limits[path]
        if limit is None or self.check.finding is not None:
            return
        try:
            at, torn = torn_tail(path)
            size = path.stat().st_size
        except FileNotFoundError:
            return  # compressed since it was listed: its writer found it whole
        if path != self._segments[-1]:
            if size > at:
                self._found("SEGMENT_CHANGED", f"{path.name}@{at}", "stray bytes at its end")
        elif torn and at <= limit:
            text = f"{len(torn)} bytes behind the last line end (being written, or torn)"
            self.check.remarks.append(Remark("TORN", self.check.stream, self.check.size, text))

    def _blame(self, stored: StoredLine, path: Path) -> None:
        """A broken link accuses two lines; the line behind them tells which was changed."""
        found = self.check.finding
        if found is None or found.code != "LINE_CHANGED":
            return
        following = next(iterate(path, stored.offset + len(stored.line) + 1), None)
        link = None if following is None else link_of(following.line)
        holds = link is not None and link.prev == leaf_hash(stored.line).hex()
        if (holds or link is None) and self.check.size > 0:
            self.check.finding = Finding(
                found.code, found.copy, found.stream, self.check.size - 1, found.where,
                "its bytes no longer fit the line behind it",
            )  # fmt: skip

    def _found(self, code: Code, where: str, message: str, *, copy: Copy = "segment") -> None:
        check = self.check
        if check.finding is None:
            check.finding = Finding(code, copy, check.stream, check.size, where, message)


def _span(us: int) -> str:
    """A span of time in the unit that suits it."""
    whole = ((us // (86_400 * 1_000_000), "days"), (us // 1_000_000, "s"))
    return next((f"{n} {unit}" for n, unit in whole if n > 1), f"{us // 1_000} ms")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open_segment(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
