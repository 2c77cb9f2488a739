"""Elementwise work on a chunk of logits: what it is, and its form in plain torch.

The fused twin is ``trainer.kernels.rows``; which of them a device gets, ``trainer.kernels.choice``.

Shape letters: R rows of a chunk, V vocabulary, U rows of the teacher's logits.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Compared:
    """Against a teacher's p: KL(p, q) and sum of min(p, q), (R,); the gradient, (R, V)."""

    divergence: Tensor
    overlap: Tensor
    slope: Tensor


class RowMath(Protocol):
    """Elementwise work on a chunk of logits; two forms give the same numbers."""

    def statistics(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-sum-exp, label logit (float32) and the argmax (int64), each (R,)."""
        ...

    def gradient(
        self, logits: Tensor, labels: Tensor, log_sum: Tensor, coefficient: Tensor
    ) -> Tensor:
        """Give coefficient * (softmax(logits) - onehot(labels)); may overwrite ``logits``."""
        ...

    def compared(
        self, logits: Tensor, log_sum: Tensor, teacher: Tensor, teacher_sum: Tensor,
        index: Tensor, coefficient: Tensor, labels: Tensor | None,
    ) -> Compared:  # fmt: skip
        """Compare with the teacher's logits (U, V), row r with their row ``index[r]``.

        The gradient is coefficient * (softmax(logits) - p), with the labels' one-hot in place of
        the teacher's p where labels are given; may overwrite ``logits``.
        """
        ...


class EagerRowMath:
    """The formulas in plain torch."""

    def statistics(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See :class:`RowMath`."""
        wide = logits.float()
        picked = wide.gather(1, labels[:, None])[:, 0]
        return wide.logsumexp(-1), picked, wide.argmax(-1)

    def gradient(
        self, logits: Tensor, labels: Tensor, log_sum: Tensor, coefficient: Tensor
    ) -> Tensor:
        """See :class:`RowMath`."""
        slope = (logits.float() - log_sum[:, None]).exp_().mul_(coefficient[:, None])
        slope.scatter_add_(1, labels[:, None], -coefficient[:, None])
        return slope.to(logits.dtype)

    def compared(
        self, logits: Tensor, log_sum: Tensor, teacher: Tensor, teacher_sum: Tensor,
        index: Tensor, coefficient: Tensor, labels: Tensor | None,
    ) -> Compared:  # fmt: skip
        """See :class:`RowMath`."""
        log_q = logits.float() - log_sum[:, None]
        log_p = (teacher.float() - teacher_sum[:, None]).index_select(0, index)
        overlap = torch.minimum(log_p, log_q).exp().sum(-1)
        divergence = (log_p.exp() * (log_p - log_q)).sum(-1)
        if labels is None:
            slope = ((log_q.exp() - log_p.exp()) * coefficient[:, None]).to(logits.dtype)
        else:
            slope = self.gradient(logits, labels, log_sum, coefficient)
        return Compared(divergence, overlap, slope)
