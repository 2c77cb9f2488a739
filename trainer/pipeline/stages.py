"""What all stages of one pipeline have in common: their queue, pool, permits and records.

Only things that are shared stand here; each stage has a module of its own.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from trainer.corpus import Corpus
from trainer.pipeline.arena import Arena
from trainer.pipeline.crew import Crew
from trainer.pipeline.jobs import JobQueue
from trainer.pipeline.meters import Meters
from trainer.pipeline.order import OrderLimits
from trainer.pipeline.pool import Pool
from trainer.pipeline.record import Record
from trainer.schedule import Row


@dataclass
class Permits:
    """At most ``count`` holders at a time; taking one back from a holder that hangs is allowed."""

    crew: Crew
    count: int
    most: int = 0
    _held: set[int] = field(default_factory=set)

    def acquire(self, holder: int) -> None:
        """Wait for a permit."""
        with self.crew.changed:
            self.crew.until(lambda: len(self._held) < self.count)
            self._held.add(holder)
            self.most = max(self.most, len(self._held))

    def release(self, holder: int) -> None:
        """Give it back; nothing happens when it was taken back before. Inside ``changed``."""
        self._held.discard(holder)
        self.crew.changed.notify_all()


@dataclass
class StepBook:
    """Rows of each step, from when they are decided until they are trained."""

    crew: Crew
    _rows: dict[int, tuple[Row, ...]] = field(default_factory=dict)

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """The rows of a step are decided."""
        with self.crew.changed:
            self._rows[step] = tuple(rows)
            self.crew.changed.notify_all()

    def read(self, step: int) -> tuple[Row, ...]:
        """Wait for a step's rows."""
        with self.crew.changed:
            return self.crew.until(lambda: self._rows.get(step))

    def trained(self, step: int) -> None:
        """Nobody asks for this step again."""
        with self.crew.changed:
            self._rows.pop(step, None)


@dataclass(frozen=True)
class Stages:
    """The shared parts of one pipeline.

    ``tracing`` is held while anything is compiled or captured for the first time, and while a GPU's
    target model runs eagerly: tracers of two threads, and process-wide switches, would see each
    other.
    """

    crew: Crew
    jobs: JobQueue
    arena: Arena
    pool: Pool
    copies: Permits
    book: StepBook
    corpus: Corpus
    limits: OrderLimits
    meters: Meters
    record: Record
    clock: Callable[[], float]
    dtype: torch.dtype
    feature_size: int
    final_size: int
    is_pinned: bool
    tracing: threading.RLock = field(default_factory=threading.RLock)
