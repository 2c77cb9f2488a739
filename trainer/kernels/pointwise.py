"""What a layer does between its matrix products, in plain torch: norms, rope, gated feed-forward.

This says what is computed; the fused twins are ``trainer.kernels.norms`` and ``gate``, and which
of them a device gets is ``trainer.kernels.choice``'s.

Shapes: hidden states (..., H); heads (N, T, heads, D); cosines and sines (N, L, 1, D) of the
positions that end with these T tokens.
"""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class LayerMath(Protocol):
    """The pieces; all differentiable, results in the input's dtype, norms computed in float32."""

    def norm(self, hidden: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        """Root-mean-square norm of the last axis with a gain."""
        ...

    def add_norm(
        self, hidden: Tensor, update: Tensor, gain: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        """``hidden + update``, and its norm."""
        ...

    def norm_rotate(
        self, heads: Tensor, gain: Tensor, epsilon: float, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """Norm each head, then turn it by its position's angles."""
        ...

    def project(
        self, block: Tensor, context: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``block query'``; ``[context; block]`` by ``key'`` and by ``value'``: (N, T, heads D)."""
        ...

    def feed_forward(self, hidden: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """SwiGLU: ``(silu(hidden gate') * (hidden up')) down'``."""
        ...


class EagerLayerMath:
    """The formulas in plain torch."""

    def norm(self, hidden: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        """See :class:`LayerMath`."""
        return functional.rms_norm(hidden, gain.shape, gain, epsilon)

    def add_norm(
        self, hidden: Tensor, update: Tensor, gain: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        """See :class:`LayerMath`."""
        hidden = hidden + update
        return hidden, self.norm(hidden, gain, epsilon)

    def norm_rotate(
        self, heads: Tensor, gain: Tensor, epsilon: float, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """See :class:`LayerMath`."""
        return rotate(self.norm(heads, gain, epsilon), cos, sin)

    def project(
        self, block: Tensor, context: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See :class:`LayerMath`."""
        rows, linear = torch.cat([context, block], dim=1), functional.linear
        return linear(block, query), linear(rows, key), linear(rows, value)

    def feed_forward(self, hidden: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """See :class:`LayerMath`."""
        gated = functional.silu(functional.linear(hidden, gate)) * functional.linear(hidden, up)
        return functional.linear(gated, down)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn heads (N, T, heads, D) by the last T of the angles; halves turn together."""
    cos, sin = cos[:, -heads.shape[1] :], sin[:, -heads.shape[1] :]
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin
