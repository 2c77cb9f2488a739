"""Lines from a client's pipe, read so that a signal can end the wait, and never more than a bound.

The SDK reads standard input in a thread that nothing can interrupt, so a server whose client keeps
the pipe open would not end. Here: that one stream. Not here: what the
lines say, and the error for one that is no message (``agentops.server.malformed``).
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp_types import JSONRPCError

from agentops.server.malformed import ID_WITHIN_BYTES, refusal_of, too_long

LINE_BYTES_MAX = 1_048_576
_CHUNK_BYTES = 65_536
_REFUSALS_WAITING_MAX = 16
_STDIN = 0


class Lines:
    """The messages of a stream as text, one a line.

    A line that is longer than the bound, or no message, is left out; its error goes to *refused*.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._kept = bytearray()
        self._dropping: _Dropping | None = None
        # Bounded, so that a client that reads no answers is not read either.
        self.refused: asyncio.Queue[JSONRPCError] = asyncio.Queue(_REFUSALS_WAITING_MAX)

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        """The next line, its newline included; the end comes after the refusals were taken."""
        while True:
            line = await self._line()
            if line is None:
                await self.refused.join()
                raise StopAsyncIteration
            refusal = refusal_of(line) if isinstance(line, str) else line
            if refusal is not None:
                await self.refused.put(refusal)
            elif isinstance(line, str):
                return line

    async def _line(self) -> str | JSONRPCError | None:
        """The next line that is not blank, the error of one too long, or None at the end."""
        while True:
            head, newline, rest = self._kept.partition(b"\n")
            if newline:
                self._kept = rest
                if self._dropping is not None:
                    dropped, self._dropping = self._dropping, None
                    dropped.take(head)
                    return too_long(dropped.head, dropped.tail, dropped.length, LINE_BYTES_MAX)
                if head.strip():
                    return head.decode("utf-8", "replace") + "\n"
                continue
            if self._dropping is None and len(self._kept) > LINE_BYTES_MAX:
                self._dropping = _Dropping(bytes(self._kept[:ID_WITHIN_BYTES]))
            if self._dropping is not None:
                self._dropping.take(self._kept)
                self._kept.clear()
            chunk = await self._reader.read(_CHUNK_BYTES)
            if not chunk:
                return None
            self._kept += chunk


@dataclass(slots=True)
class _Dropping:
    """What is kept of a line that is too long: its borders, where the id may stand."""

    head: bytes
    tail: bytes = b""
    length: int = 0

    def take(self, part: bytearray) -> None:
        """Count *part* and keep the line's last bytes."""
        self.length += len(part)
        self.tail = (self.tail + part[-ID_WITHIN_BYTES:])[-ID_WITHIN_BYTES:]


@asynccontextmanager
async def standard_input() -> AsyncIterator[Lines | None]:
    """Standard input's lines while it is a pipe or a socket, as it is for clients; else None.

    Meanwhile descriptor 0 reads nothing, so that no child of ours takes a client's bytes.
    """
    mode = os.fstat(_STDIN).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        yield None
        return
    private = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(os.dup(private), "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        yield Lines(reader)
    finally:
        transport.close()
        os.set_blocking(private, True)
        os.dup2(private, _STDIN)
        os.close(private)
