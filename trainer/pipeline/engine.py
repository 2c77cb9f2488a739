"""The stages put together: from a place in the run to one trained step after another.

The main thread grants steps and looks after the others: a failure ends all of them, a target that
hangs loses its job to another, a stop is answered within a stated time. Building the parts from a
run's settings is ``trainer.pipeline.building``'s; loop, files and checkpoints are
``trainer.train``'s.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

import torch

from trainer.acceptance import Proxy
from trainer.config import PipelineSettings, RunConfig
from trainer.pipeline.crew import StageFailedError
from trainer.pipeline.drafters import DrafterWorker, Exchange, Grants, StepSeen
from trainer.pipeline.feeding import Denominators, Feeder
from trainer.pipeline.jobs import Job, Ticket, Wanted
from trainer.pipeline.lanes import Lane
from trainer.pipeline.meters import PipelineReport
from trainer.pipeline.order import EpochOrder, TargetBatch, order_epoch
from trainer.pipeline.stages import Stages
from trainer.pipeline.targets import TargetWorker
from trainer.schedule import Place, Row
from trainer.step import Drafting, StepOutcome

_LOOK_S = 0.05  # how often the main thread looks after the others while it waits


@dataclass(frozen=True)
class Replica:
    """One drafter with its optimiser, the lane it works on, and the lane its features come by."""

    drafting: Drafting
    lane: Lane
    feed_lane: Lane


class Pipeline:
    """All stages of one run, started by :meth:`start` and ended by :meth:`close`.

    Args:
        config: The run; ``config.pipeline`` is set.
        stages: The shared parts.
        targets: Workers that read the target model.
        replicas: Drafters, equal to the last bit.
        step: The last step that was trained.
        place: The row that comes next.
    """

    def __init__(
        self, config: RunConfig, stages: Stages, targets: Sequence[TargetWorker],
        replicas: Sequence[Replica], *, step: int, place: Place,
    ) -> None:  # fmt: skip
        assert config.pipeline is not None
        self._config = config
        self._settings: PipelineSettings = config.pipeline
        self._stages = stages
        self.targets = tuple(targets)
        self.replicas = tuple(replicas)
        self._step = self._granted = step
        self.place = place
        ranks = len(replicas)
        self._grants = Grants(stages.crew, ranks)
        self._denominators = Denominators(
            stages.crew, -(-config.rows_per_step // config.rows_per_pass)
        )
        exchange = Exchange(stages.crew, ranks)
        self._feeders = [
            Feeder(rank, ranks, config, each.feed_lane, stages, self._denominators, first_step=step)
            for rank, each in enumerate(replicas)
        ]
        self._drafters = [
            DrafterWorker(
                rank, each.drafting, each.lane, self._feeders[rank], stages, self._grants, exchange,
                self._denominators, first_step=step,
            )
            for rank, each in enumerate(replicas)
        ]  # fmt: skip

    def start(self) -> None:
        """Warm the targets, then start every thread."""
        for target in self.targets:
            target.warm(headroom_bytes=self._settings.headroom_bytes)
        crew = self._stages.crew
        crew.start("schedule", self._threaded(self._schedule))
        for target in self.targets:
            crew.start(target.name, self._threaded(target.work))
            crew.start(f"copier of {target.name}", self._threaded(target.copy))
        for rank, replica in enumerate(self.replicas):
            name = f"{rank} ({replica.lane.device})"
            crew.start(f"feeder {name}", self._threaded(self._feeders[rank].feed))
            crew.start(f"drafter {name}", self._threaded(self._drafters[rank].work))
            crew.start(f"end of step {name}", self._threaded(self._drafters[rank].settle))

    @property
    def is_settled(self) -> bool:
        """Whether no step is under way, so that weights are those of the last step told of."""
        return self._granted == self._step

    def step(
        self, rate: float, asked: Callable[[], bool], *, then: float | None = None
    ) -> StepOutcome | None:
        """Train the next step; None when somebody asked to stop and it could not end in time.

        Args:
            rate: The learning rate of this step.
            asked: Whether somebody asked to stop.
            then: That of the step behind it, when nothing happens between the two: it is begun
                before this one is told of, and devices do not wait for the main thread.

        Raises:
            TrainerError: a stage failed; names it.
        """
        step = self._step + 1
        for number, each in ((step, rate), (step + 1, then)):
            if each is not None and number > self._granted:
                self._grants.grant(number, each)
                self._granted = number
        clock, deadline_s = self._stages.clock, None
        with self._stages.crew.changed:
            while not self._grants.is_done(step):
                self._look_after()
                if deadline_s is None and asked():
                    deadline_s = clock() + self._settings.stop_s
                if deadline_s is not None and clock() > deadline_s:
                    if not self._grants.is_decided(step):
                        self._stages.crew.end()
                        self._granted = self._step  # neither this one nor the one behind it
                        return None
                    # The weights change now; that ends, or the device is lost.
                    deadline_s = clock() + self._settings.hang_s
                self._stages.crew.changed.wait(_LOOK_S)
            seen = self._grants.take(step)
            rows = self._stages.book.read(step)
        self._denominators.trained(step)
        self._stages.book.trained(step)
        self._step = step
        last = rows[-1].place
        self.place = Place(last.epoch, last.row + 1)
        return _outcome(seen)

    def report(self) -> PipelineReport:
        """Rates and levels since the last call."""
        stages = self._stages
        with stages.crew.changed:
            used = 1000 * stages.arena.used // max(1, stages.arena.used + stages.arena.free)
            return stages.meters.report(
                pool_ready=stages.pool.ready, pool_used=used, quarantined=stages.pool.quarantined
            )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No target model is read by us while entered, so somebody else may read one."""
        crew = self._stages.crew
        with crew.changed:
            for target in self.targets:
                target.is_paused = True
            while self._stages.jobs.out:
                self._look_after()
                crew.changed.wait(_LOOK_S)
        try:
            yield
        finally:
            with crew.changed:
                for target in self.targets:
                    target.is_paused = False
                crew.changed.notify_all()

    def close(self) -> tuple[str, ...]:
        """End every thread; names of those that hang and end with the process alone."""
        self._stages.crew.end()
        return self._stages.crew.join(self._settings.stop_s)

    def _threaded(self, body: Callable[[], None]) -> Callable[[], None]:
        threads = self._config.threads
        if threads is None and self._stages.is_pinned:
            threads = 1  # beside a GPU there are only small tensors, which many threads slow down

        def run() -> None:
            if threads is not None:
                torch.set_num_threads(threads)
            body()

        return run

    def _schedule(self) -> None:
        """Decide epoch after epoch, and let jobs in as memory allows, until the last step."""
        config, stages = self._config, self._stages
        lengths = stages.corpus.lengths
        first_row = self.place.row
        left = (config.steps - self._step) * config.rows_per_step
        step, held = self._step, list[Row]()
        for epoch in count(self.place.epoch):
            if left <= 0:
                break
            order = order_epoch(lengths, stages.limits, seed=config.seed, epoch=epoch)
            stages.record.keep(order)
            rows = [
                Row(documents, Place(epoch, number))
                for number, documents in enumerate(
                    order.rows[first_row : first_row + left], first_row
                )
            ]
            for row in rows:
                held.append(row)
                if len(held) == config.rows_per_step:
                    step += 1
                    stages.book.write(step, held)
                    held = []
            left -= len(rows)
            first_row = 0
            self._let_in(order, rows)
        with stages.crew.changed:
            stages.crew.changed.notify_all()

    def _let_in(self, order: EpochOrder, rows: Sequence[Row]) -> None:
        """Queue the epoch's jobs in order; those of which nothing is wanted are left out."""
        wanted = frozenset(each for row in rows for each in row.documents)
        for batch in order.batches:
            mine = tuple(each for each in batch.documents if each in wanted)
            if mine:
                self._put(batch, mine)

    def _put(self, batch: TargetBatch, wanted: tuple[int, ...]) -> None:
        stages = self._stages
        offsets = stages.corpus.offsets
        tokens = [int(offsets[each + 1] - offsets[each]) for each in wanted]
        need = sum(stages.arena.pages_of(each) for each in tokens)
        with stages.crew.changed:
            stages.crew.until(lambda: stages.jobs.has_room and stages.arena.free >= need)
            leases = [stages.arena.lease(each) for each in tokens]
            pairs = zip(wanted, leases, strict=True)
            stages.jobs.put(
                Job(
                    batch.epoch,
                    batch.documents,
                    batch.length,
                    tuple(Wanted(*each) for each in pairs),
                )
            )

    def _look_after(self) -> None:
        """Tell a failure; take a job from a target that hangs. Inside ``changed``."""
        self._stages.crew.check()
        for ticket in self._stages.jobs.overdue(self._settings.hang_s):
            self._rescue(ticket)

    def _rescue(self, ticket: Ticket) -> None:
        """The job's target hangs: it gets no more jobs, and this one goes to another.

        Raises:
            StageFailedError: there is no other, or the job was tried too often.
        """
        stages, job = self._stages, ticket.job
        stages.jobs.close(ticket)
        stages.copies.release(ticket.number)
        for target in self.targets:
            target.is_lost = target.is_lost or target.name == ticket.worker
        stages.meters.requeued += 1
        stages.record.note(
            "hung", stage=ticket.worker, attempt=job.attempt, documents=list(job.documents)
        )
        is_last = job.attempt >= self._settings.attempts
        if is_last or all(target.is_lost for target in self.targets):
            why = f"tried {job.attempt} times" if is_last else "no other target is left"
            error = StageFailedError(
                f"pipeline, {ticket.worker}: no answer for {self._settings.hang_s:g} s; {why}"
            )
            stages.crew.fail(ticket.worker, error)
            raise error
        wanted = []
        for each in job.wanted:
            stages.arena.abandoned(each.lease)
            wanted.append(Wanted(each.document, stages.arena.lease(each.lease.tokens)))
        stages.jobs.put_back([replace(job, wanted=tuple(wanted), attempt=job.attempt + 1)])


def _outcome(seen: Sequence[StepSeen]) -> StepOutcome:
    """What all replicas saw together; sums run in the order of passes, whoever did them."""
    passes = dict(sorted((n, each) for one in seen for n, each in one.passes.items()))
    losses = [each.loss.cpu() for each in passes.values()]
    norm = seen[0].grad_norm
    assert norm is not None
    proxies = [_on_cpu(each.proxy) for each in passes.values()]
    return StepOutcome(
        loss=reduce(torch.add, losses, torch.zeros(())),
        grad_norm=norm,
        proxy=reduce(Proxy.plus, proxies),
        tokens=sum(each.tokens for each in passes.values()),
    )


def _on_cpu(proxy: Proxy) -> Proxy:
    return Proxy(
        proxy.blocks.cpu(),
        proxy.accepted.cpu(),
        proxy.correct.cpu(),
        proxy.counted.cpu(),
        None if proxy.expected is None else proxy.expected.cpu(),
    )
