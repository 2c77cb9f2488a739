"""A shell that stays open on a host, and carries one framed request after the other.

Opening a channel and a login shell costs more than most probes. The shell reads one line a
request: the very frame that an exec channel would run, in a session of its own, with its stdin
closed, its deadline and its nonce. Whatever is unusual ends the shell, and requests go by exec
channels again.
"""

import asyncio
import contextlib

import asyncssh

from agentops.hosts import Layer
from agentops.transport.base import Request, Sink
from agentops.transport.exchange import Closed, Exchange, remote_deadline_s
from agentops.transport.frame import shell_prelude, shell_request
from agentops.transport.layers import shell_line, wrap


class ShellRun:
    """One request in the shell; *done* at both end markers or at the shell's end."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.done = asyncio.Event()
        self.loss = "the shell is open, but nothing was heard of the command"

    @property
    def closed(self) -> Closed | None:
        """Never known: the shell's own end says nothing about the request's."""
        return None

    def send_signal(self, name: str) -> None:
        """Not possible by the server: the channel's process is the shell."""


class PersistentShell(asyncssh.SSHClientSession[bytes]):
    """One shell on one connection, at the end of the host's layers."""

    def __init__(self, connection: asyncssh.SSHClientConnection, layers: tuple[Layer, ...]) -> None:
        self.connection = connection
        self._layers = layers
        self._chan: asyncssh.SSHClientChannel[bytes] | None = None
        self._run: ShellRun | None = None
        self._busy = False
        self.ended = False
        """Whether it can carry no more; a shell is never opened twice."""

    @property
    def free(self) -> bool:
        """Whether a request may be sent now."""
        return not self._busy and not self.ended

    @property
    def is_open(self) -> bool:
        """Whether the shell runs."""
        return self._chan is not None

    async def send(self, request: Request, sink: Sink, deadline: float) -> ShellRun | None:
        """Send, and wait for the end or the deadline; None if nothing was sent."""
        self._busy = True
        try:
            chan = await self._open(deadline)
        except (TimeoutError, asyncssh.ChannelOpenError, asyncssh.ConnectionLost):
            self.close()
            return None
        left_ms = max(1, round((deadline - asyncio.get_running_loop().time()) * 1000))
        line = shell_request(
            request.argv, nonce=request.nonce, remote_deadline_s=remote_deadline_s(left_ms)
        )
        run = ShellRun(Exchange(request, sink, layered=bool(self._layers)))
        self._run = run
        chan.write(line.encode("utf-8", "surrogateescape"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await run.done.wait()
        return run

    def finish(self, run: ShellRun) -> None:
        """The request is settled; a shell in doubt is not used again."""
        self._run = None
        self._busy = False
        marker = run.exchange.out.ended
        if marker is None or marker.kind != "end":
            self.close()

    def close(self) -> None:
        """End the shell: it reads end of file."""
        self.ended = True
        chan, self._chan = self._chan, None
        if chan is not None:
            chan.close()

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Take the opened channel."""
        self._chan = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Feed the stream's reader."""
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
        run = self._run
        if run is not None:
            run.loss = f"the shell ended: {exc}" if exc else "the shell ended without a word"
            run.exchange.finish()
            run.done.set()

    async def _open(self, deadline: float) -> asyncssh.SSHClientChannel[bytes]:
        if self._chan is None:
            line = shell_line(wrap(self._layers, ("sh", "-s")))
            async with asyncio.timeout_at(deadline):
                chan, _ = await self.connection.create_session(lambda: self, line, encoding=None)
            chan.write(shell_prelude().encode())
            self._chan = chan
        return self._chan
