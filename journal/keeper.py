"""A thread beside a long session: keeps the index close behind, and shows that the writer lives.

Without it the index is brought up by whoever reads next, which is enough for ``agentops`` itself; a
notebook that opens ``journal.duckdb`` on its own sees what the keeper put there. A heartbeat event
every so often makes a gap in the journal visible. Not here: the index (``journal.index``).
"""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from journal.envelope import NewEvent
from journal.errors import Corrupt, IndexFailed, WriteFailed
from journal.events import Heartbeat
from journal.index import IndexWriter
from journal.writer import Journal

INDEX_EVERY_MS = 50  # with a batch of some 25 ms, a row is there within a quarter of a second
_SHARE = 1  # it rests as long as it worked: half a core at most, and a fifth where it is idle
HEARTBEAT_EVERY_MS = 60_000


class Keeper:
    """Runs from ``__enter__`` to ``__exit__``.

    Attributes:
        index_fault: Why the index could last not be brought up, or None; queries say it too.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        index_every_ms: int = INDEX_EVERY_MS,
        heartbeat_every_ms: int = HEARTBEAT_EVERY_MS,
    ) -> None:
        self._journal = journal
        self._index = IndexWriter(journal.layout)
        self._index_every_ms = index_every_ms
        self._heartbeat_every_ms = heartbeat_every_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-keeper")
        self.index_fault: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._index.close()

    def _run(self) -> None:
        clock = self._journal.clock
        beat_ns = clock.mono_ns()
        indexed = -1
        pause_ns = self._index_every_ms * 1_000_000
        while not self._stop.wait(pause_ns / 1_000_000_000):
            if clock.mono_ns() - beat_ns >= self._heartbeat_every_ms * 1_000_000:
                beat_ns = clock.mono_ns()
                self._beat()
            size = self._journal.size
            if size != indexed:
                began_ns = clock.mono_ns()
                self._bring_up()
                indexed = size
                took_ns = clock.mono_ns() - began_ns
                pause_ns = max(self._index_every_ms * 1_000_000, _SHARE * took_ns)

    def _beat(self) -> None:
        # A disk that takes nothing is met by whoever has something to say; a missing beat is a gap.
        with suppress(WriteFailed):
            self._journal.append(NewEvent(Heartbeat(interval_ms=self._heartbeat_every_ms)))

    def _bring_up(self) -> None:
        try:
            self._index.bring_up()
        except (IndexFailed, Corrupt, OSError) as fault:
            self.index_fault = fault
        else:
            self.index_fault = None
