"""What policy may know: folded, aged values, each with the event that it rests on.

Here: ``Fact`` and ``FactTable``. Not here: how an observation becomes facts
(``agentops.policy.learning``), nor what follows from them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from agentops.policy.process import Process

Quality = Literal["direct", "proxy", "stale"]
FactKey = tuple[str, str]
FactValue = JsonValue | Process


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of one predicate of one subject.

    event is the id of the event that said so; at_us is when the controller received it (remote
    clocks are never used for ages); order counts folded events, so "after" needs no clock at all.
    """

    subject: str
    predicate: str
    value: FactValue
    event: str
    at_us: int
    order: int
    quality: Quality = "direct"

    def age_us(self, now_us: int) -> int:
        """Microseconds since receipt; a clock that went back makes a fact fresh, never negative."""
        return max(0, now_us - self.at_us)


class FactTable(Mapping[FactKey, Fact]):
    """The newest fact of each (subject, predicate). Immutable; an unknown fact is simply absent.

    >>> table = FactTable().with_facts([Fact("host", "boot_id", "b1", "e1", 0, 0)])
    >>> table.value("host", "boot_id"), table.value("host", "uptime")
    ('b1', None)
    """

    __slots__ = ("_facts",)

    def __init__(self, facts: Mapping[FactKey, Fact] | None = None) -> None:
        self._facts: dict[FactKey, Fact] = {} if facts is None else dict(facts)

    def __getitem__(self, key: FactKey) -> Fact:
        return self._facts[key]

    def __iter__(self) -> Iterator[FactKey]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def with_facts(self, new: list[Fact]) -> "FactTable":
        """A table in which each of *new* replaces what was known of its key."""
        merged = dict(self._facts)
        merged.update({(fact.subject, fact.predicate): fact for fact in new})
        return FactTable(merged)

    def without(self, *keys: FactKey) -> "FactTable":
        """A table that knows nothing of *keys*."""
        dropped = frozenset(keys)
        return FactTable({key: fact for key, fact in self._facts.items() if key not in dropped})

    def without_subjects(self, prefix: str) -> "FactTable":
        """A table without the subjects that start with *prefix*."""
        return FactTable(
            {key: fact for key, fact in self._facts.items() if not key[0].startswith(prefix)}
        )

    def value(self, subject: str, predicate: str) -> FactValue:
        """The value, or None where nothing is known."""
        fact = self._facts.get((subject, predicate))
        return None if fact is None else fact.value
