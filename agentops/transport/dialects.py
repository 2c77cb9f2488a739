"""What a persistent channel is told: by a POSIX sh, and by a Python where there is one.

Here: the bytes, without I/O. Not here: the channel itself (``ssh_channel``), the program that
answers in Python (``agentops.commands.remote.channel``).
"""

import base64
import json
import shlex
from typing import ClassVar, Protocol

from agentops.commands.script import chosen_program, python_source
from agentops.transport.base import Request
from agentops.transport.frame import PLAIN, shell_prelude, shell_request
from agentops.transport.layers import Argv

HELLO = b"\n:agentops channel\n"
_BOOT = (
    "import os,sys\n"
    "if sys.version_info<(3,9):sys.exit(177)\n"
    "n=int(sys.argv[1]);s=b''\n"
    "while len(s)<n:\n"
    " p=os.read(0,n-len(s))\n"
    " if not p:sys.exit(0)\n"
    " s+=p\n"
    "exec(compile(s,'agentops','exec'))"
)


class Dialect(Protocol):
    """How one channel is spoken to; made anew for each."""

    name: ClassVar[str]
    hello: ClassVar[bytes | None]
    """What the far side says once it listens; None for one that says nothing."""

    def opening(self) -> Argv:
        """The argv at the end of the host's layers."""

    def prelude(self) -> bytes:
        """What is sent first."""

    def carries(self, request: Request) -> bool:
        """Whether the request can go this way."""

    def request(self, request: Request, deadline_s: int) -> bytes:
        """The request, with its deadline on the host."""

    def stop(self, nonce: str, signal: str) -> bytes | None:
        """What stops a request under way; None if it takes another channel."""


class ShellDialect:
    """A POSIX sh: the very frame that an exec channel would run, one line a request."""

    name: ClassVar[str] = "sh"
    hello: ClassVar[bytes | None] = None

    def opening(self) -> Argv:
        """A shell that reads commands."""
        return ("sh", "-s")

    def prelude(self) -> bytes:
        """The frame."""
        return shell_prelude().encode()

    def carries(self, request: Request) -> bool:
        """Nothing with input: the shell itself reads there."""
        return not request.stdin

    def request(self, request: Request, deadline_s: int) -> bytes:
        """One line."""
        line = shell_request(request.argv, nonce=request.nonce, remote_deadline_s=deadline_s)
        return line.encode("utf-8", "surrogateescape")

    def stop(self, nonce: str, signal: str) -> bytes | None:
        """Not possible: the shell waits for its child and reads nothing."""
        del nonce, signal
        return None


class PythonDialect:
    """A Python that forks for each request; our own scripts it runs without starting another."""

    name: ClassVar[str] = "python"
    hello: ClassVar[bytes | None] = HELLO

    def __init__(self) -> None:
        self._source = python_source("channel").encode()
        self._sent: set[int] = set()

    def opening(self) -> Argv:
        """The shortest text that can take the program from stdin; a listing shows only this."""
        words = shlex.join(("python3", "-I", "-S", "-c", _BOOT, str(len(self._source))))
        script = f"command -v python3 >/dev/null 2>&1 || exit 69; {PLAIN}; exec {words}"
        return ("sh", "-c", script)

    def prelude(self) -> bytes:
        """The program."""
        return self._source

    def carries(self, request: Request) -> bool:
        """Everything."""
        del request
        return True

    def request(self, request: Request, deadline_s: int) -> bytes:
        """One line of JSON; the text of a script goes with its first request only."""
        line: dict[str, object] = {"nonce": request.nonce, "deadline_s": deadline_s}
        if request.stdin:
            line["stdin"] = base64.b64encode(request.stdin).decode()
        ours = chosen_program(request.argv)
        if ours is None:
            line["argv"] = request.argv
        else:
            source, arguments = ours
            key = hash(source)
            line |= {"program": str(key), "arguments": arguments}
            if key not in self._sent:
                self._sent.add(key)
                line["source"] = source
        return json.dumps(line).encode() + b"\n"

    def stop(self, nonce: str, signal: str) -> bytes | None:
        """One line."""
        return json.dumps({"stop": nonce, "signal": signal}).encode() + b"\n"
