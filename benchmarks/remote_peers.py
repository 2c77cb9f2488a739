"""What ``benchmarks.remote`` is compared with: asyncssh alone, the ssh program, four libraries.

A library runs in the interpreter that has it, on one connection that is kept. Not here: our own
ways (``benchmarks.remote_ours``), taking turns and telling.
"""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import asyncssh

from agentops.box import Box
from benchmarks.remote_ours import AT_ONCE, Act

PS = "ps -eo pid,ppid,pgid,sid,stat,lstart,args -ww"


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


def whole_call_peer(box: Box, python: str, name: str) -> float | str:
    """Seconds of a peer's whole call, where it is a program, warm; why not, if it cannot be had."""
    at = box.address
    bin_folder = Path(python).parent
    if not (bin_folder / name.lower()).exists():
        return "not installed beside that interpreter"
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
                return (text.splitlines() or ["failed"])[-1][:90]
            times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


async def bare_fleet(box: Box, count: int) -> float:
    """Seconds for `true` on *count* hosts by asyncssh alone, connections included."""
    at = box.address
    gate = asyncio.Semaphore(AT_ONCE)

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
    return time.perf_counter() - start
