"""A chunk of logits read twice and written once: cross-entropy, argmax, and the gradient in place.

The fused twin of ``trainer.kernels.eager``. Rows are independent, so a program takes one row and
walks the vocabulary; the head's own matrix products stay with the vendor's library, which
runs near the chip's rate. Importing this needs Triton; ``trainer.kernels.choice`` asks first.

Shape letters: R rows of a chunk, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainer.kernels.eager import Compared

_COLUMNS = 4096
"""Columns a program holds at once: 16 KiB of float32 in registers of 8 warps."""
_WARPS = 8


class FusedRowMath:
    """See ``RowMath`` in ``trainer.kernels.eager``; logits contiguous, on a GPU or interpreted."""

    def statistics(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-sum-exp, label logit and the argmax, each (R,)."""
        rows, vocabulary = logits.shape
        log_sum = torch.empty(rows, dtype=torch.float32, device=logits.device)
        picked = torch.empty_like(log_sum)
        best = torch.empty_like(labels)
        _statistics[(rows,)](
            logits, labels, log_sum, picked, best, VOCABULARY=vocabulary,
            COLUMNS=_columns(vocabulary), num_warps=_WARPS,
        )  # fmt: skip
        return log_sum, picked, best

    def gradient(
        self, logits: Tensor, labels: Tensor, log_sum: Tensor, coefficient: Tensor
    ) -> Tensor:
        """coefficient * (softmax(logits) - onehot(labels)), written over ``logits``."""  # noqa: D403
        rows, vocabulary = logits.shape
        columns = _columns(vocabulary)
        _gradient[(rows, triton.cdiv(vocabulary, columns))](
            logits, labels, log_sum, coefficient, VOCABULARY=vocabulary,
            COLUMNS=columns, num_warps=_WARPS,
        )  # fmt: skip
        return logits

    def compared(
        self, logits: Tensor, log_sum: Tensor, teacher: Tensor, teacher_sum: Tensor,
        index: Tensor, coefficient: Tensor, labels: Tensor | None,
    ) -> Compared:  # fmt: skip
        """Both sums, and the gradient written over ``logits``: one read of each tensor."""
        rows, vocabulary = logits.shape
        divergence, overlap = torch.empty_like(log_sum), torch.empty_like(log_sum)
        _compared[(rows,)](
            logits, log_sum, teacher, teacher_sum, index, coefficient,
            index if labels is None else labels, divergence, overlap, VOCABULARY=vocabulary,
            COLUMNS=_columns(vocabulary), LABELLED=labels is not None, num_warps=_WARPS,
        )  # fmt: skip
        return Compared(divergence, overlap, logits)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _statistics(
    logits: tl.tensor,
    labels: tl.tensor,
    log_sum: tl.tensor,
    picked: tl.tensor,
    best: tl.tensor,
    VOCABULARY: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    # The row's offset passes 2**31 in a real chunk, so it is 64 bits wide.
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * VOCABULARY
    top = -float("inf")
    total = 0.0
    where = 0
    for first in range(0, VOCABULARY, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        value = tl.load(start + column, mask=column < VOCABULARY, other=-float("inf"))
        value = value.to(tl.float32)
        here, place = tl.max(value, axis=0, return_indices=True)
        where = tl.where(here > top, first + place, where)
        higher = tl.maximum(top, here)
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), axis=0)
        top = higher
    label = tl.load(labels + row)
    tl.store(log_sum + row, top + tl.log(total))
    tl.store(picked + row, tl.load(start + label).to(tl.float32))
    tl.store(best + row, where)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _gradient(
    logits: tl.tensor,
    labels: tl.tensor,
    log_sum: tl.tensor,
    coefficient: tl.tensor,
    VOCABULARY: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < VOCABULARY
    place = logits + row * VOCABULARY + column
    value = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    chance = tl.exp(value - tl.load(log_sum + row))
    chance = tl.where(column == tl.load(labels + row), chance - 1.0, chance)
    slope = chance * tl.load(coefficient + row)
    tl.store(place, slope.to(logits.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _compared(
    logits: tl.tensor,
    log_sum: tl.tensor,
    teacher: tl.tensor,
    teacher_sum: tl.tensor,
    index: tl.tensor,
    coefficient: tl.tensor,
    labels: tl.tensor,
    divergence: tl.tensor,
    overlap: tl.tensor,
    VOCABULARY: tl.constexpr,
    COLUMNS: tl.constexpr,
    LABELLED: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    other = tl.load(index + row)
    start, theirs = logits + row * VOCABULARY, teacher + other * VOCABULARY
    ours_sum, theirs_sum = tl.load(log_sum + row), tl.load(teacher_sum + other)
    scale, label = tl.load(coefficient + row), tl.load(labels + row)
    apart, shared = 0.0, 0.0
    for first in range(0, VOCABULARY, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = column < VOCABULARY
        log_q = tl.load(start + column, mask=inside, other=0.0).to(tl.float32) - ours_sum
        log_p = tl.load(theirs + column, mask=inside, other=0.0).to(tl.float32) - theirs_sum
        q, p = tl.exp(log_q), tl.exp(log_p)
        apart += tl.sum(tl.where(inside, p * (log_p - log_q), 0.0), axis=0)
        shared += tl.sum(tl.where(inside, tl.minimum(p, q), 0.0), axis=0)
        aim = p
        if LABELLED:
            aim = tl.where(column == label, 1.0, 0.0)
        tl.store(start + column, ((q - aim) * scale).to(logits.dtype.element_ty), mask=inside)
    tl.store(divergence + row, apart)
    tl.store(overlap + row, shared)


def _columns(vocabulary: int) -> int:
    return min(_COLUMNS, int(triton.next_power_of_2(vocabulary)))
