"""Drafter workers: passes of one step on several devices, then one optimiser step on all of them.

Every replica holds the whole drafter with its optimiser. Gradients are added in the order of ranks,
by each replica for itself, so all of them step with the same numbers and stay equal to the last
bit. The loss's denominator is the whole step's, so uneven masks change nothing.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.acceptance import Proxy
from trainer.gradients import flattened, spread
from trainer.pipeline.crew import Crew, EndedError
from trainer.pipeline.feeding import Denominators, Fed, Feeder
from trainer.pipeline.lanes import Lane, Mark
from trainer.pipeline.stages import Stages
from trainer.step import Drafting, FixedPass


@dataclass(frozen=True)
class PassSeen:
    """What one pass saw, on its device."""

    loss: Tensor
    proxy: Proxy
    tokens: int


@dataclass
class StepSeen:
    """What one replica saw of one step; filled on the lane, to be read once it is told."""

    passes: dict[int, PassSeen] = field(default_factory=dict)
    grad_norm: Tensor | None = None


@dataclass(frozen=True)
class Queued:
    """A step that is on its lane; done behind ``mark``."""

    step: int
    seen: StepSeen
    mark: Mark
    started_s: float


@dataclass
class Grants:
    """Which step may be done at which rate, which are decided, and what came of them."""

    crew: Crew
    ranks: int
    _rates: dict[int, float] = field(default_factory=dict)
    _at_the_door: dict[int, int] = field(default_factory=dict)
    _seen: dict[int, dict[int, StepSeen]] = field(default_factory=dict)

    def grant(self, step: int, rate: float) -> None:
        """Let the drafters do this step."""
        with self.crew.changed:
            self._rates[step] = rate
            self.crew.changed.notify_all()

    def rate(self, step: int) -> float:
        """Wait for the step to be granted."""
        with self.crew.changed:
            self.crew.until(lambda: step in self._rates)
            return self._rates[step]

    def decide(self, step: int) -> None:
        """Wait until all replicas are ready to change their weights: then all do, or none.

        Raises:
            EndedError: the pipeline ended before that, so none does.
        """
        with self.crew.changed:
            if self.crew.is_ended and not self.is_decided(step):
                raise EndedError
            self._at_the_door[step] = self._at_the_door.get(step, 0) + 1
            self.crew.changed.notify_all()
            self.crew.until(lambda: self.is_decided(step))

    def is_decided(self, step: int) -> bool:
        """Whether the weights change in this step, whatever happens now."""
        return self._at_the_door.get(step, 0) == self.ranks

    def tell(self, step: int, rank: int, seen: StepSeen) -> None:
        """A replica has done its part."""
        with self.crew.changed:
            self._seen.setdefault(step, {})[rank] = seen
            self.crew.changed.notify_all()

    def is_done(self, step: int) -> bool:
        """Whether every replica has done its part."""
        return len(self._seen.get(step, {})) == self.ranks

    def take(self, step: int) -> list[StepSeen]:
        """What they saw, in the order of ranks; then forget the step."""
        with self.crew.changed:
            self._rates.pop(step)
            self._at_the_door.pop(step)
            found = self._seen.pop(step)
        return [found[rank] for rank in sorted(found)]


@dataclass
class Exchange:
    """Where replicas meet to read each other's gradients, round by round."""

    crew: Crew
    ranks: int
    _posted: dict[tuple[int, str], dict[int, tuple[list[Tensor], Mark]]] = field(
        default_factory=dict
    )

    def meet(
        self, step: int, topic: str, rank: int, tensors: list[Tensor], mark: Mark
    ) -> list[tuple[list[Tensor], Mark]]:
        """Show mine, wait for the others'; all, in the order of ranks."""
        with self.crew.changed:
            # Two steps ago everybody has left.
            for old in [each for each in self._posted if each[0] < step - 1]:
                del self._posted[old]
            place = self._posted.setdefault((step, topic), {})
            place[rank] = (tensors, mark)
            self.crew.changed.notify_all()
            self.crew.until(lambda: len(place) == self.ranks)
            return [place[each] for each in range(self.ranks)]


class DrafterWorker:
    """One replica on one lane."""

    def __init__(
        self, rank: int, drafting: Drafting, lane: Lane, feeder: Feeder, stages: Stages,
        grants: Grants, exchange: Exchange, denominators: Denominators, *, first_step: int,
    ) -> None:  # fmt: skip
        self.drafting = drafting
        self.lane = lane
        self._rank = rank
        self._feeder = feeder
        self._stages = stages
        self._grants, self._exchange, self._denominators = grants, exchange, denominators
        self._step = first_step
        self._meter = stages.meters.new("draft")
        config = drafting.config
        passes = -(-config.rows_per_step // config.rows_per_pass)
        self._mine = len(range(rank, passes, exchange.ranks))
        self._is_alone = exchange.ranks == 1
        self._is_fixed = config.compile
        self._fixed: FixedPass | None = None
        self._traced: set[str] = set()
        self._queued: deque[Queued] = deque()

    def settle(self) -> None:
        """Wait for the end of each step that was queued and tell of it, until the crew ends.

        In a thread of its own, so that the next step is queued while this one still runs.
        """
        crew = self._stages.crew
        while True:
            with crew.changed:
                crew.until(lambda: self._queued)
                queued = self._queued.popleft()
            queued.mark.wait()
            tokens = sum(each.tokens for each in queued.seen.passes.values())
            self._meter.ended(queued.started_s, tokens)
            self._grants.tell(queued.step, self._rank, queued.seen)

    def work(self) -> None:
        """Queue step after step as they are granted, until the crew ends."""
        if self._stages.is_pinned and self.lane.device.type == "cuda":
            torch.cuda.set_device(self.lane.device)
        while True:
            self._step += 1
            with self._meter.waiting():
                rate = self._grants.rate(self._step)
                fed = deque(self._feeder.take() for _ in range(min(self._mine, 1)))
                total = self._denominators.total(self._step)
            seen = StepSeen()
            started_s = self._stages.clock()
            if self._is_fixed and self._is_alone:
                self._all_at_once(fed.popleft(), total, rate, seen)
            elif self._is_fixed:
                self._half_by_half(fed.popleft(), total, rate, seen)
            else:
                self._pass_by_pass(fed, total, rate, seen)
            queued = Queued(self._step, seen, self.lane.mark(), started_s)
            with self._stages.crew.changed:
                self._queued.append(queued)
                self._stages.crew.changed.notify_all()

    def _all_at_once(self, fed: Fed, total: Tensor, rate: float, seen: StepSeen) -> None:
        """One pass of fixed shape with its optimiser step, replayed as one graph on a GPU."""
        self._grants.decide(self._step)
        self.lane.after(fed.mark)

        def step() -> None:
            found = self._fixed_pass(fed).step(fed.batch, fed.features, rate, total)
            seen.passes[fed.number] = PassSeen(found.loss, _kept(found.proxy), found.tokens)
            seen.grad_norm = found.grad_norm

        self._trace("step", step)
        self._feeder.buffers.give_back(fed.features, self.lane.mark())

    def _half_by_half(self, fed: Fed, total: Tensor, rate: float, seen: StepSeen) -> None:
        """One pass of fixed shape, the others' gradients, one optimiser step: two graphs."""
        self.lane.after(fed.mark)
        mine: list[Tensor] = []

        def accumulate() -> None:
            half = self._fixed_pass(fed).accumulate(fed.batch, fed.features, total)
            mine.append(half.gradients)
            kept = PassSeen(half.loss.clone(), _kept(half.proxy), fed.batch.tokens)
            seen.passes[fed.number] = kept

        self._trace("pass", accumulate)
        self._feeder.buffers.give_back(fed.features, self.lane.mark())
        summed = self._summed(mine)
        self._grants.decide(self._step)

        def step() -> None:
            # A copy, for the next step may be queued before this one is read.
            seen.grad_norm = self._fixed_pass(fed).apply(summed[0], rate).clone()

        self._trace("step", step)

    def _pass_by_pass(self, first: deque[Fed], total: Tensor, rate: float, seen: StepSeen) -> None:
        for number in range(self._mine):
            fed = first.popleft() if number == 0 else self._feeder.take()
            self.lane.after(fed.mark)
            self._trace("pass", self._one_pass(fed, total, seen))
            self._feeder.buffers.give_back(fed.features, self.lane.mark())
        if not self._is_alone:
            self._share_gradients()
        self._grants.decide(self._step)

        def step() -> None:
            # A copy, for the next step may be queued before this one is read.
            seen.grad_norm = self.drafting.optimizer.step(rate).grad_norm.clone()

        self.lane.run(step)

    def _one_pass(self, fed: Fed, total: Tensor, seen: StepSeen) -> Callable[[], None]:
        def run() -> None:
            found = self.drafting.accumulate(fed.batch, fed.features, total)
            seen.passes[fed.number] = PassSeen(found.loss, _kept(found.proxy), fed.batch.tokens)

        return run

    def _fixed_pass(self, fed: Fed) -> FixedPass:
        """The replica's pass of fixed shape, made from the first one that comes."""
        if self._fixed is None:
            self._fixed = FixedPass(self.drafting, fed.batch, fed.features)
        return self._fixed

    def _trace(self, part: str, work: Callable[[], None]) -> None:
        """Run it; alone in the process when it is the first of its kind, and may compile."""
        if part in self._traced:
            self.lane.run(work)
            return
        with self._stages.tracing:
            self.lane.run(work)
            self.lane.mark().wait()
        self._traced.add(part)

    def _share_gradients(self) -> None:
        """Replace my gradients by the sum over all replicas."""
        parameters = list(self.drafting.drafter.parameters())
        mine: list[Tensor] = []
        self.lane.run(lambda: mine.append(flattened(parameters)))
        summed = self._summed(mine)
        self.lane.run(lambda: spread(summed[0], parameters))

    def _summed(self, mine: list[Tensor]) -> list[Tensor]:
        """Everybody's gradients added in the order of ranks; behind it nobody reads mine.

        Both lists hold one tensor, for one copy to each of the others, once the lane is there.
        """
        posted = self._exchange.meet(self._step, "shown", self._rank, mine, self.lane.mark())
        for _, mark in posted:
            self.lane.after(mark)
        total: list[Tensor] = []

        def add() -> None:
            for rank, (theirs, _) in enumerate(posted):
                there = theirs[0].to(self.lane.device, non_blocking=True, copy=rank == 0)
                total[:] = [there if rank == 0 else total[0].add_(there)]

        self.lane.run(add)
        read = self._exchange.meet(self._step, "read", self._rank, [], self.lane.mark())
        for _, mark in read:
            self.lane.after(mark)
        return total


def _kept(proxy: Proxy) -> Proxy:
    """A copy that the next step does not overwrite."""
    return Proxy(
        proxy.blocks.clone(),
        proxy.accepted.clone(),
        proxy.correct.clone(),
        proxy.counted.clone(),
        None if proxy.expected is None else proxy.expected.clone(),
    )
