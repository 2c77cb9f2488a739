"""Attention of draft blocks as Triton kernels: the backward pass, and autograd's view of both.

One kernel walks keys for a tile of rows (dQ), one walks rows for a tile of keys (dK, dV); both
compute the weights again from the forward's log2-sums. Forward and tiling are
``trainer.kernels.anchors``'.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from trainer.kernels.anchors import LOG2_E, TileMask, attend_forward, precision


def attend(query: Tensor, key: Tensor, value: Tensor, mask: TileMask) -> Tensor:
    """Attention under ``mask``, differentiable: shaped and laid out as the query."""
    mixed: Tensor = _Attention.apply(query, key, value, mask)  # type: ignore[no-untyped-call]  # torch ships it without types
    return mixed


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, query: Tensor, key: Tensor, value: Tensor, mask: TileMask
    ) -> Tensor:
        out, log_sum = attend_forward(query, key, value, mask)
        ctx.save_for_backward(query, key, value, out, log_sum)
        ctx.mask = mask  # type: ignore[attr-defined]  # the context takes any attribute
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        (slope,) = upstream
        if slope.stride(-1) != 1:
            slope = slope.contiguous()
        query, key, value, out, log_sum = ctx.saved_tensors  # type: ignore[attr-defined]  # what forward kept
        mask: TileMask = ctx.mask  # type: ignore[attr-defined]  # forward set it
        return (*_slopes(query, key, value, out, log_sum, slope, mask), None)


def _slopes(
    query: Tensor, key: Tensor, value: Tensor, out: Tensor, log_sum: Tensor, slope: Tensor,
    mask: TileMask,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    batch, heads, rows, width = query.shape
    groups, keys = key.shape[1], key.shape[2]
    tiles, scale = mask.tiles, width**-0.5
    d_query, d_key, d_value = (torch.empty_like(each) for each in (query, key, value))
    inner = torch.empty_like(log_sum)
    strides = (each.stride()[:3] for each in (query, key, value, slope))
    common = [stride for each in strides for stride in each]
    numbers = (rows, keys, batch * rows, scale * LOG2_E.value, scale)
    shape = {"GROUP": heads // groups, "WIDTH": width, "PRECISION": precision(query)}
    _rows_backward[(triton.cdiv(rows, tiles.rows), heads, batch)](
        query, key, value, slope, out, log_sum, inner, d_query, mask.intervals, mask.spans,
        *common, *out.stride()[:3], *d_query.stride()[:3], *numbers,
        ROWS=tiles.rows, KEYS=tiles.keys, **shape,
        num_warps=tiles.warps[1], num_stages=tiles.stages[1],
    )  # fmt: skip
    _keys_backward[(mask.visitors.shape[1], groups, batch)](
        query, key, value, slope, log_sum, inner, d_key, d_value, mask.intervals, mask.visitors,
        *common, *d_key.stride()[:3], *d_value.stride()[:3], mask.context, *numbers,
        ROWS=tiles.back_rows, KEYS=tiles.back_keys, **shape,
        num_warps=tiles.warps[2], num_stages=tiles.stages[2],
    )  # fmt: skip
    return d_query, d_key, d_value


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _rows_backward(
    query: tl.tensor, key: tl.tensor, value: tl.tensor, slope: tl.tensor, out: tl.tensor,
    log_sum: tl.tensor, inner: tl.tensor, d_query: tl.tensor, intervals: tl.tensor,
    spans: tl.tensor,
    q_batch: int, q_head: int, q_row: int, k_batch: int, k_head: int, k_row: int,
    v_batch: int, v_head: int, v_row: int, s_batch: int, s_head: int, s_row: int,
    o_batch: int, o_head: int, o_row: int, d_batch: int, d_head: int, d_row: int,
    rows: int, keys: int, plane: int, scale2: float, scale: float,
    ROWS: tl.constexpr, KEYS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    tile, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row = tile * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)[None, :]
    inside = row < rows
    far = row[:, None].to(tl.int64)
    held = inside[:, None]
    q = tl.load(query + batch * q_batch + head * q_head + far * q_row + column, held, 0.0)
    s = tl.load(slope + batch * s_batch + head * s_head + far * s_row + column, held, 0.0)
    o = tl.load(out + batch * o_batch + head * o_head + far * o_row + column, held, 0.0)
    at = (batch * tl.num_programs(1) + head) * rows + row
    shared = tl.sum(s.to(tl.float32) * o.to(tl.float32), 1)
    tl.store(inner + at, shared, mask=inside)
    level = tl.load(log_sum + at, mask=inside, other=float("inf"))
    k_at = key + batch * k_batch + (head // GROUP) * k_head
    v_at = value + batch * v_batch + (head // GROUP) * v_head
    bound = intervals + batch * rows + row
    low = tl.load(bound, mask=inside, other=0)
    high = tl.load(bound + plane, mask=inside, other=0)
    block_low = tl.load(bound + 2 * plane, mask=inside, other=0)
    block_high = tl.load(bound + 3 * plane, mask=inside, other=0)
    span = spans + (batch * tl.num_programs(0) + tile) * 6
    dq = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    start, bare, bare_stop = tl.load(span), tl.load(span + 1), tl.load(span + 2)
    stop, block, block_stop = tl.load(span + 3), tl.load(span + 4), tl.load(span + 5)
    for first in range(bare, bare_stop, KEYS):
        dq = _rows_step(
            dq, q, s, shared, level, k_at, v_at, k_row, v_row, keys, first, low, high, scale2,
            WIDTH, KEYS, PRECISION, MASKED=False,
        )  # fmt: skip
    before = (bare - start) // KEYS
    after = before + tl.cdiv(stop - bare_stop, KEYS)
    for turn in range(after + tl.cdiv(block_stop - block, KEYS)):
        first = tl.where(turn < before, start + turn * KEYS, bare_stop + (turn - before) * KEYS)
        first = tl.where(turn < after, first, block + (turn - after) * KEYS)
        dq = _rows_step(
            dq, q, s, shared, level, k_at, v_at, k_row, v_row, keys, first,
            tl.where(turn < after, low, block_low), tl.where(turn < after, high, block_high),
            scale2, WIDTH, KEYS, PRECISION, MASKED=True,
        )  # fmt: skip
    place = d_query + batch * d_batch + head * d_head + far * d_row + column
    tl.store(place, (dq * scale).to(d_query.dtype.element_ty), mask=held)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _rows_step(
    dq: tl.tensor, q: tl.tensor, s: tl.tensor, shared: tl.tensor, level: tl.tensor,
    k_at: tl.tensor, v_at: tl.tensor, k_row: int, v_row: int, keys: int, first: int,
    low: tl.tensor, high: tl.tensor, scale2: float, WIDTH: tl.constexpr, KEYS: tl.constexpr,
    PRECISION: tl.constexpr, MASKED: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    column = tl.arange(0, WIDTH)
    place = first + tl.arange(0, KEYS)
    k_place = k_at + place[None, :] * k_row + column[:, None]
    v_place = v_at + place[None, :] * v_row + column[:, None]
    if MASKED:
        k = tl.load(k_place, mask=place[None, :] < keys, other=0.0)
        v = tl.load(v_place, mask=place[None, :] < keys, other=0.0)
    else:
        k = tl.load(k_place)
        v = tl.load(v_place)
    score = tl.dot(q, k, input_precision=PRECISION)
    weight = tl.math.exp2(score * scale2 - level[:, None])
    if MASKED:
        seen = (place[None, :] >= low[:, None]) & (place[None, :] < high[:, None])
        weight = tl.where(seen, weight, 0.0)
    d_weight = tl.dot(s, v, input_precision=PRECISION)
    d_score = weight * (d_weight - shared[:, None])
    return tl.dot(d_score.to(k.dtype), tl.trans(k), dq, input_precision=PRECISION)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _keys_backward(
    query: tl.tensor, key: tl.tensor, value: tl.tensor, slope: tl.tensor, log_sum: tl.tensor,
    inner: tl.tensor, d_key: tl.tensor, d_value: tl.tensor, intervals: tl.tensor,
    visitors: tl.tensor,
    q_batch: int, q_head: int, q_row: int, k_batch: int, k_head: int, k_row: int,
    v_batch: int, v_head: int, v_row: int, s_batch: int, s_head: int, s_row: int,
    dk_batch: int, dk_head: int, dk_row: int, dv_batch: int, dv_head: int, dv_row: int,
    context: int, rows: int, keys: int, plane: int, scale2: float, scale: float,
    ROWS: tl.constexpr, KEYS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    tile, group, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    before = tl.cdiv(context, KEYS)
    is_context = tile < before
    start = tl.where(is_context, tile * KEYS, context + (tile - before) * KEYS)
    place = start + tl.arange(0, KEYS)
    column = tl.arange(0, WIDTH)[None, :]
    held = place[:, None] < tl.where(is_context, context, keys)
    far = place[:, None].to(tl.int64)
    k = tl.load(key + batch * k_batch + group * k_head + far * k_row + column, held, 0.0)
    v = tl.load(value + batch * v_batch + group * v_head + far * v_row + column, held, 0.0)
    visit = visitors + (batch * tl.num_programs(0) + tile) * 4
    first, bare = tl.load(visit), tl.load(visit + 1)
    bare_stop, stop = tl.load(visit + 2), tl.load(visit + 3)
    # No tile holds keys of both kinds, so one pair of bounds decides.
    bound = intervals + batch * rows + tl.where(is_context, 0, 2 * plane)
    dk = tl.zeros([KEYS, WIDTH], dtype=tl.float32)
    dv = tl.zeros([KEYS, WIDTH], dtype=tl.float32)
    for member in range(GROUP):
        head = group * GROUP + member
        q_at = query + batch * q_batch + head * q_head
        s_at = slope + batch * s_batch + head * s_head
        at = (batch * tl.num_programs(1) * GROUP + head) * rows
        for number in range(bare, bare_stop):
            dk, dv = _keys_step(
                dk, dv, k, v, place, q_at, s_at, q_row, s_row, log_sum + at, inner + at, bound,
                plane, rows, number * ROWS, scale2, WIDTH, ROWS, PRECISION, MASKED=False,
            )  # fmt: skip
        for turn in range(bare - first + stop - bare_stop):
            number = tl.where(turn < bare - first, first + turn, bare_stop - bare + first + turn)
            dk, dv = _keys_step(
                dk, dv, k, v, place, q_at, s_at, q_row, s_row, log_sum + at, inner + at, bound,
                plane, rows, number * ROWS, scale2, WIDTH, ROWS, PRECISION, MASKED=True,
            )  # fmt: skip
    dk_at = d_key + batch * dk_batch + group * dk_head + far * dk_row + column
    tl.store(dk_at, (dk * scale).to(d_key.dtype.element_ty), mask=held)
    dv_at = d_value + batch * dv_batch + group * dv_head + far * dv_row + column
    tl.store(dv_at, dv.to(d_value.dtype.element_ty), mask=held)


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _keys_step(
    dk: tl.tensor, dv: tl.tensor, k: tl.tensor, v: tl.tensor, place: tl.tensor, q_at: tl.tensor,
    s_at: tl.tensor, q_row: int, s_row: int, log_sum: tl.tensor, inner: tl.tensor,
    bound: tl.tensor, plane: int, rows: int, first: int, scale2: float, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, PRECISION: tl.constexpr, MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    column = tl.arange(0, WIDTH)
    row = first + tl.arange(0, ROWS)
    inside = row < rows
    q = tl.load(q_at + row[None, :] * q_row + column[:, None], inside[None, :], 0.0)
    s = tl.load(s_at + row[:, None] * s_row + column[None, :], inside[:, None], 0.0)
    level = tl.load(log_sum + row, mask=inside, other=float("inf"))
    shared = tl.load(inner + row, mask=inside, other=0.0)
    # Keys down, rows across: the products below then take it from registers.
    score = tl.dot(k, q, input_precision=PRECISION)
    weight = tl.math.exp2(score * scale2 - level[None, :])
    if MASKED:
        low = tl.load(bound + row, mask=inside, other=0)
        high = tl.load(bound + plane + row, mask=inside, other=0)
        seen = (place[:, None] >= low[None, :]) & (place[:, None] < high[None, :])
        weight = tl.where(seen, weight, 0.0)
    dv = tl.dot(weight.to(s.dtype), s, dv, input_precision=PRECISION)
    d_weight = tl.dot(v, tl.trans(s), input_precision=PRECISION)
    d_score = weight * (d_weight - shared[None, :])
    dk = tl.dot(d_score.to(q.dtype), tl.trans(q), dk, input_precision=PRECISION)
    return dk, dv
