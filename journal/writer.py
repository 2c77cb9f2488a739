"""The journal, opened for writing: append, capture, seal, close.

``append`` is the acknowledgement: when it returns, the events are on stable storage, and their
outputs were there before them. Any number of threads may call it; they share one fdatasync. When it
raises, nothing of that call is in the journal. Not here: reading (``journal.reader``), the index
(``journal.index``), judging (``journal.verification``).
"""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from journal import sealing
from journal.anchors import Anchor, anchor_at, place_of
from journal.blobs import BlobWriter
from journal.bookmark import Bookmark, Start, is_due, lay_bookmark, read_bookmark
from journal.capture import LIMIT_BYTES, Capture
from journal.clock import Clock
from journal.disk import cut
from journal.drafting import Drafter, Settings
from journal.envelope import Actor, Draft, Event, NewEvent, chained
from journal.errors import (
    Corrupt,
    IndexFailed,
    JournalClosed,
    JournalError,
    JournalExists,
    SealFailed,
    WriteFailed,
)
from journal.events import CommandReconciled, SegmentStarted, SessionEnded
from journal.following import Claims, Follower, entry_of
from journal.index import bring_up
from journal.keys import KeyStore
from journal.layout import Layout, read_format, write_format
from journal.ledger import Intent, host_name
from journal.locks import try_lock
from journal.machine import ulid
from journal.reader import Reader
from journal.recovery import cut_off, recovered, session_started
from journal.seals import Head
from journal.segment_walk import filled_size
from journal.segments import compress
from journal.signed import Signed
from journal.streams import OpenStream, lock_stream, next_segment, open_stream


class Journal:
    """One process's opening of a journal. Use ``create`` or ``open``, then ``close``."""

    def __init__(
        self,
        layout: Layout,
        *,
        journal_id: str,
        clock: Clock,
        actor: Actor,
        keys: KeyStore,
        anchors: Sequence[Anchor],
        settings: Settings,
    ) -> None:
        self.layout = layout
        self.journal_id = journal_id
        self.actor = actor
        self.clock = clock
        self.settings = settings
        self.keys = keys
        self.anchors = tuple(anchors)
        self.signing_key = keys.key_for(journal_id)
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._claims = Claims(layout)
        self._follower = Follower(layout)
        name, lock = lock_stream(layout, settings.random)
        try:
            self._stream = self._open_stream(name, lock)
        except (JournalError, OSError):
            os.close(lock)
            self._claims.close()
            raise
        self._pace = sealing.Pace(settings.seal_every, self._stream.sealed_size)
        self._blobs = BlobWriter(layout.blobs(name), settings.disk, settings.random)
        self._drafter = Drafter(self._blobs, clock, actor, settings)

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        clock: Clock,
        actor: Actor,
        keys: KeyStore | Path,
        anchor: Path | str | None,
        settings: Settings | None = None,
    ) -> Self:
        """Begin a new journal in a folder that is absent or empty, and open it.

        Raises:
            JournalExists: Something is there.
            KeyUnusable: The key store cannot be used.
            WriteFailed: The disk refused.
        """
        settings = settings or Settings()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise JournalExists(f"{path} exists and is not empty; open it, or choose another path")
        store = keys if isinstance(keys, KeyStore) else KeyStore(keys, settings.random)
        layout = Layout(path)
        journal_id = ulid(clock.wall_us(), settings.random)
        key = store.signing_key()
        try:
            write_format(layout, journal_id)
        except OSError as error:
            raise WriteFailed(f"cannot create {path}: {error.strerror}") from error
        store.pin(journal_id, key=key.public, anchor=place_of(anchor))
        return cls.open(path, clock=clock, actor=actor, keys=store, settings=settings)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        actor: Actor,
        keys: KeyStore | Path,
        anchor: Path | str | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Open an existing journal: repair, name what is in doubt, begin a session.

        anchor is added to the places recorded for this journal in the key store.

        Raises:
            NotAJournal: No journal is at the path.
            Corrupt: The stream to be continued is broken, or is not what was signed of it.
            KeyUnusable: The key store cannot be used.
            WriteFailed: The disk refused.
        """
        settings = settings or Settings()
        store = keys if isinstance(keys, KeyStore) else KeyStore(keys, settings.random)
        layout = Layout(path)
        journal_id = read_format(layout)
        if anchor is not None:
            store.pin(journal_id, key=store.key_for(journal_id).public, anchor=place_of(anchor))
        places = store.pinned(journal_id).anchors
        try:
            opened = cls(
                layout,
                journal_id=journal_id,
                clock=clock,
                actor=actor,
                keys=store,
                anchors=[anchor_at(place, settings.disk) for place in places],
                settings=settings,
            )
        except PermissionError as error:
            raise WriteFailed(f"cannot write to {path}: {error.strerror}") from error
        try:
            opened._begin_session()
        except BaseException:
            # Its lock would make the stream look alive to whoever opens next.
            opened.abandon()
            raise
        return opened

    @property
    def stream(self) -> str:
        """The name of the stream that this session writes."""
        return self._stream.name

    @property
    def size(self) -> int:
        """Events in this session's stream, acknowledged or about to be."""
        return self._stream.size

    def append(self, *new: NewEvent) -> tuple[Event, ...]:
        """Make these events durable, all or none, in this order; returning acknowledges them.

        A process that dies meanwhile may leave the first of them, without the others.

        Raises:
            Refused: A rule would be broken (see ``journal.errors``); nothing was written.
            WriteFailed: The disk refused; nothing was acknowledged, a later call may succeed.
            JournalClosed: After ``close``, or in a forked child.
        """
        self._refuse_if_closed()
        drafts = self._drafter.drafts(new)
        with self._mutex:
            self._revive_if_failed()
            full = self._roll_if_full()
            events = self._write(drafts)
            segment, upto = self._stream.segment, self._stream.segment.size
        segment.wait_durable(upto)
        if full is not None:
            with suppress(WriteFailed, OSError):  # these events are durable; the plain one stays
                compress(full)
        self._seal_if_due(events)
        return events

    def capture(self, limit_bytes: int = LIMIT_BYTES) -> Capture:
        """A place to collect one output, to be attached to a later event."""
        return Capture(limit_bytes)

    def reader(self) -> Reader:
        """Read what was acknowledged so far, and more as it comes."""
        return Reader.open(self.layout.root)

    def unreconciled(self, host: str | None = None) -> tuple[Intent, ...]:
        """Commands with an unknown outcome that no probe has settled, on one host or on all."""
        with self._mutex:
            self._follower.refresh(except_stream=self.stream)
            intents = self._follower.ledger.unreconciled.values()
            return tuple(one for one in intents if host is None or host_name(one.host) == host)

    def seal(self, *, record: bool = True) -> Head:
        """Sign this stream's head, store the seal, send it to the anchors.

        record also appends what happened as events, which the next seal will cover.

        Raises:
            WriteFailed: The disk refused.
        """
        self._refuse_if_closed()
        head = self._durable_head()
        report = sealing.seal(self, head, self.signing_key, self.settings.disk)
        self._pace.sealed_size = head.size
        self._mark(head)
        if record:
            self.append(*report)
        return head

    def close(self, reason: str = "closed") -> None:
        """End the session: last event, seal, anchor, index. Safe to call twice."""
        if self._closed:
            return
        self._refuse_if_closed()
        try:
            self.append(NewEvent(SessionEnded(reason=reason)))
            if self.settings.seals:
                self.seal(record=False)
                sealing.super_seal(self, self.signing_key, self.settings.disk)
            # The index is derived: whoever reads next brings it up, or says why it cannot.
            with suppress(IndexFailed):
                bring_up(self.layout)
        finally:
            self.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, WriteFailed):
            self.abandon()
        else:
            self.close("closed" if kind is None else f"ended by {kind.__name__}")

    def abandon(self) -> None:
        """Let go without another word in the journal, as a crash would."""
        if not self._closed:
            self._closed = True
            self._claims.close()
            self._blobs.close()  # under the stream's lock, as they were written
            self._stream.close()

    def _begin_session(self) -> None:
        begin = session_started(self.journal_id, self.settings.machine)
        self.append(begin, *recovered(self._stream.repair, self._in_doubt(self.stream)))
        for name in self.layout.streams():
            if name != self.stream and (lock := try_lock(self.layout.stream(name))) is not None:
                self._settle_dead_stream(name, lock)

    def _settle_dead_stream(self, name: str, lock: int) -> None:
        """Settle what another dead writer left, in that writer's stream. Only while opening."""
        own, pace = self._stream, self._pace
        try:
            self._follower.refresh(except_stream=own.name)  # another opener may have settled it
            in_doubt = self._in_doubt(name)
            other = self._opened(name, lock, Follower(self.layout))
        except Corrupt:
            os.close(lock)  # for verify to name; it must not stop work in other streams
            return
        try:
            self._stream, self._pace = other, sealing.Pace(self.settings.seal_every, 0)
            if events := recovered(other.repair, in_doubt):
                self.append(*events)
                if self.settings.seals:
                    self.seal(record=False)
        finally:
            self._stream, self._pace = own, pace
            other.close()

    def _in_doubt(self, stream: str) -> list[Intent]:
        return [one for one in self._follower.ledger.open.values() if one.stream == stream]

    def _open_stream(self, name: str, lock: int) -> OpenStream:
        self._signed = Signed.read(self)
        bookmark = read_bookmark(self.layout)
        self._starts = bookmark.starts
        self._follower = Follower.from_bookmark(self.layout, bookmark)
        self._follower.refresh(except_stream=name)
        return self._opened(name, lock, self._follower)

    def _opened(self, name: str, lock: int, follower: Follower) -> OpenStream:
        disk, start = self.settings.disk, self._starts.get(name)
        return open_stream(self.layout, name, lock, disk, follower, self._signed, start)

    def _write(self, drafts: Sequence[Draft]) -> tuple[Event, ...]:
        """Ask the ledger, chain, write; the caller holds the mutex and waits for the disk."""
        for draft in drafts:
            if draft.idem is not None or type(draft.payload) is CommandReconciled:
                with self._claims.held():
                    self._follower.refresh(except_stream=self.stream)
                    return self._chain(drafts)
        return self._chain(drafts)

    def _chain(self, drafts: Sequence[Draft]) -> tuple[Event, ...]:
        chain, ledger = self._stream.chain, self._follower.ledger
        stream, seq, prev = chain.stream, chain.next_seq, chain.last_leaf
        events: list[Event] = []
        for draft in drafts:
            event = chained(draft, stream=stream, seq=seq, prev=prev)
            events.append(event)
            seq, prev = seq + 1, event.leaf
        entries = [entry_of(event) for event in events]
        ledger.admit(entries)
        self._stream.segment.write(b"".join([event.line + b"\n" for event in events]))
        for event, entry in zip(events, entries, strict=True):
            chain.advance(bytes.fromhex(event.leaf))
            ledger.apply(entry)
        return tuple(events)

    def _revive_if_failed(self) -> None:
        """After a failed write: cut off what was never acknowledged and read the stream again."""
        failed = self._stream.segment
        if failed.failed is None:
            return
        failed.close()
        lost = max(0, filled_size(failed.path) - failed.durable)
        cut(failed.path, failed.durable)
        self._stream = self._open_stream(self._stream.name, self._stream.lock)
        self._write(self._drafter.drafts([cut_off(failed.failed, lost)]))

    def _roll_if_full(self) -> Path | None:
        """Go on in a new segment when this one is full; gives the full one."""
        full = self._stream.segment
        if full.size < self.settings.segment_bytes:
            return None
        full.wait_durable(full.size)
        started, number, digest = next_segment(self._stream, self.settings.disk)
        self._stream.segment = started
        full.close()
        payload = SegmentStarted(number=number, previous_bytes=full.size, previous_sha256=digest)
        self._write(self._drafter.drafts([NewEvent(payload)]))
        return full.path

    def _durable_head(self) -> Head:
        with self._mutex:
            frontier = self._stream.chain.frontier.copy()
            segment, upto = self._stream.segment, self._stream.segment.size
        segment.wait_durable(upto)
        return Head(self.stream, frontier.size, frontier.root().hex())

    def _mark(self, head: Head) -> None:
        """Lay the bookmark at this head now and then, unless more was appended meanwhile."""
        with self._mutex:
            stream, follower, every = self._stream, self._follower, self.settings.bookmark_every
            due = is_due(head.size, self._starts.get(stream.name), every)
            if due and stream.size == head.size:
                follower.refresh(except_stream=stream.name)
                known = Bookmark(follower.ledger, follower.positions, self._starts)
                start = Start.of(stream.chain, stream.position)
                lay_bookmark(self.layout, stream.name, start, known)

    def _seal_if_due(self, events: Sequence[Event]) -> None:
        """Before a destructive command is sent, after it ended, and every so many events."""
        before, after = self._pace.around(events)
        due = before or after or self._pace.is_overdue(self._stream.size)
        if not (due and self.settings.seals):
            return
        try:
            self.seal()
        except WriteFailed as error:
            if before:
                raise SealFailed(f"recorded but not sealed, so do not act: {error}") from error
            self._pace.hurry()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise JournalClosed("the journal is closed; open it again to append")
        if os.getpid() != self._process:
            raise JournalClosed("the journal was opened by the parent process; open it again here")
