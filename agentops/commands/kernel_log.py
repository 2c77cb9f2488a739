"""What the kernel said about cards, memory and disks: ``kernel_log``."""

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

# Source: NVIDIA, "XID Errors", the form of the kernel message.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
_OOM = re.compile(r"Killed process (\d+) \((.*?)\)")
_HUNG = re.compile(r"task (.+?):(\d+) blocked for more than (\d+) seconds")
_NUMBER_MAX = 2**53


class KernelMessage(Observation):
    """One message. at_us counts microseconds since boot; what it names is None where it does not.

    kind "xid" is a card's fault with its number, "oom_kill" the memory killer's victim, "hung_task"
    a process that sat in state D.
    """

    at_us: Count
    level: int = Field(ge=0, le=7)
    kind: Literal["xid", "oom_kill", "hung_task", "other"]
    xid: Count | None
    bus: str | None
    pid: Count | None
    comm: str | None
    text: str


class KernelLogSeen(Observation):
    """The telling messages that the ring still holds, 500 at most; it forgets the oldest.

    first_us says how far back the ring goes: nothing older can be excluded. readable is False where
    this user may not read it, and then nothing was learned.
    """

    readable: bool
    problem: str | None
    ring_messages: Count
    first_us: Count | None
    now_us: Count | None
    messages: tuple[KernelMessage, ...]

    def holds(self) -> bool | None:
        """Nothing was learned from a ring that may not be read."""
        return True if self.readable else None


class _Head(Observation):
    readable: bool
    problem: str | None = None
    messages: Count
    first_us: Count | None
    last_us: Count | None
    now_us: Count | None = None


class _Raw(Observation):
    at_us: Count
    level: int = Field(ge=0, le=7)
    text: str


class KernelLog(ScriptCommand):
    """Xid faults, the memory killer, hung tasks and disk errors in the kernel's ring."""

    name: ClassVar[str] = "kernel_log"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the ring is small and forgets; silence is proof only back to its oldest message",
        "in a container it is the whole machine's, or not readable",
    )
    silence: ClassVar[str] = "Nothing was learned; a readable ring without messages is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards(
        at_us="When the kernel wrote the message, in microseconds since boot.",
        first_us="Time of the oldest message that the ring still holds.",
        now_us="The same clock at the reading, so that ages can be told.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "kernel_log")

    def read(self, rows: Sequence[dict[str, object]]) -> KernelLogSeen | Malformed:
        """The ring's extent, then one row a message."""
        if not rows:
            return Malformed("the first row is missing")
        head = _Head.model_validate(rows[0])
        messages = []
        for row in rows[1:]:
            raw = _Raw.model_validate(row)
            messages.append(kernel_message(raw.at_us, raw.level, raw.text))
        return KernelLogSeen(
            readable=head.readable,
            problem=head.problem,
            ring_messages=head.messages,
            first_us=head.first_us,
            now_us=head.now_us,
            messages=tuple(messages),
        )


def kernel_message(at_us: int, level: int, text: str) -> KernelMessage:
    """Read one message.

    >>> kernel_message(5, 3, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.").xid
    79
    """
    kind: Literal["xid", "oom_kill", "hung_task", "other"] = "other"
    xid = pid = None
    bus = comm = None
    if found := _XID.search(text):
        kind, bus, xid = "xid", found.group(1), _bounded(found.group(2))
    elif found := _OOM.search(text):
        kind, pid, comm = "oom_kill", _bounded(found.group(1)), found.group(2)
    elif found := _HUNG.search(text):
        kind, comm, pid = "hung_task", found.group(1), _bounded(found.group(2))
    return KernelMessage(
        at_us=at_us, level=level, kind=kind, xid=xid, bus=bus, pid=pid, comm=comm, text=text
    )


def _bounded(digits: str) -> int | None:
    return int(digits) if len(digits) < 16 and int(digits) < _NUMBER_MAX else None  # noqa: PLR2004
