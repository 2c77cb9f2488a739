"""The published packages, run here and now on fresh weights, agree with ours.

The golden numbers hold shapes that were chosen once; here are others: sliding windows, mixed
layers, blocks that reach over the end, a grouped target model, sampling settings.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.support.oracle import assert_close
from tests.support.peers import peer
from trainer.anchors import document_first, draft_ids, positions, supervise
from trainer.attention import plan_attention, plan_decoding
from trainer.config import RandomTarget
from trainer.decode import Sampling, decode, distribution
from trainer.drafter import Drafter, DrafterConfig, LayerType
from trainer.export import export_z_lab
from trainer.kernels.eager import EagerRowMath
from trainer.loss import LossConfig, denominator, head_loss
from trainer.mask import Layout, MaskRule, dense_mask
from trainer.qwen3 import random_model, save
from trainer.target import Qwen3Backbone, Target

# What the packages ask of newer versions of transformers is between the two.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning")

SHAPES: dict[str, dict[str, Any]] = {
    "full": {"layer_types": ("full_attention",) * 2},
    "sliding": {"layer_types": ("sliding_attention",) * 2},
    "mixed": {"layer_types": ("sliding_attention", "full_attention")},
    "both ways": {"layer_types": ("sliding_attention", "full_attention"), "is_causal": False},
}
TARGET = RandomTarget(vocab_size=60, hidden_size=32, intermediate_size=48, rope_theta=5000.0)
TAPS = (0, 2, 4)


def _drafter(shape: dict[str, Any], seed: int = 3) -> Drafter:
    layers: tuple[LayerType, ...] = shape["layer_types"]
    config = DrafterConfig(
        hidden_size=32, intermediate_size=40, num_attention_heads=6, num_key_value_heads=2,
        head_dim=8, vocab_size=60, num_target_layers=6, target_layer_ids=TAPS, mask_token_id=59,
        layer_types=layers, block_size=5, rope_theta=5000.0, is_causal=shape.get("is_causal"),
        sliding_window=6 if "sliding_attention" in layers else None, initializer_range=0.15,
    )  # fmt: skip
    drafter = Drafter(config)
    drafter.initialise(seed)
    with torch.no_grad():
        draw = torch.Generator().manual_seed(seed + 1)
        for parameter in drafter.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
    return drafter


def _target() -> Target:
    return Target(Qwen3Backbone(random_model(TARGET), "random", "none"), TAPS)


def _exported(drafter: Drafter, directory: Path, module: str) -> Any:
    """Our export, loaded by a package's own class."""
    export_z_lab(drafter, directory, dtype="float32")
    kind = peer(module).DFlashDraftModel
    return kind.from_pretrained(directory, dtype=torch.float32).eval()


@pytest.mark.parametrize("name", SHAPES)
def test_dflash_loads_our_export_and_gives_the_same_hidden_states(
    tmp_path: Path, name: str
) -> None:
    drafter = _drafter(SHAPES[name])
    theirs = _exported(drafter, tmp_path / "out", "dflash.model")
    assert theirs.block_size == 5
    assert theirs.mask_token_id == 59
    assert list(theirs.target_layer_ids) == list(TAPS)
    draw = torch.Generator().manual_seed(5)
    for context in (1, 4, 17):
        block = torch.randn(1, 5, 32, generator=draw)
        taps = torch.randn(1, context, 96, generator=draw)
        place = torch.arange(context + 5)[None]
        attend = plan_decoding(
            drafter.config.mask_rules, rows=5, keys=context + 5, device=block.device
        )
        with torch.no_grad():
            assert_close(
                drafter(block, taps, place, attend),
                theirs(position_ids=place, noise_embedding=block, target_hidden=taps),
            )


@pytest.mark.parametrize("name", SHAPES)
def test_dflash_generates_the_same_tokens_with_our_export(tmp_path: Path, name: str) -> None:
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - only here

    drafter, target = _drafter(SHAPES[name]), _target()
    theirs = _exported(drafter, tmp_path / "drafter", "dflash.model")
    save(random_model(TARGET), tmp_path / "target")
    their_target: Any = AutoModelForCausalLM.from_pretrained(
        tmp_path / "target", dtype=torch.float32
    )
    prompt = [7, 30, 2, 11]
    out = peer("dflash.model").dflash_generate(
        theirs, their_target.eval(), torch.tensor([prompt]), 16, None
    )
    ours = decode(target, drafter, prompt, new_tokens=16)
    assert prompt + list(ours.tokens) == out[0].tolist()


@pytest.mark.parametrize(
    "sampling",
    [Sampling(0.7), Sampling(1.0, top_p=0.6), Sampling(1.3, top_k=4, top_p=0.8)],
    ids=str,
)
def test_dflash_draws_from_the_same_distribution(sampling: Sampling) -> None:
    draw = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(4, 50, generator=draw)
    theirs = peer("dflash.model")._sampling_probs(
        logits, sampling.temperature, sampling.top_p, sampling.top_k
    )
    assert_close(distribution(logits, sampling), theirs)


@pytest.mark.parametrize("name", ["full", "sliding", "mixed"])
@pytest.mark.parametrize("weighting", ["decay", "dpace"])
def test_specforge_trains_our_export_with_the_same_loss_and_gradients(
    tmp_path: Path, name: str, weighting: str
) -> None:
    drafter = _drafter(SHAPES[name])
    draft_model = _exported(drafter, tmp_path / "out", "specforge.modeling.draft.dflash")
    draw = torch.Generator().manual_seed(8)
    ids = torch.randint(0, 59, (2, 23), generator=draw)
    taps = torch.randn(2, 23, 96, generator=draw)
    answer = (torch.rand(2, 23, generator=draw) < 0.8).float()
    embedding, head = torch.randn(60, 32, generator=draw), torch.randn(60, 32, generator=draw)
    embed, project = nn.Embedding(60, 32, _weight=embedding), nn.Linear(32, 60, bias=False)
    project.weight.data.copy_(head)
    family = peer("specforge.algorithms.common.dflash_family_model")
    theirs = family.OnlineDFlashModel(
        draft_model, project, embed, mask_token_id=59, block_size=5, attention_backend="sdpa",
        num_anchors=9, loss_decay_gamma=4.0,
        loss_type="dflash" if weighting == "decay" else "dpace",
    )  # fmt: skip
    torch.manual_seed(1)
    anchor, valid, _ = theirs._forward_draft_blocks(ids, taps, answer)
    torch.manual_seed(1)
    expected, _, _ = theirs(ids, taps, answer)
    expected.backward()

    document = torch.zeros_like(ids)
    layout = Layout(anchor, document_first(document).gather(1, anchor), valid, 23, 5)
    supervision = supervise(layout, ids, answer, document, contiguous=False)
    hidden = drafter(
        functional.embedding(draft_ids(layout, ids, 59), embedding), taps,
        positions(layout, document), plan_attention(drafter.config.mask_rules, layout, "sdpa"),
    )  # fmt: skip
    config = LossConfig(weighting="decay", gamma=4.0)
    total = denominator(supervision, config)
    if weighting == "dpace":
        config = LossConfig(weighting="dpace")
        # Specforge does not divide by a sequence's anchors, only by the sequences.
        supervision.anchors_in_sequence.fill_(1)
        total = torch.tensor(2.0)
    loss = head_loss(hidden, head, supervision, config, total).loss
    loss.backward()  # type: ignore[no-untyped-call]
    assert_close(loss.detach(), expected.detach())
    for parameter, value in draft_model.named_parameters():
        assert_close(_gradient(drafter, parameter), value.grad)


def _gradient(drafter: Drafter, name: str) -> Tensor:
    gradient = drafter.get_parameter(name).grad
    assert gradient is not None
    return gradient


def test_speculators_masks_packed_documents_as_we_do() -> None:
    attention = peer("speculators.models.dflash.attention")
    document = torch.tensor([0] * 9 + [1] * 3 + [2] * 14 + [-1] * 6)
    anchor = torch.tensor([1, 5, 10, 14, 15, 24])
    modifier, rows, keys = attention.create_anchor_block_mask_mod(document, 32, anchor, 5)
    zero, row, key = torch.tensor(0), torch.arange(rows)[:, None], torch.arange(keys)[None]
    theirs = modifier(zero, zero, row, key)
    first = document_first(document)[anchor]
    layout = Layout(anchor[None], first[None], torch.ones(1, 6, dtype=torch.bool), 32, 5)
    assert torch.equal(dense_mask(layout, MaskRule())[0], theirs)


def test_speculators_row_losses_are_ours() -> None:
    eager = peer("speculators.losses.eager")
    draw = torch.Generator().manual_seed(4)
    logits, targets = (4 * torch.randn(30, 70, generator=draw) for _ in range(2))
    labels = targets.argmax(-1)
    log_sum, picked, best = EagerRowMath().statistics(logits, labels)
    assert_close(log_sum - picked, eager.ce_loss(logits[None], targets[None])[0])
    assert torch.equal(best, logits.argmax(-1))
