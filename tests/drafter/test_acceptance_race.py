"""The scripts that compare trainers on a GPU do, on a tiny model and a CPU, what they claim."""

import json
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import torch

from benchmarks import h200_acceptance
from benchmarks.acceptance_data import FeatureStore, Text, corpus_of, read_shard, write_shard
from benchmarks.acceptance_write import BatchWriter
from tests.support.peers import peer
from trainer.config import SafetensorsTarget
from trainer.loading import load_backbone
from trainer.target import Target

STOP, VOCABULARY = 2, 80


@pytest.fixture(scope="module", name="model")
def fixture_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of SmolLM2's layout, as a directory."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - only here

    directory = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=36, intermediate_size=48, num_hidden_layers=8,
        num_attention_heads=6, num_key_value_heads=2, head_dim=6, eos_token_id=STOP,
        tie_word_embeddings=True, initializer_range=0.25, max_position_embeddings=512,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def _loaded(model: Path) -> Any:
    return load_backbone(SafetensorsTarget(str(model), dtype="float32"), torch.device("cpu"))


def test_shards_keep_texts(tmp_path: Path) -> None:
    texts = [Text((5, 6, 49_151), 2, 0.0), Text((1,), 1, 1.0)]
    write_shard(tmp_path / "shard.xz", texts)
    assert read_shard(tmp_path / "shard.xz") == texts


def test_batched_greedy_answers_are_the_models_own(model: Path) -> None:
    """Prompts of unlike lengths, across two sizes of the cache, and a text that is cut."""
    loaded = _loaded(model)
    writer = BatchWriter(loaded.model, texts=4, length=140, stop=STOP, captures=False)
    prompts = [[7, 30, 11], [5], [9, 9, 8, 60, 44, 3]]
    target = Target(loaded, (1,))
    for text, prompt in zip(writer.write([(p, 0.0) for p in prompts]), prompts, strict=True):
        assert list(text.ids[: text.prompt]) == prompt
        ids = torch.tensor([text.ids])
        choice = target.logits(ids)[0].argmax(-1)
        assert torch.equal(choice[text.prompt - 1 : -1], ids[0, text.prompt :])
        assert len(text.ids) == 140 or text.ids[-1] == STOP


def test_draws_at_a_temperature_have_the_models_odds(model: Path) -> None:
    """600 first tokens of one prompt, against the exact odds: chi-square."""
    loaded = _loaded(model)
    writer = BatchWriter(loaded.model, texts=200, length=4, stop=STOP, captures=False)
    torch.manual_seed(3)
    prompt, counts = [7, 30], torch.zeros(VOCABULARY)
    for _ in range(3):
        for text in writer.write([(prompt, 1.5)] * 200):
            counts[text.ids[2]] += 1
    logits = Target(loaded, (1,)).logits(torch.tensor([prompt]))[0, -1]
    expected = 600 * (logits / 1.5).softmax(-1)
    often = expected > 5
    surprise = float(((counts - expected) ** 2 / expected)[often].sum())
    freedom = int(often.sum())
    assert surprise < freedom + 4.5 * (2 * freedom) ** 0.5


def test_stored_features_are_those_of_each_text_alone(model: Path) -> None:
    target = Target(_loaded(model), (1, 4))
    texts = [Text(tuple(range(3, 3 + length)), 1, 0.0) for length in (9, 2, 30, 17)]
    store = FeatureStore(target, corpus_of(texts), tokens_per_read=40)
    start = 0
    for text in texts:
        reading = target.read(torch.tensor([text.ids]))
        own = slice(start, start + len(text.ids))
        torch.testing.assert_close(store.taps[own], reading.taps_BSF[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(store.final[own], reading.final_BSH[0], atol=1e-5, rtol=1e-5)
        start += len(text.ids)
    assert bool((store.taps[store.padding] == 0).all())


@pytest.fixture(scope="module", name="shards")
def fixture_shards(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``regenerate`` writes for forty short prompts."""
    out = tmp_path_factory.mktemp("out")
    draw = torch.Generator().manual_seed(1)
    prompts = [
        Text(tuple(torch.randint(17, VOCABULARY, (4,), generator=draw).tolist()), 4, 0.0)
        for _ in range(40)
    ]
    write_shard(out / "prompts.xz", prompts)
    h200_acceptance.main([
        "regenerate", str(model), str(out / "prompts.xz"), str(out),
        "--tokens", "900", "--texts", "16", "--length", "40", "--held-out", "4",
    ])  # fmt: skip
    return out


def test_regeneration_writes_held_out_and_training_texts(shards: Path) -> None:
    held, trained = read_shard(shards / "held-out.xz"), read_shard(shards / "answers-0.xz")
    assert len(held) == 4
    assert {text.temperature for text in held} == {0.0}
    assert len({text.temperature for text in trained}) == 3
    prompts = read_shard(shards / "prompts.xz")
    assert [text.ids[:4] for text in held] == [text.ids for text in prompts[:4]]
    assert all(text.ids[:4] not in {t.ids[:4] for t in held} for text in trained)


@pytest.mark.parametrize("contestant", ["agentops", "speculators"])
def test_a_contestant_trains_and_is_measured(
    model: Path, shards: Path, tmp_path: Path, contestant: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if contestant == "speculators":
        peer("speculators.models.dflash")
    race = [
        "race", str(model), str(tmp_path), str(shards / "answers-0.xz"),
        "--contestant", contestant, "--seconds", "3",
        "--row-tokens", "160", "--anchors", "12", "--held-out", "2", "--block", "4",
    ]  # fmt: skip
    h200_acceptance.main(race, started=time.perf_counter())
    found = json.loads((tmp_path / f"{contestant}.json").read_text(encoding="utf-8"))
    last = found["points"][-1]
    assert last["steps"] >= 1
    assert 1 <= last["length_by_round"] <= 4
    assert found["final"]["greedy"]["requests"] == 2
    capsys.readouterr()
    drawn = tmp_path / "race.svg"
    result = str(tmp_path / f"{contestant}.json")
    h200_acceptance.main(["report", result, "--plot-to", str(drawn)])
    assert contestant in capsys.readouterr().out
    drawing = ET.fromstring(drawn.read_text(encoding="utf-8"))  # noqa: S314 - ours
    (line,) = drawing.iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.attrib["points"].split()) == len(found["points"])
