"""The ways of ours that ``benchmarks.remote`` measures: bare, journalled, over a fleet, one look.

Not here: anybody else's (``benchmarks.remote_peers``), taking turns and telling.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from agentops.box import Box
from agentops.commands.base import Command, Completed, Observation
from agentops.commands.observing import Observe
from agentops.commands.processes import ListProcesses
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.policy import PolicyState, parse_policy
from agentops.transport import Ended, Request, SshTransport
from agentops.transport.doors import Doors
from agentops.transport.fleet import over
from journal import Actor, Journal, KeyStore, SystemClock

EVERYTHING = (
    "host", "processes", "gpus", "gpu_processes", "shared_memory", "disk", "heartbeat",
)  # fmt: skip
AT_ONCE = 20

# One contestant: runs `true` or the listing once, and gives the seconds that it took.
Act = Callable[[bool], Awaitable[float]]


class Nothing:
    """A sink that keeps nothing."""

    def stdout(self, chunk: bytes) -> None:
        """Drop it."""

    def stderr(self, chunk: bytes) -> None:
        """Drop it."""


def host_of(box: Box, name: str = "box") -> Host:
    """The inventory entry of the box."""
    return Host(name=name, **asdict(box.address))


def ours(box: Box, *, persistent: bool) -> Act:
    """Our transport: framed, with markers and deadline."""
    transport = SshTransport(host_of(box), channel_after=1 if persistent else None)
    listing = ListProcesses().argv()

    async def act(long: bool) -> float:  # noqa: FBT001
        argv = listing if long else ("true",)
        request = Request(argv, b"", 30_000, secrets.token_hex(16), repeatable=persistent)
        start = time.perf_counter()
        answer = await transport.run(request, Nothing())
        took_s = time.perf_counter() - start
        assert isinstance(answer, Ended), answer
        return took_s

    return act


class Nil(Observation):
    """Nothing to see."""


class Bare(Command):
    """Run `true`: what every command costs that only looks."""

    name = "benchmark_true"
    effect = "observes"
    intrusiveness = 0
    retry = "repeat"
    assumptions = ("none",)
    silence = "Nothing was learned."
    no_free_text = True

    def argv(self) -> tuple[str, ...]:
        """The shortest program."""
        return ("true",)

    def parse(self, completed: Completed) -> Nil:
        """Status 0 is all there is."""
        del completed
        return Nil()


def journalled(box: Box, folder: str) -> Act:
    """Ours as it is used: authorized, intent and outcome durable, the answer parsed."""
    clock = SystemClock()
    place = Path(folder) / f"journal-{secrets.token_hex(4)}"
    journal = Journal.create(
        place, clock=clock, actor=Actor("human", "benchmark"),
        keys=KeyStore(Path(folder) / "keys"), anchor=None,
    )  # fmt: skip
    config = parse_policy("[policy]\nversion = 1\n", "benchmark")
    executor = Executor(journal, clock=clock, config=config, connect=SshTransport)
    host, state = host_of(box), PolicyState()

    async def act(long: bool) -> float:  # noqa: FBT001
        command = ListProcesses() if long else Bare()
        start = time.perf_counter()
        done = await executor.execute(command, host, state=state, reason="benchmark")
        took_s = time.perf_counter() - start
        assert done.observation is not None, done
        return took_s

    return act


def synced(folder: str) -> Act:
    """What one fdatasync of one appended line takes on the journal's disk."""
    file = os.open(f"{folder}/sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def act(long: bool) -> float:  # noqa: FBT001
        del long
        start = time.perf_counter()
        os.write(file, b"x" * 999 + b"\n")
        os.fdatasync(file)
        return time.perf_counter() - start

    return act


def looking(box: Box) -> Act:
    """Processes, GPUs, memory, disk and heartbeat in one round trip, read and found whole."""
    transport = SshTransport(host_of(box))
    command = Observe(what=EVERYTHING, heartbeat_path=str(box.directory / "none.json"))

    async def act(long: bool) -> float:  # noqa: FBT001
        del long
        kept = bytearray()

        class Keep(Nothing):
            def stdout(self, chunk: bytes) -> None:
                kept.extend(chunk)

        request = Request(command.argv(), command.stdin(), 30_000, secrets.token_hex(16))
        start = time.perf_counter()
        answer = await transport.run(request, Keep())
        assert isinstance(answer, Ended), answer
        seen = command.parse(Completed(answer.exit_status, bytes(kept), b""))
        took_s = time.perf_counter() - start
        assert not getattr(seen, "problems", None), seen
        return took_s

    return act


async def over_fleet(box: Box, count: int) -> tuple[float, float]:
    """Seconds for `true` on *count* hosts, connections included, and once more on kept ones."""
    hosts = [host_of(box, f"h{number}") for number in range(count)]
    doors = Doors()
    transports = {host.name: SshTransport(host, doors=doors) for host in hosts}

    async def act(host: Host) -> bool:
        request = Request(("true",), b"", 30_000, secrets.token_hex(16), repeatable=True)
        return isinstance(await transports[host.name].run(request, Nothing()), Ended)

    async def whole() -> float:
        start = time.perf_counter()
        ends = [end async for _, end in over(hosts, act, at_once=AT_ONCE)]
        assert all(ends), ends
        return time.perf_counter() - start

    took = await whole(), await whole()
    await asyncio.gather(*(transport.close() for transport in transports.values()))
    return took
