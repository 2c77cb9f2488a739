"""The drafter, mask, loss and decoding give the numbers of the published packages."""

import dataclasses
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.support.oracle import CONFIG, Oracle, assert_close, load_oracle
from trainer.acceptance import acceptance, proxy
from trainer.anchors import Supervision, document_first, draft_ids, positions, supervise
from trainer.attention import plan_attention, plan_decoding
from trainer.decode import decode, rejection
from trainer.drafter import DraftCache, Drafter, RMSNorm
from trainer.loss import HeadLoss, LossConfig, Objective, RowResults, denominator, head_loss
from trainer.mask import Layout, MaskRule, dense_mask
from trainer.qwen3 import Geometry, Qwen3
from trainer.target import Qwen3Backbone, Target
from trainer.teacher import Teacher, TeacherPlan, plan_teacher


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


def _target(oracle: Oracle) -> Target:
    """Group F's tiny target model."""
    model = Qwen3(
        Geometry(
            vocab_size=97,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=8,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            rope_theta=10_000.0,
        )
    )
    model.load_state_dict(oracle.weights("t"))
    return Target(Qwen3Backbone(model, "oracle", "none"), CONFIG.target_layer_ids)


@pytest.mark.parametrize("case", range(3))
def test_greedy_decoding_matches_z_lab_round_by_round(oracle: Oracle, case: int) -> None:
    prompt = oracle[f"F.{case}.prompt"][0].tolist()
    decoded = decode(_target(oracle), oracle.drafter("wf"), prompt, new_tokens=24)
    expected = oracle[f"F.{case}.spec_out"][0].tolist()
    assert prompt + list(decoded.tokens) == expected
    assert [each.produced for each in decoded.rounds] == oracle[
        f"F.{case}.produced_per_round"
    ].tolist()
    found = acceptance([decoded.rounds], CONFIG.block_size)
    assert found.length_by_round == pytest.approx(oracle.scalars[f"F.{case}.tau"])


def test_a_stop_token_inside_an_accepted_run_ends_it_there(oracle: Oracle) -> None:
    target, drafter = _target(oracle), oracle.drafter("wf")
    prompt = oracle["F.1.prompt"][0].tolist()
    whole = decode(target, drafter, prompt, new_tokens=24)
    at, tried = 1, 0
    for each in whole.rounds:
        run = list(enumerate(whole.tokens[at : at + each.produced - 1], start=at))
        for place, token in run:
            if token not in whole.tokens[:place]:
                cut = decode(target, drafter, prompt, new_tokens=24, stop=frozenset({token}))
                assert cut.tokens == whole.tokens[: place + 1]
                assert cut.rounds[-1].produced == place - at + 1
                tried += 1
        at += each.produced
    assert tried > 0


@pytest.mark.parametrize("case", range(3))
def test_decoding_without_a_drafter_matches_the_target(oracle: Oracle, case: int) -> None:
    prompt = oracle[f"F.{case}.prompt"][0].tolist()
    decoded = decode(_target(oracle), None, prompt, new_tokens=24)
    assert prompt + list(decoded.tokens) == oracle[f"F.{case}.ar_out"][0].tolist()
    assert all(each.produced == 1 for each in decoded.rounds)


def test_cached_drafter_matches_z_lab_after_a_crop(oracle: Oracle) -> None:
    """Group F.cache: a block at anchor 10, a crop to 10, then a block at anchor 13."""
    target, drafter, cache = _target(oracle), oracle.drafter("wf"), DraftCache()
    ids = oracle["F.cache.seq"]
    taps = target.read(ids).taps_BSF
    for name, held, anchor in (("h1", 0, 10), ("h2", 10, 13)):
        block = torch.full((1, 4), CONFIG.mask_token_id)
        block[0, 0] = ids[0, anchor]
        hidden = drafter(
            functional.embedding(block, target.embedding_VH),
            taps[:, held:anchor],
            torch.arange(held, anchor + 4)[None],
            plan_decoding(CONFIG.mask_rules, rows=4, keys=anchor + 4, device=ids.device),
            cache,
        )
        cache.crop(anchor)
        assert_close(hidden, oracle[f"F.cache.{name}"])
        assert cache.length == anchor


def test_rejection_matches_z_lab(oracle: Oracle) -> None:
    """Group G."""
    for case, uniforms in enumerate(oracle["G.uniforms"]):
        accepted, rest = rejection(
            oracle["G.draft_tokens"][0],
            oracle["G.target_probs"][0],
            oracle["G.draft_probs"][0],
            uniforms,
        )
        assert accepted == int(oracle["G.accepted"][case])
        assert_close(rest, oracle["G.bonus_dist"][case])


def _packed(oracle: Oracle) -> Layout:
    document, anchor = oracle["H.document_ids"], oracle["H.anchors"][None]
    first = document_first(document).gather(1, anchor)
    valid = oracle["H.anchor_valid"][None]
    return Layout(anchor, first, valid, document.shape[1], CONFIG.block_size)


def _packed_hidden(oracle: Oracle) -> Tensor:
    layout = _packed(oracle)
    ids = draft_ids(layout, oracle["H.input_ids"], CONFIG.mask_token_id)
    hidden: Tensor = oracle.drafter()(
        functional.embedding(ids, oracle["embed"]),
        oracle["H.hidden_states"],
        positions(layout, oracle["H.document_ids"]),
        plan_attention(CONFIG.mask_rules, layout, "eager"),
    )
    return hidden


def test_packed_documents_match_speculators(oracle: Oracle) -> None:
    """Group H."""
    layout, document = _packed(oracle), oracle["H.document_ids"]
    real = document != -1
    assert torch.equal(
        positions(layout, document)[:, : layout.context][real], oracle["H.position_ids"][real]
    )
    valid = layout.valid.repeat_interleave(CONFIG.block_size, 1)
    assert_close(_packed_hidden(oracle)[valid], oracle["H.out_hidden"][valid])


LOSS_NAMES: dict[Objective, str] = {
    "cross_entropy": "H.loss_ce_gamma4",
    "teacher_argmax": "H.loss_ce_gamma4",
    "forward_kl": "H.loss_kl_gamma4",
}


@pytest.mark.parametrize("objective", LOSS_NAMES)
def test_packed_losses_match_speculators(oracle: Oracle, objective: Objective) -> None:
    """Speculators teaches the target's argmax, and divides by the rows instead of their weights.

    Its mask also lets a block run from one document into the next; those rows are its own.
    """
    layout = _packed(oracle)
    final_norm = RMSNorm(CONFIG.hidden_size, CONFIG.rms_norm_eps)
    supervision = supervise(
        layout,
        oracle["H.input_ids"],
        oracle["H.loss_mask"],
        oracle["H.document_ids"],
        contiguous=False,
    )
    mask = oracle["H.aligned_loss_mask"].view_as(supervision.mask)
    rows = mask.flatten().nonzero()[:, 0]
    offsets = functional.pad(mask.flatten(0, 1).sum(-1).cumsum(0), (1, 0))
    supervision = dataclasses.replace(
        supervision,
        labels=oracle["H.target_argmax"].view_as(supervision.labels)
        if objective == "cross_entropy"
        else torch.zeros_like(supervision.labels),  # not read
        mask=mask,
        rows=rows,
        offsets=tuple(int(offset) for offset in offsets),
    )
    result = head_loss(
        _packed_hidden(oracle),
        oracle["lm_head"],
        supervision,
        LossConfig(objective=objective, gamma=4),
        mask.sum() + 1e-5,
        teacher=plan_teacher(layout.anchor, layout.context, supervision, shares=True).states(
            final_norm(oracle["H.last_hidden"])
        ),
    )
    assert_close(result.loss, oracle[LOSS_NAMES[objective]])


@pytest.mark.parametrize(
    ("objective", "name"), [("cross_entropy", "C.ce_loss"), ("forward_kl", "C.kl_div_loss")]
)
def test_row_losses_and_their_gradients_match_speculators(
    oracle: Oracle, objective: Literal["cross_entropy", "forward_kl"], name: str
) -> None:
    """Group C gives logits; with the identity as head, hidden states are logits."""
    logits = oracle["C.logits"].clone().requires_grad_()
    targets, rows = oracle["C.targets"][0], torch.arange(20)
    supervision = Supervision(
        labels=targets.argmax(-1).view(1, 5, 4),
        mask=torch.ones(1, 5, 4),
        sequence=torch.zeros(1, 5, dtype=torch.int64),
        sequences=1,
        anchors_in_sequence=torch.ones(1, 5),
        rows=rows,
        offsets=tuple(range(0, 21, 4)),
    )
    # A weight of one for slot 0 too, which has none when training.
    config = LossConfig(objective=objective, weighting="dpace", alpha=1.0)
    result = head_loss(
        logits,
        torch.eye(97),
        supervision,
        config,
        torch.tensor(1.0),
        teacher=Teacher(
            targets, TeacherPlan(rows, rows, tuple((at, at + 4) for at in range(0, 20, 4)))
        ),
    )
    result.loss.backward()  # type: ignore[no-untyped-call]
    assert_close(result.rows.value, oracle[name][0])
    # With alpha 1, D-PACE's weight is the number of rows from here to the block's end.
    weight = torch.tensor([4.0, 3, 2, 1]).repeat(5)[None, :, None]
    assert logits.grad is not None
    assert_close(logits.grad / weight, oracle[f"{name}.grad"])
    assert result.rows.overlap is not None
    assert_close(1 - result.rows.overlap, oracle["C.tv_loss"][0])


def test_proxy_counts_accepted_runs_as_speculators_does(oracle: Oracle) -> None:
    targets, mask = oracle["C.targets"][0], oracle["C.loss_mask"].view(5, 4)
    correct = oracle["C.logits"][0].argmax(-1) == targets.argmax(-1)
    rows = mask.flatten().nonzero()[:, 0]
    supervision = Supervision(
        labels=targets.argmax(-1).view(1, 5, 4),
        mask=mask[None],
        sequence=torch.zeros(1, 5, dtype=torch.int64),
        sequences=1,
        anchors_in_sequence=torch.ones(1, 5),
        rows=rows,
        offsets=(),
    )
    found = proxy(supervision, RowResults(torch.zeros(len(rows)), correct[rows], None))
    assert_close(found.blocks + found.accepted, oracle["C.metric.eal_sum"])
    assert_close(found.blocks, oracle["C.metric.eal_total"])
    for slot in (1, 2, 3):
        assert_close(found.correct[slot], oracle[f"C.metric.position_{slot}_acc_sum"])
        assert_close(found.counted[slot], oracle[f"C.metric.position_{slot}_acc_total"])


def test_packed_mask_matches_speculators_but_for_its_windows(oracle: Oracle) -> None:
    """Group C2: a speculators row sees one token more, in a window that does not move with it."""
    document, anchor = oracle["C2.document_ids"][None], oracle["C2.anchors"][None]
    first = document_first(document).gather(1, anchor)
    layout = Layout(anchor, first, torch.ones_like(anchor, dtype=torch.bool), 20, 4)
    assert torch.equal(dense_mask(layout, MaskRule())[0], oracle["C2.mask.full"])
    for causal, name in ((True, "swa5_causal"), (False, "swa5_noncausal")):
        ours = dense_mask(layout, MaskRule(causal=causal, window=5))[0]
        theirs = oracle[f"C2.mask.{name}"]
        assert torch.equal(ours[:, 20:], theirs[:, 20:])
        place = torch.arange(20)
        row = (anchor[0, :, None] + torch.arange(4)).flatten()[:, None]
        assert torch.equal(ours[:, :20], theirs[:, :20] & (row - place < 5))
