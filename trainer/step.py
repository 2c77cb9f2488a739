"""One training step: read the target, draft, compare, step the optimiser.

Holds the drafter with its optimiser. The denominator of the loss is known before the first pass,
so several passes add up to exactly one big one. Which rows come next is ``trainer.schedule``'s,
when to log or save is ``trainer.train``'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional

from trainer.acceptance import Proxy, proxy
from trainer.anchors import Supervision, draft_ids, positions
from trainer.attention import ANCHOR_HEADS, Backend, plan_attention
from trainer.batches import Batch, Features, assemble, read_features
from trainer.config import DrafterSettings, RunConfig
from trainer.corpus import Corpus
from trainer.drafter import Drafter, DrafterConfig, LayerType, default_target_layer_ids
from trainer.errors import ConfigError
from trainer.fixed import FixedStep, HalfStep, StepShape
from trainer.kernels.choice import is_fused
from trainer.loss import HeadLoss, denominator, head_loss
from trainer.optimizer import MasterOptimizer
from trainer.schedule import Row
from trainer.sending import send
from trainer.target import Target, TargetShape
from trainer.teacher import plan_teacher

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_LONGEST_READ = 4  # rows' worth of tokens that the target model reads at once, padding included


@dataclass(frozen=True)
class StepOutcome:
    """What one step saw, still on the device: reading it waits for the device."""

    loss: Tensor
    grad_norm: Tensor
    proxy: Proxy
    tokens: int


def drafter_config(
    settings: DrafterSettings, shape: TargetShape, *, is_random: bool
) -> DrafterConfig:
    """The drafter that the settings ask for, on this target model.

    Raises:
        ConfigError: a setting cannot be used with this model, or the mask token is not given (only
            a random target has an id that is known to be free: its last).
    """
    mask_token_id = settings.mask_token_id
    if mask_token_id is None:
        if not is_random:
            raise ConfigError(
                "drafter.mask_token_id: missing; name a reserved id of the target model's tokenizer"
            )
        mask_token_id = shape.vocab_size - 1
    layers = shape.num_hidden_layers
    full: LayerType = "full_attention"
    taps = settings.target_layer_ids
    if settings.tap_count is not None:
        taps = default_target_layer_ids(layers, settings.tap_count)
        if len(set(taps)) < settings.tap_count:
            raise ConfigError(
                f"drafter.tap_count: {settings.tap_count} taps do not fit {layers} target layers;"
                " use fewer, or name target_layer_ids"
            )
    return DrafterConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=settings.intermediate_size or shape.intermediate_size,
        num_attention_heads=settings.num_attention_heads or shape.num_attention_heads,
        num_key_value_heads=settings.num_key_value_heads or shape.num_key_value_heads,
        head_dim=settings.head_dim or shape.head_dim,
        vocab_size=shape.vocab_size,
        num_target_layers=layers,
        target_layer_ids=taps,
        mask_token_id=mask_token_id,
        layer_types=settings.layer_types or (full,) * settings.num_hidden_layers,
        block_size=settings.block_size,
        sliding_window=settings.sliding_window,
        rope_theta=shape.rope_theta,
        rms_norm_eps=shape.rms_norm_eps,
        max_position_embeddings=shape.max_position_embeddings,
    )


@dataclass(frozen=True)
class Tables:
    """The target model's two frozen tables that a drafter works with, both (V, H)."""

    embedding_VH: Tensor
    head_VH: Tensor

    def to(self, device: torch.device) -> "Tables":
        """The same on ``device``; nothing is copied where they are there already."""
        return Tables(self.embedding_VH.to(device), self.head_VH.to(device))


@dataclass(frozen=True)
class PassOutcome:
    """What one forward and backward pass saw, still on the device."""

    loss: Tensor
    proxy: Proxy


@dataclass(frozen=True)
class _Compared:
    head: HeadLoss
    supervision: Supervision


class Drafting:
    """A drafter and its optimiser on one device, with the target model's tables beside them.

    It is given what the target model said; where that was computed is its caller's business.
    """

    def __init__(
        self, config: RunConfig, tables: Tables, drafter: Drafter, device: torch.device
    ) -> None:
        self.config = config
        self.tables = tables
        self.drafter = drafter
        self.device = device
        self.optimizer = MasterOptimizer(drafter, config.optimizer)
        self.backend = attention_backend(config, drafter.config.head_dim, device)

    def accumulate(self, batch: Batch, features: Features, total: Tensor) -> PassOutcome:
        """Forward and backward: gradients add up in the parameters until the optimiser steps.

        Args:
            batch: One pass.
            features: What the target model said about it, on this device.
            total: The denominator of the whole step.
        """
        result = self._compare(batch, features, total)
        result.head.loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        seen = proxy(result.supervision, result.head.rows)
        return PassOutcome(result.head.loss.detach(), seen)

    def draft(self, batch: Batch, features: Features) -> Tensor:
        """The drafter's final hidden states of all draft rows, ``(N, Q, H)``."""
        dtype = DTYPES[self.config.precision]
        layout = batch.layout.to(self.device)
        ids = draft_ids(batch.layout, batch.ids_NS, self.drafter.config.mask_token_id)
        place = positions(batch.layout, batch.document_NS)
        attend = plan_attention(self.drafter.config.mask_rules, layout, self.backend)
        hidden: Tensor = self.drafter(
            functional.embedding(send(ids, self.device), self.tables.embedding_VH).to(dtype),
            features.taps_NSF.to(dtype),
            send(place, self.device),
            attend,
            masked=self.drafter.config.block_size,
        )
        return hidden

    def _compare(self, batch: Batch, features: Features, total: Tensor) -> "_Compared":
        supervision = batch.supervision.to(self.device)
        teacher = None
        if self.config.loss.needs_teacher:
            layout = batch.layout
            plan = plan_teacher(layout.anchor, layout.context, batch.supervision, shares=True)
            teacher = plan.to(self.device).states(features.final_NSH)
        result = head_loss(
            self.draft(batch, features),
            self.tables.head_VH,
            supervision,
            self.config.loss,
            total,
            teacher=teacher,
            chunk_rows=self.config.head_chunk_rows,
        )
        return _Compared(result, supervision)


class Trainer(Drafting):
    """A drafter, its optimiser and its frozen target model on one device, ready to step."""

    def __init__(
        self, config: RunConfig, target: Target, drafter: Drafter, device: torch.device
    ) -> None:
        super().__init__(config, Tables(target.embedding_VH, target.head_VH), drafter, device)
        self.target = target
        self._fixed: FixedPass | None = None

    def step(self, rows: Sequence[Row], corpus: Corpus, rate: float) -> StepOutcome:
        """Train on these rows once, at this learning rate."""
        passes = self.passes(rows, corpus)
        if self.config.compile:
            return self._step_fixed(passes, rate)
        shares = [denominator(batch.supervision, self.config.loss) for batch in passes]
        total = torch.stack(shares).sum()
        loss = torch.zeros((), device=self.device)
        seen: list[Proxy] = []
        for batch in passes:
            found = self.accumulate(batch, self.read(batch), total)
            loss = loss + found.loss
            seen.append(found.proxy)
        stepped = self.optimizer.step(rate)
        tokens = sum(batch.tokens for batch in passes)
        return StepOutcome(loss, stepped.grad_norm, reduce(Proxy.plus, seen), tokens)

    def _step_fixed(self, passes: Sequence[Batch], rate: float) -> StepOutcome:
        """The same step with fixed shapes, replayed as one CUDA graph where there is a GPU."""
        (batch,) = passes  # the settings saw to it
        features = self.read(batch)
        if self._fixed is None:
            self._fixed = FixedPass(self, batch, features)
        return self._fixed.step(batch, features, rate)

    @torch.no_grad()
    def inspect(self, rows: Sequence[Row], corpus: Corpus) -> Proxy:
        """The teacher-forced proxy on these rows; nothing is trained."""
        seen: list[Proxy] = []
        for batch in self.passes(rows, corpus):
            total = denominator(batch.supervision, self.config.loss)
            result = self._compare(batch, self.read(batch), total)
            seen.append(proxy(result.supervision, result.head.rows))
        return reduce(Proxy.plus, seen)

    def passes(self, rows: Sequence[Row], corpus: Corpus) -> list[Batch]:
        """The rows in passes of ``rows_per_pass``, with anchors and labels."""
        size = self.config.rows_per_pass
        return [
            assemble(rows[first : first + size], corpus, self.config)
            for first in range(0, len(rows), size)
        ]

    def read(self, batch: Batch) -> Features:
        """What the target model says about a batch."""
        budget = _LONGEST_READ * self.config.row_tokens
        return read_features(
            self.target, batch, tokens_per_read=budget, device=self.device,
            final=self.config.loss.needs_teacher,
        )  # fmt: skip


class FixedPass:
    """A step of fixed shapes, fed from the adaptive step's own batches and features."""

    def __init__(self, drafting: Drafting, first: Batch, features: Features) -> None:
        self._drafting = drafting
        self._taps_NSF = features.taps_NSF.clone()
        self._final_NSH = features.final_NSH.clone()
        rows, context = first.ids_NS.shape
        self._step = FixedStep(
            drafting.drafter,
            drafting.optimizer,
            drafting.tables.embedding_VH,
            drafting.tables.head_VH,
            shape=StepShape(rows, context, first.layout.anchor.shape[1]),
            features=lambda: (self._taps_NSF, self._final_NSH),
            loss=drafting.config.loss,
            backend=drafting.backend,
            chunk_rows=drafting.config.head_chunk_rows,
            captures=drafting.device.type == "cuda",
        )

    def step(
        self, batch: Batch, features: Features, rate: float, total: Tensor | None = None
    ) -> StepOutcome:
        """Train on a batch of the first one's shape; ``total`` is its own denominator if None."""
        if total is None:
            total = denominator(batch.supervision, self._drafting.config.loss)
        self._load(batch, features, total)
        found = self._step.step(rate)
        # The next step overwrites its results.
        return StepOutcome(found.loss.clone(), found.grad_norm.clone(), found.proxy, batch.tokens)

    def accumulate(self, batch: Batch, features: Features, total: Tensor) -> HalfStep:
        """Only forward and backward, the one pass of this replica's step."""
        self._load(batch, features, total)
        return self._step.accumulate()

    def apply(self, gradients: Tensor, rate: float) -> Tensor:
        """The optimiser's step by these gradients, end to end; their norm, before clipping."""
        return self._step.apply(gradients, rate)

    def _load(self, batch: Batch, features: Features, total: Tensor) -> None:
        # A replayed graph reads these very buffers.
        self._taps_NSF.copy_(features.taps_NSF)
        self._final_NSH.copy_(features.final_NSH)
        self._step.load(batch.ids_NS, batch.document_NS, batch.layout, batch.supervision, total)


def attention_backend(config: RunConfig, head_dim: int, device: torch.device) -> Backend:
    """How the drafter's attention is computed in training.

    Raises:
        ConfigError: what the settings ask for does not train on this device.
    """
    if config.attention in ("flex", "anchors") and device.type == "cpu":
        raise ConfigError(f"attention: '{config.attention}' does not train on the CPU; use 'sdpa'")
    if config.attention != "auto":
        return config.attention
    if not is_fused(device.type):
        return "sdpa"
    # A head that the kernels cannot take is flex attention's, which compiles for one shape.
    return "anchors" if head_dim in ANCHOR_HEADS else "flex" if config.compile else "sdpa"
