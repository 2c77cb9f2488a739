"""What only a GPU can show: compiled kernels and flex attention's backward pass."""

import pytest
import torch

from tests.support.row_cases import DTYPES, SCALES, VOCABULARIES, check_equal, check_finite
from trainer.attention import eager_attend, flex_attend
from trainer.kernels.choice import row_math
from trainer.kernels.rows import FusedRowMath
from trainer.mask import Layout, MaskRule, dense_mask, flex_block_mask

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")


@pytest.mark.parametrize("vocabulary", [*VOCABULARIES, 151_936])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_rows_are_the_eager_rows(vocabulary: int, dtype: torch.dtype) -> None:
    assert isinstance(row_math(GPU), FusedRowMath)
    check_equal(vocabulary, dtype, GPU)


@pytest.mark.parametrize(("scale", "shift"), SCALES)
def test_fused_rows_stay_finite(scale: float, shift: float) -> None:
    check_finite(scale, shift, GPU)


@pytest.mark.parametrize("rule", [MaskRule(), MaskRule(causal=True, window=100)], ids=str)
def test_flex_attention_and_the_formula_agree_backward(rule: MaskRule) -> None:
    anchor = torch.arange(5, 505, 20, device=GPU)[None]
    first = torch.where(anchor < 256, 0, 256)
    valid = torch.ones_like(anchor, dtype=torch.bool)
    valid[0, 3] = False
    layout = Layout(anchor, first, valid, 512, 16)
    draw = torch.Generator(GPU).manual_seed(0)
    results = []
    base = [
        torch.randn(1, heads, length, 64, generator=draw, device=GPU)
        for heads, length in ((9, layout.rows), (3, layout.keys), (3, layout.keys))
    ]
    for attend in (
        eager_attend(dense_mask(layout, rule)),
        flex_attend(flex_block_mask(layout, rule)),
    ):
        inputs = [each.clone().requires_grad_() for each in base]
        mixed = attend(*inputs)
        mixed.square().sum().backward()  # type: ignore[no-untyped-call]
        results.append([mixed.detach(), *(each.grad for each in inputs)])
    for one, other in zip(*results, strict=True):
        assert one is not None
        assert other is not None
        # Matrix products of float32 may run in TF32 there: 10 bits of mantissa.
        assert float((one - other).norm() / other.norm()) < 2e-3
