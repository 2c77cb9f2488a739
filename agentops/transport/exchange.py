"""One request in flight: both streams' readers, and the answer that the evidence allows.

Here: what is the same for every transport, without I/O. Not here: where the bytes come from
(``ssh``, ``local``), or what the markers look like (``frame``).
"""

from dataclasses import dataclass, field
from typing import Literal

from agentops.transport.base import Ended, Lost, NotSent, Request, Sink, TransportAnswer
from agentops.transport.frame import StreamReader

# After a signal at the deadline: time for the frame to say that the command is gone.
SIGNAL_GRACE_S = 1.0
_DETAIL_BYTES = 300
# The remote deadline is the second belt, for a controller that died: it cuts after the first.
_REMOTE_MARGIN_S = 2


def remote_deadline_s(left_ms: int) -> int:
    """Whole seconds for the remote ``timeout``, which need not know fractions."""
    return -(-left_ms // 1000) + _REMOTE_MARGIN_S


@dataclass(frozen=True, slots=True)
class Closed:
    """The far side closed the session in order and said how the frame ended."""

    status: int | None
    signal: str | None


@dataclass(slots=True)
class Exchange:
    """Readers of both streams, and what was done at the deadline."""

    request: Request
    sink: Sink
    layered: bool
    out: StreamReader = field(init=False)
    err: StreamReader = field(init=False)
    signalled: bool = False
    killed_inside: bool = False
    """Whether SIGKILL was delivered to the frame's group in its own layer."""

    def __post_init__(self) -> None:
        self.out = StreamReader(self.request.nonce, self.sink.stdout)
        self.err = StreamReader(self.request.nonce, self.sink.stderr)

    @property
    def complete(self) -> bool:
        """Whether both end markers are here: nothing of the command can follow."""
        return self.out.ended is not None and self.err.ended is not None

    def finish(self) -> None:
        """No more bytes will come."""
        self.out.finish()
        self.err.finish()

    def conclude(self, closed: Closed | None, elapsed_ms: int, detail: str) -> TransportAnswer:
        """The strongest answer that markers and *closed* prove.

        closed is None when the far side said nothing more: lost, or still open. detail says what
        the transport saw in that case.
        """
        preamble = bytes(self.out.preamble + self.err.preamble)
        marker = self.out.ended
        if marker is not None and marker.kind == "end":
            return Ended(exit_status=marker.status, duration_ms=elapsed_ms, preamble=preamble)
        late = self.signalled or elapsed_ms >= self.request.deadline_ms
        if marker is not None:
            reason: Literal["deadline_stopped", "frame_killed"] = (
                "deadline_stopped" if late else "frame_killed"
            )
            told = f"the frame was told to stop; the command ended with status {marker.status}"
            return Lost(reason, told, elapsed_ms, preamble)
        if closed is not None:
            return self._closed_without_end(closed, elapsed_ms, preamble, late=late)
        if late:
            return Lost("deadline_still_running", detail, elapsed_ms, preamble)
        return Lost("connection_lost", detail, elapsed_ms, preamble)

    def _closed_without_end(
        self, closed: Closed, elapsed_ms: int, preamble: bytes, *, late: bool
    ) -> TransportAnswer:
        how = f"signal {closed.signal}" if closed.signal else f"status {closed.status}"
        if not self.out.begun:
            # All output was delivered and the begin marker is not in it: the frame never started.
            said = preamble[-_DETAIL_BYTES:].decode("utf-8", "backslashreplace").strip()
            where = "the way to the frame" if self.layered else "the login shell"
            text = f"{where} ended with {how} before the frame began: {said}"
            return NotSent("deadline" if late else "layer_down", text)
        if late and self.layered and not self.killed_inside:
            # Killing the outer process of a layer proves nothing about what runs inside it.
            text = f"the outer layer ended with {how}; nothing was heard from inside"
            return Lost("deadline_still_running", text, elapsed_ms, preamble)
        text = f"the frame ended with {how} and without its end marker"
        return Lost("deadline_stopped" if late else "frame_killed", text, elapsed_ms, preamble)
