"""Each fault that preflight excludes is staged on a real model, and found by its name.

The broken models are second implementations of the backbone protocol: whole models that do one
thing differently, as some published ones did.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.tiny_model import SHAPE, write_model
from trainer.config import DrafterSettings, RandomTarget, SafetensorsTarget
from trainer.corpus import Corpus
from trainer.errors import PreflightError, TargetError
from trainer.loading import load_backbone
from trainer.preflight import Subject, preflight
from trainer.qwen3 import Cache, random_model
from trainer.step import drafter_config
from trainer.synthetic import synthetic_corpus
from trainer.target import Backbone, Qwen3Backbone, Target

CPU = torch.device("cpu")
SETTINGS = DrafterSettings(block_size=4, target_layer_ids=(0, 2), mask_token_id=258)


class _LayersFromTheSecond(Qwen3Backbone):
    """Its list of layers begins one too late, so every tap is the next layer's output."""

    def layers(self) -> Sequence[nn.Module]:
        return [*list(self.model.model.layers)[1:], self.model.model.norm]


class _LayersOutOfOrder(Qwen3Backbone):
    """Its list begins rightly, but two later layers stand the wrong way round."""

    def layers(self) -> Sequence[nn.Module]:
        first, second, third, last = self.model.model.layers
        return [first, second, last, third]


class _FinalNormForgotten(Qwen3Backbone):
    def hidden(self, ids_BM: Tensor, cache: Cache | None) -> Tensor:
        kept: list[Tensor] = []
        handle = self.model.model.norm.register_forward_pre_hook(
            lambda _module, arguments: kept.append(arguments[0])
        )
        super().hidden(ids_BM, cache)
        handle.remove()
        return kept[0]


class _SoftCapped(Qwen3Backbone):
    def logits(self, ids_BM: Tensor) -> Tensor:
        return torch.tanh(super().logits(ids_BM))


class _TiedInNameOnly(Qwen3Backbone):
    """``tie_word_embeddings`` was ignored and the head left as it was initialised."""

    def __init__(self, whole: Qwen3Backbone) -> None:
        super().__init__(whole.model, whole.name, whole.digest)
        self.declares_tied_head = True


class _OtherRope(Qwen3Backbone):
    def rope_base(self) -> float:
        return 1_000_000.0


class _RopeUnseen(Qwen3Backbone):
    def rope_base(self) -> None:
        return None


class _LooksAhead(Qwen3Backbone):
    """Reads a sequence in both directions, as an encoder does."""

    def hidden(self, ids_BM: Tensor, cache: Cache | None) -> Tensor:
        def mix(_module: nn.Module, _arguments: object, output: Tensor) -> Tensor:
            return output + output.mean(dim=1, keepdim=True)

        handle = self.model.model.layers[0].register_forward_hook(mix)
        final = super().hidden(ids_BM, cache)
        handle.remove()
        return final


class _CropForgotten(Qwen3Backbone):
    """Like a recurrent model whose state cannot be taken back."""

    def crop(self, cache: Cache, length: int) -> None:
        del cache, length


class _HooksMatter(Qwen3Backbone):
    """Takes another way through the model when somebody listens."""

    def logits(self, ids_BM: Tensor) -> Tensor:
        is_heard = any(layer._forward_hooks for layer in self.model.model.layers)
        return super().logits(ids_BM) * (1.0001 if is_heard else 1.0)


class _Overflowing(Qwen3Backbone):
    def __init__(self, whole: Qwen3Backbone) -> None:
        super().__init__(random_model(SHAPE), whole.name, whole.digest)
        with torch.no_grad():
            self.model.model.embed_tokens.weight.mul_(1e6)


def _whole() -> Qwen3Backbone:
    return Qwen3Backbone(random_model(SHAPE), "tiny", "digest")


def _corpus(vocab_size: int = 256) -> Corpus:
    return synthetic_corpus(vocab_size=vocab_size, documents=4, length=60, seed=0)


def _subject(backbone: Backbone) -> Subject:
    return Subject(
        backbone=backbone,
        shape=drafter_config(SETTINGS, _whole().shape, is_random=False),
        corpus=_corpus(),
        stop_ids=frozenset({257}),
        data_chat_format="rendered by this",
        target_chat_format="rendered by this",
        predicts=False,
        device=CPU,
    )


def _same(kind: type[Qwen3Backbone]) -> Callable[[Qwen3Backbone], Qwen3Backbone]:
    return lambda whole: kind(whole.model, whole.name, whole.digest)


def test_a_whole_model_has_no_fault() -> None:
    report = preflight(_subject(_whole()))
    assert report.faults == ()
    unproved = [check.name for check in report.checks if check.outcome == "unproved"]
    assert unproved == ["head_does_not_predict"]
    details = [check.detail for check in report.checks if check.outcome == "proved"]
    assert not [each for each in details if "differ" in each or "cannot" in each]


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (_same(_LayersFromTheSecond), "tap_off_by_one"),
        (_same(_LayersOutOfOrder), "tap_off_by_one"),
        (_same(_FinalNormForgotten), "final_norm"),
        (_same(_SoftCapped), "final_norm"),
        (_TiedInNameOnly, "tied_head"),
        (_same(_OtherRope), "rope"),
        (_same(_LooksAhead), "not_causal"),
        (_same(_CropForgotten), "cache_crop"),
        (_same(_HooksMatter), "hooks_change_logits"),
        (_Overflowing, "taps_overflow"),
    ],
)
def test_a_broken_model_is_refused_by_the_faults_name(
    make: Callable[[Qwen3Backbone], Qwen3Backbone], fault: str
) -> None:
    report = preflight(_subject(make(_whole())))
    assert fault in [check.name for check in report.faults]
    with pytest.raises(PreflightError, match=rf"^preflight: {report.faults[0].name}: "):
        report.require()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"stop_ids": frozenset({258})}, "mask_token"),
        ({"target_chat_format": "rendered by another"}, "chat_template"),
        ({"corpus": _corpus(vocab_size=400)}, "foreign_tokens"),
        ({"predicts": True}, "head_does_not_predict"),
    ],
)
def test_data_that_does_not_fit_the_model_is_refused(
    changes: dict[str, object], fault: str
) -> None:
    report = preflight(replace(_subject(_whole()), **changes))  # type: ignore[arg-type]  # by name
    assert [check.name for check in report.faults] == [fault]


def test_a_mask_token_that_the_data_holds_is_refused() -> None:
    subject = _subject(_whole())
    used = int(subject.corpus.ids[0])
    report = preflight(replace(subject, shape=replace(subject.shape, mask_token_id=used)))
    assert [check.name for check in report.faults] == ["mask_token"]
    assert "the data holds it" in report.faults[0].detail


def test_what_cannot_be_seen_is_unproved_and_not_proved() -> None:
    report = preflight(_subject(_same(_RopeUnseen)(_whole())))
    assert [check.outcome for check in report.checks if check.name == "rope"] == ["unproved"]


def test_another_report_has_another_digest() -> None:
    subject = _subject(_whole())
    again, other = preflight(subject), preflight(replace(subject, stop_ids=frozenset({258})))
    assert preflight(subject).digest == again.digest != other.digest


@pytest.mark.parametrize("taps", [(3,), (4,), (-1,), (1, 1), ()])
def test_taps_that_are_no_inner_layers_are_refused(taps: tuple[int, ...]) -> None:
    with pytest.raises(TargetError, match=r"^target_layer_ids: "):
        Target(_whole(), taps)


def test_a_model_in_a_safetensors_directory_passes_and_equals_its_plain_twin(
    tmp_path: Path,
) -> None:
    plain = write_model(tmp_path)
    settings = SafetensorsTarget(str(tmp_path), dtype="float32")
    loaded = load_backbone(settings, CPU)
    assert preflight(_subject(loaded)).faults == ()
    ids = _corpus().ids[:40].long()[None]
    assert torch.equal(loaded.logits(ids), plain(ids))
    assert loaded.shape.rope_theta == SHAPE.rope_theta


def test_a_config_whose_rope_base_moved_is_read_where_it_is(tmp_path: Path) -> None:
    """Transformers 5 keeps the base in ``rope_parameters``; reading it elsewhere gave 10,000."""
    write_model(tmp_path)
    config = tmp_path / "config.json"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("10000.0", "500000.0"), encoding="utf-8")
    loaded = load_backbone(SafetensorsTarget(str(tmp_path), dtype="float32"), CPU)
    assert loaded.shape.rope_theta == 500_000.0
    base = loaded.rope_base()
    assert base is not None
    assert base == pytest.approx(500_000.0, rel=1e-3)


def test_a_random_target_is_the_same_on_every_load() -> None:
    first, second = (load_backbone(RandomTarget(seed=3), CPU) for _ in range(2))
    assert first.digest == second.digest
    assert torch.equal(first.head(), second.head())
