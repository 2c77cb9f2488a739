"""The loss of draft rows, and its gradient computed in the same pass.

Weights (decay, D-PACE), objectives (cross-entropy, forward KL) and denominators that stay exact
under data parallel; the LM head runs over chunks of whole draft blocks, only over rows that
count, and no logits outlive their chunk. Which rows count is ``trainer.anchors``' business;
counting accepted tokens is ``trainer.acceptance``'s.

Every loss has the form  sum over rows of (weight * value) / denominator.  The denominator is known
before the forward pass, so a caller sums it over micro-batches and ranks first.

Shape letters: N rows of a micro-batch, A anchors, B block size, R rows that reach the head,
H hidden size, V vocabulary.

Source: DFlash, arXiv 2602.06036; D-PACE, arXiv 2605.18810, normalised by anchors and not by its
own weights, which would cancel its signal.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from trainer.anchors import Supervision
from trainer.errors import ConfigError
from trainer.kernels.choice import row_math as fastest_row_math
from trainer.kernels.eager import RowMath
from trainer.sending import send
from trainer.teacher import Teacher

Objective = Literal["cross_entropy", "forward_kl", "teacher_argmax"]
Weighting = Literal["decay", "dpace", "plain"]

CHUNK_ROWS = 2048
"""Rows per chunk: the head is read once a chunk, at an intensity far above any GPU's ridge."""


@dataclass(frozen=True, slots=True)
class LossConfig:
    """What a row is taught and how rows are weighted.

    Attributes:
        objective: ``cross_entropy`` against the data's token, ``forward_kl`` from the target's
            distribution at the same place, or ``teacher_argmax``: cross-entropy against the token
            that the target finds likeliest there.
        weighting: ``decay`` is exp(-(k - 1) / gamma) over the sum of weights; ``dpace`` weighs a
            row by what it opens up, over anchors, sequences alike; ``plain`` weighs all alike.
        gamma: Rows until a weight falls by e; None takes the paper's value for the block size.
        alpha: D-PACE's floor under a row's probability.
    """

    objective: Objective = "cross_entropy"
    weighting: Weighting = "decay"
    gamma: float | None = None
    alpha: float = 0.5

    @property
    def needs_teacher(self) -> bool:
        """Whether the target's final states are needed."""
        return self.objective != "cross_entropy"

    def __post_init__(self) -> None:
        if self.gamma is not None and self.gamma <= 0:
            raise ConfigError(f"gamma: {self.gamma} cannot be used; give a positive number of rows")
        if not 0 <= self.alpha <= 1:
            raise ConfigError(f"alpha: {self.alpha} cannot be used; give 0 to 1")


@dataclass(frozen=True, slots=True)
class RowResults:
    """What the head pass learned about each listed row; detached, (R,)."""

    value: Tensor
    correct: Tensor
    overlap: Tensor | None
    """Sum over the vocabulary of min(p, q), the chance that sampling accepts; with a teacher."""


@dataclass(frozen=True, slots=True)
class HeadLoss:
    """A differentiable scalar and what it was made of."""

    loss: Tensor
    rows: RowResults


def paper_gamma(block_size: int) -> float:
    """The paper's decay for a block size, and the line through its three values elsewhere.

    >>> [paper_gamma(size) for size in (8, 10, 16)]
    [4.0, 5.0, 7.0]
    """
    return min(block_size / 2, 7.0)


def decay_weights(config: LossConfig, block_size: int, device: torch.device) -> Tensor:
    """Static weight of each slot of a block: float32 (B,); slot 0 has none."""
    row = torch.arange(block_size, device=device, dtype=torch.float32)
    if config.weighting == "decay":
        gamma = paper_gamma(block_size) if config.gamma is None else config.gamma
        weights = torch.exp(-(row - 1) / gamma)
    else:
        weights = torch.ones_like(row)
    return weights * (row > 0)


def dpace_weights(cross_entropy: Tensor, mask: Tensor, alpha: float) -> Tensor:
    """D-PACE's weight of each row: sum over m >= k of the chance that rows 1..m all pass.

    Args:
        cross_entropy: Detached, (blocks, B).
        mask: 1 where a row counts; others count as certain in products and nothing in sums.
        alpha: Floor under a row's probability.

    Returns:
        float32 (blocks, B); zero where ``mask`` is.
    """
    passes = (1 - alpha) * torch.exp(-cross_entropy.float()) + alpha
    chance = torch.where(mask > 0, passes, torch.ones_like(passes)).cumprod(-1) * mask
    # A sum over m >= k as a product: on a GPU, cumsum has no deterministic form.
    later = torch.ones(chance.shape[-1], chance.shape[-1], device=chance.device).tril()
    return (chance @ later) * mask


def denominator(supervision: Supervision, config: LossConfig) -> Tensor:
    """This micro-batch's share of the loss's denominator: float32 scalar.

    Sum it over the micro-batches and ranks of an optimiser step, and give the sum to
    :func:`head_loss` in each: then the step equals one big micro-batch's.
    """
    if config.weighting == "dpace":
        return supervision.mask.new_tensor(float(supervision.sequences))
    weights = decay_weights(config, supervision.block_size, supervision.mask.device)
    return (supervision.mask * weights).sum()


def head_loss(
    hidden: Tensor, head: Tensor, supervision: Supervision, config: LossConfig, total: Tensor,
    *, teacher: Teacher | None = None, chunk_rows: int = CHUNK_ROWS,
    row_math: RowMath | None = None,
) -> HeadLoss:  # fmt: skip
    """The loss of a micro-batch, differentiable in ``hidden`` alone: the head is frozen.

    Args:
        hidden: The drafter's final-normed rows, (N, Q, H).
        head: The target model's LM head, (V, H).
        supervision: Labels and which rows count.
        config: Objective and weighting.
        total: The global denominator; see :func:`denominator`.
        teacher: The target's final-normed states that predict the listed rows' tokens. With
            ``cross_entropy`` it only adds the overlap to the results.
        chunk_rows: Rows whose logits exist at one time.
        row_math: The fastest that the device has when None.

    Raises:
        ConfigError: an objective without the teacher that it needs.
    """
    if config.needs_teacher and teacher is None:
        raise ConfigError(f"objective: '{config.objective}' needs the target's last hidden states")
    rows = hidden.flatten(0, 1).index_select(0, supervision.rows)
    job = _HeadJob(
        head=head.detach(), supervision=supervision, config=config,
        total=send(total, hidden.device).float().clamp_min(torch.finfo(torch.float32).tiny),
        teacher=teacher, chunk_rows=chunk_rows,
        row_math=fastest_row_math(hidden.device) if row_math is None else row_math,
    )  # fmt: skip
    loss, value, correct, overlap = _ForwardGradient.apply(rows, job)  # type: ignore[no-untyped-call]  # torch ships it without types
    return HeadLoss(loss, RowResults(value, correct, overlap))


@dataclass(frozen=True, slots=True)
class _HeadJob:
    head: Tensor
    supervision: Supervision
    config: LossConfig
    total: Tensor
    teacher: Teacher | None
    chunk_rows: int
    row_math: RowMath

    def chunks(self) -> list[tuple[int, int]]:
        """Runs of whole blocks with at most ``chunk_rows`` rows (one block may exceed it)."""
        offsets = self.supervision.offsets
        runs: list[tuple[int, int]] = []
        start = 0
        while start < len(offsets) - 1:
            stop = start + 1
            while stop + 1 < len(offsets) and offsets[stop + 1] - offsets[start] <= self.chunk_rows:
                stop += 1
            if offsets[stop] > offsets[start]:
                runs.append((start, stop))
            start = stop
        return runs


class _ForwardGradient(torch.autograd.Function):
    """Computes the gradient with the loss, chunk by chunk, and keeps that instead of logits."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, rows: Tensor, job: _HeadJob
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Loss, and each row's value, correctness and overlap."""
        slope = torch.zeros_like(rows)
        value = torch.zeros(len(rows), device=rows.device)
        correct = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        compares = job.teacher is not None and job.config.objective != "teacher_argmax"
        overlap = torch.zeros_like(value) if compares else None
        loss = torch.zeros((), device=rows.device)
        for first, last in job.chunks():
            part = slice(job.supervision.offsets[first], job.supervision.offsets[last])
            chunk = _head_chunk(rows[part], job, first, last)
            loss += (chunk.coefficient * chunk.value).sum()
            slope[part], value[part], correct[part] = chunk.slope, chunk.value, chunk.correct
            if overlap is not None and chunk.overlap is not None:
                overlap[part] = chunk.overlap
        ctx.save_for_backward(slope)
        ctx.mark_non_differentiable(value, correct)
        return loss, value, correct, overlap

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstream: Tensor) -> tuple[Tensor, None]:
        """The kept gradient, scaled."""
        (slope,) = ctx.saved_tensors  # type: ignore[attr-defined]  # what forward kept
        return slope * upstream[0].to(slope.dtype), None


@dataclass(frozen=True, slots=True)
class _Chunk:
    coefficient: Tensor
    value: Tensor
    correct: Tensor
    overlap: Tensor | None
    slope: Tensor


def _head_chunk(rows: Tensor, job: _HeadJob, first: int, last: int) -> _Chunk:
    """Loss and gradient of the rows of blocks ``first`` to ``last``."""
    supervision, math = job.supervision, job.row_math
    part = slice(supervision.offsets[first], supervision.offsets[last])
    flat = supervision.rows[part]
    labels = supervision.labels.flatten().index_select(0, flat)
    taught: _Taught | None = None
    if job.teacher is not None:
        taught = _taught(job.teacher, job, first, last)
        if job.config.objective == "teacher_argmax":
            # Nothing but the labels is needed of it; its logits make room for the drafter's.
            labels, taught = taught.best.index_select(0, taught.index), None
    logits = rows @ job.head.to(rows.dtype).T
    log_sum, picked, best = math.statistics(logits, labels)
    cross_entropy = log_sum - picked
    slot = flat - first * supervision.block_size
    coefficient = _coefficient(cross_entropy, job, first, last, slot)
    value, overlap = cross_entropy, None
    if taught is None:
        slope = math.gradient(logits, labels, log_sum, coefficient)
    else:
        other = None if job.config.objective == "forward_kl" else labels
        found = math.compared(logits, log_sum, taught.logits, taught.log_sum, taught.index,
                              coefficient, other)  # fmt: skip
        slope, overlap = found.slope, found.overlap
        value = cross_entropy if other is not None else found.divergence
    slope = slope @ job.head.to(slope.dtype)
    return _Chunk(coefficient, value, best == labels, overlap, slope)


@dataclass(frozen=True, slots=True)
class _Taught:
    """The target's logits where a chunk needs them, (U, V), and each row's place there, (R,)."""

    logits: Tensor
    log_sum: Tensor
    best: Tensor
    index: Tensor


def _taught(teacher: Teacher, job: _HeadJob, first: int, last: int) -> _Taught:
    plan, offsets = teacher.plan, job.supervision.offsets
    reach = [run for run in plan.reach[first:last] if run[0] < run[1]]
    low, high = min(run[0] for run in reach), max(run[1] for run in reach)
    states = teacher.states[low:high].detach()
    logits = states @ job.head.to(states.dtype).T
    unused = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
    log_sum, _, best = job.row_math.statistics(logits, unused)
    return _Taught(logits, log_sum, best, plan.index[offsets[first] : offsets[last]] - low)


def _coefficient(
    cross_entropy: Tensor, job: _HeadJob, first: int, last: int, slot: Tensor
) -> Tensor:
    """Each row's weight over the denominator; ``slot`` is its place in blocks first..last."""
    supervision, config = job.supervision, job.config
    size = supervision.block_size
    mask = supervision.mask.flatten(0, 1)[first:last]
    if config.weighting == "dpace":
        table = torch.zeros(mask.numel(), device=mask.device)
        table = table.index_copy(0, slot, cross_entropy).view_as(mask)
        weights = dpace_weights(table, mask, config.alpha)
        weights = weights / supervision.anchors_in_sequence.flatten()[first:last, None]
    else:
        weights = mask * decay_weights(config, size, mask.device)
    return weights.flatten().index_select(0, slot) / job.total
