"""A step of fixed shapes trains exactly as the step that adapts to its batch."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainer.anchors import supervise
from trainer.batches import assemble, read_features
from trainer.config import DrafterSettings, RunConfig, SyntheticData
from trainer.drafter import Drafter
from trainer.errors import ConfigError
from trainer.fixed import FixedStep, StepShape
from trainer.loading import load_backbone
from trainer.loss import LossConfig, denominator
from trainer.optimizer import MasterOptimizer
from trainer.schedule import Place, Row, Schedule
from trainer.step import Trainer, drafter_config
from trainer.synthetic import synthetic_corpus
from trainer.target import Target

CPU = torch.device("cpu")
ROWS, TOKENS, ANCHORS = 2, 96, 12


def _config(loss: LossConfig) -> RunConfig:
    return RunConfig(
        run_id="fixed",
        output_dir=str(Path("unused")),
        steps=3,
        drafter=DrafterSettings(block_size=4, num_hidden_layers=1, tap_count=2),
        data=SyntheticData(documents=12, length=40),
        loss=loss,
        row_tokens=TOKENS,
        rows_per_step=ROWS,
        rows_per_pass=ROWS,
        compile=True,  # asks for padded anchors and rows that are not compacted
    )


def _trainer(config: RunConfig) -> Trainer:
    backbone = load_backbone(config.target, CPU)
    shape = drafter_config(config.drafter, backbone.shape, is_random=True)
    drafter = Drafter(shape)
    drafter.initialise(seed=1)
    return Trainer(config, Target(backbone, shape.target_layer_ids), drafter, CPU)


@pytest.mark.parametrize(
    "loss",
    [LossConfig(), LossConfig(weighting="dpace"), LossConfig(objective="forward_kl")],
    ids=["decay", "dpace", "forward_kl"],
)
def test_fixed_steps_train_like_adapting_ones(loss: LossConfig) -> None:
    config = _config(loss)
    config = replace(config, anchors=replace(config.anchors, per_row=ANCHORS))
    adapting, fixed = _trainer(config), _trainer(config)
    corpus = synthetic_corpus(vocab_size=128, documents=12, length=40, seed=0)
    rows = Schedule(corpus.lengths, capacity=TOKENS, seed=0, place=Place()).rows()
    buffers: list[Tensor] = []
    step = FixedStep(
        fixed.drafter,
        MasterOptimizer(fixed.drafter, config.optimizer),
        fixed.target.embedding_VH,
        fixed.target.head_VH,
        shape=StepShape(ROWS, TOKENS, ANCHORS),
        features=lambda: (buffers[0], buffers[1]),
        loss=loss,
        backend="sdpa",
        chunk_rows=config.head_chunk_rows,
    )
    for number in range(3):
        chosen: list[Row] = list(islice(rows, ROWS))
        expected = adapting.step(chosen, corpus, 1e-2 / (number + 1))
        batch = assemble(chosen, corpus, config)
        read = read_features(fixed.target, batch, tokens_per_read=4 * TOKENS, device=CPU)
        buffers[:] = [read.taps_NSF, read.final_NSH]
        total = denominator(batch.supervision, loss)
        step.load(batch.ids_NS, batch.document_NS, batch.layout, batch.supervision, total)
        outcome = step.step(1e-2 / (number + 1))
        torch.testing.assert_close(outcome.loss, expected.loss)
        torch.testing.assert_close(outcome.grad_norm, expected.grad_norm)
        torch.testing.assert_close(outcome.proxy.accepted, expected.proxy.accepted)
    for ours, theirs in zip(fixed.drafter.parameters(), adapting.drafter.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_batch_of_another_shape_is_refused() -> None:
    config = _config(LossConfig())
    trainer = _trainer(config)
    step = FixedStep(
        trainer.drafter,
        trainer.optimizer,
        trainer.target.embedding_VH,
        trainer.target.head_VH,
        shape=StepShape(ROWS, TOKENS, ANCHORS + 1),
        features=lambda: (torch.zeros(0), None),
        loss=LossConfig(),
        backend="sdpa",
    )
    corpus = synthetic_corpus(vocab_size=128, documents=12, length=40, seed=0)
    rows = Schedule(corpus.lengths, capacity=TOKENS, seed=0, place=Place()).rows()
    config = replace(config, anchors=replace(config.anchors, per_row=ANCHORS))
    chosen = list(islice(rows, ROWS))
    batch = assemble(chosen, corpus, config)
    one = torch.ones(())
    with pytest.raises(ConfigError, match="shape"):
        step.load(batch.ids_NS, batch.document_NS, batch.layout, batch.supervision, one)
    wide = replace(config, anchors=replace(config.anchors, per_row=ANCHORS + 1))
    batch = assemble(chosen, corpus, wide)
    compacted = supervise(batch.layout, batch.ids_NS, batch.ids_NS, batch.document_NS)
    with pytest.raises(ConfigError, match="compact=False"):
        step.load(batch.ids_NS, batch.document_NS, batch.layout, compacted, one)


def test_moments_that_are_made_early_change_nothing() -> None:
    results = []
    for early in (False, True):
        trainer = _trainer(_config(LossConfig()))
        optimizer = trainer.optimizer
        if early:
            optimizer.make_moments()
        for parameter in trainer.drafter.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step(1e-2)
        results.append(optimizer.state())
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        assert torch.equal(value, results[1][name]), name
