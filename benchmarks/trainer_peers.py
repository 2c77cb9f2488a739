"""The published trainers as contestants of ``trainer_h200.py``, stepped as their own loops do.

speculators 0.9.0: its trainer's epoch body; float32 weights, bfloat16 autocast, compiled forward
and mask, flex attention, cross-entropy against the target's argmax, AdamW. specforge 0.2.0: its
``TrainerCore``, strategy and optimiser; bfloat16 weights with float32 masters, flex attention,
chunked objective, cross-entropy against the data's token. Its layout of the same work is four rows
of 2,048 tokens with 128 anchors each. Both draw their anchors on the GPU in every step; both get
the same target forward pass, Hugging Face's with SDPA.
"""

import importlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import Qwen3Config, get_linear_schedule_with_warmup

import benchmarks.trainer_shapes as common
from benchmarks.acceptance_race import speculators_model
from benchmarks.trainer_ours import SETS, drafter_shape, hugging_face, resident
from benchmarks.trainer_shapes import Mark, Shape

_LARGE = 25
"""Inputs of a graph with layers in it; the mask's has fewer."""


class Peer(Protocol):
    """A published trainer."""

    name: str
    loss: float | Tensor

    def step(self, ids: Tensor, taps: Tensor, final: Tensor) -> None:
        """Train once; ids (documents, S), taps (documents, S, F), final states before the norm."""
        ...


def _answers() -> Tensor:
    """Which tokens are taught, (documents, S)."""
    place = torch.arange(common.LENGTH, device=common.DEVICE)
    return (place >= common.PROMPT).expand(common.DOCUMENTS, -1)


class Speculators:
    """See the module's docstring; the eager form of its loss, for the fused one needs a patch."""

    name = "speculators"

    def __init__(self, shape: Shape) -> None:
        from speculators.train.optimizers import build_optimizers  # noqa: PLC0415 - only here

        on_gpu = common.DEVICE.type == "cuda"
        with common.DEVICE:
            model = speculators_model(drafter_shape(shape), on_gpu=on_gpu)
        model = model.to(common.DEVICE)
        with torch.no_grad():
            for module in (model.embed_tokens, model.lm_head, model.verifier_lm_head):
                module.weight.normal_(0, 0.02)
            model.verifier_norm.weight.fill_(1.0)
        self.model = model.train()
        self._optimizers = build_optimizers(
            model, SimpleNamespace(optimizer="adamw", lr=1e-4, weight_decay=0.01)
        )
        schedule: Any = get_linear_schedule_with_warmup
        self._schedules = [schedule(each, 10, 10_000) for each in self._optimizers]
        self._arguments, _ = type(model).get_trainer_kwargs(
            loss_fn="ce", loss_implementation="eager", max_anchors=common.ANCHORS
        )
        place = torch.arange(common.LENGTH, device=common.DEVICE)
        document = torch.arange(common.DOCUMENTS, device=common.DEVICE)
        self._fixed = {
            "loss_mask": _answers().reshape(1, -1),
            "document_ids": document.repeat_interleave(common.LENGTH)[None],
            "position_ids": place.repeat(common.DOCUMENTS)[None],
        }
        self.loss: float | Tensor = 0.0

    def step(self, ids: Tensor, taps: Tensor, final: Tensor) -> None:
        """See :class:`Peer`."""
        with torch.autocast(common.DEVICE.type, dtype=torch.bfloat16):
            _, loss, _ = self.model(
                hidden_states=taps.reshape(1, common.TOKENS, -1), input_ids=ids.reshape(1, -1),
                verifier_last_hidden_states=final.reshape(1, common.TOKENS, -1), **self._fixed,
                **self._arguments,
            )  # fmt: skip
        for each in self._optimizers:
            each.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for each in (*self._optimizers, *self._schedules):
            each.step()
        self.loss = loss.detach()


class SpecForge:
    """See the module's docstring."""

    name = "specforge"

    def __init__(self, shape: Shape) -> None:
        from specforge.algorithms.common.dflash_family_model import (  # noqa: PLC0415 - only here
            OnlineDFlashModel,
        )
        from specforge.optimizer import BF16Optimizer  # noqa: PLC0415
        from specforge.training.backend import (  # noqa: PLC0415
            FSDPTrainingBackend,
            ParallelConfig,
        )
        from specforge.training.controller import TrainerCore  # noqa: PLC0415
        from specforge.training.strategies.base import DFlashTrainStrategy  # noqa: PLC0415

        drafter = _specforge_drafter(shape)
        where: dict[str, Any] = {"device": common.DEVICE, "dtype": torch.bfloat16}
        head = nn.Linear(shape.hidden, shape.vocabulary, bias=False, **where)
        embedding = nn.Embedding(shape.vocabulary, shape.hidden, **where)
        for table in (head, embedding):
            nn.init.normal_(table.weight, 0, 0.02)
            table.requires_grad_(requires_grad=False)
        model = OnlineDFlashModel(
            draft_model=drafter, target_lm_head=head, target_embed_tokens=embedding,
            mask_token_id=common.MASK_TOKEN, block_size=common.BLOCK,
            attention_backend="flex_attention" if common.DEVICE.type == "cuda" else "sdpa",
            num_anchors=common.ANCHORS // common.DOCUMENTS, loss_decay_gamma=None,
        )  # fmt: skip
        model = model.to(device=common.DEVICE, dtype=torch.bfloat16).train()
        backend = FSDPTrainingBackend(
            ParallelConfig(),
            optimizer_factory=lambda module: BF16Optimizer(
                module, lr=1e-4, weight_decay=0.0, max_grad_norm=0.5, total_steps=10_000
            ),
        )
        backend.prepare_model(model, wrap=False, optimizer_target=drafter)
        self._core = TrainerCore(DFlashTrainStrategy(model), backend)
        self._answers = _answers().float()
        self.loss: float | Tensor = 0.0

    def step(self, ids: Tensor, taps: Tensor, final: Tensor) -> None:  # noqa: ARG002 - not needed
        """See :class:`Peer`."""
        from specforge.runtime.contracts import TrainBatch  # noqa: PLC0415 - only here

        tensors = {"input_ids": ids, "hidden_states": taps, "loss_mask": self._answers}
        names = [str(place) for place in range(len(ids))]
        found = self._core.train_step(
            TrainBatch(sample_ids=names, strategy="dflash", tensors=tensors)
        )
        self.loss = found.loss


def _specforge_drafter(shape: Shape) -> Any:  # noqa: ANN401 - untyped library
    from specforge.modeling.auto import AutoDraftModel  # noqa: PLC0415 - only here

    facts: dict[str, Any] = {
        "rope_theta": shape.theta, "architectures": ["DFlashDraftModel"],
        "block_size": common.BLOCK, "num_target_layers": shape.layers,
        "dflash_config": {
            "target_layer_ids": list(shape.taps), "mask_token_id": common.MASK_TOKEN
        },
    }  # fmt: skip
    config = Qwen3Config(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.inner,
        num_hidden_layers=common.DRAFT_LAYERS, num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups, head_dim=shape.head_dim,
        max_position_embeddings=40_960, rms_norm_eps=1e-6,
        tie_word_embeddings=False, layer_types=["full_attention"] * common.DRAFT_LAYERS,
        sliding_window=None, use_sliding_window=False, **facts,
    )  # fmt: skip
    backend = "flex_attention" if common.DEVICE.type == "cuda" else "sdpa"
    config._attn_implementation = backend  # noqa: SLF001 - how the library is told
    with common.DEVICE:
        make: Any = AutoDraftModel.from_config
        return make(config, torch_dtype=torch.bfloat16).to(common.DEVICE)


class Gate:
    """Holds a peer's compiled code back until others were timed: a file appears.

    Compiling takes minutes of the host and, until the first large graph runs, none of the GPU.
    """

    def __init__(self, folder: Path) -> None:
        self._kind = importlib.import_module("torch._inductor.output_code").CompiledFxGraph
        self._call = self._kind.__call__
        call, opened = self._call, folder / "go"

        def held(graph: object, inputs: Sequence[object]) -> object:
            if len(inputs) > _LARGE and not opened.exists():
                (folder / "compiled").touch()
                common.say("compiled; held at the gate")
                wait_for(opened)
            return call(graph, inputs)

        self._kind.__call__ = held

    def remove(self) -> None:
        """Take it off before anything is timed."""
        self._kind.__call__ = self._call


def wait_for(file: Path) -> None:
    """Until another process has made the file; whoever started both ends them at a deadline."""
    pause = threading.Event()
    while not file.exists():
        pause.wait(0.05)


class _Contest:
    """A peer's steps on ready features, and on those that the target's forward pass makes."""

    def __init__(self, peer: Peer, shape: Shape) -> None:
        self.peer, self.shape, self.turn = peer, shape, 0
        self._draw = torch.Generator(common.DEVICE).manual_seed(0)
        size = (common.DOCUMENTS, common.LENGTH)
        self.ids = [
            torch.randint(0, shape.vocabulary - 8, size, generator=self._draw, device=common.DEVICE)
            for _ in range(SETS)
        ]
        self.taps = [self._states(common.TAPS * shape.hidden) for _ in self.ids]
        self.final = [self._states(shape.hidden) for _ in self.ids]
        self._last: dict[int, Tensor] = {}

    def _states(self, width: int) -> Tensor:
        return torch.randn(
            common.DOCUMENTS, common.LENGTH, width, generator=self._draw, device=common.DEVICE,
            dtype=torch.bfloat16,
        )  # fmt: skip

    def train(self, mark: Mark) -> None:
        """On ready features."""
        at = self.turn % SETS
        self.turn += 1
        self.peer.step(self.ids[at], self.taps[at], self.final[at])
        mark("drafter")

    def take_target(self) -> float:
        """Make features from now on; GiB of the target's weights."""
        self.taps.clear()
        self.final.clear()
        common.clean()
        self.model = hugging_face(self.shape)
        for layer in {*self.shape.taps, self.shape.layers - 1}:
            self.model.layers[layer].register_forward_hook(_keeper(self._last, layer))
        return resident(self.model)

    def read_and_train(self, mark: Mark) -> None:
        """From token ids."""
        ids = self.ids[self.turn % SETS]
        self.turn += 1
        with torch.no_grad():
            self.model(input_ids=ids, use_cache=False)
            taps = torch.cat([self._last[layer] for layer in self.shape.taps], dim=-1)
        final = self._last[self.shape.layers - 1]
        self._last.clear()
        mark("target")
        self.peer.step(ids, taps, final)
        mark("drafter")


def measure(name: str, make: Callable[[Shape], Peer], gate: Gate | None = None) -> None:
    """The drafter's step on ready features, then from token ids with the target's forward pass."""
    common.clean()
    began = time.perf_counter()
    contest = _Contest(make(common.SHAPES[name]), common.SHAPES[name])
    contest.train(lambda _: None)
    common.wait()
    first = round(time.perf_counter() - began, 1)
    _warm(lambda: contest.train(lambda _: None))
    if gate is not None:
        gate.remove()
    common.forget_peak()
    found = common.timed(contest.train)
    inputs = sum(each.nbytes for each in (*contest.taps, *contest.final))
    facts: dict[str, Any] = {"contestant": contest.peer.name, "shape": name}
    common.emit(
        kind="drafter", **facts, ms=found, first_step_s=first, graphs=_graphs(),
        peak_gib=common.gib(common.peak() - inputs), loss=float(contest.peer.loss),
    )  # fmt: skip
    target_gib = contest.take_target()
    _warm(lambda: contest.read_and_train(lambda _: None))
    common.forget_peak()
    found = common.timed(contest.read_and_train)
    common.emit(
        kind="end_to_end", **facts, ms=found, graphs=_graphs(), target_gib=target_gib,
        tokens_per_s=round(common.TOKENS / found["step"]["median"] * 1e3),
        peak_gib=common.gib(common.peak()),
    )  # fmt: skip


def _keeper(held: dict[int, Tensor], layer: int) -> Callable[..., None]:
    def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        held[layer] = output[0] if isinstance(output, tuple) else output

    return keep


def _graphs() -> int:
    from torch._dynamo.utils import counters  # noqa: PLC0415 - only here

    return int(counters["stats"]["unique_graphs"])


def _warm(step: Callable[[], None], *, most: int = 25) -> None:
    """Step until three steps in a row compiled nothing new."""
    calm, before = 0, _graphs()
    for number in range(most):
        step()
        common.wait()
        calm = calm + 1 if _graphs() == before else 0
        before = _graphs()
        if number >= 3 and calm >= 3:
            return
