"""The shape of what happened: things of a kind, each with its time, events and attributes.

Here: the shape, and all things of one incident together. Not here: reading them out of a journal
(``reports.lint.facts.happened``, ``reports.lint.facts.readings``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from journal import Event

Kind = Literal[
    "signal", "listing", "process", "heartbeat", "launch", "deployment", "verdict", "decision",
    "command", "wait", "opening", "ending", "proposal", "denial", "approval",
    "row", "file", "line", "card", "hypothesis", "guard", "rung", "held",
]  # fmt: skip


@dataclass(frozen=True)
class Happening:
    """One thing of one kind between two instants (microseconds, wall clock).

    ``events`` are the ids of the events that tell it; ``told`` its attributes. ``inside``: the
    incident's own, not something of the same journal around it.
    """

    kind: Kind
    start_us: int
    end_us: int
    events: frozenset[str]
    told: Mapping[str, object] = field(hash=False)
    inside: bool = True

    def get(self, name: str) -> object:
        """An attribute, None where it is not recorded."""
        return self.told.get(name)


@dataclass(frozen=True)
class World:
    """All happenings of one incident, and the numbers that are known by kind."""

    happenings: tuple[Happening, ...]
    events: tuple[Event, ...]
    numbers: Mapping[str, frozenset[str]]
    reasons: tuple[str, ...]
    counts: Mapping[str, frozenset[int]]
    memo: dict[object, object] = field(default_factory=dict, repr=False)

    def of(self, kind: str) -> tuple[Happening, ...]:
        """Happenings of a kind in order."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> Mapping[str, tuple[Happening, ...]]:
        kinds: dict[str, list[Happening]] = {}
        for happening in self.happenings:
            kinds.setdefault(happening.kind, []).append(happening)
        return {kind: tuple(found) for kind, found in kinds.items()}

    @cached_property
    def opened_us(self) -> int:
        """When the incident was opened, or its first event."""
        opened = self.of("opening")
        return opened[0].start_us if opened else self.events[0].ts_us

    @cached_property
    def closed(self) -> Happening | None:
        """How it ended, if it did."""
        return self.of("ending")[-1] if self.of("ending") else None
