"""One signal to one process beyond doubt: ``signal_process``.

The identity is compared again on the host, in the same call, right before the signal. With a pidfd
no reused pid can be hit ("pidfd"); without Python a moment remains between check and signal
("recheck"). Which signal, and when, is ``agentops.policy``'s choice.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from agentops.commands.base import Malformed, Observation
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Identity, Retry

SignalName = Literal["INT", "TERM", "KILL", "CONT", "STOP", "HUP", "QUIT", "USR1", "USR2"]
Refusal = Literal[
    "identity_changed", "gone", "zombie", "protected", "uninterruptible", "not_permitted"
]


class SignalSent(Observation):
    """Whether the kernel took the signal. What the process made of it is another question.

    state_before is the kernel's letter, or "absent". refusal is None exactly if delivered.
    """

    delivered: bool
    quality: Literal["pidfd", "recheck"]
    refusal: Refusal | None
    state_before: str

    def holds(self) -> bool | None:
        """Whether the kernel took the signal."""
        return self.delivered


class SignalProcess(ScriptCommand):
    """Send one signal to one process, if it still is the process that was meant."""

    name: ClassVar[str] = "signal_process"
    effect: ClassVar[Effect] = "destroys"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "reconcile"
    assumptions: ClassVar[tuple[str, ...]] = (
        "boot id, PID namespace, its init's start, pid and start ticks name one process for ever",
        "a delivered signal proves nothing about the process's end",
    )
    silence: ClassVar[str] = (
        "Unknown whether the signal was sent; look at the process, never repeat."
    )
    no_free_text: ClassVar[bool] = True
    python: ClassVar[tuple[str, ...]] = ("identity", "signal_process")
    shell: ClassVar[str | None] = "signal_process"

    victim: Identity
    """The process, by the identity that was seen."""
    signal: SignalName
    """Without SIG."""

    def victims(self) -> tuple[Identity, ...]:
        """The one process."""
        return (self.victim,)

    def script_arguments(self) -> tuple[str, ...]:
        """Identity whole for Python, in single words for sh."""
        victim = self.victim
        numbers = (
            victim.pid_namespace,
            victim.namespace_init_start_ticks,
            victim.pid,
            victim.start_ticks,
        )
        words = (victim.boot_id, *(str(number) for number in numbers))
        return (victim.model_dump_json(), self.signal, *words)

    def read(self, rows: Sequence[dict[str, object]]) -> SignalSent | Malformed:
        """One row; a refusal and a delivery exclude each other."""
        sent = SignalSent.model_validate(only(rows))
        if sent.delivered == (sent.refusal is not None):
            return Malformed("the answer says both delivered and refused, or neither")
        return sent
