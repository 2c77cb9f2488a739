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
from agentops.commands.base import Completed
from agentops.commands.observing import Observe
from agentops.commands.processes import ListProcesses
from agentops.hosts import Host
from agentops.transport import Ended, Request, SshTransport
from agentops.transport.fleet import over

WARM_UP = 5
PS = "ps -eo pid,ppid,pgid,sid,stat,lstart,args -ww"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what, median milliseconds, round trips, a remark."""

    name: str
    true_ms: float | None
    listing_ms: float | None
    remark: str


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


async def ours(box: Box, rounds: int, *, persistent: bool) -> Row:
    """Our transport: framed, with markers and deadline."""
    transport = SshTransport(host_of(box), persistent=persistent)
    listing = ListProcesses().argv()

    async def run(argv: tuple[str, ...]) -> None:
        request = Request(argv, b"", 10_000, secrets.token_hex(16), repeatable=persistent)
        answer = await transport.run(request, Nothing())
        assert isinstance(answer, Ended), answer

    row = Row(
        "agentops, persistent shell" if persistent else "agentops, channel per command",
        await timed(rounds, lambda: run(("true",))),
        await timed(rounds, lambda: run(listing)),
        "frame, deadline, closed stdin; the listing reads /proc with identity",
    )
    await transport.close()
    return row


async def raw_asyncssh(box: Box, rounds: int) -> Row:
    """Plain asyncssh, without anything around it."""
    at = box.address
    connection = await asyncssh.connect(
        at.address, at.port, username=at.user, client_keys=[str(at.key)], known_hosts=None,
        config=None,
    )  # fmt: skip
    row = Row(
        "asyncssh, channel per command",
        await timed(rounds, lambda: connection.run("true", encoding=None)),
        await timed(rounds, lambda: connection.run(PS, encoding=None)),
        "no frame, no deadline",
    )
    connection.close()
    await connection.wait_closed()
    return row


def ssh_words(box: Box, folder: str, *, master: bool) -> list[str]:
    """The ssh program's command line for the box."""
    at = box.address
    control = [
        "-o", "ControlMaster=auto", "-o", f"ControlPath={folder}/cm", "-o", "ControlPersist=60",
    ]  # fmt: skip
    return [
        "ssh", "-F", "none", "-i", str(at.key), "-p", str(at.port), "-o",
        "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder}/kh", "-o", "LogLevel=ERROR",
        *(control if master else []), f"{at.user}@{at.address}",
    ]  # fmt: skip


def ssh_program(box: Box, rounds: int, *, master: bool) -> Row:
    """The ssh program, with or without a connection that is kept."""
    with tempfile.TemporaryDirectory() as folder:
        words = ssh_words(box, folder, master=master)

        def run(command: str) -> float:
            times = []
            for _ in range(rounds + WARM_UP if master else max(5, rounds // 4)):
                start = time.perf_counter()
                subprocess.run([*words, command], capture_output=True, check=True)
                times.append(time.perf_counter() - start)
            return median_ms(times)

        row = Row(
            "ssh + ControlMaster" if master else "ssh, new connection",
            run("true"),
            run(PS),
            "status 255 means six things",
        )
        if master:
            subprocess.run([*words, "-O", "exit"], capture_output=True, check=False)
    return row


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
import json, statistics, sys, time
host, port, user, key, rounds, ps = json.loads(sys.argv[1])
{body}
def measure(command):
    times = []
    for _ in range(rounds + 5):
        start = time.perf_counter()
        act(command)
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:]) * 1000
print(json.dumps([measure("true"), measure(ps)]))
"""


def library_peer(box: Box, python: str, name: str, rounds: int) -> Row:
    """A Python peer on one connection, in its own interpreter."""
    at = box.address
    words = json.dumps([at.address, at.port, at.user, str(at.key), rounds, PS])
    done = subprocess.run(
        [python, "-c", PEER_FRAME.format(body=PEERS[name]), words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return Row(name, None, None, done.stderr.strip().splitlines()[-1][:90])
    true_ms, listing_ms = json.loads(done.stdout.splitlines()[-1])
    return Row(name, true_ms, listing_ms, "one connection, text output")


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
            words = [str(bin_folder / "ansible"), "box", "-i", inventory, "-m", "raw", "-a"]
        else:
            words = [
                str(bin_folder / "pyinfra"), "-y", "--ssh-user", at.user, "--ssh-port",
                str(at.port), "--ssh-key", str(at.key), at.address, "exec", "--",
            ]  # fmt: skip
        env = {**os.environ, "ANSIBLE_HOST_KEY_CHECKING": "False", "HOME": folder}
        times = []
        for _ in range(4):
            start = time.perf_counter()
            done = subprocess.run([*words, "true"], capture_output=True, env=env, check=False)
            if done.returncode:
                text = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
                return Row(name, None, None, (text.splitlines() or ["failed"])[-1][:90])
            times.append(time.perf_counter() - start)
    return Row(name, statistics.median(times[1:]) * 1000, None, "whole call of the program")


async def fan_out(box: Box, count: int) -> dict[str, float]:
    """Seconds for `true` on *count* hosts, cold and warm, ours and bare asyncssh."""
    hosts = [host_of(box, f"h{number}") for number in range(count)]
    transports = {host.name: SshTransport(host) for host in hosts}

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
    lines = ["| one connection, one after the other | `true` ms | x asyncssh | listing ms | |",
             "| --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in rows:
        ratio = f"{row.true_ms / base:.2f}" if row.true_ms and base else "-"
        true_ms = f"{row.true_ms:.1f}" if row.true_ms else "-"
        listing = f"{row.listing_ms:.1f}" if row.listing_ms else "-"
        lines.append(f"| {row.name} | {true_ms} | {ratio} | {listing} | {row.remark} |")
    lines += ["", _look_line(look), "", _fleet_line(fan, count), "", _machine_line()]
    return "\n".join(lines) + "\n"


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
        rows = [
            await ours(box, options.rounds, persistent=True),
            await ours(box, options.rounds, persistent=False),
            await raw_asyncssh(box, options.rounds),
            ssh_program(box, options.rounds, master=True),
            ssh_program(box, options.rounds, master=False),
        ]
        rows += [library_peer(box, options.peers, name, options.rounds) for name in PEERS]
        rows += [whole_call_peer(box, options.peers, name) for name in ("pyinfra", "Ansible")]
        look = await one_look(box)
        fan = await fan_out(box, options.hosts)
    text = table(rows, look, fan, options.hosts)
    print(text)
    if options.output is not None:
        options.output.write_text(text)


if __name__ == "__main__":
    asyncio.run(main())
