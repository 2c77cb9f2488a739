"""Every form of the mask says what three nested loops over the rule say."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from tests.support.layouts import Packed, mask_rules, packed_rows, small_drafter, unhurried
from trainer.anchors import PADDING, positions
from trainer.attention import (
    eager_attend,
    flex_attend,
    plan_attention,
    plan_decoding,
    sdpa_attend,
)
from trainer.mask import Layout, MaskRule, dense_mask, flex_block_mask


def _by_the_rule(packed: Packed, rule: MaskRule) -> Tensor:
    """The rule as prose has it, one row and key at a time."""
    layout, document = packed.layout, packed.document
    seen = torch.zeros(len(document), layout.rows, layout.keys, dtype=torch.bool)
    for batch in range(len(document)):
        for row in range(layout.rows):
            block, k = divmod(row, layout.block_size)
            anchor = int(layout.anchor[batch, block])
            if not layout.valid[batch, block]:
                continue
            for key in range(layout.keys):
                if key < layout.context:
                    same_document = document[batch, key] == document[batch, anchor]
                    distance = anchor + k - key
                    sees = bool(same_document) and key < anchor
                else:
                    own_block, m = divmod(key - layout.context, layout.block_size)
                    distance = k - m
                    sees = own_block == block and (not rule.causal or m <= k)
                if rule.window is not None:
                    sees = sees and abs(distance) < rule.window
                seen[batch, row, key] = sees
    return seen


def _attention_inputs(packed: Packed, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    rows, layout = len(packed.document), packed.layout
    query = torch.randn(rows, 4, layout.rows, 8, generator=draw)
    key = torch.randn(rows, 2, layout.keys, 8, generator=draw)
    value = torch.randn(rows, 2, layout.keys, 8, generator=draw)
    return query.requires_grad_(), key.requires_grad_(), value.requires_grad_()


@unhurried
@given(packed=packed_rows(), rule=mask_rules)
def test_dense_mask_is_the_rule(packed: Packed, rule: MaskRule) -> None:
    assert torch.equal(dense_mask(packed.layout, rule), _by_the_rule(packed, rule))


@unhurried
@given(packed=packed_rows(), rule=mask_rules, tile=st.sampled_from([1, 4, 8, 16]))
def test_block_mask_lists_exactly_the_tiles_in_use(
    packed: Packed, rule: MaskRule, tile: int
) -> None:
    """Flex attention's own search over all pairs finds the same tiles."""
    dense = dense_mask(packed.layout, rule)
    mask = flex_block_mask(packed.layout, rule, tile=tile)
    layout = packed.layout
    searched = create_block_mask(
        lambda batch, _head, row, key: dense[batch, row, key],
        len(packed.document), None, layout.rows, layout.keys, device="cpu", BLOCK_SIZE=tile,
    )  # fmt: skip
    for ours, theirs in (
        (_listed(mask.kv_num_blocks, mask.kv_indices),
         _listed(searched.kv_num_blocks, searched.kv_indices)),
        (_listed(mask.full_kv_num_blocks, mask.full_kv_indices),
         _listed(searched.full_kv_num_blocks, searched.full_kv_indices)),
    ):  # fmt: skip
        assert torch.equal(ours, theirs)


def _listed(count: Tensor | None, index: Tensor | None) -> Tensor:
    assert count is not None
    assert index is not None
    listed = torch.arange(index.shape[-1]) < count[..., None]
    return torch.zeros_like(listed).scatter(-1, index.long(), listed)


@unhurried
@given(packed=packed_rows(), rule=mask_rules)
def test_sdpa_and_the_formula_agree_forward_and_backward(packed: Packed, rule: MaskRule) -> None:
    mask = dense_mask(packed.layout, rule)
    results = []
    for attend in (eager_attend(mask), sdpa_attend(mask)):
        inputs = _attention_inputs(packed)
        mixed = attend(*inputs)
        (mixed * torch.arange(1.0, 9.0)).sum().backward()  # type: ignore[no-untyped-call]
        results.append([mixed, *(each.grad for each in inputs)])
    for one, other in zip(*results, strict=True):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@unhurried
@given(packed=packed_rows(), rule=mask_rules)
def test_flex_attention_and_the_formula_agree(packed: Packed, rule: MaskRule) -> None:
    query, key, value = (each.detach() for each in _attention_inputs(packed))
    expected = eager_attend(dense_mask(packed.layout, rule))(query, key, value)
    block_mask = flex_block_mask(packed.layout, rule)
    mixed = flex_attend(block_mask, compiled=False)(query, key, value)
    torch.testing.assert_close(mixed, expected, atol=2e-5, rtol=2e-5)


@unhurried
@given(packed=packed_rows(), rule=mask_rules, backend=st.sampled_from(["eager", "sdpa"]))
def test_blocks_that_are_not_valid_give_zeros_and_finite_gradients(
    packed: Packed, rule: MaskRule, backend: str
) -> None:
    mask = dense_mask(packed.layout, rule)
    inputs = _attention_inputs(packed)
    mixed = (eager_attend if backend == "eager" else sdpa_attend)(mask)(*inputs)
    blind = ~mask.any(-1)
    assert bool((mixed.transpose(1, 2)[blind] == 0).all())
    mixed.sum().backward()  # type: ignore[no-untyped-call]
    for each in inputs:
        assert each.grad is not None
        assert bool(each.grad.isfinite().all())


@unhurried
@given(packed=packed_rows(), layers=st.sampled_from([("full",), ("sliding", "full")]))
def test_a_training_block_is_a_decoding_round_on_its_prefix(
    packed: Packed, layers: tuple[str, ...]
) -> None:
    """The same drafter gives a block the same numbers, packed among others or alone."""
    layout, document = packed.layout, packed.document
    drafter = small_drafter(layout, layers)
    draw = torch.Generator().manual_seed(3)
    taps = torch.randn(*document.shape, drafter.config.tap_width, generator=draw)
    block = torch.randn(len(document), layout.rows, drafter.config.hidden_size, generator=draw)
    attend = plan_attention(drafter.config.mask_rules, layout, "sdpa")
    with torch.no_grad():
        together = drafter(block, taps, positions(layout, document), attend)
        for batch, slot in layout.valid.nonzero().tolist():
            first, anchor = int(layout.first[batch, slot]), int(layout.anchor[batch, slot])
            assert document[batch, anchor] != PADDING
            own = slice(slot * layout.block_size, (slot + 1) * layout.block_size)
            keys = anchor - first + layout.block_size
            alone = drafter(
                block[batch : batch + 1, own],
                taps[batch : batch + 1, first:anchor],
                torch.arange(keys)[None],
                plan_decoding(
                    drafter.config.mask_rules, rows=layout.block_size, keys=keys,
                    device=block.device,
                ),
            )  # fmt: skip
            torch.testing.assert_close(together[batch, own], alone[0], atol=5e-5, rtol=5e-5)


def test_block_mask_of_a_training_shape_skips_most_tiles() -> None:
    """4 documents of 2,048 tokens with 128 anchors each, blocks of 16: the shape of a real row."""
    anchor = torch.cat([2048 * index + 15 * torch.arange(1, 129) for index in range(4)])[None]
    first = anchor // 2048 * 2048
    layout = Layout(anchor, first, torch.ones_like(anchor, dtype=torch.bool), 8192, 16)
    mask = flex_block_mask(layout, MaskRule())
    tiles = mask.to_dense()[0, 0]
    assert tiles.shape == (64, 128)
    # On average half of its document's 16 tiles, and its own block's: 8.5 and 1 of 128.
    assert 8 <= float(tiles.sum()) / 64 <= 10.5
