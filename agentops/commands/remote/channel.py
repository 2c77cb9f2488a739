"""Stay on a host and run one request after the other, each in a process of its own. Runs on hosts.

stdin: one JSON object a line. {"nonce", "deadline_s", "argv"} runs a program; {"nonce",
"deadline_s", "program", "arguments"} runs one of our own scripts in a fork of this interpreter,
which saves its start; its "source" comes with its first request. "stdin" is base64. {"stop": NONCE,
"signal"} signals the request of that nonce. End of file ends the request and this process.

Each request has a session of its own, a stdin that is closed or its own, a deadline, and markers
around its output on both streams (see agentops.transport.frame).
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, NoReturn

KILL_AFTER_S = 2.0
# A script outlives this process by so much at most, should it be killed.
ALARM_MARGIN_S = 3
NOT_FOUND = 127
NOT_EXECUTABLE = 126


def say(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(descriptor, data) :]


def mark(*words: object) -> None:
    """A marker on both streams, each after a newline of its own."""
    line = ("\n:agentops " + " ".join(map(str, words)) + "\n").encode()
    say(2, line)
    say(1, line)


class Stopped(Exception):  # noqa: N818 - not a fault
    """Whoever asks went away."""


class Channel:
    """What is read from stdin, and the signals that wake this process up."""

    def __init__(self) -> None:
        self.wake, wake_write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.unread = b""
        self.programs: dict[str, CodeType] = {}

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines that can be read now; waits for nothing that select did not promise."""
        data = os.read(0, 1 << 16)
        if not data:
            raise Stopped
        *whole, self.unread = (self.unread + data).split(b"\n")
        return [json.loads(line) for line in whole]

    def serve(self) -> None:
        """Run requests until stdin ends."""
        while True:
            for request in self.lines():
                # A stop that comes after the end of what it meant stops nothing.
                if "stop" not in request:
                    self.run(request)

    def run(self, request: dict[str, Any]) -> None:
        """One request, from marker to marker."""
        if "source" in request:
            self.programs[request["program"]] = compile(request["source"], "agentops", "exec")
            import_early(request["source"])
        mark("begin", request["nonce"], os.getpid())
        try:
            pid = start(request["argv"], request.get("stdin")) if "argv" in request else os.fork()
        except OSError as error:
            say(2, ("%s: %s\n" % (request["argv"][0], error.strerror)).encode())
            missing = isinstance(error, FileNotFoundError)
            mark("end", request["nonce"], NOT_FOUND if missing else NOT_EXECUTABLE)
            return
        if pid == 0:
            self.become(request)
        waited = False
        try:
            status, cut = self.watch(pid, request["nonce"], request["deadline_s"])
            waited = True
        finally:
            if not waited:
                signal_group(pid, signal.SIGKILL)
        mark("cut" if cut else "end", request["nonce"], status)

    def watch(self, pid: int, nonce: str, deadline_s: int) -> tuple[int, bool]:
        """Wait for the end; its status as a shell has it, and whether it was told to stop."""
        end, number, cut = time.monotonic() + deadline_s, signal.SIGTERM, False
        while True:
            left = max(0.0, end - time.monotonic())
            ready, _, _ = select.select([0, self.wake], [], [], left)
            if self.wake in ready:
                os.read(self.wake, 512)
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                signalled = os.WIFSIGNALED(status)
                code = 128 + os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
                return code, cut
            for told in self.lines() if 0 in ready else ():
                if told.get("stop") == nonce:
                    cut = True
                    signal_group(pid, getattr(signal, "SIG" + told["signal"]))
            if time.monotonic() >= end:
                cut = True
                signal_group(pid, number)
                end, number = time.monotonic() + KILL_AFTER_S, signal.SIGKILL

    def become(self, request: dict[str, Any]) -> NoReturn:
        """In the fork: be the request, and nothing after it."""
        parent = os.getppid()
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.alarm(request["deadline_s"] + ALARM_MARGIN_S)
        os.dup2(input_of(request.get("stdin")), 0)
        os.environ["AGENTOPS_CHANNEL"] = str(parent)
        sys.argv = ["-c", *request["arguments"]]
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as this
        status = 1
        try:
            exec(self.programs[request["program"]], {"__name__": "__main__"})  # noqa: S102 - our own
            status = 0
        except SystemExit as end:
            status = status_of(end.code)
        finally:
            fault = sys.exc_info()
            if fault[1] is not None:
                sys.excepthook(*fault)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        raise AssertionError("unreachable")


def import_early(source: str) -> None:
    """Import here, once, what the script would import in every fork."""
    for line in source.splitlines():
        words = line.split(" ")
        if words[0] in ("import", "from") and words[1] != "__future__":
            try:
                __import__(words[1])
            except ImportError:
                # The script itself will say so, in its own fork.
                continue


def status_of(code: object) -> int:
    """The exit status that the interpreter would give."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(str(code) + "\n")
    return 1


def input_of(encoded: str | None) -> int:
    """A descriptor to read these bytes from, or nothing."""
    if encoded is None:
        return os.open("/dev/null", os.O_RDONLY)
    import base64  # noqa: PLC0415 - few requests have input
    import tempfile  # noqa: PLC0415 - likewise

    with tempfile.TemporaryFile() as file:
        file.write(base64.b64decode(encoded))
        file.seek(0)
        return os.dup(file.fileno())


def start(argv: list[str], handed: str | None) -> int:
    """Start a program as a shell would, without copying this process; gives its pid."""
    source = input_of(handed)
    try:
        return os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, 0)],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD],
        )
    finally:
        os.close(source)


def signal_group(pid: int, number: int) -> None:
    """Signal a request that is not yet waited for, so its pid cannot be another's."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        # In the moment before its setsid it leads no group.
        os.kill(pid, number)
    except PermissionError:
        # It became another user's; whoever asked hears that it did not end.
        return


def main() -> None:
    """Say that this stands, then serve."""
    channel = Channel()
    # A collection in a fork would copy every page that it looks at.
    gc.disable()
    gc.freeze()
    say(1, b"\n:agentops channel\n")
    try:
        channel.serve()
    except Stopped:
        return


if __name__ == "__main__":
    main()
