"""What only a GPU can show: compiled kernels, flex attention's backward pass, captured steps."""

from itertools import islice

import pytest
import torch
from torch import Tensor

from tests.support.row_cases import DTYPES, SCALES, VOCABULARIES, check_equal, check_finite
from trainer.anchors import AnchorConfig
from trainer.attention import Backend, eager_attend, flex_attend
from trainer.batches import assemble, read_features
from trainer.config import DrafterSettings, RandomTarget, RunConfig
from trainer.drafter import Drafter
from trainer.fixed import FixedStep, StepShape
from trainer.kernels.choice import row_math
from trainer.kernels.rows import FusedRowMath
from trainer.loading import load_backbone
from trainer.loss import LossConfig, denominator
from trainer.mask import Layout, MaskRule, dense_mask, flex_block_mask
from trainer.optimizer import MasterOptimizer
from trainer.schedule import Place, Schedule
from trainer.step import drafter_config
from trainer.synthetic import synthetic_corpus
from trainer.target import Target

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")
BACKENDS: tuple[Backend, ...] = ("flex", "anchors")


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


def _losses(loss: LossConfig, *, captures: bool, backend: Backend) -> list[float]:
    """Six steps on two alternating batches, in bfloat16 with float32 masters."""
    config = RunConfig(
        run_id="gpu", output_dir="unused", steps=6, loss=loss, row_tokens=512, compile=True,
        drafter=DrafterSettings(block_size=8, num_hidden_layers=2, tap_count=2),
        target=RandomTarget(hidden_size=64, num_attention_heads=4, head_dim=16),
        anchors=AnchorConfig(64, 64),
    )  # fmt: skip
    backbone = load_backbone(config.target, GPU)
    shape = drafter_config(config.drafter, backbone.shape, is_random=True)
    target = Target(backbone, shape.target_layer_ids)
    drafter = Drafter(shape)
    drafter.initialise(seed=1)
    drafter = drafter.to(GPU, torch.bfloat16)
    taps = torch.zeros(1, 512, shape.tap_width, device=GPU)
    final = torch.zeros(1, 512, shape.hidden_size, device=GPU)

    def features() -> tuple[Tensor, Tensor | None]:
        return taps, final.bfloat16()

    step = FixedStep(
        drafter, MasterOptimizer(drafter, config.optimizer), target.embedding_VH.bfloat16(),
        target.head_VH.bfloat16(), shape=StepShape(1, 512, 64), features=features, loss=loss,
        backend=backend, captures=captures,
    )  # fmt: skip
    corpus = synthetic_corpus(vocab_size=128, documents=24, length=80, seed=0)
    rows = Schedule(corpus.lengths, capacity=512, seed=0, place=Place()).rows()
    batches = [assemble([row], corpus, config) for row in islice(rows, 2)]
    losses = []
    for number in range(6):
        batch = batches[number % 2]
        read = read_features(target, batch, tokens_per_read=2048, device=GPU)
        taps.copy_(read.taps_NSF)
        final.copy_(read.final_NSH)
        total = denominator(batch.supervision, loss)
        step.load(batch.ids_NS, batch.document_NS, batch.layout, batch.supervision, total)
        losses.append(float(step.step(1e-3).loss))
    return losses


@pytest.mark.parametrize(
    "loss",
    [
        LossConfig(),
        LossConfig(weighting="dpace"),
        LossConfig(objective="forward_kl"),
        LossConfig(objective="teacher_argmax"),
    ],
    ids=["decay", "dpace", "forward_kl", "teacher_argmax"],
)
def test_a_captured_step_trains_like_an_eager_one(loss: LossConfig) -> None:
    eager = _losses(loss, captures=False, backend="sdpa")
    assert eager[-1] < eager[0]
    for backend in BACKENDS:
        captured = _losses(loss, captures=True, backend=backend)
        # bfloat16 products in another order; a step that forgot its moments would be far off.
        assert captured == pytest.approx(eager, rel=2e-2)
