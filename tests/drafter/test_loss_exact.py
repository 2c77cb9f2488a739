"""The loss and its early gradient are those of plain autograd, however the work is cut up."""

import dataclasses
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from tests.support.layouts import Packed, packed_rows, unhurried
from trainer.anchors import Supervision, supervise
from trainer.errors import ConfigError
from trainer.kernels.eager import EagerRowMath
from trainer.loss import (
    HeadLoss,
    LossConfig,
    Objective,
    Weighting,
    decay_weights,
    denominator,
    dpace_weights,
    head_loss,
)
from trainer.mask import Layout
from trainer.teacher import plan_teacher

VOCABULARY, WIDTH = 50, 16
OBJECTIVES: tuple[Objective, ...] = ("cross_entropy", "forward_kl", "teacher_argmax")
WEIGHTINGS: tuple[Weighting, ...] = ("decay", "dpace", "plain")
CONFIGS = [
    LossConfig(objective=objective, weighting=weighting, gamma=3.0)
    for objective, weighting in product(OBJECTIVES, WEIGHTINGS)
]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A micro-batch as the head sees it."""

    layout: Layout
    supervision: Supervision
    hidden: Tensor
    head: Tensor
    last_hidden: Tensor


def _case(packed: Packed, *, seed: int = 0, compact: bool = True) -> Case:
    draw = torch.Generator().manual_seed(seed)
    layout, document = packed.layout, packed.document
    ids = torch.randint(0, VOCABULARY, document.shape, generator=draw)
    answer = torch.rand(document.shape, generator=draw) < 0.8
    return Case(
        layout,
        supervise(layout, ids, answer, document, compact=compact),
        torch.randn(len(document), layout.rows, WIDTH, generator=draw).requires_grad_(),
        torch.randn(VOCABULARY, WIDTH, generator=draw) * 0.3,
        torch.randn(*document.shape, WIDTH, generator=draw),
    )


def _loss(
    case: Case, config: LossConfig, total: Tensor | None = None, *, chunk: int = 5,
    shares: bool = True,
) -> HeadLoss:  # fmt: skip
    plan = plan_teacher(case.layout.anchor, case.layout.context, case.supervision, shares=shares)
    return head_loss(
        case.hidden, case.head, case.supervision, config,
        denominator(case.supervision, config) if total is None else total,
        teacher=plan.states(case.last_hidden) if config.needs_teacher else None,
        chunk_rows=chunk,
    )  # fmt: skip


def _by_autograd(case: Case, config: LossConfig) -> Tensor:
    """The loss with all logits of all rows at once, each block's weights by loops."""
    supervision = case.supervision
    size = supervision.block_size
    logits = (case.hidden @ case.head.T).view(*supervision.labels.shape, -1)
    place = (case.layout.anchor[:, :, None] + torch.arange(size) - 1).clamp(0)
    place = place.clamp_max(case.layout.context - 1)
    states = torch.stack([row[at] for row, at in zip(case.last_hidden, place, strict=True)])
    teacher = (states @ case.head.T).log_softmax(-1)
    labels = teacher.argmax(-1) if config.objective == "teacher_argmax" else supervision.labels
    cross_entropy = functional.cross_entropy(
        logits.flatten(0, 2), labels.flatten(), reduction="none"
    ).view_as(supervision.mask)
    value = cross_entropy
    if config.objective == "forward_kl":
        value = (teacher.exp() * (teacher - logits.log_softmax(-1))).sum(-1)
    if config.weighting != "dpace":
        weight = supervision.mask * decay_weights(config, size, value.device)
        return (weight * value).sum() / weight.sum()
    total = torch.zeros(())
    for batch, slot in case.layout.valid.nonzero().tolist():
        mask, chance = supervision.mask[batch, slot], 1.0
        opens = []
        for k in range(size):
            if mask[k]:
                passes = float(torch.exp(-cross_entropy[batch, slot, k].detach()))
                chance *= (1 - config.alpha) * passes + config.alpha
            opens.append(chance if mask[k] else 0.0)
        for k in range(size):
            if mask[k]:
                weight = sum(opens[k:]) / supervision.anchors_in_sequence[batch, slot]
                total = total + weight * value[batch, slot, k]
    return total / supervision.sequences


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.objective}-{c.weighting}")
@unhurried
@given(packed=packed_rows(), chunk=st.integers(1, 12))
def test_loss_and_gradient_are_those_of_autograd(
    packed: Packed, chunk: int, config: LossConfig
) -> None:
    case = _case(packed)
    result = _loss(case, config, chunk=chunk)
    if not len(case.supervision.rows):
        assert float(result.loss.detach()) == 0
        return
    (early,) = torch.autograd.grad(result.loss, case.hidden)
    expected = _by_autograd(case, config)
    (late,) = torch.autograd.grad(expected, case.hidden)
    torch.testing.assert_close(result.loss, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(early, late, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.objective}-{c.weighting}")
@unhurried
@given(packed=packed_rows())
def test_fixed_shapes_change_nothing(packed: Packed, config: LossConfig) -> None:
    few, all_ = _case(packed), _case(packed, compact=False)
    assert len(all_.supervision.rows) == all_.supervision.mask[..., 1:].numel()
    one, other = _loss(few, config), _loss(all_, config)
    torch.testing.assert_close(one.loss, other.loss)
    for case, result in ((few, one), (all_, other)):
        result.loss.backward()  # type: ignore[no-untyped-call]
        assert case.hidden.grad is not None
    torch.testing.assert_close(few.hidden.grad, all_.hidden.grad)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.objective}-{c.weighting}")
@unhurried
@given(first=packed_rows(), second=packed_rows())
def test_uneven_ranks_add_up_to_one_big_batch(
    first: Packed, second: Packed, config: LossConfig
) -> None:
    """Two ranks with their own masks: summed denominators give the loss of both together."""
    cases = [_case(first, seed=1), _case(second, seed=2)]
    parts = [denominator(case.supervision, config) for case in cases]
    total = torch.stack(parts).sum()
    got = torch.stack([_loss(case, config, total).loss for case in cases]).sum()
    whole = [_loss(case, config).loss * part for case, part in zip(cases, parts, strict=True)]
    expected = torch.stack(whole).sum() / total.clamp_min(1e-30)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@unhurried
@given(
    chances=st.lists(st.floats(0.01, 1), min_size=5, max_size=5),
    mask=st.lists(st.booleans(), min_size=5, max_size=5),
    alpha=st.floats(0, 1),
)
def test_dpace_weighs_a_row_by_what_it_opens_up(
    chances: list[float], mask: list[bool], alpha: float
) -> None:
    shown = torch.tensor([mask], dtype=torch.float32)
    weights = dpace_weights(-torch.tensor([chances]).log(), shown, alpha)[0]
    for k in range(5):
        expected = 0.0
        for m in range(k, 5):
            if mask[m]:
                through = [(1 - alpha) * chances[i] + alpha for i in range(m + 1) if mask[i]]
                expected += float(torch.tensor(through).prod())
        assert float(weights[k]) == pytest.approx(expected if mask[k] else 0, abs=1e-5)


def _sample(seed: int = 0) -> Case:
    anchor = torch.tensor([[2, 9, 20, 31]])
    layout = Layout(anchor, anchor * 0, torch.ones_like(anchor, dtype=torch.bool), 64, 8)
    return _case(Packed(torch.zeros(1, 64, dtype=torch.int64), layout), seed=seed)


def test_no_logits_outlive_their_chunk() -> None:
    """What autograd keeps is as wide as the hidden states, never as the vocabulary."""
    case, kept = _sample(), []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _loss(case, LossConfig())
    rows = len(case.supervision.rows)
    assert max(tensor.numel() for tensor in kept) <= rows * WIDTH < rows * VOCABULARY


class _Recording(EagerRowMath):
    """The eager row math, which notes how many rows of logits exist at one time."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def statistics(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.rows.append(len(logits))
        return super().statistics(logits, labels)


def test_a_chunk_holds_whole_blocks_and_no_more_rows_than_asked() -> None:
    case, seen = _sample(), _Recording()
    offsets = torch.tensor(case.supervision.offsets)
    config = LossConfig()
    total = denominator(case.supervision, config)
    for limit in (8, 14, 1 << 20):
        seen.rows.clear()
        head_loss(
            case.hidden, case.head, case.supervision, config, total,
            chunk_rows=limit, row_math=seen,
        )  # fmt: skip
        assert max(seen.rows) <= limit
        assert set(torch.tensor(seen.rows).cumsum(0).tolist()) <= set(offsets.tolist())
        assert sum(seen.rows) == len(case.supervision.rows)
    assert len(seen.rows) == 1


def test_the_head_gets_no_gradient_and_upstream_scales_ours() -> None:
    case = _sample()
    case.head.requires_grad_()
    (plain,) = torch.autograd.grad(_loss(case, LossConfig()).loss, case.hidden)
    result = _loss(case, LossConfig())
    (result.loss * 3).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(case.hidden.grad, plain * 3)
    assert case.head.grad is None


def test_bfloat16_rows_get_a_bfloat16_gradient_near_the_exact_one() -> None:
    exact, rough = _sample(), _sample()
    (wide,) = torch.autograd.grad(_loss(exact, LossConfig()).loss, exact.hidden)
    hidden = rough.hidden.detach().bfloat16().requires_grad_()
    case = dataclasses.replace(rough, hidden=hidden, head=rough.head.bfloat16())
    (narrow,) = torch.autograd.grad(_loss(case, LossConfig()).loss, case.hidden)
    assert narrow.dtype == torch.bfloat16
    # 8 bits of mantissa, over sums of 16 products.
    assert float((narrow.float() - wide).norm() / wide.norm()) < 0.02


@pytest.mark.parametrize("objective", ["forward_kl", "teacher_argmax"])
def test_an_objective_without_its_teacher_is_refused(objective: Objective) -> None:
    case = _sample()
    with pytest.raises(ConfigError, match="last hidden states"):
        head_loss(
            case.hidden, case.head, case.supervision, LossConfig(objective=objective),
            torch.tensor(1.0),
        )  # fmt: skip


@pytest.mark.parametrize("objective", ["forward_kl", "teacher_argmax"])
def test_a_state_that_is_held_once_teaches_like_one_for_each_row(objective: Objective) -> None:
    anchor = torch.tensor([[2, 3, 5, 9, 20]])
    layout = Layout(anchor, 0 * anchor, torch.ones_like(anchor, dtype=torch.bool), 30, 5)
    case = _case(Packed(torch.zeros(1, 30, dtype=torch.int64), layout))
    config = LossConfig(objective=objective)
    plans = [
        plan_teacher(layout.anchor, layout.context, case.supervision, shares=shares)
        for shares in (True, False)
    ]
    assert len(plans[0].places) < len(plans[1].places) == len(case.supervision.rows)
    results = [_loss(case, config, shares=shares) for shares in (True, False)]
    slopes = [torch.autograd.grad(result.loss, case.hidden)[0] for result in results]
    torch.testing.assert_close(results[0].rows.value, results[1].rows.value)
    torch.testing.assert_close(*slopes)
