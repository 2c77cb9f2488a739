"""Speculative decoding gives the target model's own output: the same tokens, or the same odds."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainer.acceptance import acceptance
from trainer.attention import plan_decoding
from trainer.config import RandomTarget
from trainer.decode import Sampling, decode, distribution, greedy_acceptance, rejection
from trainer.drafter import DraftCache, Drafter, DrafterConfig, LayerType
from trainer.errors import ConfigError
from trainer.qwen3 import random_model
from trainer.replay import replay
from trainer.target import Qwen3Backbone, Target

FULL: tuple[LayerType, ...] = ("full_attention",) * 2
MIXED: tuple[LayerType, ...] = ("sliding_attention", "full_attention")


def _target(vocab: int = 24) -> Target:
    settings_ = RandomTarget(vocab_size=vocab, hidden_size=32, intermediate_size=48, seed=4)
    return Target(Qwen3Backbone(random_model(settings_), "random", "none"), (1, 3))


def _drafter(target: Target, layer_types: tuple[LayerType, ...], block_size: int = 4) -> Drafter:
    shape = target.shape
    config = DrafterConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=40,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        vocab_size=shape.vocab_size,
        num_target_layers=shape.num_hidden_layers,
        target_layer_ids=target.target_layer_ids,
        mask_token_id=shape.vocab_size - 1,
        layer_types=layer_types,
        block_size=block_size,
        sliding_window=3,
        rope_theta=shape.rope_theta,
    )
    drafter = Drafter(config)
    drafter.initialise(seed=5)
    return drafter


def _repeat_mostly(target: Target, drafter: Drafter, agrees: float) -> None:
    """Shrink what layers add, and the difference between embeddings: both say alike more often."""
    with torch.no_grad():
        model = target.backbone.model  # type: ignore[attr-defined]  # a Qwen3Backbone
        for name, parameter in [*model.named_parameters(), *drafter.named_parameters()]:
            if "o_proj" in name or "down_proj" in name:
                parameter.mul_(1 - agrees)
        first = target.embedding_VH[:1].clone()
        target.embedding_VH.mul_(1 - agrees).add_(agrees * first)


def _greedy(target: Target, prompt: list[int], count: int) -> list[int]:
    """The target alone, from its whole prefix each time: no cache, no loop of ours."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(target.logits(torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(prompt) :]


@settings(deadline=None, max_examples=12)
@given(
    prompt=st.lists(st.integers(0, 22), min_size=1, max_size=9),
    layers=st.sampled_from([FULL, MIXED]),
    block_size=st.integers(2, 6),
    count=st.integers(1, 14),
)
def test_greedy_output_is_the_target_models(
    prompt: list[int], layers: tuple[LayerType, ...], block_size: int, count: int
) -> None:
    target = _target()
    decoded = decode(target, _drafter(target, layers, block_size), prompt, new_tokens=count)
    assert list(decoded.tokens) == _greedy(target, prompt, count)
    assert 1 + sum(each.produced for each in decoded.rounds) == count


@pytest.mark.parametrize("layers", [FULL, MIXED], ids=["full", "mixed"])
def test_rounds_with_a_cache_are_rounds_without(layers: tuple[LayerType, ...]) -> None:
    """Uneven progress, with the block's own rows cropped away each time."""
    target = _target()
    drafter, cache, held = _drafter(target, layers), DraftCache(), 0
    draw = torch.Generator().manual_seed(1)
    taps = torch.randn(1, 20, drafter.config.tap_width, generator=draw)
    for start in (3, 4, 8, 9, 13, 20):
        block = torch.randn(1, 4, drafter.config.hidden_size, generator=draw)
        attend = plan_decoding(
            drafter.config.mask_rules, rows=4, keys=start + 4, device=block.device
        )
        place = torch.arange(start + 4)[None]
        with torch.no_grad():
            kept = drafter(block, taps[:, held:start], place[:, held:], attend, cache)
            fresh = drafter(block, taps[:, :start], place, attend)
        torch.testing.assert_close(kept, fresh, atol=2e-5, rtol=2e-5)
        cache.crop(start)
        held = start


def test_a_right_token_behind_a_wrong_one_is_not_accepted() -> None:
    choice = torch.tensor([4, 5, 6, 7])
    logits = torch.nn.functional.one_hot(choice, 9).float()
    for drafted, accepted, bonus in (
        ([4, 5, 6], 3, 7),
        ([4, 0, 6], 1, 5),
        ([0, 5, 6], 0, 4),
    ):
        assert greedy_acceptance(torch.tensor(drafted), logits) == (accepted, bonus)


def _distribution(draw: st.DrawFn, size: int) -> list[float]:
    weights = draw(st.lists(st.integers(0, 6), min_size=size, max_size=size).filter(any))
    return [weight / sum(weights) for weight in weights]


@st.composite
def _odds(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """P for three rows and q for two, over four tokens, zeros included."""
    p = torch.tensor([_distribution(draw, 4) for _ in range(3)], dtype=torch.float64)
    q = torch.tensor([_distribution(draw, 4) for _ in range(2)], dtype=torch.float64)
    return p, q


@settings(deadline=None, max_examples=60)
@given(odds=_odds())
def test_rejection_keeps_the_targets_distribution_exactly(odds: tuple[Tensor, Tensor]) -> None:
    """Summed over every draft and outcome, with the odds of each: no sampling, no tolerance."""
    p, q = odds
    first = torch.zeros(4, dtype=torch.float64)
    second = torch.zeros(4, 4, dtype=torch.float64)
    for drafted in itertools.product(range(4), repeat=2):
        tokens = torch.tensor(drafted)
        drawn = float(q[0, tokens[0]] * q[1, tokens[1]])
        if drawn == 0:
            continue
        stays = [min(1.0, float(p[k, tokens[k]] / q[k, tokens[k]])) for k in range(2)]
        for kept, chance in ((0, 1 - stays[0]), (1, stays[0] * (1 - stays[1]))):
            if chance > 1e-12:
                uniforms = torch.tensor([0.0 if k < kept else 1.0 for k in range(2)])
                accepted, rest = rejection(tokens, p, q, uniforms.double())
                assert accepted == kept
                if kept == 0:
                    first += drawn * chance * rest
                else:
                    first[tokens[0]] += drawn * chance
                    second[tokens[0]] += drawn * chance * rest
        if stays[0] * stays[1] > 1e-12:
            accepted, rest = rejection(tokens, p, q, torch.zeros(2).double())
            assert accepted == 2
            assert torch.equal(rest, p[2])
            first[tokens[0]] += drawn * stays[0] * stays[1]
            second[tokens[0], tokens[1]] += drawn * stays[0] * stays[1]
    torch.testing.assert_close(first, p[0])
    # Given that the first drafted token stayed, the second has the target's odds.
    stayed = second.sum(-1)
    for token in stayed.nonzero()[:, 0].tolist():
        torch.testing.assert_close(second[token] / stayed[token], p[1])


def test_sampled_output_has_the_targets_distribution() -> None:
    """The whole loop, 400 times: chi-square of the third and fourth token's joint odds."""
    target = _target(vocab=8)
    drafter = _drafter(target, MIXED, block_size=3)
    sampling = Sampling(temperature=1.3, top_k=5)
    prompt, runs = [2, 5, 1], 400
    counts = torch.zeros(8, 8)
    drawn = torch.zeros(8, 8)
    for seed in range(runs):
        tokens = decode(target, drafter, prompt, new_tokens=4, sampling=sampling, seed=seed).tokens
        # The exact odds given this run's first two tokens; summed, the expected counts.
        prefix = [*prompt, *tokens[:2]]
        ids = torch.tensor([[*prefix, third] for third in range(8)])
        odds = distribution(target.logits(ids)[:, -2:], sampling)
        drawn += odds[0, 0][:, None] * odds[:, 1]
        counts[tokens[2], tokens[3]] += 1
    often = drawn > 5
    surprise = float((((counts - drawn) ** 2) / drawn.clamp_min(1e-9))[often].sum())
    freedom = int(often.sum()) - 1
    # Beyond 4.5 standard deviations of chi-square: once in 100,000 for a fair sampler.
    assert surprise < freedom + 4.5 * (2 * freedom) ** 0.5
    assert int(counts[drawn == 0].sum()) == 0


def test_top_k_and_top_p_cut_as_stated() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    plain = distribution(logits, Sampling(temperature=1.0))
    torch.testing.assert_close(plain, torch.tensor([0.4, 0.3, 0.2, 0.1]))
    two = distribution(logits, Sampling(temperature=1.0, top_k=2))
    torch.testing.assert_close(two, torch.tensor([4 / 7, 3 / 7, 0, 0]))
    # 0.4 is less than 0.5, so the second token stays as well; 0.7 is not.
    nucleus = distribution(logits, Sampling(temperature=1.0, top_p=0.5))
    torch.testing.assert_close(nucleus, torch.tensor([4 / 7, 3 / 7, 0, 0]))
    cold = distribution(logits, Sampling(temperature=0.5))
    torch.testing.assert_close(cold, torch.tensor([16.0, 9, 4, 1]) / 30)


def test_nothing_comes_out_after_a_stop_token() -> None:
    target = _target()
    drafter = _drafter(target, FULL)
    whole = decode(target, drafter, [3, 1, 7], new_tokens=20).tokens
    for place in (0, 5, 12):
        stop = whole[place]
        decoded = decode(target, drafter, [3, 1, 7], new_tokens=20, stop=frozenset({stop}))
        assert decoded.stopped
        assert decoded.tokens == whole[: whole.index(stop) + 1]


def test_a_drafter_that_is_always_right_fills_every_block() -> None:
    """With one embedding for all tokens and no layer that adds to it, both say one token."""
    target = _target()
    drafter = _drafter(target, FULL)
    with torch.no_grad():
        model = target.backbone.model  # type: ignore[attr-defined]  # a Qwen3Backbone
        for name, parameter in [*model.named_parameters(), *drafter.named_parameters()]:
            if "o_proj" in name or "down_proj" in name:
                parameter.zero_()
        target.embedding_VH.copy_(target.embedding_VH[:1].expand_as(target.embedding_VH))
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        decoded = decode(target, drafter, [3, 9], new_tokens=13, sampling=sampling)
        assert [each.produced for each in decoded.rounds] == [4, 4, 4]
        found = acceptance([decoded.rounds], 4)
        assert found.conditional == (1.0, 1.0, 1.0)
        assert found.histogram == (0, 0, 0, 3)


@settings(deadline=None, max_examples=10)
@given(
    prompt=st.lists(st.integers(0, 22), min_size=1, max_size=6),
    layers=st.sampled_from([FULL, MIXED]),
    count=st.integers(1, 25),
    agrees=st.floats(0, 1),
)
def test_replay_finds_the_rounds_that_decoding_had(
    prompt: list[int], layers: tuple[LayerType, ...], count: int, agrees: float
) -> None:
    """From nearly always wrong to nearly always right, as the layers add less to the embedding."""
    target = _target()
    drafter = _drafter(target, layers)
    _repeat_mostly(target, drafter, agrees)
    decoded = decode(target, drafter, prompt, new_tokens=count)
    text = [*prompt, *decoded.tokens]
    found = replay(target, drafter, text, prompt=len(prompt), anchors_per_pass=7)
    assert found == decoded.rounds


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_decoding_repeats_with_its_seed(temperature: float) -> None:
    target = _target()
    drafter = _drafter(target, MIXED)
    sampling = Sampling(temperature=temperature)
    once, again = (
        decode(target, drafter, [3, 1], new_tokens=12, sampling=sampling, seed=9) for _ in range(2)
    )
    assert (once.tokens, once.rounds) == (again.tokens, again.rounds)


def test_acceptance_averages_requests_before_rounds() -> None:
    target = _target()
    drafter = _drafter(target, FULL)
    runs = [decode(target, drafter, [k, 1], new_tokens=10 + k).rounds for k in range(3)]
    found = acceptance(runs, 4)
    means = [sum(each.produced for each in run) / len(run) for run in runs]
    assert found.length_by_request == pytest.approx(sum(means) / 3)
    produced = [each.produced for run in runs for each in run]
    assert found.length_by_round == pytest.approx(sum(produced) / len(produced))
    assert sum(found.histogram) == found.rounds == len(produced)
    assert 1 <= found.length_by_round <= 4
    assert acceptance([], 4).length_by_request == 0


@pytest.mark.parametrize(("field", "value"), [("temperature", -1.0), ("top_p", 0.0), ("top_k", -1)])
def test_sampling_that_makes_no_sense_is_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=field):
        Sampling(**{field: value})  # type: ignore[arg-type]  # top_k is an int below
