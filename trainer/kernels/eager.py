"""Elementwise work on a chunk of logits: what it is, and its form in plain torch.

The fused twin is ``trainer.kernels.rows``; which of them a device gets, ``trainer.kernels.choice``.

Shape letters: R rows of a chunk, V vocabulary.
"""

from typing import Protocol

from torch import Tensor


class RowMath(Protocol):
    """Elementwise work on a chunk of logits; two forms give the same numbers."""

    def statistics(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-sum-exp, label logit (float32) and whether the label is the argmax, each (R,)."""
        ...

    def gradient(
        self, logits: Tensor, labels: Tensor, log_sum: Tensor, coefficient: Tensor
    ) -> Tensor:
        """Give coefficient * (softmax(logits) - onehot(labels)); may overwrite ``logits``."""
        ...


class EagerRowMath:
    """The formulas in plain torch."""

    def statistics(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See :class:`RowMath`."""
        wide = logits.float()
        picked = wide.gather(1, labels[:, None])[:, 0]
        return wide.logsumexp(-1), picked, wide.argmax(-1) == labels

    def gradient(
        self, logits: Tensor, labels: Tensor, log_sum: Tensor, coefficient: Tensor
    ) -> Tensor:
        """See :class:`RowMath`."""
        slope = (logits.float() - log_sum[:, None]).exp_().mul_(coefficient[:, None])
        slope.scatter_add_(1, labels[:, None], -coefficient[:, None])
        return slope.to(logits.dtype)
