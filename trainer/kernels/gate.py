"""The gated feed-forward with its elementwise work as Triton kernels.

The fused twin of ``feed_forward`` in ``trainer.kernels.pointwise``. What the gate makes is not
kept for the backward pass but made again there, in place: three tensors of (R, I) live, not five.

Shape letters: R rows, H hidden size, I inner size.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

_COLUMNS = 2048
_WARPS = 4


def gate_into(gate: Tensor, up: Tensor, out: Tensor) -> None:
    """Write ``silu(gate) * up`` to ``out``; all (R, I), rows may be apart."""
    rows, width = gate.shape
    columns = _columns(width)
    _gate[(rows, triton.cdiv(width, columns))](
        gate, up, out, gate.stride(0), up.stride(0), out.stride(0), WIDTH=width,
        COLUMNS=columns, num_warps=_WARPS,
    )  # fmt: skip


def feed_forward(hidden: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """See ``LayerMath`` in ``trainer.kernels.pointwise``."""
    mixed: Tensor = _FeedForward.apply(hidden, gate, up, down)  # type: ignore[no-untyped-call]  # torch ships it without types
    return mixed


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, hidden: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        flat = hidden.reshape(-1, hidden.shape[-1])
        gate_RI, up_RI = flat @ gate.T, flat @ up.T
        gated_RI = torch.empty_like(gate_RI)
        gate_into(gate_RI, up_RI, gated_RI)
        ctx.save_for_backward(flat, gate_RI, up_RI, gate, up, down)
        return (gated_RI @ down.T).view(*hidden.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Once only: the kept tensors are overwritten."""
        flat, gate_RI, up_RI, gate, up, down = ctx.saved_tensors  # type: ignore[attr-defined]  # what forward kept
        (slope,) = upstream
        slope_RH = slope.reshape(-1, slope.shape[-1])
        gated_RI = slope_RH @ down
        rows, width = gate_RI.shape
        columns = _columns(width)
        _gate_backward[(rows, triton.cdiv(width, columns))](
            gate_RI, up_RI, gated_RI, WIDTH=width, COLUMNS=columns, num_warps=_WARPS
        )
        d_hidden = gate_RI @ gate
        d_hidden.addmm_(up_RI, up)
        d_down = slope_RH.T @ gated_RI
        return d_hidden.view(*slope.shape[:-1], -1), gate_RI.T @ flat, up_RI.T @ flat, d_down


def _columns(width: int) -> int:
    return min(_COLUMNS, int(triton.next_power_of_2(width)))


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _gate(
    gate: tl.tensor, up: tl.tensor, out: tl.tensor, g_row: int, u_row: int, o_row: int,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < WIDTH
    kind = out.dtype.element_ty
    g = tl.load(gate + row * g_row + column, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + row * u_row + column, mask=inside, other=0.0).to(tl.float32)
    # The activation is rounded before it is multiplied, as in plain torch.
    active = (g / (1.0 + tl.exp(-g))).to(kind).to(tl.float32)
    tl.store(out + row * o_row + column, (active * u).to(kind), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _gate_backward(
    gate: tl.tensor, up: tl.tensor, slope: tl.tensor, WIDTH: tl.constexpr, COLUMNS: tl.constexpr
) -> None:
    """Gradients over ``gate`` and ``up``, the gated value over ``slope``; all contiguous."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    place = tl.program_id(0).to(tl.int64) * WIDTH + column
    inside = column < WIDTH
    kind = gate.dtype.element_ty
    g = tl.load(gate + place, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + place, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(slope + place, mask=inside, other=0.0).to(tl.float32)
    chance = 1.0 / (1.0 + tl.exp(-g))
    active = g * chance
    tl.store(gate + place, (d * u * (chance + active * (1.0 - chance))).to(kind), mask=inside)
    tl.store(up + place, (d * active).to(kind), mask=inside)
    tl.store(slope + place, (active.to(kind).to(tl.float32) * u).to(kind), mask=inside)
