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

from trainer.kernels.anchors import LOG2_E, Tile, TileMask, attend_forward, precision


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
    inner = torch.empty_like(log_sum)
    d_query = rows_backward(query, key, value, slope, out, log_sum, inner, mask)
    return d_query, *keys_backward(query, key, value, slope, log_sum, inner, mask)


def rows_backward(
    query: Tensor, key: Tensor, value: Tensor, slope: Tensor, out: Tensor, log_sum: Tensor,
    inner: Tensor, mask: TileMask,
) -> Tensor:  # fmt: skip
    """The queries' gradient; writes each row's product of result and upstream into ``inner``."""
    batch, heads, rows, _ = query.shape
    tile, d_query = mask.tiles.rows, torch.empty_like(query)
    _rows_backward[(triton.cdiv(rows, tile.rows), heads, batch)](
        query, key, value, slope, out, log_sum, inner, d_query, mask.intervals, mask.back_spans,
        *_strides(query, key, value, slope, out, d_query), *_numbers(query, key),
        **_shape(query, key, tile),
    )  # fmt: skip
    return d_query


def keys_backward(
    query: Tensor, key: Tensor, value: Tensor, slope: Tensor, log_sum: Tensor, inner: Tensor,
    mask: TileMask,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The keys' and the values' gradients."""
    heads, groups = query.shape[1], key.shape[1]
    tile, splits = mask.tiles.keys, mask.tiles.splits
    made = [torch.empty_like(key), torch.empty_like(value)]
    if splits:
        # One part a query head, in float32, laid out like the keys: (N, K, heads, D) in memory.
        batch, _, keys, width = key.shape
        wide = (batch, keys, heads, width)
        made = [
            torch.empty(wide, dtype=torch.float32, device=key.device).transpose(1, 2) for _ in made
        ]
    _keys_backward[(mask.visitors.shape[1], heads if splits else groups, len(key))](
        query, key, value, slope, log_sum, inner, *made, mask.intervals, mask.visitors,
        *_strides(query, key, value, slope, *made), mask.context, *_numbers(query, key),
        MEMBERS=1 if splits else heads // groups, **_shape(query, key, tile),
    )  # fmt: skip
    if splits:
        made = [
            part.view(len(key), groups, -1, *key.shape[2:]).sum(2).to(key.dtype) for part in made
        ]
    return made[0], made[1]


def _strides(*tensors: Tensor) -> list[int]:
    return [stride for each in tensors for stride in each.stride()[:3]]


def _numbers(query: Tensor, key: Tensor) -> tuple[int, int, int, float, float]:
    """Rows, keys, distance of the intervals' planes, scale in powers of two, scale."""
    batch, _, rows, width = query.shape
    scale = float(width) ** -0.5
    return rows, key.shape[2], batch * rows, scale * LOG2_E.value, scale


def _shape(query: Tensor, key: Tensor, tile: Tile) -> dict[str, int | str]:
    return {
        "ROWS": tile.rows, "KEYS": tile.keys, "GROUP": query.shape[1] // key.shape[1],
        "WIDTH": query.shape[3], "PRECISION": precision(query), "num_warps": tile.warps,
        "num_stages": tile.stages,
    }  # fmt: skip


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
    ROWS: tl.constexpr, KEYS: tl.constexpr, GROUP: tl.constexpr, MEMBERS: tl.constexpr,
    WIDTH: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    tile, part, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    group = part * MEMBERS // GROUP
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
    for member in range(MEMBERS):
        head = part * MEMBERS + member
        q_at = query + batch * q_batch + head * q_head
        s_at = slope + batch * s_batch + head * s_head
        at = (batch * tl.num_programs(1) * MEMBERS + head) * rows
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
    dk_at = d_key + batch * dk_batch + part * dk_head + far * dk_row + column
    tl.store(dk_at, (dk * scale).to(d_key.dtype.element_ty), mask=held)
    dv_at = d_value + batch * dv_batch + part * dv_head + far * dv_row + column
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
