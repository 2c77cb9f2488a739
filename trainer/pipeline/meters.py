"""What each stage does with its time, and which one holds the others up.

A stage writes its own meter and no other's, so none is locked. Rates are what a stage could do if
it never waited: tokens over the seconds in which it worked. The slowest of them is the bottleneck.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from trainer.pipeline.graphs import GraphedRead

Stage = Literal["target", "copy", "feed", "draft"]


@dataclass
class Meter:
    """One thread's work and waiting; ``clock`` gives seconds that never go back."""

    stage: Stage
    clock: Callable[[], float]
    busy_s: float = 0.0
    wait_s: float = 0.0
    tokens: int = 0
    _since_s: float = 0.0

    @contextmanager
    def working(self, tokens: int = 0) -> Iterator[None]:
        """Count the time inside as work on so many tokens."""
        start = self.clock()
        yield
        self.busy_s += self.clock() - start
        self.tokens += tokens

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside as waiting for a neighbour."""
        start = self.clock()
        yield
        self.wait_s += self.clock() - start

    def ended(self, started_s: float, tokens: int) -> None:
        """Work ended that began at ``started_s`` or when the work before it ended."""
        now = self.clock()
        self.busy_s += now - max(started_s, self._since_s)
        self._since_s = now
        self.tokens += tokens


@dataclass(frozen=True)
class PipelineReport:
    """The pipeline in numbers since the report before; rates in tokens a second, padding left out.

    Attributes:
        bottleneck: The stage with the lowest rate; ``none`` before anything was done.
        pool_ready: Documents ready to be taken.
        pool_used: Share of the pool's memory that is leased, in thousandths.
        target_rate: What all targets together could do.
        copy_rate: What all copiers together could do.
        draft_rate: What all drafters together could do.
        draft_wait: Share of the time that drafters waited for features, in thousandths.
        requeued: Jobs that went back to the queue, since the start.
        quarantined: Documents whose features were not finite, since the start.
        eager: Target batches that no graph was replayed for, since the start.
    """

    bottleneck: str
    pool_ready: int
    pool_used: int
    target_rate: int
    copy_rate: int
    draft_rate: int
    draft_wait: int
    requeued: int
    quarantined: int
    eager: int


@dataclass
class Meters:
    """All meters of a pipeline."""

    clock: Callable[[], float]
    all: list[Meter] = field(default_factory=list)
    graphs: list[GraphedRead] = field(default_factory=list)
    requeued: int = 0
    _then: dict[int, tuple[float, float, int]] = field(default_factory=dict)
    _rate: dict[int, tuple[Stage, float]] = field(default_factory=dict)

    def new(self, stage: Stage) -> Meter:
        """A meter for one thread of that stage."""
        made = Meter(stage, self.clock)
        self.all.append(made)
        return made

    def report(self, *, pool_ready: int, pool_used: int, quarantined: int) -> PipelineReport:
        """Numbers since the last call."""
        busy: dict[Stage, float] = {}
        wait: dict[Stage, float] = {}
        for number, meter in enumerate(self.all):
            now = (meter.busy_s, meter.wait_s, meter.tokens)
            then = self._then.get(number, (0.0, 0.0, 0))
            self._then[number] = now
            busy_s, tokens = now[0] - then[0], now[2] - then[2]
            busy[meter.stage] = busy.get(meter.stage, 0.0) + busy_s
            wait[meter.stage] = wait.get(meter.stage, 0.0) + now[1] - then[1]
            if busy_s > 0 and tokens:
                self._rate[number] = (meter.stage, tokens / busy_s)
        # A stage that had nothing to do keeps the rate that it had.
        rate: dict[Stage, float] = {}
        for stage, mine in self._rate.values():
            rate[stage] = rate.get(stage, 0.0) + mine
        told: tuple[Stage, ...] = ("target", "copy", "draft")
        known = {stage: rate[stage] for stage in told if rate.get(stage)}
        spent = busy.get("draft", 0.0) + wait.get("draft", 0.0)
        return PipelineReport(
            bottleneck=min(known, key=lambda stage: known[stage]) if known else "none",
            pool_ready=pool_ready,
            pool_used=pool_used,
            target_rate=round(rate.get("target", 0.0)),
            copy_rate=round(rate.get("copy", 0.0)),
            draft_rate=round(rate.get("draft", 0.0)),
            draft_wait=round(1000 * wait.get("draft", 0.0) / spent) if spent > 0 else 0,
            requeued=self.requeued,
            quarantined=quarantined,
            eager=sum(each.eager for each in self.graphs),
        )
