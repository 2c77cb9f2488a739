"""Remote execution, ours beside its peers, in one run on one loopback sshd.

    python -m benchmarks.remote [--peers PYTHON] [--rounds 40] [--hosts 50] [--output FILE]

PYTHON is an interpreter that has fabric, parallel-ssh, pyinfra and ansible-core; what is missing is
said. Every number is a median over rounds; the machine's load stands beside the table. Here: taking
turns, and the table. Not here: the contestants (``remote_ours``, ``remote_peers``).
"""

import argparse
import asyncio
import os
import platform
import resource
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from agentops.box import Box, ServerOptions
from benchmarks.remote_ours import AT_ONCE, Act, journalled, looking, ours, over_fleet, synced
from benchmarks.remote_peers import (
    PEERS,
    bare_fleet,
    library_peer,
    raw_asyncssh,
    ssh_program,
    whole_call_peer,
)

WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what, medians, the client's own CPU (0 where unknown), a remark."""

    name: str
    true_ms: float | None
    listing_ms: float | None
    remark: str
    cpu_ms: float = 0.0


def median_ms(times_s: list[float]) -> float:
    """Median without the warm-up, in milliseconds."""
    return statistics.median(times_s[min(WARM_UP, len(times_s) - 1) :]) * 1000


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


def whole_call(box: Box, python: str, name: str) -> Row:
    """A peer that is a program."""
    found = whole_call_peer(box, python, name)
    if isinstance(found, str):
        return Row(name, None, None, found)
    return Row(name, found * 1000, None, "whole call of the program")


def table(rows: list[Row], look_ms: float, fleet_s: tuple[float, float, float], count: int) -> str:
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
        _look_line(look_ms),
        "",
        _fleet_line(fleet_s, count),
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


def _look_line(look_ms: float) -> str:
    return (
        "To find and verify one stuck trainer (host, processes, GPUs and their owners, shared"
        f" memory, disk, heartbeat): 1 round trip, {look_ms:.0f} ms with `observe`; seven"
        " commands, and as many round trips, by any of the others."
    )


def _fleet_line(fleet_s: tuple[float, float, float], count: int) -> str:
    ours_s, warm_s, bare_s = fleet_s
    return (
        f"`true` on {count} hosts, {AT_ONCE} at once: ours {ours_s:.2f} s cold (connections"
        f" included) and {warm_s:.2f} s warm; bare asyncssh {bare_s:.2f} s cold; ratio"
        f" {ours_s / bare_s:.2f}."
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
        rows += [whole_call(box, options.peers, name) for name in ("pyinfra", "Ansible")]
        look_ms, _ = (await round_robin({"look": looking(box)}, 10, long=False))["look"]
        fleet_s = (*await over_fleet(box, options.hosts), await bare_fleet(box, options.hosts))
    text = table(rows, look_ms, fleet_s, options.hosts)
    print(text)
    if options.output is not None:
        options.output.write_text(text)


if __name__ == "__main__":
    asyncio.run(main())
