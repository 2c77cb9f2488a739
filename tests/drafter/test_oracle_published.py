"""The drafter, mask, loss and decoding give the numbers of the published packages."""

import dataclasses

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.support.oracle import CONFIG, Oracle, assert_close, load_oracle
from trainer.anchors import Supervision, document_first, draft_ids, positions, supervise
from trainer.attention import plan_attention, plan_decoding
from trainer.drafter import Drafter
from trainer.loss import HeadLoss, LossConfig, denominator, head_loss
from trainer.mask import Layout, MaskRule, dense_mask


@pytest.fixture(scope="module", name="oracle")
def fixture_oracle() -> Oracle:
    return load_oracle()


def _batch(oracle: Oracle) -> tuple[Layout, Tensor]:
    """Group B's layout (one document a row) and its document ids."""
    document = torch.zeros_like(oracle["B.input_ids"])
    anchor, keep = oracle["B.anchors"], oracle["B.keep"]
    first = document_first(document).gather(1, anchor)
    return Layout(anchor, first, keep, document.shape[1], CONFIG.block_size), document


def _hidden(oracle: Oracle, drafter: Drafter) -> Tensor:
    layout, document = _batch(oracle)
    ids = draft_ids(layout, oracle["B.input_ids"], CONFIG.mask_token_id)
    hidden: Tensor = drafter(
        functional.embedding(ids, oracle["embed"]),
        oracle["B.hidden_states"],
        positions(layout, document),
        plan_attention(CONFIG.mask_rules, layout, "sdpa"),
    )
    return hidden


def _supervision(oracle: Oracle) -> Supervision:
    layout, document = _batch(oracle)
    return supervise(
        layout, oracle["B.input_ids"], oracle["B.loss_mask"], document, contiguous=False
    )


def test_one_block_matches_z_lab(oracle: Oracle) -> None:
    """Group A."""
    block = functional.embedding(oracle["A.block_ids"], oracle["embed"])
    attend = plan_decoding(CONFIG.mask_rules, rows=4, keys=15, device=block.device)
    hidden = oracle.drafter()(block, oracle["A.target_hidden"], oracle["A.position_ids"], attend)
    assert_close(hidden, oracle["A.out_hidden"])
    assert_close(hidden @ oracle["lm_head"].T, oracle["A.logits"])


@pytest.mark.parametrize(
    ("rule", "name"),
    [(MaskRule(), "B.mask_full"), (MaskRule(causal=True, window=5), "B.mask_swa5")],
)
def test_training_mask_matches_specforge(oracle: Oracle, rule: MaskRule, name: str) -> None:
    layout, _ = _batch(oracle)
    assert torch.equal(dense_mask(layout, rule)[:, None], oracle[name])


def test_training_forward_matches_specforge(oracle: Oracle) -> None:
    hidden = _hidden(oracle, oracle.drafter())
    valid = oracle["B.keep"].repeat_interleave(CONFIG.block_size, 1)
    assert_close(hidden[valid], oracle["B.out_hidden"][valid])


LOSSES = {
    "plain": LossConfig(weighting="plain"),
    "decay7": LossConfig(gamma=7),
    "decay4": LossConfig(gamma=4),
    "dpace": LossConfig(weighting="dpace"),
}


def _loss(oracle: Oracle, drafter: Drafter, name: str) -> HeadLoss:
    """Specforge divides D-PACE by the rows of the batch, and not by anchors."""
    supervision, config = _supervision(oracle), LOSSES[name]
    total = denominator(supervision, config)
    if name == "dpace":
        ones = torch.ones_like(supervision.anchors_in_sequence)
        supervision = dataclasses.replace(supervision, anchors_in_sequence=ones)
        total = torch.tensor(float(len(oracle["B.input_ids"])))
    hidden = _hidden(oracle, drafter)
    return head_loss(hidden, oracle["lm_head"], supervision, config, total, chunk_rows=7)


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_accuracy_match_specforge(oracle: Oracle, name: str) -> None:
    result = _loss(oracle, oracle.drafter(), name)
    assert_close(result.loss.detach(), oracle[f"B.{name}.loss"])
    assert_close(result.rows.correct.float().mean(), oracle[f"B.{name}.acc"])


@pytest.mark.parametrize("name", ["decay7", "dpace"])
def test_parameter_gradients_match_specforge(oracle: Oracle, name: str) -> None:
    drafter = oracle.drafter()
    _loss(oracle, drafter, name).loss.backward()  # type: ignore[no-untyped-call]
    expected = oracle.weights(f"B.{name}.grad")
    assert len(expected) == 6
    for parameter, gradient in expected.items():
        grown = drafter.get_parameter(parameter).grad
        assert grown is not None
        assert_close(grown, gradient)
