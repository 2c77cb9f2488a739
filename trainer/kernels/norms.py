"""Norms, residual additions and rope as Triton kernels: one read and one write of each tensor.

The fused twin of ``trainer.kernels.pointwise``'s norms. A gain's gradient is summed in a fixed
order, program by program, so results do not depend on timing. Plain functions write into given
tensors without autograd (the frozen target uses them); :class:`FusedNorms` is differentiable.

Shape letters: R rows, W width of a row, N sequences, T tokens, D head size.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

_PROGRAMS = 528
"""Programs that share a gain's gradient: four a multiprocessor on an H200."""
_HEAD_PROGRAMS = 2112
"""The same for the gain of a head, whose partial sums are small: as many as hide the loads."""


def add_norm_into(
    hidden: Tensor, update: Tensor | None, gain: Tensor, epsilon: float, summed: Tensor | None,
    normed: Tensor | None, *, rounds_first: bool = False,
) -> None:  # fmt: skip
    """Write ``hidden + update`` to ``summed`` and its norm to ``normed``; all (R, W).

    Args:
        hidden: Rows may be apart, columns not; so in all of these.
        update: Nothing is added when None.
        gain: (W,).
        epsilon: Under the root.
        summed: May be ``hidden`` itself; not written when None.
        normed: Not written when None.
        rounds_first: Round before the gain is multiplied, as Hugging Face's models do.
    """
    rows, width = hidden.shape
    other = hidden if update is None else update
    total = hidden if summed is None else summed
    result = hidden if normed is None else normed
    size = _tile_rows(width)
    _add_norm[(triton.cdiv(rows, size),)](
        hidden, other, gain, total, result, hidden.stride(0), other.stride(0), total.stride(0),
        result.stride(0), rows, epsilon, WIDTH=width, COLUMNS=triton.next_power_of_2(width),
        ROWS=size, ADDS=update is not None, SUMS=summed is not None, NORMS=normed is not None,
        ROUNDS_FIRST=rounds_first, num_warps=_warps(width),
    )  # fmt: skip


def norm_rotate_into(
    heads: Tensor, gain: Tensor | None, epsilon: float, cos: Tensor, sin: Tensor, out: Tensor,
    *, rounds_first: bool = False,
) -> None:  # fmt: skip
    """Norm (unless ``gain`` is None) and turn heads (N, T, heads, D) into ``out``, maybe itself."""
    batch, tokens, count, width = heads.shape
    total = batch * tokens * count
    size = _tile_rows(width)
    _norm_rotate[(triton.cdiv(total, size),)](
        heads, heads if gain is None else gain, cos, sin, out, *heads.stride()[:3],
        *out.stride()[:3], *_angles(cos, tokens), tokens, count, total, epsilon, HALF=width // 2,
        COLUMNS=triton.next_power_of_2(width // 2), ROWS=size, NORMS=gain is not None,
        ROUNDS_FIRST=rounds_first, num_warps=4,
    )  # fmt: skip


class FusedNorms:
    """See ``LayerMath`` in ``trainer.kernels.pointwise``."""

    def norm(self, hidden: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        """See ``LayerMath``."""
        _, normed = _AddNorm.apply(hidden, None, gain, epsilon)  # type: ignore[no-untyped-call]  # torch ships it without types
        return torch.as_tensor(normed)

    def add_norm(
        self, hidden: Tensor, update: Tensor, gain: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        """See ``LayerMath``."""
        summed, normed = _AddNorm.apply(hidden, update, gain, epsilon)  # type: ignore[no-untyped-call]  # torch ships it without types
        return summed, normed

    def norm_rotate(
        self, heads: Tensor, gain: Tensor, epsilon: float, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """See ``LayerMath``."""
        turned: Tensor = _NormRotate.apply(heads, gain, epsilon, cos, sin)  # type: ignore[no-untyped-call]  # torch ships it without types
        return turned


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, update: Tensor | None, gain: Tensor, epsilon: float
    ) -> tuple[Tensor | None, Tensor]:
        flat = _rows(hidden)
        normed = torch.empty(hidden.shape, dtype=hidden.dtype, device=hidden.device)
        summed = None if update is None else torch.empty_like(normed)
        add_norm_into(
            flat, None if update is None else _rows(update), gain, epsilon,
            None if summed is None else _rows(summed), _rows(normed),
        )  # fmt: skip
        ctx.save_for_backward(hidden if summed is None else summed, gain)
        ctx.set_materialize_grads(False)
        ctx.epsilon, ctx.adds = epsilon, update is not None  # type: ignore[attr-defined]  # the context takes any attribute
        return summed, normed

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, *upstream: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        d_sum, d_norm = upstream
        summed, gain = ctx.saved_tensors  # type: ignore[attr-defined]  # what forward kept
        adds: bool = ctx.adds  # type: ignore[attr-defined]  # forward set it
        if d_norm is None:
            return d_sum, d_sum if adds else None, None, None
        flat, slope = _rows(summed), _rows(d_norm)
        outer = slope if d_sum is None else _rows(d_sum)
        d_hidden = torch.empty(summed.shape, dtype=summed.dtype, device=summed.device)
        rows, width = flat.shape
        size = _tile_rows(width)
        programs = min(triton.cdiv(rows, size), _PROGRAMS)
        parts = torch.empty(programs, width, dtype=torch.float32, device=flat.device)
        _add_norm_backward[(programs,)](
            flat, slope, outer, gain, _rows(d_hidden), parts, flat.stride(0), slope.stride(0),
            outer.stride(0), width, rows, ctx.epsilon,  # type: ignore[attr-defined]  # forward set it
            WIDTH=width, COLUMNS=triton.next_power_of_2(width), ROWS=size,
            ADDS=d_sum is not None, num_warps=_warps(width),
        )  # fmt: skip
        return d_hidden, d_hidden if adds else None, parts.sum(0).to(gain.dtype), None


class _NormRotate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, heads: Tensor, gain: Tensor, epsilon: float, cos: Tensor, sin: Tensor
    ) -> Tensor:
        out = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
        norm_rotate_into(heads, gain, epsilon, cos, sin, out)
        ctx.save_for_backward(heads, gain, cos, sin)
        ctx.epsilon = epsilon  # type: ignore[attr-defined]  # the context takes any attribute
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstream: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (slope,) = upstream
        heads, gain, cos, sin = ctx.saved_tensors  # type: ignore[attr-defined]  # what forward kept
        batch, tokens, count, width = heads.shape
        total, size = batch * tokens * count, _tile_rows(width)
        programs = min(triton.cdiv(total, size), _HEAD_PROGRAMS)
        columns = triton.next_power_of_2(width // 2)
        d_heads = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
        parts = torch.empty(programs, width, dtype=torch.float32, device=heads.device)
        _norm_rotate_backward[(programs,)](
            heads, slope, gain, cos, sin, d_heads, parts, *heads.stride()[:3], *slope.stride(),
            *_angles(cos, tokens), tokens, count, total, ctx.epsilon,  # type: ignore[attr-defined]  # forward set it
            HALF=width // 2, COLUMNS=columns, ROWS=size, num_warps=4,
        )  # fmt: skip
        return d_heads, parts.sum(0).to(gain.dtype), None, None, None


def _rows(hidden: Tensor) -> Tensor:
    flat = hidden.reshape(-1, hidden.shape[-1])
    return flat if flat.stride(-1) == 1 else flat.contiguous()


def _angles(cos: Tensor, tokens: int) -> tuple[int, int, int]:
    """Strides of the angles by sequence and token, and the first token's place."""
    return cos.stride(0) if cos.shape[0] > 1 else 0, cos.stride(1), cos.shape[1] - tokens


def _tile_rows(width: int) -> int:
    """Rows that a program holds at once: 4,096 values, or one row."""
    return max(1, 4096 // int(triton.next_power_of_2(width)))


def _warps(width: int) -> int:
    return 8 if width > 2048 else 4  # noqa: PLR2004 - 16 to 32 values a thread


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _add_norm(
    hidden: tl.tensor, update: tl.tensor, gain: tl.tensor, summed: tl.tensor, normed: tl.tensor,
    h_row: int, u_row: int, s_row: int, n_row: int, rows: int, epsilon: float,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, ADDS: tl.constexpr,
    SUMS: tl.constexpr, NORMS: tl.constexpr, ROUNDS_FIRST: tl.constexpr,
) -> None:  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < WIDTH)
    kind = hidden.dtype.element_ty
    x = tl.load(hidden + row * h_row + column, mask=inside, other=0.0)
    if ADDS:
        more = tl.load(update + row * u_row + column, mask=inside, other=0.0)
        x = (x.to(tl.float32) + more.to(tl.float32)).to(kind)
    if SUMS:
        tl.store(summed + row * s_row + column, x, mask=inside)
    if NORMS:
        x = x.to(tl.float32)
        x = x * tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + epsilon)[:, None]
        if ROUNDS_FIRST:
            x = x.to(kind).to(tl.float32)
        x = x * tl.load(gain + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        tl.store(normed + row * n_row + column, x.to(normed.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _add_norm_backward(
    summed: tl.tensor, slope: tl.tensor, outer: tl.tensor, gain: tl.tensor, d_hidden: tl.tensor,
    parts: tl.tensor, s_row: int, d_row: int, o_row: int, h_row: int, rows: int, epsilon: float,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, ADDS: tl.constexpr,
) -> None:  # fmt: skip
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < WIDTH
    weight = tl.load(gain + column, mask=known, other=0.0).to(tl.float32)
    part = tl.zeros([1, COLUMNS], dtype=tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (first + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (row < rows) & known
        x = tl.load(summed + row * s_row + column, mask=inside, other=0.0).to(tl.float32)
        d = tl.load(slope + row * d_row + column, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + epsilon)[:, None]
        x = x * scale
        part += tl.sum(d * x, axis=0)[None, :]
        d = d * weight
        d = scale * (d - x * (tl.sum(d * x, axis=1) / WIDTH)[:, None])
        if ADDS:
            d += tl.load(outer + row * o_row + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(d_hidden + row * h_row + column, d.to(d_hidden.dtype.element_ty), mask=inside)
    tl.store(parts + tl.program_id(0) * WIDTH + column, part, mask=known)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _places(row: tl.tensor, tokens: int, count: int) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Sequence, token and head of a row; 64 bits wide only after the divisions, which are slow."""
    flat = row // count
    head = row - flat * count
    batch = flat // tokens
    token = flat - batch * tokens
    return batch.to(tl.int64), token.to(tl.int64), head.to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _norm_rotate(
    heads: tl.tensor, gain: tl.tensor, cos: tl.tensor, sin: tl.tensor, out: tl.tensor,
    h_batch: int, h_token: int, h_head: int, o_batch: int, o_token: int, o_head: int,
    a_batch: int, a_token: int, offset: int, tokens: int, count: int, total: int, epsilon: float,
    HALF: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, NORMS: tl.constexpr,
    ROUNDS_FIRST: tl.constexpr,
) -> None:  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < total)[:, None] & (column < HALF)
    batch, token, head = _places(row, tokens, count)
    kind = heads.dtype.element_ty
    at = heads + (batch * h_batch + token * h_token + head * h_head)[:, None] + column
    left = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    if NORMS:
        scale = tl.rsqrt(tl.sum(left * left + right * right, axis=1) / (2 * HALF) + epsilon)
        left, right = left * scale[:, None], right * scale[:, None]
        if ROUNDS_FIRST:
            left, right = left.to(kind).to(tl.float32), right.to(kind).to(tl.float32)
        left *= tl.load(gain + column, mask=column < HALF, other=0.0).to(tl.float32)
        right *= tl.load(gain + HALF + column, mask=column < HALF, other=0.0).to(tl.float32)
        left, right = left.to(kind).to(tl.float32), right.to(kind).to(tl.float32)
    angle = (batch * a_batch + (offset + token) * a_token)[:, None] + column
    c = tl.load(cos + angle, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin + angle, mask=inside, other=0.0).to(tl.float32)
    to = out + (batch * o_batch + token * o_token + head * o_head)[:, None] + column
    tl.store(to, (left * c - right * s).to(out.dtype.element_ty), mask=inside)
    tl.store(to + HALF, (right * c + left * s).to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _norm_rotate_backward(
    heads: tl.tensor, slope: tl.tensor, gain: tl.tensor, cos: tl.tensor, sin: tl.tensor,
    d_heads: tl.tensor, parts: tl.tensor, h_batch: int, h_token: int, h_head: int, s_batch: int,
    s_token: int, s_head: int, s_column: int, a_batch: int, a_token: int, offset: int, tokens: int,
    count: int, total: int, epsilon: float, HALF: tl.constexpr, COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:  # fmt: skip
    column = tl.arange(0, COLUMNS)[None, :]
    known = column < HALF
    weight_left = tl.load(gain + column, mask=known, other=0.0).to(tl.float32)
    weight_right = tl.load(gain + HALF + column, mask=known, other=0.0).to(tl.float32)
    part_left = tl.zeros([1, COLUMNS], dtype=tl.float32)
    part_right = tl.zeros([1, COLUMNS], dtype=tl.float32)
    for first in range(tl.program_id(0) * ROWS, total, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < total)[:, None] & known
        batch, token, head = _places(row, tokens, count)
        at = heads + (batch * h_batch + token * h_token + head * h_head)[:, None] + column
        left = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        right = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
        at = slope + (batch * s_batch + token * s_token + head * s_head)[:, None]
        d_one = tl.load(at + column * s_column, mask=inside, other=0.0).to(tl.float32)
        d_two = tl.load(at + (HALF + column) * s_column, mask=inside, other=0.0).to(tl.float32)
        angle = (batch * a_batch + (offset + token) * a_token)[:, None] + column
        c = tl.load(cos + angle, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(sin + angle, mask=inside, other=0.0).to(tl.float32)
        d_left, d_right = d_one * c + d_two * s, d_two * c - d_one * s
        scale = tl.rsqrt(tl.sum(left * left + right * right, axis=1) / (2 * HALF) + epsilon)
        left, right = left * scale[:, None], right * scale[:, None]
        part_left += tl.sum(d_left * left, axis=0)[None, :]
        part_right += tl.sum(d_right * right, axis=0)[None, :]
        d_left, d_right = d_left * weight_left, d_right * weight_right
        mean = (tl.sum(d_left * left + d_right * right, axis=1) / (2 * HALF))[:, None]
        kind = d_heads.dtype.element_ty
        to = d_heads + row.to(tl.int64)[:, None] * (2 * HALF) + column
        tl.store(to, (scale[:, None] * (d_left - left * mean)).to(kind), mask=inside)
        tl.store(to + HALF, (scale[:, None] * (d_right - right * mean)).to(kind), mask=inside)
    to = parts + tl.program_id(0) * (2 * HALF) + column
    tl.store(to, part_left, mask=known)
    tl.store(to + HALF, part_right, mask=known)
