"""Waiting on the host for a condition: ``wait_until``.

The host polls, so a change is seen within one pause and not one round trip, and the series comes
back. One call waits 45 s at most, because clients of tools give up after a minute; a longer wait is
several calls.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Identity, Retry

TIMEOUT_MS_MAX = 45_000
_ROUND_TRIP_MS = 15_000


class ProcessAbsent(Observation):
    """None of these processes is alive any more. A zombie is not alive."""

    kind: Literal["process_absent"] = "process_absent"
    identities: tuple[Identity, ...] = Field(min_length=1, max_length=1000)


class HeartbeatStep(Observation):
    """The heartbeat shows at least this step, of that run and launch where they are named."""

    kind: Literal["heartbeat_step"] = "heartbeat_step"
    path: HostPath
    at_least_step: Count
    run_id: str | None = None
    launch_id: str | None = None


class GpuMemoryAtMost(Observation):
    """Each GPU uses at most its limit in MiB; limits stand in the order of the devices' index.

    A limit is the card's recorded baseline plus a tolerance: an idle card rarely shows zero.
    """

    kind: Literal["gpu_memory_at_most"] = "gpu_memory_at_most"
    limits_mib: tuple[Count, ...] = Field(min_length=1, max_length=64)


class FileExists(Observation):
    """The file exists and has at least this size."""

    kind: Literal["file_exists"] = "file_exists"
    path: HostPath
    at_least_bytes: Count = 0


class PortOpen(Observation):
    """Something listens on this TCP port, in the host's network namespace."""

    kind: Literal["port_open"] = "port_open"
    port: int = Field(ge=1, le=65535)


Condition = Annotated[
    ProcessAbsent | HeartbeatStep | GpuMemoryAtMost | FileExists | PortOpen,
    Field(discriminator="kind"),
]


class WaitEnded(Observation):
    """How the wait ended, and the value at each change of it.

    series holds (milliseconds since the start, value); a value of None means that nothing could be
    seen then. blind says why the condition cannot be judged from here at all; alive and unreaped
    are pids of a process_absent condition.
    """

    met: bool
    elapsed_ms: Count
    polls: Count
    series: tuple[tuple[Count, JsonValue], ...]
    blind: Literal["other_namespace", "nvidia_smi", "device_count"] | None
    alive: tuple[int, ...]
    unreaped: tuple[int, ...]

    def holds(self) -> bool | None:
        """Whether the condition was met; None where it cannot be judged from there."""
        return None if self.blind is not None else self.met


class _Detail(Observation):
    blind: Literal["other_namespace", "nvidia_smi", "device_count"] | None = None
    alive: tuple[Count, ...] = ()
    unreaped: tuple[Count, ...] = ()
    other: str | None = None
    state: JsonValue = None


class _Raw(Observation):
    met: bool
    elapsed_ms: Count
    polls: Count = Field(ge=1)
    series: tuple[tuple[Count, Count | tuple[Count | None, ...] | None], ...] = Field(min_length=1)
    detail: _Detail


class WaitUntil(ScriptCommand):
    """Wait until a condition holds, at most 45 s a call; every change of its value comes back."""

    name: ClassVar[str] = "wait_until"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a value that changes and changes back between two polls is not seen",
        "a condition that was met may no longer hold when the answer arrives",
    )
    silence: ClassVar[str] = "The condition is neither confirmed nor refuted; ask again."
    metric_cards: ClassVar[dict[str, str]] = {
        "elapsed_ms": "Time from the first poll to the one that decided, on the host's clock.",
    }
    python: ClassVar[tuple[str, ...]] = ("identity", "gpu_query", "wait_until")
    shell: ClassVar[str | None] = "wait_until"

    condition: Condition
    """What has to become true; its kind decides the other fields."""
    timeout_ms: int = Field(ge=0, le=TIMEOUT_MS_MAX)
    """How long this call may wait; go on with another."""
    poll_ms: int = Field(default=200, ge=20, le=TIMEOUT_MS_MAX)
    """Time between two looks."""

    def deadline(self) -> int:
        """The wait itself, and time for connection and answer."""
        return self.timeout_ms + _ROUND_TRIP_MS

    def script_arguments(self) -> tuple[str, ...]:
        """Condition as JSON for Python; for sh the parts of a process_absent condition follow."""
        condition = self.condition
        words: tuple[str, ...] = (condition.kind,)
        if isinstance(condition, ProcessAbsent):
            words += tuple(_words(identity) for identity in condition.identities)
        return (condition.model_dump_json(), str(self.timeout_ms), str(self.poll_ms), *words)

    def read(self, rows: Sequence[dict[str, object]]) -> WaitEnded | Malformed:
        """One row; a wait that was met has nothing left alive and was not blind."""
        raw = _Raw.model_validate(only(rows))
        if raw.met and (raw.detail.alive or raw.detail.blind is not None):
            return Malformed("the answer says met and names what is still there")
        return WaitEnded(
            met=raw.met,
            elapsed_ms=raw.elapsed_ms,
            polls=raw.polls,
            series=tuple((at, _json(value)) for at, value in raw.series),
            blind=raw.detail.blind,
            alive=raw.detail.alive,
            unreaped=raw.detail.unreaped,
        )


def _words(identity: Identity) -> str:
    numbers = (
        identity.pid_namespace,
        identity.namespace_init_start_ticks,
        identity.pid,
        identity.start_ticks,
    )
    return " ".join((identity.boot_id, *(str(number) for number in numbers)))


def _json(value: int | tuple[int | None, ...] | None) -> JsonValue:
    return list(value) if isinstance(value, tuple) else value
