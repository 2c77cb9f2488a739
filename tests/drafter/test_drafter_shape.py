"""The drafter's configuration refuses what cannot work, and its modules are what is published."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.oracle import CONFIG
from trainer.attention import plan_attention, plan_decoding
from trainer.drafter import DraftCache, Drafter, Rotary, default_target_layer_ids
from trainer.errors import ConfigError
from trainer.kernels.pointwise import rotate
from trainer.mask import Layout, MaskRule


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"hidden_size": 0}, "hidden_size: 0"),
        ({"num_key_value_heads": 3}, "num_key_value_heads: 3.*must divide 4"),
        ({"head_dim": 7}, "head_dim: 7.*even"),
        ({"block_size": 1}, "block_size: 1"),
        ({"target_layer_ids": ()}, "target_layer_ids: .*at least one"),
        ({"target_layer_ids": (1, 1)}, "target_layer_ids: .*once"),
        ({"target_layer_ids": (1, 8)}, "target_layer_ids: .*0 to 7"),
        ({"target_layer_ids": (-1, 3)}, "target_layer_ids: .*0 to 7"),
        ({"mask_token_id": 97}, "mask_token_id: 97.*0 to 96"),
        ({"rope_theta": 0.0}, "rope_theta: 0.0"),
        ({"layer_types": ()}, "layer_types"),
        ({"layer_types": ("sliding_attention",)}, "sliding_window: None"),
        ({"layer_types": ("sliding_attention",), "sliding_window": 0}, "sliding_window: 0"),
    ],
)
def test_a_shape_that_cannot_work_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        replace(CONFIG, **changes)


def test_attention_shape_is_the_drafters_own() -> None:
    """Heads times head size need not be the hidden size."""
    config = replace(CONFIG, num_attention_heads=6, num_key_value_heads=3, head_dim=10)
    shapes = {name: tuple(value.shape) for name, value in Drafter(config).state_dict().items()}
    assert shapes["layers.0.self_attn.q_proj.weight"] == (60, 32)
    assert shapes["layers.0.self_attn.k_proj.weight"] == (30, 32)
    assert shapes["layers.0.self_attn.o_proj.weight"] == (32, 60)
    assert shapes["layers.0.self_attn.q_norm.weight"] == (10,)
    assert shapes["fc.weight"] == (32, 96)
    assert len(shapes) == 11 * 2 + 3


def test_causality_follows_the_published_order() -> None:
    """``is_causal`` when given; else sliding layers are causal and full ones are not."""
    mixed = replace(CONFIG, layer_types=("sliding_attention", "full_attention"), sliding_window=5)
    assert mixed.mask_rules == (MaskRule(causal=True, window=5), MaskRule())
    assert replace(mixed, is_causal=False).mask_rules == (MaskRule(window=5), MaskRule())
    causal = MaskRule(causal=True)
    assert replace(mixed, is_causal=True).mask_rules == (replace(causal, window=5), causal)


def test_a_seed_draws_the_same_weights_and_another_seed_others() -> None:
    def weights(seed: int) -> torch.Tensor:
        drafter = Drafter(CONFIG)
        drafter.initialise(seed)
        return torch.cat([value.flatten() for value in drafter.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    drafter = Drafter(CONFIG)
    drafter.initialise(0)
    assert bool((drafter.norm.weight == 1).all())
    assert float(drafter.fc.weight.detach().std()) == pytest.approx(0.02, rel=0.05)


def test_the_rotary_base_matters() -> None:
    """A wrong base is silent in every shape; it must at least change the numbers."""
    draw = torch.Generator().manual_seed(0)
    block = torch.randn(1, 4, 32, generator=draw)
    taps = torch.randn(1, 9, 96, generator=draw)
    attend = plan_decoding(CONFIG.mask_rules, rows=4, keys=13, device=block.device)
    results = []
    for theta in (10_000.0, 1_000_000.0):
        drafter = Drafter(replace(CONFIG, rope_theta=theta, initializer_range=0.2))
        drafter.initialise(seed=0)
        with torch.no_grad():
            results.append(drafter(block, taps, torch.arange(13)[None], attend))
    assert float((results[0] - results[1]).abs().max()) > 1e-3


def test_rotary_turns_by_relative_position_alone() -> None:
    draw = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, 1, 1, 8, generator=draw)
    dots = []
    for shift in (0, 17):
        at = Rotary.at(torch.tensor([[3 + shift, 9 + shift]]), CONFIG, torch.float32)
        turned = rotate(torch.cat([key, query], dim=1), at.cos, at.sin)
        dots.append((turned[0, 0, 0] * turned[0, 1, 0]).sum())
    torch.testing.assert_close(dots[0], dots[1])


def test_taps_are_read_in_their_stored_order() -> None:
    """Swapping two taps must not go unnoticed: each has its own columns of ``fc``."""
    drafter = Drafter(CONFIG)
    drafter.initialise(seed=3)
    taps = torch.randn(1, 5, 96, generator=torch.Generator().manual_seed(1))
    swapped = torch.cat([taps[..., 32:64], taps[..., :32], taps[..., 64:]], dim=-1)
    assert not torch.allclose(drafter.fuse(taps), drafter.fuse(swapped), atol=1e-3)


def test_a_cache_forgets_what_is_cropped() -> None:
    cache = DraftCache()
    assert cache.length == 0
    key = torch.arange(10.0).view(1, 1, 10, 1)
    cache.extend(0, key, key)
    cache.crop(6)
    assert cache.length == 6
    grown, _ = cache.extend(0, key[:, :, :2], key[:, :, :2])
    assert grown.flatten().tolist() == [0, 1, 2, 3, 4, 5, 0, 1]


def test_bfloat16_computes_in_bfloat16_near_the_float32_numbers() -> None:
    drafter = Drafter(replace(CONFIG, initializer_range=0.1))
    drafter.initialise(seed=0)
    draw = torch.Generator().manual_seed(0)
    block, taps = torch.randn(1, 4, 32, generator=draw), torch.randn(1, 9, 96, generator=draw)
    attend = plan_decoding(CONFIG.mask_rules, rows=4, keys=13, device=block.device)
    place = torch.arange(13)[None]
    with torch.no_grad():
        wide = drafter(block, taps, place, attend)
        narrow = drafter.bfloat16()(block.bfloat16(), taps.bfloat16(), place, attend)
    assert narrow.dtype == torch.bfloat16
    assert float((narrow.float() - wide).norm() / wide.norm()) < 0.03


@pytest.mark.parametrize(
    ("layers", "taps", "ids"),
    [
        (36, 5, (1, 9, 17, 25, 33)),
        (64, 5, (1, 16, 31, 46, 61)),
        (30, 5, (1, 8, 14, 20, 27)),
        (8, 1, (4,)),
    ],
)
def test_default_taps_follow_the_published_formula(
    layers: int, taps: int, ids: tuple[int, ...]
) -> None:
    assert default_target_layer_ids(layers, taps) == ids


def test_masked_rows_that_are_projected_once_train_as_if_each_were() -> None:
    """The first layer's masked rows are one and the same row: same results, same gradients."""
    size, anchors = CONFIG.block_size, 3
    draw = torch.Generator().manual_seed(4)
    first = torch.randn(2, anchors, 1, CONFIG.hidden_size, generator=draw)
    rest = torch.randn(CONFIG.hidden_size, generator=draw)
    block = torch.cat([first, rest.expand(2, anchors, size - 1, -1)], dim=2).flatten(1, 2)
    taps = torch.randn(2, 7, CONFIG.tap_width, generator=draw)
    anchor = torch.tensor([[1, 3, 6], [2, 4, 5]])
    layout = Layout(anchor, 0 * anchor, torch.ones_like(anchor).bool(), 7, size)
    attend = plan_attention(CONFIG.mask_rules, layout, "eager")
    place = torch.arange(7 + anchors * size).expand(2, -1)
    found = []
    for masked in (None, size):
        drafter = Drafter(CONFIG)
        drafter.initialise(seed=2)
        out = drafter(block, taps, place, attend, masked=masked)
        (out * torch.sin(torch.arange(out.numel()).view_as(out))).sum().backward()
        found.append([out.detach(), *(each.grad for each in drafter.parameters())])
    for whole, once in zip(*found, strict=True):
        torch.testing.assert_close(once, whole, atol=2e-5, rtol=2e-5)
