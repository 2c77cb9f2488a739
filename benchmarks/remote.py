"""Remote execution, ours beside its peers, in one run on one loopback sshd.

    python -P benchmarks/remote.py [--peers PYTHON] [--rounds 40] [--hosts 50] [--output FILE]

PYTHON is an interpreter that has fabric, parallel-ssh, pyinfra and ansible-core; what is missing is
said. Every number is a median over rounds; the machine's load stands beside the table.
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from agentops.box import Box, ServerOptions
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

WARM_UP = 5
PS = "ps -eo pid,ppid,pgid,sid,stat,lstart,args -ww"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what, medians, the client's own CPU (0 where unknown), a remark."""

    name: str
    true_ms: float | None
    listing_ms: float | None
    remark: str
    cpu_ms: float = 0.0


class Nothing:
    """A sink that keeps nothing."""

    def stdout(self, chunk: bytes) -> None:
        """Drop it."""

    def stderr(self, chunk: bytes) -> None:
        """Drop it."""


def median_ms(times_s: list[float]) -> float:
    """Median without the warm-up, in milliseconds."""
    return statistics.median(times_s[min(WARM_UP, len(times_s) - 1) :]) * 1000


async def timed(rounds: int, act: Callable[[], Awaitable[object]]) -> float:
    """Median of one awaitable act, one after the other."""
    times = []
    for _ in range(rounds + WARM_UP):
        start = time.perf_counter()
        await act()
        times.append(time.perf_counter() - start)
    return median_ms(times)


def host_of(box: Box, name: str = "box") -> Host:
    """The inventory entry of the box."""
    at = box.address
    return Host(
        name=name, address=at.address, port=at.port, user=at.user, key=at.key, host_key=at.host_key
    )


# One contestant: runs `true` or the listing once, and gives the seconds that it took.
Act = Callable[[bool], Awaitable[float]]


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


async def raw_asyncssh(box: Box) -> Act:
    """Plain asyncssh, without anything around it."""
    at = box.address
    connection = await asyncssh.connect(
        at.address, at.port, username=at.user, client_keys=[str(at.key)], known_hosts=None,
        config=None,
    )  # fmt: skip

    async def act(long: bool) -> float:  # noqa: FBT001
        start = time.perf_counter()
        await connection.run(PS if long else "true", encoding=None)
        return time.perf_counter() - start

    return act


def ssh_program(box: Box, folder: str, *, master: bool) -> Act:
    """The ssh program, with or without a connection that is kept."""
    at = box.address
    control = [
        "-o", "ControlMaster=auto", "-o", f"ControlPath={folder}/cm", "-o", "ControlPersist=60",
    ]  # fmt: skip
    words = [
        "ssh", "-F", "none", "-i", str(at.key), "-p", str(at.port), "-o",
        "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/kh", "-o", "LogLevel=ERROR",
        *(control if master else []), f"{at.user}@{at.address}",
    ]  # fmt: skip

    async def act(long: bool) -> float:  # noqa: FBT001
        start = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *words, PS if long else "true", stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await process.communicate()
        assert process.returncode == 0
        return time.perf_counter() - start

    return act


PEERS = {
    "Fabric": """
from fabric import Connection
alone = {"key_filename": key, "allow_agent": False, "look_for_keys": False}
c = Connection(host, user=user, port=port, connect_kwargs=alone)
def act(command):
    c.run(command, hide=True, in_stream=False)
""",
    "parallel-ssh": """
from pssh.clients import SSHClient
c = SSHClient(host, user=user, port=port, pkey=key, allow_agent=False)
def act(command):
    out = c.run_command(command)
    list(out.stdout)
    c.wait_finished(out)
""",
}
PEER_FRAME = """
import json, sys, time
host, port, user, key = json.loads(sys.argv[1])
{body}
act("true")
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    act(line.strip())
    print(time.perf_counter() - start, flush=True)
"""


async def library_peer(box: Box, python: str, name: str) -> Act | str:
    """A Python peer on one connection in its own interpreter; why not, if it cannot be had."""
    at = box.address
    words = json.dumps([at.address, at.port, at.user, str(at.key)])
    process = await asyncio.create_subprocess_exec(
        python, "-c", PEER_FRAME.format(body=PEERS[name]), words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    if await process.stdout.readline() != b"ready\n":  # type: ignore[union-attr] # a pipe was asked for
        text = (await process.stderr.read()).decode().strip()  # type: ignore[union-attr] # likewise
        return (text.splitlines() or ["it ended"])[-1][:90]

    async def act(long: bool) -> float:  # noqa: FBT001
        process.stdin.write(f"{PS if long else 'true'}\n".encode())  # type: ignore[union-attr] # likewise
        return float(await process.stdout.readline())  # type: ignore[union-attr] # likewise

    return act


def cpu_s() -> float:
    """Seconds of CPU of this process and of those that it waited for."""
    mine, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


async def round_robin(
    acts: dict[str, Act], rounds: int, *, long: bool
) -> dict[str, tuple[float, float]]:
    """Median milliseconds of each, and of its CPU here; all take turns, so load hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    spent: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds + WARM_UP):
        for name, act in acts.items():
            before = cpu_s()
            times[name].append(await act(long))
            spent[name].append(cpu_s() - before)
    return {name: (median_ms(times[name]), median_ms(spent[name])) for name in acts}


SYNC = "one fdatasync"
REMARKS = {
    SYNC: "of a line appended on the journal's disk, in the same turns",
    "agentops, journalled": "policy, intent and outcome durable, answer parsed",
    "agentops, persistent channel": "frame, deadline, own session, closed stdin",
    "agentops, channel per command": "the same, and the server's word on the end",
    "asyncssh, channel per command": "no frame, no deadline",
    "ssh + ControlMaster": "status 255 means six things",
    "ssh, new connection": "",
    "Fabric": "one connection, text output",
    "parallel-ssh": "one connection, text output",
}


async def on_one_connection(box: Box, python: str, rounds: int, folder: str) -> list[Row]:
    """All that keep a connection, in turns; then the ssh program without one."""
    acts: dict[str, Act] = {
        SYNC: synced(folder),
        "agentops, journalled": journalled(box, folder),
        "agentops, persistent channel": ours(box, persistent=True),
        "agentops, channel per command": ours(box, persistent=False),
        "asyncssh, channel per command": await raw_asyncssh(box),
        "ssh + ControlMaster": ssh_program(box, folder, master=True),
    }
    missing: dict[str, str] = {}
    for name in PEERS:
        peer = await library_peer(box, python, name)
        if isinstance(peer, str):
            missing[name] = peer
        else:
            acts[name] = peer
    short = await round_robin(acts, rounds, long=False)
    listing = await round_robin(acts, rounds, long=True)
    alone = {"ssh, new connection": ssh_program(box, folder, master=False)}
    short |= await round_robin(alone, max(5, rounds // 4), long=False)
    rows = [
        Row(
            name, short[name][0], listing.get(name, (None, 0))[0], REMARKS[name],
            0.0 if name in PEERS else short[name][1],
        )
        for name in short
    ]  # fmt: skip
    rows.sort(key=lambda row: row.true_ms or 0)
    return rows + [Row(name, None, None, why) for name, why in missing.items()]


def whole_call_peer(box: Box, python: str, name: str) -> Row:
    """A peer that is a program: its whole call, warm."""
    at = box.address
    bin_folder = Path(python).parent
    if not (bin_folder / name.lower()).exists():
        return Row(name, None, None, "not installed beside that interpreter")
    with tempfile.TemporaryDirectory() as folder:
        if name == "Ansible":
            inventory = f"{folder}/hosts"
            Path(inventory).write_text(
                f"box ansible_host={at.address} ansible_port={at.port} ansible_user={at.user}"
                f" ansible_ssh_private_key_file={at.key}\n"
            )
            words = [str(bin_folder / "ansible"), "box", "-i", inventory, "-m", "raw", "-a", "true"]
        else:
            inventory = f"{folder}/inventory.py"
            data = {
                "ssh_port": at.port, "ssh_user": at.user, "ssh_key": str(at.key),
                "ssh_strict_host_key_checking": "off", "ssh_allow_agent": False,
            }  # fmt: skip
            Path(inventory).write_text(f"hosts = [({at.address!r}, {data!r})]\n")
            words = [str(bin_folder / "pyinfra"), "-y", inventory, "exec", "--", "true"]
        env = {**os.environ, "ANSIBLE_HOST_KEY_CHECKING": "False", "HOME": folder}
        times = []
        for _ in range(4):
            start = time.perf_counter()
            done = subprocess.run(words, capture_output=True, env=env, cwd=folder, check=False)
            if done.returncode:
                text = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
                return Row(name, None, None, (text.splitlines() or ["failed"])[-1][:90])
            times.append(time.perf_counter() - start)
    return Row(name, statistics.median(times[1:]) * 1000, None, "whole call of the program")


async def fan_out(box: Box, count: int) -> dict[str, float]:
    """Seconds for `true` on *count* hosts, cold and warm, ours and bare asyncssh."""
    hosts = [host_of(box, f"h{number}") for number in range(count)]
    doors = Doors()
    transports = {host.name: SshTransport(host, doors=doors) for host in hosts}

    async def act(host: Host) -> bool:
        request = Request(("true",), b"", 30_000, secrets.token_hex(16), repeatable=True)
        return isinstance(await transports[host.name].run(request, Nothing()), Ended)

    async def whole() -> float:
        start = time.perf_counter()
        ends = [end async for _, end in over(hosts, act, at_once=20)]
        assert all(ends), ends
        return time.perf_counter() - start

    result = {"ours_cold_s": await whole(), "ours_warm_s": await whole()}
    await asyncio.gather(*(transport.close() for transport in transports.values()))
    at = box.address
    gate = asyncio.Semaphore(20)

    async def bare() -> None:
        async with gate:
            connection = await asyncssh.connect(
                at.address, at.port, username=at.user, client_keys=[str(at.key)],
                known_hosts=None, config=None,
            )  # fmt: skip
            await connection.run("true", encoding=None)
            connection.close()
            await connection.wait_closed()

    start = time.perf_counter()
    await asyncio.gather(*(bare() for _ in range(count)))
    result["asyncssh_cold_s"] = time.perf_counter() - start
    return result


async def one_look(box: Box) -> tuple[float, int]:
    """Milliseconds and round trips to see processes, GPUs, memory, disk and heartbeat at once."""
    transport = SshTransport(host_of(box))
    everything = (
        "host",
        "processes",
        "gpus",
        "gpu_processes",
        "shared_memory",
        "disk",
        "heartbeat",
    )
    command = Observe(what=everything, heartbeat_path=str(box.directory / "none.json"))

    async def look() -> None:
        kept = bytearray()

        class Keep(Nothing):
            def stdout(self, chunk: bytes) -> None:
                kept.extend(chunk)

        request = Request(command.argv(), command.stdin(), 30_000, secrets.token_hex(16))
        answer = await transport.run(request, Keep())
        assert isinstance(answer, Ended), answer
        seen = command.parse(Completed(answer.exit_status, bytes(kept), b""))
        assert not getattr(seen, "problems", None), seen

    took_ms = await timed(10, look)
    await transport.close()
    return took_ms, 1


def table(rows: list[Row], look: tuple[float, int], fan: dict[str, float], count: int) -> str:
    """The result in Markdown."""
    base = next(row.true_ms for row in rows if row.name.startswith("asyncssh"))
    lines = [
        "| one connection, all in turns | `true` ms | x asyncssh | client CPU ms | listing ms | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ratio = f"{row.true_ms / base:.2f}" if row.true_ms and base else "-"
        true_ms = f"{row.true_ms:.1f}" if row.true_ms else "-"
        listing = f"{row.listing_ms:.1f}" if row.listing_ms else "-"
        cpu = f"{row.cpu_ms:.1f}" if row.cpu_ms else "-"
        lines.append(f"| {row.name} | {true_ms} | {ratio} | {cpu} | {listing} | {row.remark} |")
    lines += [
        "",
        _cost_line(rows),
        "",
        _look_line(look),
        "",
        _fleet_line(fan, count),
        "",
        _machine_line(),
    ]
    return "\n".join(lines) + "\n"


def _cost_line(rows: list[Row]) -> str:
    """What one journalled command costs, beside what it was meant to cost at most."""
    of = {row.name: row.true_ms or 0.0 for row in rows}
    ours_ms = of["agentops, journalled"]
    raw_ms = of["asyncssh, channel per command"] + 2 * of[SYNC]
    half_ms = of["ssh + ControlMaster"] / 2
    return (
        f"One command with everything: {ours_ms:.1f} ms. Bare asyncssh and two fdatasync of this"
        f" run: {raw_ms:.1f} ms; half of ssh + ControlMaster: {half_ms:.1f} ms."
    )


def _look_line(look: tuple[float, int]) -> str:
    return (
        "To find and verify one stuck trainer (host, processes, GPUs and their owners, shared"
        f" memory, disk, heartbeat): {look[1]} round trip, {look[0]:.0f} ms with `observe`; seven"
        " commands, and as many round trips, by any of the others."
    )


def _fleet_line(fan: dict[str, float], count: int) -> str:
    ours_s, warm_s, bare_s = fan["ours_cold_s"], fan["ours_warm_s"], fan["asyncssh_cold_s"]
    return (
        f"`true` on {count} hosts, 20 at once: ours {ours_s:.2f} s cold (connections included) and"
        f" {warm_s:.2f} s warm; bare asyncssh {bare_s:.2f} s cold; ratio {ours_s / bare_s:.2f}."
    )


def _machine_line() -> str:
    return (
        f"Python {platform.python_version()}, asyncssh {asyncssh.__version__}, {os.cpu_count()}"
        f" cores shared by client and server, load {os.getloadavg()[0]:.1f} at the end."
    )


async def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    limits = ServerOptions(max_sessions=100, max_startups="200:30:400")
    with Box(options=limits, containers=()) as box:
        with tempfile.TemporaryDirectory() as folder:
            rows = await on_one_connection(box, options.peers, options.rounds, folder)
        rows += [whole_call_peer(box, options.peers, name) for name in ("pyinfra", "Ansible")]
        look = await one_look(box)
        fan = await fan_out(box, options.hosts)
    text = table(rows, look, fan, options.hosts)
    print(text)
    if options.output is not None:
        options.output.write_text(text)


if __name__ == "__main__":
    asyncio.run(main())
