"""A process that has loaded the command line, and forks one child for each call of it.

Loading takes most of what a short call takes. The child is a process of its own: the caller's
words, environment, working folder and pipes, and it ends as an interpreter ends. Run as a script
this file is the server; imported, it is the client. Not here: calls that differ in what an
interpreter reads at its start (locale, PYTHON…), which start one (``tests.support.command_line``).
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# What an interpreter and its libraries read once, when they start.
_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "TMPDIR", "LD_", "OMP_", "MALLOC_")
_WORDS_MAX = 64 * 1024
_PID_BYTES = 8
STDOUT, STDERR = 1, 2


def at_start(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a fork of a running interpreter would not heed."""
    return {name: value for name, value in environ.items() if name.startswith(_AT_START)}


class Ended(tuple[int, bytes, bytes]):
    """Exit status as ``subprocess`` gives it, stdout, stderr."""

    __slots__ = ()


class Forker:
    """The client's side: one server, for as long as this process lives."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.at_start = at_start(environ)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env=dict(environ), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                # A stream asks at its start whether it can seek: the children's cannot.
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(self.close)

    def close(self) -> None:
        """Let the server end; children that still run are not its matter."""
        self._control.close()
        self._server.wait()

    def run(
        self, words: Sequence[str], environ: Mapping[str, str], folder: Path, timeout_s: float
    ) -> Ended | None:
        """Run one call to its end; None if it cannot be forked.

        Raises:
            subprocess.TimeoutExpired: it did not end, and was killed; with what it had said.
        """
        asked = json.dumps([list(words), dict(environ), str(folder)]).encode()
        if len(asked) > _WORDS_MAX or at_start(environ) != self.at_start:
            return None
        pipes = [os.pipe() for _ in range(3)]
        socket.send_fds(self._control, [asked], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        out, err, answer = _read_all([read for read, _ in pipes], timeout_s, words)
        return Ended((int.from_bytes(answer[_PID_BYTES:], "big", signed=True), out, err))


def _read_all(reads: Sequence[int], timeout_s: float, words: Sequence[str]) -> list[bytes]:
    """All three pipes to their ends. The third brings the pid, and later the status."""
    kept = {read: bytearray() for read in reads}
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as waiting:
        for read in reads:
            waiting.register(read, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(int.from_bytes(kept[reads[2]][:_PID_BYTES], "big"), signal.SIGKILL)
                for key in waiting.get_map().values():
                    os.close(key.fd)
                raise subprocess.TimeoutExpired(words, timeout_s, stderr=bytes(kept[reads[1]]))
            for key, _ in ready:
                if chunk := os.read(key.fd, 1 << 16):
                    kept[key.fd] += chunk
                else:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
    return [bytes(kept[read]) for read in reads]


def _serve(control: socket.socket) -> None:
    """Fork for each request. Returns in the children alone; ends when the client has gone."""
    answers: dict[int, tuple[int, int]] = {}  # pidfd: pid, the pipe that its status goes to
    with selectors.DefaultSelector() as waiting:
        waiting.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fd in answers:
                    waiting.unregister(key.fd)
                    _tell_end(key.fd, *answers.pop(key.fd))
                    continue
                asked, pipes, _, _ = socket.recv_fds(control, _WORDS_MAX + 1, 3)
                if not asked:
                    os._exit(0)
                pid = os.fork()
                if pid == 0:
                    words, environ, folder = json.loads(asked)
                    _become(words, environ, folder, pipes)
                    return
                for each in pipes[:2]:
                    os.close(each)
                os.write(pipes[2], pid.to_bytes(_PID_BYTES, "big"))
                pidfd = os.pidfd_open(pid)
                answers[pidfd] = (pid, pipes[2])
                waiting.register(pidfd, selectors.EVENT_READ)


def _tell_end(pidfd: int, pid: int, answer: int) -> None:
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    os.write(answer, os.waitstatus_to_exitcode(status).to_bytes(_PID_BYTES, "big", signed=True))
    os.close(answer)


def _become(words: list[str], environ: dict[str, str], folder: str, pipes: Sequence[int]) -> None:
    """Make this child what a started process would be: words, folder, environment, descriptors."""
    os.dup2(pipes[0], STDOUT)
    os.dup2(pipes[1], STDERR)
    inherited = [
        int(each.name) for each in Path("/proc/self/fd").iterdir()
    ]  # and the listing's own
    for each in inherited:  # closerange would try a million
        if each > STDERR:
            with suppress(OSError):
                os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = words


if __name__ == "__main__":
    from importlib import import_module

    from agentops.cli.main import GROUPS, main

    for each in GROUPS:
        import_module(f"agentops.cli.{each}")
    gc.freeze()  # so that a child's collections do not copy the pages of what was loaded
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
