"""The runs that ``benchmarks.trainer_pipeline`` measures: shapes, and parts made on the card.

Random weights are drawn where they stay, so a large shape is there in seconds. What is measured of
a run, and how, is not here.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.anchors import AnchorConfig
from trainer.config import DrafterSettings, RunConfig
from trainer.corpus import Corpus
from trainer.drafter import Drafter
from trainer.loading import HuggingFaceBackbone
from trainer.run import Opened, RunData
from trainer.step import DTYPES, Trainer, drafter_config
from trainer.target import Target

ROW, DOCUMENT, PROMPT = 8192, 2048, 64
DOCUMENTS = 2048


@dataclass(frozen=True)
class Shape:
    """A target model's sizes."""

    name: str
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocabulary: int
    theta: float


SHAPES = {
    "smollm2": Shape("smollm2", "llama", 576, 30, 9, 3, 64, 1536, 49_152, 1e5),
    "qwen3-8b": Shape("qwen3-8b", "qwen3", 4096, 36, 32, 8, 128, 12_288, 151_936, 1e6),
    "tiny": Shape("tiny", "qwen3", 64, 6, 4, 2, 16, 128, 512, 1e4),
}


def device(index: int) -> torch.device:
    """A GPU, or the CPU where there is none."""
    return torch.device(f"cuda:{index}" if torch.cuda.is_available() else "cpu")


def random_backbone(shape: Shape, where: torch.device) -> HuggingFaceBackbone:
    """A model of that shape in bfloat16, its weights drawn on the device."""
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config  # noqa: PLC0415

    family = LlamaConfig if shape.family == "llama" else Qwen3Config
    config = family(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers, head_dim=shape.head_dim,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.mlp, vocab_size=shape.vocabulary, tie_word_embeddings=False,
        max_position_embeddings=40_960, bos_token_id=None,
        eos_token_id=None, pad_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": shape.theta},
    )  # fmt: skip
    torch.manual_seed(0)
    with where:
        model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]  # no types
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    return HuggingFaceBackbone(model.to(where), shape.name, shape.name)


def documents(vocabulary: int, *, count: int, length: int) -> Corpus:
    """Random documents of one length, the first tokens unsupervised."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary - 1, (count * length,), generator=draw, dtype=torch.int32)
    supervised = (torch.arange(count * length) % length) >= PROMPT
    return Corpus(
        ids, supervised, torch.arange(count + 1) * length, ("random",),
        torch.zeros(count, dtype=torch.int64),
    )  # fmt: skip


@dataclass(frozen=True)
class OnCard(Opened):
    """A run whose parts are made on the card, where a draw takes no time."""

    sizes: Shape = SHAPES["tiny"]

    def target_on(self, device: torch.device) -> Target:
        """The same weights on another card."""
        return Target(random_backbone(self.sizes, device), self.shape.target_layer_ids)

    def trainer(self) -> Trainer:
        """A fresh drafter on the target's device."""
        with self.device:
            drafter = Drafter(self.shape)
            for parameter in drafter.parameters():
                if parameter.ndim > 1:
                    torch.nn.init.normal_(parameter, std=self.shape.initializer_range)
        drafter = drafter.to(self.device, DTYPES[self.config.precision])
        return Trainer(self.config, self.target(), drafter, self.device)


def opened(shape: Shape, folder: Path, *, short: bool) -> OnCard:
    """The run that everything here is measured on."""
    length, row = (256, 1024) if short else (DOCUMENT, ROW)
    config = RunConfig(
        run_id="benchmark", output_dir=str(folder), steps=1_000_000,
        drafter=DrafterSettings(block_size=16, num_hidden_layers=5, tap_count=5 - 2 * short,
                                mask_token_id=shape.vocabulary - 1),
        anchors=AnchorConfig(row // 16, row // 16), precision="bfloat16",
        compile=torch.cuda.is_available(), deterministic=False, row_tokens=row,
    )  # fmt: skip
    where = device(0)
    backbone = random_backbone(shape, where)
    corpus = documents(shape.vocabulary, count=64 if short else DOCUMENTS, length=length)
    return OnCard(
        config, where, backbone, drafter_config(config.drafter, backbone.shape, is_random=True),
        RunData(corpus, corpus, frozenset(), {}), sizes=shape,
    )  # fmt: skip
