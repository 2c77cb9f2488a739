"""The transport over SSH: one connection per host, one channel per request.

Bytes stay bytes (``encoding=None``): one byte that is no UTF-8 must not cost an output. Whether a
request was sent is told exactly: ``NotSent`` until the exec request leaves, ``Lost`` after it.
"""

import asyncio
import contextlib
from dataclasses import replace
from typing import Literal

import asyncssh

from agentops.hosts import Host
from agentops.transport.base import NotSent, Request, Sink, TransportAnswer
from agentops.transport.dialects import Dialect, PythonDialect, ShellDialect
from agentops.transport.doors import Doors
from agentops.transport.exchange import SIGNAL_GRACE_S, Exchange, remote_deadline_s
from agentops.transport.frame import frame, stop_frame
from agentops.transport.layers import shell_line, wrap
from agentops.transport.limits import Limit
from agentops.transport.ssh_channel import PersistentChannel
from agentops.transport.ssh_connection import connect
from agentops.transport.ssh_session import ExecSession, InFlight, Nowhere

# OpenSSH's MaxSessions is 10 by default; two are left for people.
_SESSIONS_DEFAULT = 8
# After this many failures in a row the host is taken for one that cannot keep a channel.
_CHANNEL_FAILURES_MAX = 3


class SshTransport:
    """Runs requests on one host over one SSH connection, opened at the first request."""

    def __init__(
        self,
        host: Host,
        *,
        jump: "SshTransport | None" = None,
        sessions_max: int = _SESSIONS_DEFAULT,
        channel_after: int | None = 1,
        doors: Doors | None = None,
    ) -> None:
        """*channel_after* requests that only look, a persistent channel is opened; None for never.

        One look alone is not worth a channel. *doors* is shared by transports that may lead to the
        same server.
        """
        self._host = host
        self._jump = jump
        self._connection: asyncssh.SSHClientConnection | None = None
        self._doors = doors or Doors()
        self._connecting = asyncio.Lock()
        self._sessions = Limit(sessions_max)
        self._channel: PersistentChannel | None = None
        self._channel_failures = 0
        self._until_channel = channel_after or 0
        self._dialects: list[type[Dialect]] = [PythonDialect, ShellDialect]
        if channel_after is None:
            self._dialects.clear()

    @property
    def sessions_max(self) -> int:
        """How many requests the server takes at once, as far as learned."""
        return self._sessions.limit

    @property
    def channel(self) -> tuple[str, int] | None:
        """What the persistent channel speaks, and which one it is; None when none is open."""
        kept = self._channel
        return None if kept is None or not kept.is_open else (kept.dialect.name, id(kept))

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Connect if needed, open a channel, stream, wait for the end markers or the deadline."""
        start = asyncio.get_running_loop().time()
        deadline = start + request.deadline_ms / 1000
        while True:
            stage = "connecting"
            try:
                async with asyncio.timeout_at(deadline):
                    connection = await self.connection()
                    if isinstance(connection, NotSent):
                        return connection
                    stage = "waiting for a free session"
                    await self._sessions.take()
            except TimeoutError:
                text = f"{self._host.name}: the deadline passed while {stage}"
                return NotSent("deadline", text)
            try:
                answer = await self._through_channel(connection, request, sink, start)
                if answer is None:
                    answer = await self._on_channel(connection, request, sink, start)
                refused_alone = answer is None and not self._sessions.learn_refusal()
            finally:
                await self._sessions.give_back()
            if answer is not None:
                return answer
            if refused_alone:
                return NotSent("busy", f"{self._host.name} opens no session on this connection")

    async def connection(self) -> asyncssh.SSHClientConnection | NotSent:
        """The open connection, or a new one; concurrent callers share the attempt."""
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            tunnel: asyncssh.SSHClientConnection | None = None
            if self._jump is not None:
                through = await self._jump.connection()
                if isinstance(through, NotSent):
                    return through
                tunnel = through
            made = await connect(self._host, self._doors, tunnel=tunnel)
            if not isinstance(made, NotSent):
                self._connection = made
            return made

    async def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if connection is not None:
            connection.close()
            await connection.wait_closed()
        if self._jump is not None:
            await self._jump.close()

    async def _through_channel(
        self,
        connection: asyncssh.SSHClientConnection,
        request: Request,
        sink: Sink,
        start: float,
    ) -> TransportAnswer | None:
        """The request through the host's persistent channel; None where that carries it not.

        Only what may be sent again goes there, one request at a time: see the decision record on
        persistent channels. A host that does not open one in Python is asked for one in sh.
        """
        loop = asyncio.get_running_loop()
        if request.repeatable and self._until_channel > 0:
            self._until_channel -= 1
            return None
        while request.repeatable and self._dialects:
            kept = self._kept_channel(connection)
            if not kept.free or not kept.dialect.carries(request):
                return None
            run = await kept.send(request, sink, start + request.deadline_ms / 1000)
            if run is None:
                if not kept.mute:
                    return None
                self._dialects.pop(0)
                continue
            if not run.done.is_set():
                await self._stop(connection, run)
            kept.finish(run)
            self._channel_failures = self._channel_failures + 1 if kept.ended else 0
            if self._channel_failures >= _CHANNEL_FAILURES_MAX:
                self._dialects.clear()
            elapsed_ms = round((loop.time() - start) * 1000)
            return run.exchange.conclude(run.closed, elapsed_ms, run.loss)
        return None

    def _kept_channel(self, connection: asyncssh.SSHClientConnection) -> PersistentChannel:
        """The channel that is open on this connection, or a new one."""
        kept = self._channel
        if kept is None or kept.ended or kept.connection is not connection:
            dialect = self._dialects[0]()
            kept = self._channel = PersistentChannel(connection, self._host.layers, dialect)
        return kept

    async def _on_channel(
        self,
        connection: asyncssh.SSHClientConnection,
        request: Request,
        sink: Sink,
        start: float,
    ) -> TransportAnswer | None:
        """One request on a channel of its own; None when the server opened no channel."""
        loop = asyncio.get_running_loop()
        deadline = start + request.deadline_ms / 1000
        left_ms = max(1, round((deadline - loop.time()) * 1000))
        framed = frame(
            request.argv,
            nonce=request.nonce,
            remote_deadline_s=remote_deadline_s(left_ms),
            has_stdin=bool(request.stdin),
        )
        line = shell_line(wrap(self._host.layers, framed))
        session = ExecSession(Exchange(request, sink, layered=bool(self._host.layers)))
        try:
            async with asyncio.timeout_at(deadline):
                await connection.create_session(lambda: session, line, encoding=None)
                session.send(request.stdin)
                await session.done.wait()
        except TimeoutError:
            if not session.opened:
                self._evict(connection)
                return NotSent("deadline", f"{self._host.name} did not open a session in time")
            await self._stop(connection, session)
            if not session.done.is_set():
                self._evict(connection)
        except asyncssh.ChannelOpenError as error:
            if not session.opened:
                alive = not connection.is_closed()
                return None if alive else self._gone_before_sending(str(error.reason))
            if not connection.is_closed():
                return NotSent("layer_down", f"{self._host.name} refused to run commands")
        except asyncssh.ConnectionLost as error:
            if not session.opened:
                return self._gone_before_sending(str(error.reason))
        finally:
            session.leave()
        elapsed_ms = round((loop.time() - start) * 1000)
        return session.exchange.conclude(session.closed, elapsed_ms, session.loss)

    async def _stop(self, connection: asyncssh.SSHClientConnection, session: InFlight) -> None:
        """Signal the frame's group: first so that it can answer, then so that it cannot stay."""
        exchange = session.exchange
        signals: tuple[Literal["TERM", "KILL"], ...] = ("TERM", "KILL")
        for name in signals:
            exchange.signalled = True
            delivered = not session.stops_itself and await self._signal_frame(
                connection, exchange, name
            )
            exchange.killed_inside = delivered and name == "KILL"
            if not delivered:
                session.send_signal(name)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SIGNAL_GRACE_S):
                    await session.done.wait()
            if session.done.is_set():
                return

    async def _signal_frame(
        self,
        connection: asyncssh.SSHClientConnection,
        exchange: Exchange,
        name: Literal["TERM", "KILL"],
    ) -> bool:
        """Signal the frame in its own layer, over a second channel; whether that is proved."""
        pid = exchange.out.frame_pid
        if pid is None:
            return False
        request = exchange.request
        argv = stop_frame(pid=pid, nonce=request.nonce, signal=name)
        framed = frame(argv, nonce=f"{request.nonce}-{name}", remote_deadline_s=2, has_stdin=False)
        line = shell_line(wrap(self._host.layers, framed))
        session = ExecSession(
            Exchange(replace(request, nonce=f"{request.nonce}-{name}"), Nowhere(), layered=False)
        )
        try:
            async with asyncio.timeout(SIGNAL_GRACE_S):
                await connection.create_session(lambda: session, line, encoding=None)
                await session.done.wait()
        except (TimeoutError, asyncssh.ChannelOpenError, asyncssh.ConnectionLost):
            return False
        finally:
            session.leave()
        marker = session.exchange.out.ended
        return marker is not None and marker.status == 0

    def _gone_before_sending(self, reason: str) -> NotSent:
        return NotSent(
            "unreachable", f"{self._host.name}: connection gone before sending: {reason}"
        )

    def _evict(self, connection: asyncssh.SSHClientConnection) -> None:
        """Never use this connection again: it did not answer when it had to."""
        if self._connection is connection:
            self._connection = None
        connection.abort()
