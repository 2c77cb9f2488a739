"""The contestants of the acceptance race: our trainer and speculators' DFlash, on one GPU.

Both get the same packed rows, the same stored features of the target model, the same learning
rate as a function of time, the same drafter shape and number of anchors; each trains its own way.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor

from benchmarks.acceptance_data import FeatureStore, index_of
from trainer.anchors import positions
from trainer.batches import Batch, assemble
from trainer.config import RunConfig
from trainer.corpus import Corpus
from trainer.drafter import Drafter, DrafterConfig
from trainer.fixed import FixedStep, StepShape
from trainer.loss import denominator
from trainer.optimizer import MasterOptimizer
from trainer.schedule import Place, Row, Schedule
from trainer.target import Target

_AHEAD = 6
"""Batches prepared before they are needed; preparing takes about 3 ms of one core."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A packed row on the host, pinned where there is a GPU."""

    batch: Batch
    index: Tensor
    total: Tensor
    position: Tensor
    answer: Tensor


class Contestant(Protocol):
    """A trainer in the race."""

    name: str

    def step(self, prepared: Prepared, rate: float) -> None:
        """Train on one row; need not wait for the device."""
        ...

    def loss(self) -> float:
        """Of the last step; waits for the device."""
        ...

    def drafter(self) -> Drafter:
        """The drafter as it stands, in bfloat16 on a GPU."""
        ...


def prepared_rows(
    corpus: Corpus, config: RunConfig, store: FeatureStore, *, pins: bool
) -> Iterator[Prepared]:
    """Rows of the schedule without end, prepared a little ahead in threads, in order."""
    rows = Schedule(
        corpus.lengths, capacity=config.row_tokens, seed=config.seed, place=Place()
    ).rows()
    with ThreadPoolExecutor(max_workers=3) as pool:
        waiting: list[Future[Prepared]] = []

        def ask(row: Row) -> None:
            waiting.append(pool.submit(_prepare, row, corpus, config, store.padding, pins=pins))

        for row in islice(rows, _AHEAD):
            ask(row)
        for row in rows:
            yield waiting.pop(0).result()
            ask(row)


def _prepare(row: Row, corpus: Corpus, config: RunConfig, padding: int, *, pins: bool) -> Prepared:
    batch = assemble([row], corpus, config)
    index = index_of(row.documents, batch.places, corpus, config.row_tokens, padding)
    answer = torch.zeros(config.row_tokens, dtype=torch.bool)
    for document, place in zip(row.documents, batch.places, strict=True):
        supervised = corpus[document].supervised
        answer[place : place + len(supervised)] = supervised
    position = positions(batch.layout, batch.document_NS)[:, : config.row_tokens]
    total = denominator(batch.supervision, config.loss)
    prepared = Prepared(batch, index, total, position, answer)
    return _pinned(prepared) if pins else prepared


def _pinned(prepared: Prepared) -> Prepared:
    """The tensors that either contestant copies, in memory that a copy need not wait for."""
    batch = prepared.batch
    layout, taught = batch.layout, batch.supervision
    return replace(
        prepared,
        batch=replace(
            batch,
            ids_NS=batch.ids_NS.pin_memory(),
            document_NS=batch.document_NS.pin_memory(),
            layout=replace(
                layout,
                anchor=layout.anchor.pin_memory(),
                first=layout.first.pin_memory(),
                valid=layout.valid.pin_memory(),
            ),
            supervision=replace(
                taught,
                labels=taught.labels.pin_memory(),
                mask=taught.mask.pin_memory(),
                anchors_in_sequence=taught.anchors_in_sequence.pin_memory(),
            ),
        ),
        index=prepared.index.pin_memory(),
        total=prepared.total.pin_memory(),
        position=prepared.position.pin_memory(),
        answer=prepared.answer.pin_memory(),
    )


class Ours:
    """This project's trainer: fixed shapes, one CUDA graph a step, float32 masters."""

    name = "agentops"

    def __init__(
        self, target: Target, shape: DrafterConfig, config: RunConfig, store: FeatureStore
    ) -> None:
        device = target.embedding_VH.device
        drafter = Drafter(shape)
        drafter.initialise(config.seed)
        self._drafter = drafter.to(device, target.embedding_VH.dtype)
        self._index = torch.full((config.row_tokens,), store.padding, device=device)
        self._loss = torch.zeros(())
        needs_teacher = config.loss.needs_teacher

        def features() -> tuple[Tensor, Tensor | None]:
            taps = store.taps.index_select(0, self._index)[None]
            final = store.final.index_select(0, self._index)[None] if needs_teacher else None
            return taps, final

        self._step = FixedStep(
            self._drafter,
            MasterOptimizer(self._drafter, config.optimizer),
            target.embedding_VH,
            target.head_VH,
            shape=StepShape(1, config.row_tokens, config.anchors.per_row),
            features=features,
            loss=config.loss,
            backend="anchors" if device.type == "cuda" else "sdpa",
            captures=device.type == "cuda",
        )

    def step(self, prepared: Prepared, rate: float) -> None:
        """See :class:`Contestant`."""
        batch = prepared.batch
        self._index.copy_(prepared.index, non_blocking=True)
        self._step.load(
            batch.ids_NS, batch.document_NS, batch.layout, batch.supervision, prepared.total
        )
        self._loss = self._step.step(rate).loss

    def loss(self) -> float:
        """See :class:`Contestant`."""
        return float(self._loss)

    def drafter(self) -> Drafter:
        """See :class:`Contestant`."""
        return self._drafter


class Speculators:
    """speculators 0.9.0's DFlash, stepped as its trainer's epoch loop does.

    Float32 weights under bfloat16 autocast, compiled forward and mask on a GPU, its cross-entropy
    against the target's argmax. The stored final states already passed the target's last norm,
    so its own copy of that norm is the identity.
    """

    name = "speculators"

    def __init__(
        self, target: Target, shape: DrafterConfig, config: RunConfig, store: FeatureStore,
        *, optimizer: str = "adamw",
    ) -> None:  # fmt: skip
        from speculators.train.optimizers import build_optimizers  # noqa: PLC0415 - only here

        self._shape, self._store, self._config = shape, store, config
        self._device = target.embedding_VH.device
        self._model = speculators_model(shape, on_gpu=self._device.type == "cuda")
        self._model = self._model.to(self._device)
        draft = Drafter(shape)
        draft.initialise(config.seed)
        self._model.load_state_dict(draft.state_dict(), strict=False)
        with torch.no_grad():
            self._model.embed_tokens.weight.copy_(target.embedding_VH)
            self._model.lm_head.weight.copy_(target.head_VH)
            self._model.verifier_lm_head.weight.copy_(target.head_VH)
        self._model.verifier_norm = torch.nn.Identity()
        self._model.train()
        settings = config.optimizer
        self._optimizers = build_optimizers(
            self._model,
            SimpleNamespace(
                optimizer=optimizer, lr=settings.learning_rate, weight_decay=0.0,
                muon_lr=10 * settings.learning_rate, muon_momentum=0.95,
                muon_weight_decay=0.0, muon_ns_steps=5, muon_adjust_lr_fn="match_rms_adamw",
            ),
        )  # fmt: skip
        self._peak = [[group["lr"] for group in each.param_groups] for each in self._optimizers]
        self._arguments, _ = type(self._model).get_trainer_kwargs(
            loss_fn="ce", loss_implementation="eager", max_anchors=config.anchors.per_row
        )
        self._loss = torch.zeros(())

    def step(self, prepared: Prepared, rate: float) -> None:
        """See :class:`Contestant`."""
        share = rate / self._config.optimizer.learning_rate
        for each, peaks in zip(self._optimizers, self._peak, strict=True):
            for group, peak in zip(each.param_groups, peaks, strict=True):
                group["lr"] = share * peak
        index = prepared.index.to(self._device, non_blocking=True)

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(self._device, non_blocking=True)

        with torch.autocast(self._device.type, dtype=torch.bfloat16):
            _, loss, _ = self._model(
                hidden_states=self._store.taps.index_select(0, index)[None],
                verifier_last_hidden_states=self._store.final.index_select(0, index)[None],
                input_ids=moved(prepared.batch.ids_NS),
                loss_mask=moved(prepared.answer)[None],
                document_ids=moved(prepared.batch.document_NS),
                position_ids=moved(prepared.position),
                **self._arguments,
            )
        for each in self._optimizers:
            each.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.optimizer.clip_norm)
        for each in self._optimizers:
            each.step()
        self._loss = loss.detach()

    def loss(self) -> float:
        """See :class:`Contestant`."""
        return float(self._loss)

    def drafter(self) -> Drafter:
        """See :class:`Contestant`."""
        drafter = Drafter(self._shape)
        names = drafter.state_dict().keys()
        held = self._model.state_dict()
        drafter.load_state_dict({name: held[name] for name in names})
        return drafter.to(self._device, self._store.taps.dtype)


def speculators_model(shape: DrafterConfig, *, on_gpu: bool) -> Any:  # noqa: ANN401 - untyped
    """The package's own drafter of this shape, with flex attention on a GPU."""
    from speculators.config import SpeculatorsConfig, VerifierConfig  # noqa: PLC0415 - only here
    from speculators.models.dflash import (  # noqa: PLC0415
        DFlashDraftModel,
        DFlashSpeculatorConfig,
    )
    from speculators.proposals.greedy import GreedyTokenProposalConfig  # noqa: PLC0415
    from transformers import Qwen3Config  # noqa: PLC0415

    layers = Qwen3Config(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size, num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_key_value_heads, head_dim=shape.head_dim,
        max_position_embeddings=shape.max_position_embeddings, rms_norm_eps=shape.rms_norm_eps,
        tie_word_embeddings=False, use_sliding_window=False,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        layer_types=list(shape.layer_types),
    )  # fmt: skip
    layers._attn_implementation = "simple_flex_attention" if on_gpu else "sdpa"  # noqa: SLF001
    proposal = GreedyTokenProposalConfig(speculative_tokens=shape.block_size - 1)
    return DFlashDraftModel(
        DFlashSpeculatorConfig(
            transformer_layer_config=layers,
            draft_vocab_size=shape.vocab_size,
            block_size=shape.block_size,
            aux_hidden_state_layer_ids=[layer + 1 for layer in shape.target_layer_ids],
            mask_token_id=shape.mask_token_id,
            speculators_config=SpeculatorsConfig(
                algorithm="dflash",
                proposal_methods=[proposal],
                default_proposal_method="greedy",
                verifier=VerifierConfig(name_or_path=None, architectures=[]),
            ),
        )
    )


Maker = Callable[[Target, DrafterConfig, RunConfig, FeatureStore], Contestant]

CONTESTANTS: dict[str, Maker] = {
    "agentops": Ours,
    "speculators": Speculators,
    "speculators-muon": lambda *given: Speculators(*given, optimizer="muon"),
}
