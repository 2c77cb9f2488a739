"""Stopping several processes as one: ``stop_processes``.

The host goes down the ladder itself, so no victim outlives its rung for want of a round trip. Who
the victims are is decided before (``closure``, ``agentops.policy``); each is named by identity,
supervisors first.
"""

import json
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.script import ScriptCommand
from agentops.commands.signals import Refusal, SignalName
from journal.events import Effect, Identity, Retry

_LADDER_MS_MAX = 120_000
_ROUND_TRIP_MS = 15_000


class Step(Observation):
    """One rung: a signal, and how long to wait for its effect."""

    signal: SignalName
    grace_ms: int = Field(ge=0, le=60_000)


class VictimStopped(Observation):
    """What became of one victim.

    verdict "gone" means that the process was seen to end, reaped or not; "alive" that it was seen
    alive at the end; "unstoppable" that it sat in state D through SIGKILL, where no signal helps.
    signals are those that the kernel took, in order; gone_ms counts from the start of the call.
    """

    identity: Identity
    verdict: Literal["gone", "alive", "unstoppable", "refused"]
    quality: Literal["pidfd", "recheck"]
    refusal: Refusal | None
    signals: tuple[SignalName, ...]
    state: str
    gone_ms: Count | None
    wchan: str


class ProcessesStopped(Observation):
    """Each victim's end. all_gone is True only if every one was seen to end."""

    all_gone: bool
    victims: tuple[VictimStopped, ...]

    def holds(self) -> bool | None:
        """Whether every victim was seen to end."""
        return self.all_gone


class _Raw(Observation):
    pid: Count
    start_ticks: Count
    quality: Literal["pidfd", "recheck"]
    refusal: Refusal | None
    signals: tuple[SignalName, ...]
    state: str
    gone_ms: Count | None
    wchan: str


class StopProcesses(ScriptCommand):
    """Take processes down a ladder of signals, supervisors first, each by its identity."""

    name: ClassVar[str] = "stop_processes"
    effect: ClassVar[Effect] = "destroys"
    intrusiveness: ClassVar[int] = 4
    retry: ClassVar[Retry] = "reconcile"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the victims are all of the job: a process that is not named here is not touched",
        "a supervisor that is not among the victims may start the job again",
        "gone processes do not mean that a card's memory is free yet",
    )
    silence: ClassVar[str] = "Unknown who was signalled; list the processes, never repeat."
    metric_cards: ClassVar[dict[str, str]] = {
        "gone_ms": "From the start of the call to the first look that found the victim ended; looks"
        " are 20 ms apart.",
    }
    python: ClassVar[tuple[str, ...]] = ("identity", "signal_process", "stop_processes")

    victims_: tuple[Identity, ...] = Field(alias="victims", min_length=1, max_length=256)
    """The processes, by identity; supervisors first."""
    ladder: tuple[Step, ...] = Field(min_length=1, max_length=8)
    """Signals in order, each with the time that it is given."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if sum(step.grace_ms for step in self.ladder) > _LADDER_MS_MAX:
            raise ValueError(f"the ladder's graces are longer than {_LADDER_MS_MAX} ms together")
        if len({(v.pid, v.start_ticks) for v in self.victims_}) != len(self.victims_):
            raise ValueError("a victim is named twice")
        return self

    def deadline(self) -> int:
        """The ladder's graces, and time for connection and answer."""
        return sum(step.grace_ms for step in self.ladder) + _ROUND_TRIP_MS

    def victims(self) -> tuple[Identity, ...]:
        """All of them."""
        return self.victims_

    def script_arguments(self) -> tuple[str, ...]:
        """Victims and ladder as JSON."""
        job = {
            "victims": [victim.model_dump() for victim in self.victims_],
            "ladder": [step.model_dump() for step in self.ladder],
        }
        return (json.dumps(job, separators=(",", ":")),)

    def read(self, rows: Sequence[dict[str, object]]) -> ProcessesStopped | Malformed:
        """One row a victim, in the given order."""
        raw = [_Raw.model_validate(row) for row in rows]
        pairs = [(entry.pid, entry.start_ticks) for entry in raw]
        if pairs != [(victim.pid, victim.start_ticks) for victim in self.victims_]:
            return Malformed("the answer's victims are not the ones that were sent")
        victims = tuple(
            _stopped(victim, entry) for victim, entry in zip(self.victims_, raw, strict=True)
        )
        all_gone = all(victim.verdict == "gone" for victim in victims)
        return ProcessesStopped(all_gone=all_gone, victims=victims)


def _stopped(victim: Identity, raw: _Raw) -> VictimStopped:
    verdict: Literal["gone", "alive", "unstoppable", "refused"] = "alive"
    if raw.gone_ms is not None:
        verdict = "gone"
    elif raw.refusal == "uninterruptible" or (raw.state == "D" and "KILL" in raw.signals):
        verdict = "unstoppable"
    elif raw.refusal is not None:
        verdict = "refused"
    return VictimStopped(
        identity=victim,
        verdict=verdict,
        quality=raw.quality,
        refusal=raw.refusal,
        signals=raw.signals,
        state=raw.state,
        gone_ms=raw.gone_ms,
        wchan=raw.wchan,
    )
