"""Who may see whom in a DFlash drafter: one rule, and the forms attention needs it in.

The rule is stated once, in :func:`row_intervals`: what a draft row sees is two runs of keys, one
in the context and one in its own draft block. The dense mask, SDPA's mask, flex attention's
predicate and its block mask all follow from those four numbers per row. Running attention with
them is ``trainer.attention``'s; choosing anchors is ``trainer.anchors``'.

Shape letters:
    N  rows of a micro-batch        S  context tokens of a row, documents packed end to end
    A  anchors of a row             B  block size, the anchor's own slot included
    Q  draft rows, A * B            K  keys, S + Q: the context, then the draft blocks

Source: DFlash, arXiv 2602.06036; sliding windows as in dflash 0.1.0, where the window moves with
the row (speculators 0.9.0 differs).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from trainer.sending import send

TILE = 128
"""Rows and keys per tile of a flex block mask; flex attention's own default."""


@dataclass(frozen=True, slots=True)
class MaskRule:
    """How one draft layer sees: ``window`` in tokens, or None for all of the context."""

    causal: bool = False
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a micro-batch's draft blocks stand.

    ``anchor`` and ``first`` are int64 (N, A): the row index of each anchor, ascending, and of the
    first token of its document. ``valid`` is bool (N, A); a block that is not valid sees nothing,
    is seen by nothing, and weighs nothing. ``context`` is S.
    """

    anchor: Tensor
    first: Tensor
    valid: Tensor
    context: int
    block_size: int

    def to(self, device: torch.device) -> "Layout":
        """The same on ``device``."""
        anchor, first, valid = (
            send(each, device) for each in (self.anchor, self.first, self.valid)
        )
        return Layout(anchor, first, valid, self.context, self.block_size)

    @property
    def rows(self) -> int:
        """Draft rows of one micro-batch row, Q."""
        return self.anchor.shape[1] * self.block_size

    @property
    def keys(self) -> int:
        """Keys of one micro-batch row, K."""
        return self.context + self.rows


@dataclass(frozen=True, slots=True)
class RowIntervals:
    """Half-open runs of keys that each draft row sees; int64 (N, Q), empty when low >= high."""

    context_low: Tensor
    context_high: Tensor
    block_low: Tensor
    block_high: Tensor


def row_intervals(layout: Layout, rule: MaskRule) -> RowIntervals:
    """The rule.

    Row ``k`` of the block at anchor ``a`` sees a context token ``p`` of its document iff ``p < a``
    (the target's state at the anchor does not exist when decoding) and ``a + k - p < window``;
    and row ``m`` of its own block iff ``m <= k`` when causal, else ``|k - m| < window``.
    """
    size = layout.block_size
    device = layout.anchor.device
    row = torch.arange(size, device=device)
    anchor = layout.anchor[:, :, None]
    low = layout.first[:, :, None].expand(-1, -1, size)
    block_low, block_high = torch.zeros_like(row), torch.full_like(row, size)
    if rule.causal:
        block_high = row + 1
    if rule.window is not None:
        low = torch.maximum(low, anchor + row - (rule.window - 1))
        block_low = (row - (rule.window - 1)).clamp_min(0)
        block_high = torch.minimum(block_high, row + rule.window)
    valid = layout.valid[:, :, None]
    start = layout.context + size * torch.arange(layout.anchor.shape[1], device=device)
    start = start[None, :, None]
    empty = torch.zeros_like(anchor)
    return RowIntervals(
        context_low=torch.where(valid, low, empty).flatten(1),
        context_high=torch.where(valid, anchor, empty).expand(-1, -1, size).flatten(1),
        block_low=torch.where(valid, start + block_low, empty).flatten(1),
        block_high=torch.where(valid, start + block_high, empty).flatten(1),
    )


def dense_mask(layout: Layout, rule: MaskRule) -> Tensor:
    """Bool (N, Q, K); true means "may see"."""
    seen = row_intervals(layout, rule)
    key = torch.arange(layout.keys, device=layout.anchor.device)
    return _inside(key, seen.context_low, seen.context_high) | _inside(
        key, seen.block_low, seen.block_high
    )


def flex_block_mask(layout: Layout, rule: MaskRule, *, tile: int = TILE) -> BlockMask:
    """Flex attention's block mask, by arithmetic on intervals instead of on Q * K pairs.

    A tile is listed when some row of it sees some key of it, and as full when all rows see all
    keys, so it is exact; a tile that reaches behind the last row or key is never full. Nothing
    here waits for the device.
    """
    seen = row_intervals(layout, rule)
    runs = ((seen.context_low, seen.context_high), (seen.block_low, seen.block_high))
    tiles = -(-layout.keys // tile)
    left = tile * torch.arange(tiles, device=layout.anchor.device)
    right = left + tile
    some = torch.zeros((), dtype=torch.bool, device=left.device)
    every = some
    for low, high in runs:
        low, high = low[..., None], high[..., None]  # noqa: PLW2901 - the same runs, per tile
        some = some | (torch.maximum(low, left) < torch.minimum(high, right))
        every = every | ((low <= left) & (right <= high))
    some_tile, every_tile = _row_tiles(some, tile).any(2), _row_tiles(every, tile).all(2)
    partial_count, partial_index = _listed(some_tile & ~every_tile)
    full_count, full_index = _listed(every_tile)

    # The kernel counts in 32 bits and reads these four for every row of a partial tile.
    context_low, context_high, block_low, block_high = (
        bound.to(torch.int32) for run in runs for bound in run
    )

    def sees(batch: Tensor, _head: Tensor, row: Tensor, key: Tensor) -> Tensor:
        context = (key >= context_low[batch, row]) & (key < context_high[batch, row])
        block = (key >= block_low[batch, row]) & (key < block_high[batch, row])
        return context | block

    return BlockMask.from_kv_blocks(
        partial_count, partial_index, full_count, full_index,
        BLOCK_SIZE=tile, mask_mod=sees, seq_lengths=(layout.rows, layout.keys),
    )  # fmt: skip


def decoding_mask(rule: MaskRule, *, rows: int, keys: int, device: torch.device) -> Tensor | None:
    """What ``rows`` block rows see among ``keys`` keys that end with them, when decoding.

    The keys stand at consecutive positions, so the rule needs their distance alone.

    Returns:
        Bool (rows, keys), or None when everything is visible.
    """
    if not rule.causal and (rule.window is None or rule.window >= keys):
        return None
    position = torch.arange(keys, device=device)
    distance = position[keys - rows :, None] - position[None, :]
    visible = distance >= 0 if rule.causal else torch.ones_like(distance, dtype=torch.bool)
    if rule.window is not None:
        visible &= distance.abs() < rule.window
    return visible


def _inside(key: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return (key >= low[..., None]) & (key < high[..., None])


def _row_tiles(row_claim: Tensor, tile: int) -> Tensor:
    """(N, Q, tiles) as (N, Q tiles, tile, tiles); rows behind the last one claim nothing."""
    missing = row_claim.new_zeros(
        (row_claim.shape[0], -row_claim.shape[1] % tile, row_claim.shape[2])
    )
    padded = torch.cat([row_claim, missing], dim=1)
    return padded.view(len(padded), -1, tile, padded.shape[2])


def _listed(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """Counts (N, 1, Q tiles) and indices (N, 1, Q tiles, tiles), listed tiles first."""
    order = tiles.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    return tiles.sum(-1, dtype=torch.int32)[:, None], order.to(torch.int32)[:, None]
