"""A target worker: takes jobs, reads the target model, packs what it said, hands it to its copier.

Forward and packing are queued on one lane, the target's own: packing on another would read what the
next forward overwrites. What the hooks captured is dropped in the packing itself, so none of it is
alive when the next forward starts. The copier waits for the lane in a thread of its own.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.pipeline.jobs import Job, Ticket
from trainer.pipeline.lanes import Lane, Mark
from trainer.pipeline.pool import Key, Ready
from trainer.pipeline.stages import Stages
from trainer.target import Reading

Read = Callable[[Tensor], Reading]
"""Taps and final states of padded sequences: int64 (B, S) on the target's device."""


@dataclass
class Packed:
    """What a job's forward left: wanted tokens end to end, (tokens, width), and which are finite.

    Filled on the lane; nobody reads it before its mark.
    """

    features: Tensor | None = None
    is_finite: Tensor | None = None


@dataclass(frozen=True)
class Handed:
    """A job on its way to the host."""

    ticket: Ticket
    packed: Packed
    mark: Mark


class TargetWorker:
    """One copy of the target model on one lane, and the copier beside it.

    Args:
        name: For messages, such as ``target 0 (cuda:0)``.
        read: The target model's forward with taps.
        lane: Where it runs.
        copy_lane: Where copies to the host run.
        stages: The shared parts.
        free_bytes: Free memory of the device, where that is known.
    """

    def __init__(
        self, name: str, read: Read, lane: Lane, copy_lane: Lane, stages: Stages,
        *, free_bytes: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.lane = lane
        self._read, self._copy_lane = read, copy_lane
        self._stages = stages
        self._free_bytes = free_bytes
        self._captured: Reading | None = None
        self._handed: deque[Handed] = deque()
        self._meter = stages.meters.new("target")
        self._copy_meter = stages.meters.new("copy")
        self.most_tokens = stages.limits.token_budget
        self.is_lost = False
        self.is_paused = False

    def warm(self, *, headroom_bytes: int) -> None:
        """Read the largest batch once, with room left for tuning; halve the batch until it fits.

        Where free memory is not known, nothing is done.

        Raises:
            torch.OutOfMemoryError: not even one document fits.
        """
        if self._free_bytes is None:
            return
        limits = self._stages.limits
        bucket = max(limits.buckets, key=lambda each: (limits.batch_size(each) * each, each))
        rows = limits.batch_size(bucket)
        while not self._fits(rows, bucket, headroom_bytes):
            if rows == 1:
                raise torch.OutOfMemoryError(
                    f"one document of {bucket} tokens does not fit {self.lane.device}"
                    f" with {headroom_bytes} bytes to spare"
                )
            rows //= 2
            self._halved(rows * bucket)

    def work(self) -> None:
        """Take jobs and read them, until the crew ends."""
        stages = self._stages
        while True:
            with self._meter.waiting():
                ticket = stages.jobs.take(self.name, self._may_take)
            job = ticket.job
            if len(job.documents) > 1 and len(job.documents) * job.length > self.most_tokens:
                self._give_back(ticket)
                continue
            handed = self._try(ticket)
            if handed is None:
                self._backed_off(ticket)
                continue
            with stages.crew.changed:
                stages.jobs.waits(ticket, is_waiting=True)
                stages.copies.acquire(ticket.number)
                stages.jobs.waits(ticket, is_waiting=False)
                self._handed.append(handed)
                stages.crew.changed.notify_all()
            # The copier's reference is the only one now.
            del handed

    def copy(self) -> None:
        """Bring packed features to the host and publish them, until the crew ends."""
        crew = self._stages.crew
        while True:
            with crew.changed:
                crew.until(lambda: self._handed)
                handed = self._handed.popleft()
            try:
                handed.mark.wait()
                self._meter.ended(handed.ticket.since_s, handed.ticket.job.tokens)
                with self._copy_meter.working(handed.ticket.job.tokens):
                    flags = self._to_host(handed)
                self._publish(handed.ticket, flags)
            finally:
                with crew.changed:
                    self._stages.copies.release(handed.ticket.number)
            del handed

    def _may_take(self) -> bool:
        return not self.is_lost and not self.is_paused

    def _try(self, ticket: Ticket) -> Handed | None:
        """Queue the job's forward and packing; None when memory does not suffice."""
        try:
            packed = self._queue(ticket.job)
        except torch.OutOfMemoryError:
            # Leave the handler first: the exception's frames keep tensors alive.
            packed = None
        if packed is None:
            self._captured = None
            return None
        return Handed(ticket, packed, self.lane.mark())

    def _queue(self, job: Job) -> Packed:
        ids_BS, index = _padded(job, self._stages)
        device = self.lane.device
        packed = Packed()

        def forward() -> None:
            assert self._captured is None, "what an earlier forward captured is still alive"
            self._captured = self._read(ids_BS.to(device, non_blocking=True))

        def pack() -> None:
            reading, self._captured = self._captured, None
            assert reading is not None
            where = index.to(device, non_blocking=True)
            features = reading.taps_BSF.flatten(0, 1).index_select(0, where)
            if self._stages.final_size:
                final = reading.final_BSH.flatten(0, 1).index_select(0, where)
                features = torch.cat([features, final], dim=1)
            # The largest magnitude is NaN or infinite exactly when some number is.
            largest = torch.linalg.vector_norm(features, ord=torch.inf, dim=-1)
            packed.features, packed.is_finite = features, torch.isfinite(largest)

        self.lane.run(forward)
        self.lane.run(pack)
        return packed

    def _to_host(self, handed: Handed) -> Tensor:
        """Copy a job's features into its leases; gives which tokens are finite, on the host."""
        lane, packed = self._copy_lane, handed.packed
        features, finite = packed.features, packed.is_finite
        assert features is not None
        assert finite is not None
        flags = torch.empty(len(finite), dtype=torch.bool, pin_memory=self._stages.is_pinned)
        lane.after(handed.mark)
        first = 0
        for each in handed.ticket.job.wanted:
            for start, view in self._stages.arena.views(each.lease):
                source = features[first + start : first + start + len(view)]
                lane.run(_copying(view, source))
            first += each.lease.tokens
        lane.run(_copying(flags, finite))
        lane.mark().wait()
        return flags

    def _publish(self, ticket: Ticket, flags: Tensor) -> None:
        stages, job = self._stages, ticket.job
        finite = torch.split(flags, [each.lease.tokens for each in job.wanted])
        good = [bool(each.all()) for each in finite]
        with stages.crew.changed:
            if not stages.jobs.close(ticket):
                return  # it came too late: the job is somebody else's
            for each, is_finite in zip(job.wanted, good, strict=True):
                stages.pool.publish(Key(job.epoch, each.document), Ready(each.lease, is_finite))
        for each, is_finite in zip(job.wanted, good, strict=True):
            if not is_finite:
                stages.record.note(
                    "skipped", epoch=job.epoch, document=each.document, reason="not finite",
                    stage=self.name,
                )  # fmt: skip

    def _give_back(self, ticket: Ticket) -> None:
        stages = self._stages
        with stages.crew.changed:
            if stages.jobs.close(ticket):
                stages.jobs.put_back(ticket.job.halves())

    def _backed_off(self, ticket: Ticket) -> None:
        """Read half as much from now on, and let the job be read in halves."""
        job = ticket.job
        if len(job.documents) == 1:
            raise torch.OutOfMemoryError(
                f"one document of {job.length} tokens does not fit {self.lane.device}"
            )
        if self.lane.device.type == "cuda":
            torch.cuda.empty_cache()
        self._halved(len(job.documents) * job.length // 2)
        self._stages.meters.requeued += 1
        self._give_back(ticket)

    def _halved(self, tokens: int) -> None:
        self.most_tokens = tokens
        self._stages.record.note("out of memory", stage=self.name, token_budget=tokens)

    def _fits(self, rows: int, bucket: int, headroom_bytes: int) -> bool:
        ids = torch.zeros(rows, bucket, dtype=torch.int64)
        try:
            self.lane.run(lambda: _forget(self._read(ids.to(self.lane.device))))
            self.lane.mark().wait()
        except torch.OutOfMemoryError:
            return False
        assert self._free_bytes is not None
        return self._free_bytes() >= headroom_bytes


def _padded(job: Job, stages: Stages) -> tuple[Tensor, Tensor]:
    """Ids (B, S), padded with token 0, and where the wanted tokens stand in ``B * S``."""
    pinned = stages.is_pinned  # or the copy to the device would wait for the lane
    shape = (len(job.documents), job.length)
    ids = torch.zeros(shape, dtype=torch.int64, pin_memory=pinned)
    starts: dict[int, int] = {}
    for slot, document in enumerate(job.documents):
        tokens = stages.corpus[document].ids
        ids[slot, : len(tokens)] = tokens
        starts[document] = slot * job.length
    places: Sequence[Tensor] = [
        starts[each.document] + torch.arange(each.lease.tokens) for each in job.wanted
    ]
    index = torch.cat(list(places))
    return ids, index.pin_memory() if pinned else index


def _copying(target: Tensor, source: Tensor) -> Callable[[], None]:
    def copy() -> None:
        target.copy_(source, non_blocking=True)

    return copy


def _forget(_reading: Reading) -> None:
    """The result of a warm-up."""
