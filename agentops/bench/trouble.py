"""Trouble on the way and on the host, at the moment of an act.

Here: a relay in front of the box's SSH server that can swallow bytes and break, and a transport
that hands every request on to the real one, counts what leaves, and starts the trouble that the
scenario wants when the command that it means is on its way. Not here: what it wants (``scenario``).
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Literal

from agentops.bench.scenario import Connection, Meddling
from agentops.commands.deploy import DeployFiles
from agentops.commands.launch import Launch
from agentops.commands.processes import ListProcesses
from agentops.commands.script import ScriptCommand, python_source
from agentops.commands.signals import SignalProcess
from agentops.transport import Request, Sink, Transport, TransportAnswer

_CHUNK = 1 << 16
_CUT_AFTER_S = 0.4
_KINDS: Mapping[str, type[ScriptCommand]] = {
    "signal": SignalProcess,
    "deploy": DeployFiles,
    "launch": Launch,
    "listing": ListProcesses,
}


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
    kinds: dict[str, int] = field(default_factory=dict)


def kind_of(request: Request) -> str:
    """Which of the commands that trouble may strike this is; empty for all others."""
    for kind, command in _KINDS.items():
        if python_source(*command.python) in request.argv:
            return kind
    return ""


def victim_of(request: Request) -> int:
    """The pid that a signal is meant for: the first argument after the script and its twin."""
    script = request.argv.index(python_source(*SignalProcess.python))
    return int(json.loads(request.argv[script + 2])["pid"])


class Troubled:
    """A transport that is the real one but for the trouble at certain commands."""

    def __init__(
        self,
        real: Transport,
        *,
        relay: Relay,
        connection: Connection,
        meddling: Meddling,
        scale: float,
        random: Random,
        sent: Sent,
        intents: Callable[[], int],
        meddle: Callable[[int], None],
    ) -> None:
        self._real = real
        self._relay = relay
        self._connection = connection
        self._meddling = meddling
        self._scale = scale
        self._sent = sent
        self._intents = intents
        self._meddle = meddle
        self._outage: asyncio.TimerHandle | None = None
        self._random = random
        self._broke = False

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Carry the request; the one that the scenario means meets its trouble."""
        self._sent.requests += 1
        if await asyncio.to_thread(self._intents) < self._sent.requests:
            self._sent.unannounced += 1
        carried = partial(self._real.run, request, sink)
        kind = kind_of(request)
        number = self._sent.kinds.get(kind, 0) + 1
        self._sent.kinds[kind] = number
        if kind == "signal" and number == 1 and self._meddling != Meddling():
            await asyncio.to_thread(self._meddle, victim_of(request))
        wanted = self._connection
        if wanted.cut != "no" and (kind, number) == (wanted.at, wanted.nth):
            return await self._broken(carried, wanted.cut)
        if wanted.rate > 0 and not self._broke and self._random.random() < wanted.rate:
            self._broke = True
            return await self._broken(carried, self._random.choice(("before", "after")))
        self._broke = False
        return await carried()

    async def close(self) -> None:
        """Let go of the real one."""
        if self._outage is not None:
            self._outage.cancel()
        await self._real.close()

    async def _broken(
        self, carried: Callable[[], Awaitable[TransportAnswer]], when: str
    ) -> TransportAnswer:
        """Let the request leave, or not, lose the answer, break, and stay broken for a while."""
        self._relay.swallow = "up" if when == "before" else "down"
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
