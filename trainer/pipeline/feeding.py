"""A feeder: for one drafter, waits for the documents of its passes and brings them to its device.

It draws anchors, tells its share of the step's denominator, and copies features into one of two
buffers while the drafter still works on the other. A document that was not finite is left out: the
row is packed without it, and what the loss divides by does not count it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.batches import Batch, Features, assemble
from trainer.config import RunConfig
from trainer.loss import denominator
from trainer.pipeline.arena import Lease
from trainer.pipeline.crew import Crew
from trainer.pipeline.lanes import Lane, Mark
from trainer.pipeline.pool import Key, Ready
from trainer.pipeline.stages import Stages
from trainer.schedule import Row

_BUFFERS = 2


@dataclass(frozen=True)
class Fed:
    """One pass on its way to a drafter; ``features`` may be read behind ``mark``."""

    step: int
    number: int
    batch: Batch
    features: Features
    mark: Mark


@dataclass
class Denominators:
    """Shares of each step's denominator, by pass; their sum does not depend on who came first."""

    crew: Crew
    passes: int
    _shares: dict[int, dict[int, Tensor]] = field(default_factory=dict)

    def tell(self, step: int, shares: dict[int, Tensor]) -> None:
        """Some passes' shares, on the CPU."""
        with self.crew.changed:
            self._shares.setdefault(step, {}).update(shares)
            self.crew.changed.notify_all()

    def total(self, step: int) -> Tensor:
        """Wait for all shares of a step; their sum in the order of passes."""
        with self.crew.changed:
            self.crew.until(lambda: len(self._shares.get(step, {})) == self.passes)
            shares = self._shares[step]
        return torch.stack([shares[number] for number in sorted(shares)]).sum()

    def trained(self, step: int) -> None:
        """Nobody asks for this step again."""
        with self.crew.changed:
            self._shares.pop(step, None)


class Buffers:
    """Two sets of features on a drafter's device, filled and read in turn."""

    def __init__(self, crew: Crew, shape: tuple[int, int], stages: Stages, lane: Lane) -> None:
        self._crew = crew
        taps, final = ((*shape, stages.feature_size), (*shape, stages.final_size))
        self._free: deque[tuple[Features, Mark]] = deque()
        for _ in range(_BUFFERS):
            made = Features(
                torch.zeros(taps, dtype=stages.dtype, device=lane.device),
                torch.zeros(final, dtype=stages.dtype, device=lane.device),
            )
            self._free.append((made, lane.mark()))

    def take(self) -> tuple[Features, Mark]:
        """A buffer and the mark behind which it may be written, once one is free."""
        with self._crew.changed:
            self._crew.until(lambda: self._free)
            return self._free.popleft()

    def give_back(self, features: Features, mark: Mark) -> None:
        """The drafter has read it once ``mark`` is passed."""
        with self._crew.changed:
            self._free.append((features, mark))
            self._crew.changed.notify_all()


class Feeder:
    """Feeds drafter ``rank`` of ``ranks``: passes rank, rank + ranks, … of each step."""

    def __init__(
        self, rank: int, ranks: int, config: RunConfig, lane: Lane, stages: Stages,
        denominators: Denominators, *, first_step: int,
    ) -> None:  # fmt: skip
        self._rank, self._ranks = rank, ranks
        self._config = config
        self._lane = lane
        self._stages = stages
        self._denominators = denominators
        self._step = first_step
        shape = (config.rows_per_pass, config.row_tokens)
        self.buffers = Buffers(stages.crew, shape, stages, lane)
        self._fed: deque[Fed] = deque()
        self._meter = stages.meters.new("feed")

    def feed(self) -> None:
        """Feed step after step, until the crew ends."""
        while True:
            self._step += 1
            rows = self._stages.book.read(self._step)
            size = self._config.rows_per_pass
            parts = [rows[first : first + size] for first in range(0, len(rows), size)]
            mine = range(self._rank, len(parts), self._ranks)
            keys = [Key(row.place.epoch, each) for n in mine for row in parts[n]
                    for each in row.documents]  # fmt: skip
            with self._meter.waiting():
                ready = self._stages.pool.take(keys)
            with self._meter.working():
                batches = {n: self._assembled(parts[n], ready) for n in mine}
            shares = {n: denominator(each.supervision, self._config.loss)
                      for n, each in batches.items()}  # fmt: skip
            self._denominators.tell(self._step, shares)
            for number, batch in batches.items():
                self._bring(number, parts[number], batch, ready)

    def take(self) -> Fed:
        """The next pass, for the drafter."""
        with self._stages.crew.changed:
            self._stages.crew.until(lambda: self._fed)
            return self._fed.popleft()

    def _assembled(self, rows: Sequence[Row], ready: dict[Key, Ready]) -> Batch:
        return assemble(
            [_without_bad(row, ready) for row in rows], self._stages.corpus, self._config
        )

    def _bring(
        self, number: int, rows: Sequence[Row], batch: Batch, ready: dict[Key, Ready]
    ) -> None:
        """Copy one pass's features to the device, then give its pages back."""
        features, written = self.buffers.take()
        self._lane.after(written)
        leases: list[Lease] = []
        for slot, row in enumerate(rows):
            place = 0
            for document in row.documents:
                found = ready[Key(row.place.epoch, document)]
                leases.append(found.lease)
                if found.is_finite:
                    self._copy(features, slot, place, found.lease)
                    place += found.lease.tokens
            self._lane.run(_zeroing(features, slot, place))
        for slot in range(len(rows), len(features.taps_NSF)):
            self._lane.run(_zeroing(features, slot, 0))
        mark = self._lane.mark()
        fed = Fed(self._step, number, batch, features, mark)
        crew = self._stages.crew
        with crew.changed:
            self._fed.append(fed)
            crew.changed.notify_all()
        mark.wait()
        self._stages.pool.release(leases)

    def _copy(self, features: Features, slot: int, place: int, lease: Lease) -> None:
        width = self._stages.feature_size
        for first, view in self._stages.arena.views(lease):
            start = place + first
            taps = features.taps_NSF[slot, start : start + len(view)]
            final = features.final_NSH[slot, start : start + len(view)]
            self._lane.run(_filling(taps, view[:, :width]))
            if self._stages.final_size:
                self._lane.run(_filling(final, view[:, width:]))


def _without_bad(row: Row, ready: dict[Key, Ready]) -> Row:
    """The row's documents that are finite."""
    good = tuple(each for each in row.documents if ready[Key(row.place.epoch, each)].is_finite)
    return Row(good, row.place)


def _filling(target: Tensor, source: Tensor) -> "_Work":
    return _Work(target, source)


@dataclass(frozen=True)
class _Work:
    """A copy to do when its lane comes to it."""

    target: Tensor
    source: Tensor

    def __call__(self) -> None:
        self.target.copy_(self.source, non_blocking=True)


def _zeroing(features: Features, slot: int, place: int) -> "_Zero":
    return _Zero(features, slot, place)


@dataclass(frozen=True)
class _Zero:
    """What stands behind a row's last document is zero."""

    features: Features
    slot: int
    place: int

    def __call__(self) -> None:
        self.features.taps_NSF[self.slot, self.place :].zero_()
        self.features.final_NSH[self.slot, self.place :].zero_()
