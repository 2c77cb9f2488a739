"""A process that has loaded a program, and forks one child for each call of it.

Loading takes most of what a short call of ``agentops`` or ``trainer`` takes. The child is a process
of its own: the caller's words, environment, working folder and pipes, and it ends as an interpreter
ends. Run as a script this file is the server; imported, it is the client. Not here: calls that
differ in what an interpreter reads at its start (locale, PYTHON…): the callers start one for them.
"""

import atexit
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Self

# What an interpreter and its libraries read once, when they start.
_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "TMPDIR", "LD_", "OMP_", "MALLOC_")
_WORDS_MAX = 64 * 1024
_NUMBER_BYTES = 8
STDOUT, STDERR = 1, 2


def at_start(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a fork of a running interpreter would not heed."""
    return {name: value for name, value in environ.items() if name.startswith(_AT_START)}


class Forked:
    """One child, with as much of a ``subprocess.Popen`` as the tests ask for.

    Attributes:
        returncode: As ``subprocess`` has it; None while it runs.
    """

    def __init__(self, words: Sequence[str], out: int, err: int, answer: int) -> None:
        self.args = tuple(words)
        self.returncode: int | None = None
        self._is_closed = False
        self._out, self._err, self._answer = out, err, answer
        told = os.read(answer, _NUMBER_BYTES)
        if not told:
            raise ChildProcessError("the server has ended")
        self.pid = int.from_bytes(told, "big")
        self._pidfd = os.pidfd_open(self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_closed:
            self.kill()
            self.communicate()

    def poll(self) -> int | None:
        """The status, if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; what it says is kept by its pipes, as far as they hold."""
        if self.returncode is None:
            if not select.select([self._answer], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            status = os.read(self._answer, _NUMBER_BYTES)
            self.returncode = int.from_bytes(status, "big", signed=True)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal this process and no later one of its pid."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """All that it says, to its end; once.

        Raises:
            subprocess.TimeoutExpired: it did not end, and was killed; with what it had said.
        """
        kept = {self._out: bytearray(), self._err: bytearray()}
        end = None if timeout is None else time.monotonic() + timeout
        reading = list(kept)
        try:
            while reading:
                left = None if end is None else max(0.0, end - time.monotonic())
                ready = select.select(reading, [], [], left)[0]
                if not ready:
                    self.kill()
                    late = bytes(kept[self._err])
                    raise subprocess.TimeoutExpired(self.args, timeout or 0, stderr=late)
                for each in ready:
                    chunk = os.read(each, 1 << 16)
                    kept[each] += chunk
                    if not chunk:
                        reading.remove(each)
            self.wait()
        finally:
            self._is_closed = True
            for each in (self._out, self._err, self._answer, self._pidfd):
                os.close(each)
        return bytes(kept[self._out]), bytes(kept[self._err])


class Forker:
    """The client's side: one server of *program*, for as long as this process lives."""

    def __init__(self, program: str, environ: Mapping[str, str]) -> None:
        self.at_start = at_start(environ)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", __file__, program, str(theirs.fileno())],
                env=dict(environ), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                # A stream asks at its start whether it can seek: the children's cannot.
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        atexit.register(self.close)

    def close(self) -> None:
        """Let the server end; children that still run are not its matter."""
        with self._server:
            self._control.close()

    def start(
        self, words: Sequence[str], environ: Mapping[str, str], folder: Path
    ) -> Forked | None:
        """Start one call; None if it cannot be forked."""
        asked = json.dumps([list(words), dict(environ), str(folder)]).encode()
        if len(asked) > _WORDS_MAX or at_start(environ) != self.at_start:
            return None
        pipes = [os.pipe() for _ in range(3)]
        try:
            socket.send_fds(self._control, [asked], [write for _, write in pipes])
            for _, write in pipes:
                os.close(write)
            return Forked(words, *(read for read, _ in pipes))
        except OSError as error:
            _, said = self._server.communicate()
            raise RuntimeError(f"the program was not loaded: {said.decode()}") from error


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
                os.write(pipes[2], pid.to_bytes(_NUMBER_BYTES, "big"))
                pidfd = os.pidfd_open(pid)
                answers[pidfd] = (pid, pipes[2])
                waiting.register(pidfd, selectors.EVENT_READ)


def _tell_end(pidfd: int, pid: int, answer: int) -> None:
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    os.write(answer, os.waitstatus_to_exitcode(status).to_bytes(_NUMBER_BYTES, "big", signed=True))
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


def _load(program: str) -> Callable[[Sequence[str]], int]:
    """The program's entry point, with all that its commands import."""
    if program == "trainer":
        import_module("trainer.commands")
    else:
        for each in import_module("agentops.cli.main").GROUPS:
            import_module(f"agentops.cli.{each}")
    main: Callable[[Sequence[str]], int] = import_module(f"{program}.cli").main
    return main


if __name__ == "__main__":
    entry = _load(sys.argv[1])
    gc.freeze()  # so that a child's collections do not copy the pages of what was loaded
    _serve(socket.socket(fileno=int(sys.argv[2])))
    sys.exit(entry(sys.argv[1:]))
