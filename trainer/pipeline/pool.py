"""Features that are ready, by document, until a feeder takes them.

Its bound is the arena's; which document is taken when was decided in ``trainer.pipeline.order``.
All calls are made under the crew's condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trainer.pipeline.arena import Arena, Lease
from trainer.pipeline.crew import Crew


class Key(NamedTuple):
    """A document in an epoch."""

    epoch: int
    document: int


@dataclass(frozen=True)
class Ready:
    """A document's features; ``is_finite`` is False when the target said something that is none."""

    lease: Lease
    is_finite: bool


@dataclass
class Pool:
    """Ready documents and their memory."""

    crew: Crew
    arena: Arena
    _ready: dict[Key, Ready] = field(default_factory=dict)
    published: int = 0
    quarantined: int = 0

    @property
    def ready(self) -> int:
        """Documents that are ready and not taken."""
        return len(self._ready)

    def publish(self, key: Key, ready: Ready) -> None:
        """A document's features are whole, in host memory, and stay there until released."""
        assert key not in self._ready
        self.arena.published(ready.lease)
        self._ready[key] = ready
        self.published += 1
        self.quarantined += not ready.is_finite
        self.crew.changed.notify_all()

    def has(self, keys: Sequence[Key]) -> bool:
        """Whether all of them are ready."""
        return all(key in self._ready for key in keys)

    def take(self, keys: Sequence[Key]) -> dict[Key, Ready]:
        """Wait for all of these and take them."""
        with self.crew.changed:
            self.crew.until(lambda: self.has(keys))
            taken = {key: self._ready.pop(key) for key in keys}
            for each in taken.values():
                self.arena.taken(each.lease)
            self.crew.changed.notify_all()
            return taken

    def release(self, leases: Sequence[Lease]) -> None:
        """Nobody reads these any more."""
        with self.crew.changed:
            for lease in leases:
                self.arena.released(lease)
            self.crew.changed.notify_all()
