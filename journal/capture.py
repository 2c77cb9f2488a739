"""One output as it comes: bounded memory, any length, head and tail kept.

A ``Capture`` takes chunks, keeps all bytes up to its limit and beyond it the first and the last
half. Up to 1 MiB stays in memory, more goes to an unnamed temporary file. Not here: how the kept
bytes are stored (``journal.blobs``).
"""

import tempfile
from typing import IO

MEMORY_BYTES = 1 << 20
LIMIT_BYTES = 8 << 20
EDGE_BYTES = 64 << 10  # what ``head`` and ``tail`` give: enough for a parser, cheap to hold


class Capture:
    """Collects one output.

    >>> capture = Capture(limit_bytes=8)
    >>> for chunk in (b"abcde", b"fghij"): capture.write(chunk)
    >>> capture.content(), capture.length_bytes, capture.truncated
    (b'abcdghij', 10, True)

    Attributes:
        length_bytes: What was written, kept or not.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES, memory_bytes: int = MEMORY_BYTES) -> None:
        if limit_bytes < 2:  # noqa: PLR2004 - a head and a tail need a byte each
            raise ValueError(f"limit_bytes is {limit_bytes}; it must be at least 2")
        self.limit_bytes = limit_bytes
        self.length_bytes = 0
        self._memory_bytes = memory_bytes
        self._head_limit = limit_bytes - limit_bytes // 2
        self._tail_limit = limit_bytes // 2
        self._store: bytearray | IO[bytes] = bytearray()

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        rest = memoryview(chunk)
        while rest:
            at, room = self._slot()
            part = rest[:room]
            self._put(at, part)
            self.length_bytes += len(part)
            rest = rest[len(part) :]

    @property
    def truncated(self) -> bool:
        """Whether bytes between head and tail were dropped."""
        return self.length_bytes > self.limit_bytes

    @property
    def head(self) -> bytes:
        """The first bytes, at most 64 KiB."""
        return self._get(0, min(EDGE_BYTES, self._head_limit, self.length_bytes))

    @property
    def tail(self) -> bytes:
        """The last bytes, at most 64 KiB."""
        return self.content()[-EDGE_BYTES:]

    def content(self) -> bytes:
        """All that was kept: everything, or the first and the last half of the limit."""
        if self.length_bytes <= self.limit_bytes:
            return self._get(0, self.length_bytes)
        head = self._get(0, self._head_limit)
        turn = (self.length_bytes - self._head_limit) % self._tail_limit
        ring = self._get(self._head_limit, self._tail_limit)
        return head + ring[turn:] + ring[:turn]

    def close(self) -> None:
        """Let go of the temporary file, if there is one."""
        if not isinstance(self._store, bytearray):
            self._store.close()

    def _slot(self) -> tuple[int, int]:
        """Where the next byte goes, and how many fit there in a row."""
        if self.length_bytes < self._head_limit:
            return self.length_bytes, self._head_limit - self.length_bytes
        turn = (self.length_bytes - self._head_limit) % self._tail_limit
        return self._head_limit + turn, self._tail_limit - turn

    def _put(self, at: int, part: memoryview) -> None:
        if isinstance(self._store, bytearray):
            if at + len(part) <= self._memory_bytes:
                self._store[at : at + len(part)] = part
                return
            spool = tempfile.TemporaryFile(prefix="journal-capture-")  # noqa: SIM115 - see close
            spool.write(self._store)
            self._store = spool
        self._store.seek(at)
        self._store.write(part)

    def _get(self, at: int, count: int) -> bytes:
        if isinstance(self._store, bytearray):
            return bytes(self._store[at : at + count])
        self._store.seek(at)
        return self._store.read(count)
