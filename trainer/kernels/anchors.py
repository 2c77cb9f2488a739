"""Attention of draft blocks as Triton kernels: the forward pass.

Where a tile of rows or keys must look is arithmetic on the mask's intervals, done on the device
and shared by all layers (:func:`tile_mask`). Backward is ``trainer.kernels.anchors_backward``; the
eager twin is ``trainer.attention.eager_attend``; the mask's rule is ``trainer.mask``'s.

Anchors ascend, so a tile of rows sees one run of context, nearly all of it without any masking,
and its own blocks. Nothing is summed by atomics: results do not depend on timing.

Shapes: query (N, heads, Q, D); key and value (N, kv heads, K, D); any strides with D innermost.
"""

from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from trainer.mask import Layout, MaskRule, row_intervals

LOG2_E = tl.constexpr(1.4426950408889634)
_FAR = 1 << 30
_BUSY = 1024
"""Programs below which an H200's 132 processors wait for the longest of them."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What a program holds at once, its warps, and how many loads it has in flight."""

    rows: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """One tile for each kernel; as measured on an H200 (``benchmarks/trainer_profile.py``).

    With ``splits`` dK and dV are computed for each query head and added up afterwards: more
    programs, for models with few key heads.
    """

    forward: Tile = Tile(64, 64, 4, 3)
    rows: Tile = Tile(64, 64, 4, 2)
    keys: Tile = Tile(64, 64, 4, 2)
    splits: bool = False


@dataclass(frozen=True, slots=True)
class TileMask:
    """A mask for the kernels; all int32 on the device.

    ``intervals`` (4, N, Q): each row's run of context and of its block, low and high.
    ``spans`` and ``back_spans`` (N, row tiles, 6): where a tile of rows looks: context start, start
    and stop of what needs no mask, context stop; block start and stop.
    ``visitors`` (N, key tiles, 4): the row tiles that see a tile of keys: first, first and stop of
    those that need no mask, stop. Key tiles cover the context, then anew the blocks.
    """

    intervals: Tensor
    spans: Tensor
    back_spans: Tensor
    visitors: Tensor
    context: int
    tiles: Tiles


def tiles_for(query: Tensor, key: Tensor) -> Tiles:
    """The tiles that a head's dtype leaves room for, and that keep all processors busy."""
    groups = key.shape[0] * key.shape[1]
    if query.dtype == torch.float32:
        small = Tile(32, 32, 4, 1)
        return Tiles(small, small, small)
    usual = Tiles()
    programs = groups * key.shape[2] // usual.keys.keys
    return replace(usual, splits=programs < _BUSY and query.shape[1] > key.shape[1])


def tile_mask(layout: Layout, rule: MaskRule, tiles: Tiles) -> TileMask:
    """The kernels' form of a mask; nothing here waits for the device."""
    seen = row_intervals(layout, rule)
    runs = (seen.context_low, seen.context_high, seen.block_low, seen.block_high)
    intervals = torch.stack(runs).to(torch.int32)
    spans = _spans(intervals, tiles.forward)
    is_same = (tiles.rows.rows, tiles.rows.keys) == (tiles.forward.rows, tiles.forward.keys)
    back_spans = spans if is_same else _spans(intervals, tiles.rows)
    visitors = _visitors(intervals, layout, tiles.keys)
    return TileMask(intervals, spans, back_spans, visitors, layout.context, tiles)


@dataclass(frozen=True, slots=True)
class _Extremes:
    """Over the rows of each tile that see anything, (N, tiles); neutral where none does."""

    low: Tensor
    most_low: Tensor
    least_high: Tensor
    high: Tensor
    block_low: Tensor
    block_high: Tensor


def _extremes(intervals: Tensor, size: int) -> _Extremes:
    padded = functional.pad(intervals, (0, -intervals.shape[2] % size))
    runs = padded.view(*padded.shape[:2], -1, size)
    sees = runs[2] < runs[3]
    low, least_high, block_low, _ = torch.where(sees, runs, _FAR).amin(-1)
    most_low, high, _, block_high = torch.where(sees, runs, -_FAR).amax(-1)
    return _Extremes(low, most_low, least_high, high, block_low, block_high)


def _spans(intervals: Tensor, tile: Tile) -> Tensor:
    found, step = _extremes(intervals, tile.rows), tile.keys
    start = torch.where(found.low == _FAR, 0, found.low)
    stop = torch.maximum(start, found.high)
    # Whole steps from the start, so that the three runs neither overlap nor leave a gap.
    bare = start + -(-(found.most_low - start) // step) * step
    bare_stop = bare + (found.least_high - bare) // step * step
    none = (bare_stop <= bare) | (bare >= stop) | (found.low == _FAR)
    bare, bare_stop = torch.where(none, start, bare), torch.where(none, start, bare_stop)
    block = torch.where(found.block_low == _FAR, 0, found.block_low)
    block_stop = torch.maximum(block, found.block_high)
    spans = torch.stack([start, bare, bare_stop, stop, block, block_stop], dim=-1)
    return spans.to(torch.int32).contiguous()


def _visitors(intervals: Tensor, layout: Layout, shape: Tile) -> Tensor:
    found = _extremes(intervals, shape.rows)
    count, size, context = found.low.shape[1], shape.keys, layout.context
    tile = torch.arange(-(-context // size) + -(-layout.rows // size), device=intervals.device)
    is_context = size * tile < context
    left = torch.where(is_context, size * tile, context + size * (tile - -(-context // size)))
    right = torch.minimum(left + size, torch.where(is_context, context, layout.keys))
    left, right = left[None, :, None], right[None, :, None]
    low, most_low, least_high, high = (
        each[:, None] for each in (found.low, found.most_low, found.least_high, found.high)
    )
    block_low, block_high = found.block_low[:, None], found.block_high[:, None]
    some = ((high > left) & (low < right)) | ((block_high > left) & (block_low < right))
    every = (most_low <= left) & (right <= least_high)
    tile = torch.arange(count, device=intervals.device)
    first = torch.where(some, tile, count).amin(2)
    stop = torch.where(some, tile, -1).amax(2) + 1
    first = torch.minimum(first, stop)
    inside = every & (tile >= first[..., None]) & (tile < stop[..., None])
    bare = torch.where(inside, tile, count).amin(2)
    bare_stop = torch.where(~every & (tile > bare[..., None]), tile, count).amin(2)
    none = bare >= stop
    bare = torch.where(none, first, bare)
    bare_stop = torch.where(none, first, torch.minimum(bare_stop, stop))
    return torch.stack([first, bare, bare_stop, stop], dim=-1).to(torch.int32).contiguous()


def attend_forward(
    query: Tensor, key: Tensor, value: Tensor, mask: TileMask
) -> tuple[Tensor, Tensor]:
    """The result, shaped and laid out as the query, and each row's log2-sum: float32 (N, heads, Q).

    The sum of a row that sees nothing is infinite, its result zero.
    """
    batch, heads, rows, width = query.shape
    out = torch.empty_like(query)
    log_sum = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)
    tile = mask.tiles.forward
    _forward[(triton.cdiv(rows, tile.rows), heads, batch)](
        query, key, value, out, log_sum, mask.intervals, mask.spans,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *out.stride()[:3],
        rows, key.shape[2], batch * rows, width**-0.5 * LOG2_E.value,
        GROUP=heads // key.shape[1], WIDTH=width, ROWS=tile.rows, KEYS=tile.keys,
        PRECISION=precision(query), num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out, log_sum


def precision(operand: Tensor) -> str:
    """How float32 products are made: in full, as torch makes them by default."""
    return "ieee" if operand.dtype == torch.float32 else "tf32"


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _forward(
    query: tl.tensor, key: tl.tensor, value: tl.tensor, out: tl.tensor, log_sum: tl.tensor,
    intervals: tl.tensor, spans: tl.tensor,
    q_batch: int, q_head: int, q_row: int, k_batch: int, k_head: int, k_row: int,
    v_batch: int, v_head: int, v_row: int, o_batch: int, o_head: int, o_row: int,
    rows: int, keys: int, plane: int, scale: float,
    GROUP: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    tile, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row = tile * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    inside = row < rows
    place = query + batch * q_batch + head * q_head + row[:, None].to(tl.int64) * q_row
    q = tl.load(place + column[None, :], mask=inside[:, None], other=0.0)
    k_at = key + batch * k_batch + (head // GROUP) * k_head
    v_at = value + batch * v_batch + (head // GROUP) * v_head
    bound = intervals + batch * rows + row
    low = tl.load(bound, mask=inside, other=0)
    high = tl.load(bound + plane, mask=inside, other=0)
    block_low = tl.load(bound + 2 * plane, mask=inside, other=0)
    block_high = tl.load(bound + 3 * plane, mask=inside, other=0)
    span = spans + (batch * tl.num_programs(0) + tile) * 6
    mixed = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    top = tl.full([ROWS], -1e30, dtype=tl.float32)
    start, bare, bare_stop = tl.load(span), tl.load(span + 1), tl.load(span + 2)
    stop, block, block_stop = tl.load(span + 3), tl.load(span + 4), tl.load(span + 5)
    for first in range(bare, bare_stop, KEYS):
        mixed, total, top = _step(
            mixed, total, top, q, k_at, v_at, k_row, v_row, keys, first, low, high, scale, WIDTH,
            KEYS, PRECISION, MASKED=False,
        )  # fmt: skip
    before = (bare - start) // KEYS
    after = before + tl.cdiv(stop - bare_stop, KEYS)
    for turn in range(after + tl.cdiv(block_stop - block, KEYS)):
        # The runs that need a mask in one loop: before the bare one, after it, and the block.
        first = tl.where(turn < before, start + turn * KEYS, bare_stop + (turn - before) * KEYS)
        first = tl.where(turn < after, first, block + (turn - after) * KEYS)
        mixed, total, top = _step(
            mixed, total, top, q, k_at, v_at, k_row, v_row, keys, first,
            tl.where(turn < after, low, block_low), tl.where(turn < after, high, block_high),
            scale, WIDTH, KEYS, PRECISION, MASKED=True,
        )  # fmt: skip
    sees = block_low < block_high
    result = tl.where(sees[:, None], mixed / tl.where(sees, total, 1.0)[:, None], 0.0)
    place = out + batch * o_batch + head * o_head + row[:, None].to(tl.int64) * o_row
    tl.store(place + column[None, :], result.to(out.dtype.element_ty), mask=inside[:, None])
    at = log_sum + (batch * tl.num_programs(1) + head) * rows + row
    tl.store(
        at, tl.where(sees, top + tl.log2(tl.where(sees, total, 1.0)), float("inf")), mask=inside
    )


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _step(
    mixed: tl.tensor, total: tl.tensor, top: tl.tensor, q: tl.tensor, k_at: tl.tensor,
    v_at: tl.tensor, k_row: int, v_row: int, keys: int, first: int, low: tl.tensor,
    high: tl.tensor, scale: float, WIDTH: tl.constexpr, KEYS: tl.constexpr,
    PRECISION: tl.constexpr, MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:  # fmt: skip
    """Attend to a tile of keys, with a running maximum."""
    column = tl.arange(0, WIDTH)
    place = first + tl.arange(0, KEYS)
    k_place = k_at + place[None, :] * k_row + column[:, None]
    v_place = v_at + place[:, None] * v_row + column[None, :]
    if MASKED:
        k = tl.load(k_place, mask=place[None, :] < keys, other=0.0)
        v = tl.load(v_place, mask=place[:, None] < keys, other=0.0)
    else:
        k = tl.load(k_place)
        v = tl.load(v_place)
    score = tl.dot(q, k, input_precision=PRECISION)
    if MASKED:
        seen = (place[None, :] >= low[:, None]) & (place[None, :] < high[:, None])
        score = tl.where(seen, score, -float("inf"))
    higher = tl.maximum(top, tl.max(score, 1) * scale)
    weight = tl.math.exp2(score * scale - higher[:, None])
    shrink = tl.math.exp2(top - higher)
    total = total * shrink + tl.sum(weight, 1)
    mixed = mixed * shrink[:, None]
    mixed = tl.dot(weight.to(v.dtype), v, mixed, input_precision=PRECISION)
    return mixed, total, higher
