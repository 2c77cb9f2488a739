"""One SSH channel in use.

Here: what asyncssh calls back. Not here: connections (``ssh_connection``), what answers follow
(``exchange``).
"""

import asyncio
import contextlib
from typing import Protocol

import asyncssh

from agentops.transport.exchange import Closed, Exchange


class InFlight(Protocol):
    """A request that was sent and can be stopped."""

    exchange: Exchange
    done: asyncio.Event
    loss: str

    @property
    def closed(self) -> Closed | None:
        """How the frame ended, once nothing holds its streams open."""

    @property
    def stops_itself(self) -> bool:
        """Whether ``send_signal`` surely reaches the request."""

    def send_signal(self, name: str) -> None:
        """Ask the server to signal the session."""


class ExecSession(asyncssh.SSHClientSession[bytes]):
    """Feeds the exchange from one channel; *done* at both end markers or at the channel's end."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.done = asyncio.Event()
        self.opened = False
        self._exit: Closed | None = None
        self._broken = False
        self.loss = "the connection is open, but nothing was heard of the command"
        self._gone = False

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Take the opened channel."""
        self._chan = chan
        self.opened = True

    def send(self, stdin: bytes) -> None:
        """Write all input, then end of file; asyncssh queues what the window does not take."""
        if stdin:
            self._chan.write(stdin)
        self._chan.write_eof()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Feed the stream's reader."""
        reader = self.exchange.out if datatype is None else self.exchange.err
        reader.feed(data)
        if self.exchange.complete:
            self.done.set()

    @property
    def closed(self) -> Closed | None:
        """How the frame ended; None while anything still holds the session's streams open.

        The exit status alone comes when the frame's own process ends, and proves nothing about a
        child that left the frame's group.
        """
        return self._exit if self._gone and not self._broken else None

    @property
    def stops_itself(self) -> bool:
        """Servers may ignore signal requests."""
        return False

    def exit_status_received(self, status: int) -> None:
        """Note the status."""
        self._exit = Closed(status=status, signal=None)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:  # noqa: FBT001 - asyncssh's signature
        """Note the signal."""
        del core_dumped, msg, lang
        self._exit = Closed(status=None, signal=signal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the channel is gone, and whether in order."""
        self._gone = True
        self._broken = exc is not None
        self.loss = (
            f"the connection was lost: {exc}" if exc else "the session closed without a word"
        )
        self.exchange.finish()
        self.done.set()

    def send_signal(self, name: str) -> None:
        """Ask the server to signal its session; servers may ignore it."""
        with contextlib.suppress(OSError):
            self._chan.send_signal(name)

    def leave(self) -> None:
        """Close the channel; whatever still arrives belongs to nobody."""
        if self.opened:
            self._chan.close()


class Nowhere:
    """Takes output that nobody wants."""

    def stdout(self, chunk: bytes) -> None:
        """Drop it."""

    def stderr(self, chunk: bytes) -> None:
        """Drop it."""
