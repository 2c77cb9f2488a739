"""Lines from a client's pipe, read so that a signal can end the wait, and never more than a bound.

The SDK reads standard input in a thread that nothing can interrupt, so a server whose client keeps
the pipe open would not end. Here: that one stream. Not here: what the lines say.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LINE_BYTES_MAX = 1_048_576
_CHUNK_BYTES = 65_536
_STDIN = 0


class Lines:
    """The lines of a stream as text. One that is longer than the bound comes as an empty line."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._kept = bytearray()
        self._dropping = False

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        """The next line, its newline included."""
        while True:
            head, newline, rest = self._kept.partition(b"\n")
            if newline:
                self._kept = rest
                if not self._dropping:
                    return head.decode("utf-8", "replace") + "\n"
                self._dropping = False
                return "\n"
            if len(self._kept) > LINE_BYTES_MAX:
                self._dropping = True
                self._kept.clear()
            chunk = await self._reader.read(_CHUNK_BYTES)
            if not chunk:
                raise StopAsyncIteration
            self._kept += chunk


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
