"""A draft layer's three projections as one step of autograd, whose additions ride on products.

The fused twin of ``project`` in ``trainer.kernels.pointwise``. Plain autograd adds the gradients
of what three products share in passes of their own; here a product begins from what is to be
added. Only the keys' and values' common input is kept, the queries' is a part of it.

Shape letters: N rows of a micro-batch, S context tokens, Q draft rows, H hidden size.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


def project(
    block: Tensor, context: Tensor, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See ``LayerMath``."""
    made: tuple[Tensor, Tensor, Tensor] = _Project.apply(block, context, query, key, value)  # type: ignore[no-untyped-call]  # torch ships it without types
    return made


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, block: Tensor, context: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.cat([context, block], dim=1)
        ctx.save_for_backward(rows, query, key, value)
        ctx.context = context.shape[1]  # type: ignore[attr-defined]  # the context takes any attribute
        return block @ query.T, rows @ key.T, rows @ value.T

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, *upstream: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        rows, query, key, value = ctx.saved_tensors  # type: ignore[attr-defined]  # what forward kept
        context: int = ctx.context  # type: ignore[attr-defined]  # forward set it
        d_query, d_key, d_value = (slope.flatten(0, 1) for slope in upstream)
        flat = rows.flatten(0, 1)
        block = rows[:, context:].flatten(0, 1)
        d_rows = (d_key @ key).addmm_(d_value, value).view_as(rows)
        d_block = torch.addmm(d_rows[:, context:].flatten(0, 1), d_query, query)
        return (
            d_block.view(len(rows), -1, rows.shape[2]), d_rows[:, :context],
            d_query.T @ block, d_key.T @ flat, d_value.T @ flat,
        )  # fmt: skip
