"""This project's trainer as a contestant of ``trainer_h200.py``: its own step, at a given shape.

Weights are random, which changes no work. Data come as token ids on the host; what a step needs of
them (anchors, labels, masks) is made inside the timed step, as in training.
"""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel, LlamaConfig, Qwen3Config

import benchmarks.trainer_shapes as common
from benchmarks.trainer_shapes import Mark, Shape
from trainer.anchors import AnchorConfig
from trainer.attention import Backend
from trainer.batches import Batch, Features, assemble
from trainer.config import DrafterSettings, RunConfig
from trainer.corpus import Corpus
from trainer.drafter import Drafter, DrafterConfig, LayerType
from trainer.fixed import FixedStep, StepShape
from trainer.kernels.target import FusedReader
from trainer.loss import CHUNK_ROWS, LossConfig, Objective, denominator
from trainer.schedule import Place, Row
from trainer.sending import send
from trainer.step import Drafting, Tables

OBJECTIVES: tuple[Objective, ...] = ("cross_entropy", "teacher_argmax")
_FULL: LayerType = "full_attention"
SETS = 4  # input sets that take turns, so that no cache holds one


def hugging_face(shape: Shape) -> Any:  # noqa: ANN401 - untyped library
    """The target's decoder, random, in bfloat16, without its head."""
    kind = {"llama": LlamaConfig, "qwen3": Qwen3Config}[shape.family]
    config = kind(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.groups,
        head_dim=shape.head_dim, intermediate_size=shape.inner, vocab_size=shape.vocabulary,
        max_position_embeddings=40_960, rope_theta=shape.theta, use_cache=False,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    with common.DEVICE:
        make: Any = AutoModel.from_config
        model = make(config, attn_implementation="sdpa", dtype=torch.bfloat16)
    return model.to(common.DEVICE).eval().requires_grad_(requires_grad=False)


def corpus_of(shape: Shape) -> Corpus:
    """Random documents, all taught but for their prompts."""
    draw = torch.Generator().manual_seed(0)
    count = common.DOCUMENTS * SETS
    ids = torch.randint(0, shape.vocabulary - 8, (count * common.LENGTH,), generator=draw)
    taught = torch.arange(len(ids)) % common.LENGTH >= common.PROMPT
    offsets = torch.arange(count + 1) * common.LENGTH
    return Corpus(ids, taught, offsets, ("random",), torch.zeros(count, dtype=torch.int64))


def drafter_shape(shape: Shape) -> DrafterConfig:
    """Five full layers like the target's."""
    return DrafterConfig(
        hidden_size=shape.hidden, intermediate_size=shape.inner,
        num_attention_heads=shape.heads, num_key_value_heads=shape.groups,
        head_dim=shape.head_dim, vocab_size=shape.vocabulary, num_target_layers=shape.layers,
        target_layer_ids=shape.taps, mask_token_id=common.MASK_TOKEN,
        layer_types=(_FULL,) * common.DRAFT_LAYERS, block_size=common.BLOCK,
        rope_theta=shape.theta,
    )  # fmt: skip


class Ours:
    """A drafter with tables of the target's vocabulary, and steps on it."""

    def __init__(
        self, shape: Shape, objective: Objective, *, compiled: bool, attention: Backend | None
    ) -> None:
        self.shape = shape
        torch.set_num_threads(1)  # as a run beside a GPU does
        # Small vocabularies leave room for all rows' logits at one time.
        rows = common.ANCHORS * common.BLOCK if shape.vocabulary < 1 << 16 else CHUNK_ROWS
        self.config = RunConfig(
            run_id="bench", output_dir="unused", steps=1000, row_tokens=common.TOKENS,
            drafter=DrafterSettings(
                block_size=common.BLOCK, num_hidden_layers=common.DRAFT_LAYERS,
                tap_count=common.TAPS,
            ),
            anchors=AnchorConfig(common.ANCHORS, common.ANCHORS),
            loss=LossConfig(objective=objective), precision="bfloat16", compile=compiled,
            head_chunk_rows=rows,
        )  # fmt: skip
        if attention is not None:
            chosen: Any = attention
            self.config = dataclasses.replace(self.config, attention=chosen)
        geometry = drafter_shape(shape)
        with common.DEVICE:
            drafter = Drafter(geometry).to(torch.bfloat16)
            with torch.no_grad():
                for parameter in drafter.parameters():
                    if parameter.ndim > 1:
                        parameter.normal_(0, 0.02)
            tables = Tables(
                *(
                    torch.empty(shape.vocabulary, shape.hidden, dtype=torch.bfloat16).normal_(
                        0, 0.02
                    )
                    for _ in range(2)
                )
            )
        self.drafting = Drafting(self.config, tables, drafter, common.DEVICE)
        self.corpus = corpus_of(shape)
        self.turn = 0
        self.loss = torch.zeros(())

    def batch(self) -> Batch:
        """The next four documents in a row, with anchors of their own epoch."""
        first = self.turn % SETS * common.DOCUMENTS
        row = Row(tuple(range(first, first + common.DOCUMENTS)), Place(self.turn, 0))
        self.turn += 1
        return assemble([row], self.corpus, self.config)

    def states(self) -> list[Features]:
        """Random features, one for each set; final states where the loss needs them."""
        width = self.shape.hidden if self.config.loss.needs_teacher else 0
        made = []
        for _ in range(SETS):
            taps, final = (
                torch.randn(1, common.TOKENS, size, device=common.DEVICE, dtype=torch.bfloat16)
                for size in (common.TAPS * self.shape.hidden, width)
            )
            made.append(Features(taps, final))
        return made

    def step(self, features: Features, mark: Mark) -> None:
        """One training step on ready features."""
        batch = self.batch()
        self.train(batch, features, mark)

    def train(self, batch: Batch, features: Features, mark: Mark) -> None:
        """The step of a batch that is assembled."""
        total = denominator(batch.supervision, self.config.loss)
        self.loss = self.drafting.accumulate(batch, features, total).loss
        mark("forward+backward")
        self.drafting.optimizer.step(1e-4)
        mark("optimizer")

    def read_and_step(self, reader: FusedReader, mark: Mark) -> None:
        """One training step from token ids."""
        batch = self.batch()
        ids = send(batch.ids_NS.view(common.DOCUMENTS, -1), common.DEVICE)
        needs = self.config.loss.needs_teacher
        taps, final = reader.read(ids, self.shape.taps, final=needs)
        mark("target")
        shape = (1, common.TOKENS, -1) if needs else (1, common.TOKENS, 0)
        self.train(batch, Features(taps.view(1, common.TOKENS, -1), final.view(shape)), mark)


class OursCaptured(Ours):
    """The same step with fixed shapes, replayed as one CUDA graph."""

    def __init__(self, shape: Shape, objective: Objective, reader: FusedReader | None) -> None:
        super().__init__(shape, objective, compiled=True, attention=None)
        self.reader = reader
        self.ready = self.states()
        self.held = dataclasses.replace(
            self.ready[0], taps_NSF=self.ready[0].taps_NSF.clone(),
            final_NSH=self.ready[0].final_NSH.clone(),
        )  # fmt: skip
        drafting = self.drafting
        self.fixed = FixedStep(
            drafting.drafter, drafting.optimizer, drafting.tables.embedding_VH,
            drafting.tables.head_VH, shape=StepShape(1, common.TOKENS, common.ANCHORS),
            features=self._features, loss=self.config.loss, backend=drafting.backend,
            captures=common.DEVICE.type == "cuda", chunk_rows=self.config.head_chunk_rows,
        )  # fmt: skip

    def _features(self) -> tuple[Tensor, Tensor | None]:
        if self.reader is None:
            return self.held.taps_NSF, self.held.final_NSH
        ids = self.fixed.ids.view(common.DOCUMENTS, -1)
        needs = self.config.loss.needs_teacher
        taps, final = self.reader.read(ids, self.shape.taps, final=needs)
        flat = final.view(1, common.TOKENS, -1) if needs else None
        return taps.view(1, common.TOKENS, -1), flat

    def replay(self, mark: Mark) -> None:
        """One training step; without a reader on features that are ready."""
        batch = self.batch()
        if self.reader is None:
            given = self.ready[self.turn % SETS]
            self.held.taps_NSF.copy_(given.taps_NSF)
            self.held.final_NSH.copy_(given.final_NSH)
        total = denominator(batch.supervision, self.config.loss)
        self.fixed.load(batch.ids_NS, batch.document_NS, batch.layout, batch.supervision, total)
        self.loss = self.fixed.step(1e-4).loss
        mark("graph")


def resident(model: nn.Module) -> float:
    """GiB of a model's parameters."""
    return common.gib(sum(each.nbytes for each in model.parameters()))


def measure_drafter(name: str, objective: Objective, attention: Backend | None = None) -> None:
    """The drafter's step on ready features, at one shape."""
    shape = common.SHAPES[name]
    common.clean()
    began = time.perf_counter()
    ours = Ours(shape, objective, compiled=False, attention=attention)
    ready = ours.states()
    common.wait()
    built = time.perf_counter()
    ours.step(ready[0], lambda _: None)
    common.wait()
    first = time.perf_counter() - built
    common.forget_peak()
    found = common.timed(lambda mark: ours.step(ready[ours.turn % SETS], mark))
    inputs = sum(each.taps_NSF.nbytes + each.final_NSH.nbytes for each in ready)
    flops = common.drafter_flops(shape, teacher=ours.config.loss.needs_teacher)
    common.emit(
        kind="drafter", contestant="ours", shape=name, objective=objective,
        attention=ours.drafting.backend, ms=found,
        tflops=round(flops / found["step"]["median"] / 1e9, 1),
        peak_gib=common.gib(common.peak() - inputs),
        build_s=round(built - began, 1), first_step_s=round(first, 1), loss=float(ours.loss),
    )  # fmt: skip


def measure_end_to_end(name: str, objective: Objective) -> None:
    """Target and drafter, step by step on one stream."""
    shape = common.SHAPES[name]
    common.clean()
    model = hugging_face(shape)
    reader = FusedReader(model, model.config)
    ours = Ours(shape, objective, compiled=False, attention=None)
    ours.read_and_step(reader, lambda _: None)
    common.wait()
    common.forget_peak()
    found = common.timed(lambda mark: ours.read_and_step(reader, mark))
    common.emit(
        kind="end_to_end", contestant="ours", shape=name, objective=objective, ms=found,
        tokens_per_s=round(common.TOKENS / found["step"]["median"] * 1e3),
        peak_gib=common.gib(common.peak()), target_gib=resident(model),
    )  # fmt: skip


def measure_captured(name: str, objective: Objective, *, reads: bool) -> None:
    """The step as one graph; with ``reads`` the target's forward pass is in it."""
    shape = common.SHAPES[name]
    common.clean()
    reader, held = None, 0.0
    if reads:
        model = hugging_face(shape)
        reader, held = FusedReader(model, model.config), resident(model)
    ours = OursCaptured(shape, objective, reader)
    began = time.perf_counter()
    ours.replay(lambda _: None)
    common.wait()
    first = time.perf_counter() - began
    found = common.timed(ours.replay)
    host = time.perf_counter()
    for _ in range(20):
        ours.batch()
    host = (time.perf_counter() - host) / 20
    common.emit(
        kind="end_to_end" if reads else "drafter", contestant="ours, one graph", shape=name,
        objective=objective, ms=found, first_step_s=round(first, 1),
        assemble_ms=round(host * 1e3, 2),
        tokens_per_s=round(common.TOKENS / found["step"]["median"] * 1e3),
        peak_gib=common.gib(common.peak()), target_gib=held,
        loss=float(ours.loss),
    )  # fmt: skip


@torch.no_grad()
def measure_target(name: str, *, itself: bool = True) -> None:
    """The target's forward pass: fused, with and without final states, and the model's own."""
    shape = common.SHAPES[name]
    common.clean()
    model = hugging_face(shape)
    draw = torch.Generator(common.DEVICE).manual_seed(0)
    sets = [
        torch.randint(
            0,
            shape.vocabulary,
            (common.DOCUMENTS, common.LENGTH),
            generator=draw,
            device=common.DEVICE,
        )
        for _ in range(SETS)
    ]
    turn = 0

    def chosen() -> Tensor:
        nonlocal turn
        turn += 1
        return sets[turn % SETS]

    def told(reader: str, layers: int, found: dict[str, dict[str, float]]) -> None:
        ms = found["step"]["median"]
        common.emit(
            kind="target", contestant=reader, shape=name, ms=found,
            tokens_per_s=round(common.TOKENS / ms * 1e3),
            tflops=round(common.target_flops(shape, layers) / ms / 1e9, 1),
        )  # fmt: skip

    if itself:
        found = common.timed(lambda _: model(input_ids=chosen(), use_cache=False))
        told("hugging face", shape.layers, found)
    reader = FusedReader(model, model.config)
    for final, layers in ((True, shape.layers), (False, max(shape.taps) + 1)):
        found = common.timed(partial(_read, reader, chosen, shape.taps, final))
        told(f"fused, {layers} layers", layers, found)


def _read(
    reader: FusedReader, chosen: Callable[[], Tensor], taps: tuple[int, ...], final: bool, _: Mark,  # noqa: FBT001 - bound by place
) -> None:  # fmt: skip
    reader.read(chosen(), taps, final=final)
