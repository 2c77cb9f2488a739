"""Ways to compute the drafter's attention once the mask is known.

Every way gives the same numbers; a row that sees nothing gives zeros, forward and backward. The
mask itself is ``trainer.mask``'s.

Shapes: query (N, heads, Q, D); key and value (N, kv heads, K, D); result (N, heads, Q, D).
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from trainer.mask import Layout, MaskRule, decoding_mask, dense_mask, flex_block_mask

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Backend = Literal["eager", "sdpa", "flex", "anchors"]
ANCHOR_HEADS = (16, 32, 64, 128)
"""Head sizes that ``anchors`` takes: powers of two, as matrix units want them."""
SHAPELESS_KERNELS = (
    SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH
)  # fmt: skip
"""Kernels that need no plan per shape. cuDNN's does, and decoding has a new shape every round."""


def plan_attention(
    rules: Sequence[MaskRule], layout: Layout, backend: Backend, *, compiled: bool = True
) -> tuple[Attend, ...]:
    """One attention per draft layer; layers with the same rule share their mask.

    Args:
        rules: One per draft layer.
        layout: Where the draft blocks stand.
        backend: ``flex`` and ``anchors`` train on a GPU only.
        compiled: Whether flex attention runs compiled; uncompiled it is a slow reference.
    """
    made: dict[MaskRule, Attend] = {}
    for rule in rules:
        if rule not in made:
            made[rule] = _attend(rule, layout, backend, compiled=compiled)
    return tuple(made[rule] for rule in rules)


def plan_decoding(
    rules: Sequence[MaskRule], *, rows: int, keys: int, device: torch.device
) -> tuple[Attend, ...]:
    """One attention per draft layer for a block of ``rows`` at the end of ``keys`` keys."""
    masks = {rule: decoding_mask(rule, rows=rows, keys=keys, device=device) for rule in rules}
    return tuple(sdpa_attend(masks[rule]) for rule in rules)


def eager_attend(mask: Tensor) -> Attend:
    """Attention by the formula; ``mask`` is bool (N, Q, K). The reference for the others."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        score = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        score = score.float().masked_fill(~mask[:, None], -torch.inf)
        top = score.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).min)
        weight = torch.exp(score - top.detach())
        weight = weight / weight.sum(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        return weight.to(value.dtype) @ value

    return attend


def sdpa_attend(mask: Tensor | None) -> Attend:
    """Attention by torch's fused kernels; ``mask`` is bool (N, Q, K) or (Q, K), None for all.

    What a kernel does with a row that sees nothing differs between them, so such a row is shown
    the first key and its result is then multiplied by zero.
    """
    if mask is None:
        return lambda query, key, value: functional.scaled_dot_product_attention(
            query, key, value, enable_gqa=True
        )
    mask = mask if mask.ndim == 3 else mask[None]  # noqa: PLR2004 - N, Q, K
    sees = mask.any(-1)
    shown = mask.clone()
    shown[..., 0] |= ~sees

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=shown[:, None], enable_gqa=True
        )
        return mixed * sees[:, None, :, None].to(mixed.dtype)

    return attend


def flex_attend(block_mask: BlockMask, *, compiled: bool = True) -> Attend:
    """Attention by flex attention, which skips tiles that no row of them sees."""
    run: Callable[..., object] = flex_attention
    if compiled:
        # torch.compile caches per function, so wrapping it again costs nothing.
        run = torch.compile(flex_attention, dynamic=False)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = run(query, key, value, block_mask=block_mask, enable_gqa=True)
        assert isinstance(mixed, Tensor)  # no log-sum-exp was asked for
        return mixed

    return attend


def anchors_attend(layout: Layout, rule: MaskRule) -> Attend:
    """Attention by this package's own kernels, which know how draft blocks see."""
    from trainer.kernels.anchors import TileMask, tile_mask, tiles_for  # noqa: PLC0415 - needs Triton
    from trainer.kernels.anchors_backward import attend as fused  # noqa: PLC0415 - as above

    made: list[TileMask] = []

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if not made:
            made.append(tile_mask(layout, rule, tiles_for(query, key)))
        return fused(query, key, value, made[0])

    return attend


def _attend(rule: MaskRule, layout: Layout, backend: Backend, *, compiled: bool) -> Attend:
    match backend:
        case "eager":
            return eager_attend(dense_mask(layout, rule))
        case "sdpa":
            return sdpa_attend(dense_mask(layout, rule))
        case "flex":
            return flex_attend(flex_block_mask(layout, rule), compiled=compiled)
        case "anchors":
            return anchors_attend(layout, rule)
