"""A channel that stays open on a host, and carries one framed request after the other.

Opening a channel, a login shell and an interpreter costs more than most probes. What listens at the
far end is a Python where there is one, else a POSIX sh (``dialects``); either gives each request a
session of its own, its own stdin, its deadline and its nonce. Whatever is unusual ends the channel,
and requests go by exec channels again.
"""

import asyncio
import contextlib

import asyncssh

from agentops.hosts import Layer
from agentops.transport.base import Request, Sink
from agentops.transport.dialects import Dialect
from agentops.transport.exchange import Closed, Exchange, remote_deadline_s
from agentops.transport.layers import shell_line, wrap

# An interpreter that has not begun to listen by then is taken for one that never will.
_HELLO_TIMEOUT_S = 10.0
_NOISE_BYTES_MAX = 65_536


class ChannelRun:
    """One request in the channel; *done* at both end markers or at the channel's end."""

    def __init__(self, exchange: Exchange, channel: "PersistentChannel") -> None:
        self.exchange = exchange
        self.done = asyncio.Event()
        self.loss = "the channel is open, but nothing was heard of the command"
        self._channel = channel

    @property
    def closed(self) -> Closed | None:
        """Never known: the channel's own end says nothing about the request's."""
        return None

    @property
    def stops_itself(self) -> bool:
        """Whether ``send_signal`` reaches the request, so that no second channel is needed."""
        return self._channel.can_stop

    def send_signal(self, name: str) -> None:
        """Tell the far end to signal the request's group, if it can be told."""
        self._channel.stop(self.exchange.request.nonce, name)


class PersistentChannel(asyncssh.SSHClientSession[bytes]):
    """One channel on one connection, at the end of the host's layers."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        layers: tuple[Layer, ...],
        dialect: Dialect,
    ) -> None:
        self.connection = connection
        self.dialect = dialect
        self._layers = layers
        self._chan: asyncssh.SSHClientChannel[bytes] | None = None
        self._run: ChannelRun | None = None
        self._busy = False
        self._before_hello = bytearray()
        self._listens = asyncio.Event()
        self.ended = False
        """Whether it can carry no more; a channel is never opened twice."""
        self.mute = False
        """Whether it was opened and its far end never listened."""

    @property
    def free(self) -> bool:
        """Whether a request may be sent now."""
        return not self._busy and not self.ended

    @property
    def is_open(self) -> bool:
        """Whether the far end runs."""
        return self._chan is not None

    @property
    def can_stop(self) -> bool:
        """Whether a request under way can be stopped by this same channel."""
        return self.dialect.stop("", "TERM") is not None

    async def send(self, request: Request, sink: Sink, deadline: float) -> ChannelRun | None:
        """Send, and wait for the end or the deadline; None if nothing was sent."""
        self._busy = True
        run = ChannelRun(Exchange(request, sink, layered=bool(self._layers)), self)
        try:
            chan = await self._open(deadline)
            left_ms = max(1, round((deadline - asyncio.get_running_loop().time()) * 1000))
            line = self.dialect.request(request, remote_deadline_s(left_ms))
            self._run = run
            chan.write(line)
        except (TimeoutError, asyncssh.ChannelOpenError, asyncssh.ConnectionLost, BrokenPipeError):
            # A pipe that is broken before took no byte.
            self._run = None
            self.close()
            return None
        waited = False
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await run.done.wait()
            waited = True
        finally:
            if not waited:
                self.close()
        return run

    def stop(self, nonce: str, signal: str) -> None:
        """Tell the far end to signal the request, if it can be told."""
        line = self.dialect.stop(nonce, signal)
        if line is not None and self._chan is not None:
            self._chan.write(line)

    def finish(self, run: ChannelRun) -> None:
        """The request is settled; a channel in doubt is not used again."""
        self._run = None
        self._busy = False
        marker = run.exchange.out.ended
        if marker is None or (marker.kind != "end" and not self.can_stop):
            self.close()

    def close(self) -> None:
        """End it: the far end reads end of file."""
        self.ended = True
        chan, self._chan = self._chan, None
        if chan is not None:
            chan.close()

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Take the opened channel."""
        self._chan = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Feed the stream's reader; before the hello, look for it."""
        if not self._listens.is_set():
            if datatype is None:
                self._look_for_hello(data)
            return
        run = self._run
        if run is None:
            return
        reader = run.exchange.out if datatype is None else run.exchange.err
        reader.feed(data)
        if run.exchange.complete:
            run.done.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the channel is gone, and whether in order."""
        self.ended = True
        self._chan = None
        self._listens.set()
        run = self._run
        if run is not None:
            run.loss = f"the channel ended: {exc}" if exc else "the channel ended without a word"
            run.exchange.finish()
            run.done.set()

    def _look_for_hello(self, data: bytes) -> None:
        hello = self.dialect.hello
        self._before_hello += data
        if hello is not None and hello in self._before_hello:
            self._listens.set()
            self._before_hello.clear()
        elif len(self._before_hello) > _NOISE_BYTES_MAX:
            self.close()
            self._listens.set()

    async def _open(self, deadline: float) -> asyncssh.SSHClientChannel[bytes]:
        """The channel, once its far end listens.

        Raises:
            TimeoutError: it did not come to that in time, or ended before.
        """
        if self._chan is None:
            line = shell_line(wrap(self._layers, self.dialect.opening()))
            async with asyncio.timeout_at(deadline):
                chan, _ = await self.connection.create_session(lambda: self, line, encoding=None)
            self.mute = True
            chan.write(self.dialect.prelude())
            if self.dialect.hello is None:
                self._listens.set()
            patience = asyncio.get_running_loop().time() + _HELLO_TIMEOUT_S
            async with asyncio.timeout_at(min(deadline, patience)):
                await self._listens.wait()
            if self.ended:
                raise TimeoutError
            self.mute = False
            self._chan = chan
        return self._chan
