"""The seam between deciding and acting: what a transport is given and what it answers.

Here: the types. Not here: SSH, subprocesses, frames. A transport never raises for what a network
or a host can do; it answers ``Ended``, ``NotSent`` or ``Lost``.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from journal.events import UnknownReason


@dataclass(frozen=True, slots=True)
class Request:
    """One argv for the innermost layer of a host's route.

    nonce is drawn by the caller, fresh for each request: it makes the frame's markers
    unforgeable by output. deadline_ms covers connect, authentication, open, run and drain.
    repeatable says that the command only observes and may run twice; a transport may carry it by
    a faster way whose loss is less exactly told.
    """

    argv: tuple[str, ...]
    stdin: bytes
    deadline_ms: int
    nonce: str
    repeatable: bool = False


class Sink(Protocol):
    """Where a command's bytes go as they come."""

    def stdout(self, chunk: bytes) -> None:
        """Take bytes between the begin and end markers."""

    def stderr(self, chunk: bytes) -> None:
        """Take bytes of the command's standard error."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end marker arrived: the command ran to its end with this status.

    preamble is text outside the frame (banners, rc-file noise), bounded.
    """

    exit_status: int
    duration_ms: int
    preamble: bytes = b""


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the frame was written; it is safe to try again.

    reason is one of unreachable, auth, host_key_changed, host_key_unknown, layer_down, busy,
    deadline.
    """

    reason: Literal[
        "unreachable",
        "auth",
        "host_key_changed",
        "host_key_unknown",
        "layer_down",
        "busy",
        "deadline",
    ]
    detail: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Sent, and no end marker came. It may or may not have run."""

    reason: UnknownReason
    detail: str
    duration_ms: int
    preamble: bytes = b""


TransportAnswer = Ended | NotSent | Lost


class Transport(Protocol):
    """Carries one request to one host and its bytes back."""

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Send, stream, wait for the end marker or the deadline."""

    async def close(self) -> None:
        """Let go of connections."""
