"""The shapes of a compliance check: an item, what surrounds the journal, and an answer.

Here: types, and what items read events by. A journal is evidence, not a certificate: ``pass`` means
that the property was found in this journal, ``not applicable`` that nothing in it could show it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pydantic import JsonValue

from journal import Event, Reader, Shredded
from journal.errors import Corrupt
from journal.events import CommandIntended, DefinitionRecorded
from journal.findings import Ranges

Status = Literal["pass", "fail", "not applicable"]
_REFS_MAX = 5


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the journal cannot say of itself, found out by the caller.

    verification is ``verify``'s status, ranges how far it reached in each stream, finding what it
    found first; mode the permission bits of the journal's folder; findings the number of lint
    findings on its generated reports, None when none was linted; unmade says why a report could
    not be made.
    """

    verification: Literal["intact", "unanchored", "unsealed", "tampered"]
    mode: int | None = None
    findings: int | None = None
    finding: str = ""
    ranges: tuple[Ranges, ...] = ()
    unmade: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Pass, fail or not applicable, in words, with the events that show it."""

    status: Status
    words: str
    refs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Records:
    """A journal's events, sorted out once for all items."""

    reader: Reader
    surroundings: Surroundings
    events: tuple[Event, ...] = field(default=())

    @cached_property
    def intents(self) -> tuple[tuple[Event, CommandIntended], ...]:
        """All intents."""
        return tuple((e, e.payload) for e in self.events if isinstance(e.payload, CommandIntended))

    @cached_property
    def acting(self) -> tuple[tuple[Event, CommandIntended], ...]:
        """Intents of commands that change or destroy."""
        return tuple((e, p) for e, p in self.intents if p.effect != "observes")

    @cached_property
    def definitions(self) -> frozenset[str]:
        """Digests of recorded definitions."""
        return frozenset(
            e.payload.digest for e in self.events if isinstance(e.payload, DefinitionRecorded)
        )

    def of(self, *kinds: str) -> tuple[Event, ...]:
        """Events of some kinds."""
        return tuple(event for event in self.events if event.kind in kinds)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing an auditor samples, the standards that ask for it, and how it is answered."""

    id: str
    title: str
    standards: tuple[str, ...]
    answer: Callable[[Records], Answer]


def observed(reader: Reader, event: Event) -> JsonValue | None:
    """A recorded observation; None where it was removed, or no longer is what was written.

    That it no longer is fails an item of its own, by ``verify``; the others go on without it.
    """
    try:
        value = reader.observation(event)
    except Corrupt:
        return None
    return None if isinstance(value, Shredded) else value


def labels(events: Iterable[Event]) -> tuple[str, ...]:
    """Labels of the first few events."""
    return tuple(f"e{e.seq:04d}·{e.leaf[:8]}" for e in list(events)[:_REFS_MAX])


def every(
    good: str, bad: str, events: Iterable[Event], failing: Iterable[Event], none: str
) -> Answer:
    """Pass when there are events and none fails; not applicable when there are none."""
    seen, wrong = list(events), list(failing)
    if wrong:
        return Answer("fail", f"{bad}: {len(wrong)} of {len(seen)}", labels(wrong))
    if not seen:
        return Answer("not applicable", none)
    return Answer("pass", f"{good}: {len(seen)}", labels(seen))
