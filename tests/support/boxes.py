"""The trap box as fixtures, and a short way to run one command on it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar

import pytest

from agentops.box import Box, ServerOptions
from agentops.commands.base import Command, Completed, Malformed, Observation
from agentops.hosts import Host, Layer, Tier
from agentops.transport import (
    Ended,
    LocalTransport,
    Request,
    SshTransport,
    Transport,
    TransportAnswer,
    open_transport,
)

_T = TypeVar("_T", bound=Observation)


@dataclass(slots=True)
class Kept:
    """A sink that keeps everything."""

    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def stdout(self, chunk: bytes) -> None:
        """Keep it."""
        self.out += chunk
        self.arrived.set()

    def stderr(self, chunk: bytes) -> None:
        """Keep it."""
        self.err += chunk


@dataclass(slots=True)
class Counting:
    """A sink that counts and keeps nothing."""

    length: int = 0

    def stdout(self, chunk: bytes) -> None:
        """Count it."""
        self.length += len(chunk)

    def stderr(self, chunk: bytes) -> None:
        """Count it."""
        self.length += len(chunk)


@dataclass(frozen=True, slots=True)
class Ran:
    """A transport's answer and the bytes that came with it."""

    answer: TransportAnswer
    out: bytes
    err: bytes

    @property
    def completed(self) -> Completed:
        """What a parser gets; fails the test if the command did not end."""
        assert isinstance(self.answer, Ended), (self.answer, self.err[-500:])
        return Completed(self.answer.exit_status, self.out, self.err)


async def run_argv(
    transport: Transport,
    *argv: str,
    stdin: bytes = b"",
    deadline_ms: int = 10_000,
    repeatable: bool = False,
) -> Ran:
    """Run argv with a fresh nonce."""
    sink = Kept()
    nonce = secrets.token_hex(16)
    request = Request(argv, stdin, deadline_ms, nonce, repeatable=repeatable)
    answer = await transport.run(request, sink)
    return Ran(answer, bytes(sink.out), bytes(sink.err))


async def run_command(transport: Transport, command: Command) -> Observation | Malformed:
    """Run a command and parse what it said."""
    ran = await run_argv(
        transport,
        *command.argv(),
        stdin=command.stdin(),
        deadline_ms=command.deadline(),
        repeatable=command.retry == "repeat",
    )
    return command.parse(ran.completed)


async def observe(transport: Transport, command: Command, kind: type[_T]) -> _T:
    """Run a command and require an observation of that kind."""
    seen = await run_command(transport, command)
    assert isinstance(seen, kind), seen
    return seen


def host_of(box: Box, *layers: str, name: str = "box", tier: Tier = "dev") -> Host:
    """The inventory entry for a way into the box."""
    through = tuple(Layer.from_text(layer) for layer in layers)
    return Host(name=name, **asdict(box.address), layers=through, tier=tier)


@pytest.fixture
def box() -> Iterator[Box]:
    """A box with container 200, of this test's own."""
    with Box() as opened:
        yield opened


@pytest.fixture
async def ssh(box: Box) -> AsyncIterator[SshTransport]:
    """The box's host over SSH."""
    transport = SshTransport(host_of(box))
    yield transport
    await transport.close()


@pytest.fixture
async def inside(box: Box) -> AsyncIterator[SshTransport]:
    """Container 200 over SSH and pct, as in the source documents."""
    transport = SshTransport(host_of(box, "pct:200"))
    yield transport
    await transport.close()


__all__ = [
    "Box",
    "Counting",
    "Host",
    "Kept",
    "LocalTransport",
    "Ran",
    "ServerOptions",
    "box",
    "host_of",
    "inside",
    "observe",
    "open_transport",
    "run_argv",
    "run_command",
    "ssh",
]
