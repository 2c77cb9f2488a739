"""An SSH server for machines without OpenSSH's: ``python -m agentops.box.asyncssh_server``.

It runs each command as ``/bin/sh -c COMMAND`` in a session of its own, passes bytes through, and
knows signals. For the trap box only: it serves one key on loopback.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import asyncssh

_CHUNK = 1 << 16
_ARGUMENTS_MIN = 3


async def serve(directory: Path, port: int, environment: dict[str, str]) -> None:
    """Serve until the process is ended."""

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await _run(process, environment)

    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[str(directory / "host_key")],
        authorized_client_keys=str(directory / "authorized_keys"),
        process_factory=run,
        encoding=None,
    )
    await server.wait_closed()


async def _run(process: asyncssh.SSHServerProcess[bytes], environment: dict[str, str]) -> None:
    if process.command is None:
        process.exit(1)
        return
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        process.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    feeding = asyncio.create_task(_feed(process, child))
    await asyncio.gather(
        _pour(child.stdout, process.stdout), _pour(child.stderr, process.stderr), child.wait()
    )
    feeding.cancel()
    code = child.returncode
    if code is not None and code < 0:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        process.exit(code or 0)


async def _feed(
    process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process
) -> None:
    """Carry stdin and signals to the child until end of file."""
    stdin = child.stdin
    if stdin is None:
        return
    while True:
        try:
            data = await process.stdin.read(_CHUNK)
        except asyncssh.SignalReceived as received:
            _signal_group(child.pid, received.signal)
            continue
        except asyncssh.BreakReceived:
            continue
        if not data:
            break
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()
    stdin.close()
    await _signals_after_eof(process, child)


async def _signals_after_eof(
    process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process
) -> None:
    while True:
        try:
            if not await process.stdin.read(_CHUNK):
                return
        except asyncssh.SignalReceived as received:
            _signal_group(child.pid, received.signal)


def _signal_group(pid: int, name: str) -> None:
    with contextlib.suppress(ProcessLookupError, KeyError):
        os.killpg(pid, signal.Signals[f"SIG{name}"])


async def _pour(source: asyncio.StreamReader | None, target: asyncssh.SSHWriter[bytes]) -> None:
    if source is None:
        return
    with contextlib.suppress(asyncssh.Error, BrokenPipeError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()


def main(arguments: list[str]) -> int:
    """Arguments: directory, port, sessions at most (unused here), NAME=VALUE of the environment."""
    if len(arguments) < _ARGUMENTS_MIN:
        return 2
    pairs = (argument.partition("=") for argument in arguments[_ARGUMENTS_MIN:])
    environment = {name: value for name, _, value in pairs}
    asyncio.run(serve(Path(arguments[0]), int(arguments[1]), environment))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
