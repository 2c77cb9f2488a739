"""The fused layer kernels on the hardware that they are for."""

from dataclasses import replace

import pytest
import torch

from tests.support import kernel_cases as cases
from tests.support.row_cases import DTYPES, VOCABULARIES, check_compared
from tests.support.target_cases import FAMILIES, TAPS, check_target, small_model
from trainer.kernels.anchors import Tiles, tile_mask, tiles_for
from trainer.kernels.anchors_backward import attend
from trainer.kernels.choice import layer_math
from trainer.kernels.layers import FusedLayerMath
from trainer.kernels.target import FusedReader
from trainer.mask import Layout, MaskRule

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
GPU = torch.device("cuda")


@pytest.mark.parametrize("rule", cases.RULES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [64, 128])
def test_attention_is_the_formulas(rule: MaskRule, dtype: torch.dtype, width: int) -> None:
    for block, splits in ((16, False), (5, True)):
        tiles = replace(_tiles(dtype), splits=splits)
        cases.check_attention(cases.packed_layout(block, GPU), rule, dtype, tiles, width=width)


def _tiles(dtype: torch.dtype) -> Tiles:
    some = torch.empty(1, 2, 4096, 16, dtype=dtype)
    return tiles_for(some, some)


def _wide_layout() -> Layout:
    """Four documents of 512 tokens, 32 blocks of 16 in each: tiles that need no mask."""
    draw = torch.Generator().manual_seed(1)
    anchor = torch.cat([
        512 * document + torch.randperm(500, generator=draw)[:32].sort().values
        for document in range(4)
    ])[None].to(GPU)  # fmt: skip
    return Layout(anchor, anchor // 512 * 512, torch.ones_like(anchor).bool(), 2048, 16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_attention_over_many_tiles_is_the_formulas(dtype: torch.dtype) -> None:
    cases.check_attention(_wide_layout(), MaskRule(), dtype, _tiles(dtype), width=128)


def test_attention_gives_the_same_bits_again() -> None:
    layout = _wide_layout()
    draw = torch.Generator(GPU).manual_seed(0)
    query, key, value = (
        torch.randn(1, heads, length, 128, generator=draw, device=GPU, dtype=torch.bfloat16)
        for heads, length in ((8, layout.rows), (2, layout.keys), (2, layout.keys))
    )
    mask = tile_mask(layout, MaskRule(), tiles_for(query, key))
    first, again = (
        cases.results(lambda q, k, v: attend(q, k, v, mask), (query, key, value)) for _ in range(2)
    )
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [48, 64, 576, 4096])
def test_layers_are_their_twins(width: int, dtype: torch.dtype) -> None:
    assert isinstance(layer_math(GPU), FusedLayerMath)
    # Float32 products of the feed-forward must not run in TF32.
    assert torch.get_float32_matmul_precision() == "highest"
    cases.check_layers(width, dtype, GPU)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_adamw_is_torchs(dtype: torch.dtype) -> None:
    cases.check_adamw(dtype, GPU)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocabulary", [*VOCABULARIES, 151_936])
def test_a_teacher_is_compared_as_its_twin_does(vocabulary: int, dtype: torch.dtype) -> None:
    check_compared(vocabulary, dtype, GPU)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_target_is_read_as_it_reads_itself(family: str, dtype: torch.dtype) -> None:
    check_target(family, dtype, GPU)


def test_a_captured_read_gives_what_a_plain_one_gives() -> None:
    model = small_model("qwen3", torch.bfloat16, GPU)
    reader = FusedReader(model.model, model.config)
    draw = torch.Generator().manual_seed(2)
    batches = [torch.randint(0, 64, (2, 256), generator=draw).to(GPU) for _ in range(2)]
    plain = [reader.read(ids, TAPS) for ids in batches]
    held = batches[0].clone()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        reader.read(held, TAPS)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        taps, final = reader.read(held, TAPS)
    for ids, (expected_taps, expected_final) in zip(batches, plain, strict=True):
        held.copy_(ids)
        graph.replay()
        assert torch.equal(taps, expected_taps)
        assert torch.equal(final, expected_final)
