"""The transport to this very machine: a subprocess in a session of its own.

Same frame, same layers, same answers as over SSH, so a test, or a controller that sits on the GPU
box itself, needs no special case.
"""

import asyncio
import contextlib
import os
import signal
from typing import Literal, cast

from agentops.errors import UsageError
from agentops.hosts import Layer
from agentops.transport.base import NotSent, Request, Sink, TransportAnswer
from agentops.transport.exchange import SIGNAL_GRACE_S, Closed, Exchange, remote_deadline_s
from agentops.transport.frame import frame, stop_frame
from agentops.transport.layers import wrap

_STDOUT = 1


class LocalTransport:
    """Runs requests on this machine, through the given layers."""

    def __init__(self, layers: tuple[Layer, ...] = ()) -> None:
        self._layers = layers

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Start, stream, wait for the end markers or the deadline."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        framed = frame(
            request.argv,
            nonce=request.nonce,
            remote_deadline_s=remote_deadline_s(request.deadline_ms),
            has_stdin=bool(request.stdin),
        )
        argv = wrap(self._layers, framed)
        if any("\0" in argument for argument in argv):
            raise UsageError("an argument holds a NUL byte, which no command line can carry")
        exchange = Exchange(request, sink, layered=bool(self._layers))
        try:
            _, protocol = await loop.subprocess_exec(
                lambda: _Protocol(exchange),
                *argv,
                stdin=asyncio.subprocess.PIPE if request.stdin else asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return NotSent("layer_down", f"{argv[0]} cannot be started: {error.strerror}")
        try:
            async with asyncio.timeout_at(start + request.deadline_ms / 1000):
                await protocol.done.wait()
        except TimeoutError:
            await self._stop(protocol)
        finally:
            closed = await protocol.leave()
        elapsed_ms = round((loop.time() - start) * 1000)
        return exchange.conclude(closed, elapsed_ms, "it did not end after SIGTERM and SIGKILL")

    async def close(self) -> None:
        """Nothing is held open."""

    async def _stop(self, protocol: "_Protocol") -> None:
        """Signal the frame's group: first so that it can answer, then so that it cannot stay."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            protocol.exchange.signalled = True
            delivered = bool(self._layers) and await self._signal_frame(protocol.exchange, number)
            protocol.exchange.killed_inside = delivered and number == signal.SIGKILL
            if not delivered:
                protocol.signal_group(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SIGNAL_GRACE_S):
                    await protocol.done.wait()
            if protocol.done.is_set():
                return

    async def _signal_frame(self, exchange: Exchange, number: signal.Signals) -> bool:
        """Signal the frame in its own layer; whether it was delivered."""
        pid = exchange.out.frame_pid
        if pid is None:
            return False
        name: Literal["TERM", "KILL"] = "TERM" if number == signal.SIGTERM else "KILL"
        argv = wrap(self._layers, stop_frame(pid=pid, nonce=exchange.request.nonce, signal=name))
        nowhere = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
        return await process.wait() == 0


class _Protocol(asyncio.SubprocessProtocol):
    """Feeds the exchange; *done* when both end markers are here or everything is closed."""

    def __init__(self, exchange: Exchange) -> None:
        self.done = asyncio.Event()
        self._exited = asyncio.Event()
        self._closed = False
        self.exchange = exchange

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        stdin = self._transport.get_pipe_transport(0)
        if isinstance(stdin, asyncio.WriteTransport):
            stdin.write(self.exchange.request.stdin)
            stdin.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.exchange.out if fd == _STDOUT else self.exchange.err).feed(data)
        if self.exchange.complete:
            self.done.set()

    def process_exited(self) -> None:
        self._exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._closed = True
        self.done.set()

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the session's process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._transport.get_pid(), number)

    async def leave(self) -> Closed | None:
        """Wait a moment for the frame's own exit, then let go of the pipes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SIGNAL_GRACE_S):
                await self._exited.wait()
        # An exit status alone proves nothing about a child that still holds the streams.
        code = self._transport.get_returncode() if self._closed else None
        self.exchange.finish()
        self._transport.close()
        if code is None:
            return None
        if code < 0:
            return Closed(status=None, signal=signal.Signals(-code).name.removeprefix("SIG"))
        return Closed(status=code, signal=None)
