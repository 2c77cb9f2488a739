"""Trouble on the way and on the host, at the moment of a signal.

Here: a relay in front of the box's SSH server that can swallow bytes and break, and a transport
that hands every request on to the real one, counts what leaves, and starts the trouble that the
scenario wants when a signal is on its way. Not here: what the scenario wants (``scenario``).
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from agentops.bench.scenario import Connection, Meddling
from agentops.commands.script import python_source
from agentops.transport import Request, Sink, Transport, TransportAnswer

_CHUNK = 1 << 16
_CUT_AFTER_S = 0.4
_SIGNAL = python_source("identity", "signal_process")
_STOP = python_source("identity", "stop_processes")


@dataclass(slots=True)
class Relay:
    """A TCP relay on loopback. swallow names the direction whose bytes are thrown away."""

    to_port: int
    port: int = 0
    swallow: Literal["none", "up", "down"] = "none"
    refusing: bool = False
    _server: asyncio.Server | None = None
    _open: list[asyncio.StreamWriter] = field(default_factory=list)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        """Listen on a port that was free."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Break everything and listen no more."""
        self.cut()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        await asyncio.gather(*self._serving)

    def cut(self) -> None:
        """Break all connections at once, as a lost route would."""
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
        self._open += [writer, up_writer]
        await asyncio.gather(
            self._carry(reader, up_writer, "up"), self._carry(up_reader, writer, "down")
        )

    async def _carry(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                if self.swallow != direction:
                    target.write(data)
                    await target.drain()
        with contextlib.suppress(OSError):
            target.close()


@dataclass(slots=True)
class Sent:
    """What left: how many requests, and how many of them had no intent in the journal before."""

    requests: int = 0
    unannounced: int = 0
    signals: int = 0


class Troubled:
    """A transport that is the real one but for the trouble at signals."""

    def __init__(
        self,
        real: Transport,
        *,
        relay: Relay,
        connection: Connection,
        meddling: Meddling,
        scale: float,
        sent: Sent,
        intents: Callable[[], int],
        reuse_pid: Callable[[int], None],
    ) -> None:
        self._real = real
        self._relay = relay
        self._connection = connection
        self._meddling = meddling
        self._scale = scale
        self._sent = sent
        self._intents = intents
        self._reuse_pid = reuse_pid
        self._outage: asyncio.TimerHandle | None = None

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Carry the request; a signal meets the trouble that was wanted."""
        self._sent.requests += 1
        if await asyncio.to_thread(self._intents) < self._sent.requests:
            self._sent.unannounced += 1
        carried = partial(self._real.run, request, sink)
        if _SIGNAL not in request.argv and _STOP not in request.argv:
            return await carried()
        self._sent.signals += 1
        if self._meddling.reuse_pid and self._sent.signals == 1:
            # After the script come its twin and its arguments; the first is the victim.
            victim = json.loads(request.argv[request.argv.index(_SIGNAL) + 2])
            await asyncio.to_thread(self._reuse_pid, int(victim["pid"]))
        if self._connection.cut == "no" or self._sent.signals != self._connection.at_signal:
            return await carried()
        return await self._broken(carried)

    async def close(self) -> None:
        """Let go of the real one."""
        if self._outage is not None:
            self._outage.cancel()
        await self._real.close()

    async def _broken(self, carried: Callable[[], Awaitable[TransportAnswer]]) -> TransportAnswer:
        """Let the request leave, or not, lose the answer, break, and stay broken for a while."""
        self._relay.swallow = "up" if self._connection.cut == "before" else "down"
        loop = asyncio.get_running_loop()
        loop.call_later(_CUT_AFTER_S, self._break)
        return await carried()

    def _break(self) -> None:
        self._relay.cut()
        self._relay.swallow = "none"
        self._relay.refusing = True
        loop = asyncio.get_running_loop()
        self._outage = loop.call_later(self._connection.outage_s * self._scale, self._mend)

    def _mend(self) -> None:
        self._relay.refusing = False
