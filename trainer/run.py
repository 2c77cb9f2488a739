"""A run opened from its settings: device, target model, data, drafter, checkpoint.

Training, evaluation, generation and export all begin here, so they cannot disagree on what the
settings mean. What they then do is theirs.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.chat import load_format
from trainer.checkpoint import BEST, LATEST, Checkpoint, CheckpointStore, load
from trainer.config import PreparedData, RandomTarget, RunConfig, SyntheticData
from trainer.corpus import Corpus
from trainer.data import load_prepared, split
from trainer.devices import devices_of
from trainer.drafter import Drafter, DrafterConfig
from trainer.errors import CheckpointError, ConfigError
from trainer.export import CONFIG as PUBLISHED
from trainer.export import read_published
from trainer.kernels.choice import is_fused
from trainer.loading import load_backbone
from trainer.preflight import PreflightReport, Subject, preflight
from trainer.reading import Json, build
from trainer.step import DTYPES, Trainer, attention_backend, drafter_config
from trainer.synthetic import synthetic_corpus
from trainer.target import Backbone, Target

_HELD_OUT_SYNTHETIC = 64


@dataclass(frozen=True)
class RunData:
    """Documents to train on and held-out ones; ``manifest`` is empty for synthetic data."""

    training: Corpus
    held_out: Corpus
    stop_ids: frozenset[int]
    manifest: dict[str, Json]


@dataclass(frozen=True)
class Opened:
    """A run's parts before the first step."""

    config: RunConfig
    device: torch.device
    backbone: Backbone
    shape: DrafterConfig
    data: RunData

    def target(self) -> Target:
        """The target model, tapped as the drafter wants."""
        return Target(self.backbone, self.shape.target_layer_ids)

    def target_on(self, device: torch.device) -> Target:
        """Another copy of the target model."""
        backbone = load_backbone(self.config.target, device)
        return Target(backbone, self.shape.target_layer_ids)

    def kernels(self) -> dict[str, Json]:
        """What computes each part of a step here: a fused kernel, or why plain torch does."""
        usual = "fused" if is_fused(self.device.type) else "eager"
        reader = self.backbone.reader()
        return {
            "attention": attention_backend(self.config, self.shape.head_dim, self.device),
            "layers": usual,
            "loss": usual,
            "optimizer": usual,
            "target": reader if isinstance(reader, str) else usual,
        }

    def trainer(self) -> Trainer:
        """A fresh drafter, or a published one to start from, ready to train."""
        drafter = Drafter(self.shape)
        drafter.initialise(self.config.seed)
        if self.config.drafter.warm_start is not None:
            self._fill(drafter, Path(self.config.drafter.warm_start))
        drafter = drafter.to(self.device, DTYPES[self.config.precision])
        return Trainer(self.config, self.target(), drafter, self.device)

    def preflight(self) -> PreflightReport:
        """Examine the target model with this drafter and this data."""
        manifest, options = self.data.manifest, self.data.manifest.get("template_options")
        rendered = manifest.get("chat_format")
        is_random = isinstance(self.config.target, RandomTarget)
        theirs = None
        if isinstance(rendered, str) and not is_random:
            chat = load_format(self.config.target, options if isinstance(options, dict) else {})
            theirs = chat.digest
        return preflight(
            Subject(
                backbone=self.backbone,
                shape=self.shape,
                corpus=self.data.training,
                stop_ids=self.data.stop_ids,
                data_chat_format=rendered if isinstance(rendered, str) else None,
                target_chat_format=theirs,
                predicts=not is_random,
                device=self.device,
            )
        )

    def trained(self, which: str) -> tuple[Trainer, Path]:
        """A trained drafter and where it was found.

        Args:
            which: ``latest``, ``best``, a checkpoint's directory, or a published drafter's.

        Raises:
            CheckpointError: there is none, or it is another drafter's.
        """
        trainer = self.trainer()
        if (Path(which) / PUBLISHED).is_file():
            self._fill(trainer.drafter, Path(which))
            return trainer, Path(which)
        found = find_checkpoint(self.config, which)
        if build(DrafterConfig, found.state["drafter"]) != self.shape:
            raise CheckpointError(f"{found.path}: its drafter is not the one of these settings")
        trainer.optimizer.load(found.tensors)
        return trainer, found.path

    def _fill(self, drafter: Drafter, directory: Path) -> None:
        """Take the weights of a published drafter that has this run's shape."""
        published = read_published(directory)
        if published.config != self.shape:
            raise CheckpointError(
                f"{directory}: its drafter is not the one of these settings"
                f" ({published.config} there, {self.shape} here)"
            )
        drafter.load_state_dict(published.state_dict())


def open_run(config: RunConfig) -> Opened:
    """Load what the settings name.

    Raises:
        ConfigError, DataError, TargetError: naming what cannot be used.
    """
    device = _device(config)
    backbone = load_backbone(config.target, device)
    is_random = isinstance(config.target, RandomTarget)
    shape = drafter_config(config.drafter, backbone.shape, is_random=is_random)
    return Opened(config, device, backbone, shape, load_data(config, backbone.shape.vocab_size))


def load_data(config: RunConfig, vocab_size: int) -> RunData:
    """The run's documents."""
    data = config.data
    if isinstance(data, PreparedData):
        corpus, manifest = load_prepared(Path(data.path))
        training, held_out = split(corpus, data.evaluation_share)
        stop = manifest.get("stop_ids")
        ids = stop if isinstance(stop, list) else []
        return RunData(
            training, held_out, frozenset(i for i in ids if isinstance(i, int)), manifest
        )
    return RunData(
        training=_synthetic(data, vocab_size, data.documents, 0),
        held_out=_synthetic(data, vocab_size, _HELD_OUT_SYNTHETIC, data.documents),
        stop_ids=frozenset(),
        manifest={},
    )


def checkpoints(config: RunConfig) -> CheckpointStore:
    """Where the run keeps its checkpoints."""
    return CheckpointStore(Path(config.output_dir) / "checkpoints", keep=config.keep_checkpoints)


def find_checkpoint(config: RunConfig, which: str) -> Checkpoint:
    """``latest``, ``best``, or a checkpoint's directory.

    Raises:
        CheckpointError: there is none.
    """
    directory = Path(config.output_dir) / "checkpoints"
    if which == LATEST:
        found = checkpoints(config).load_newest()
        if found is None:
            raise CheckpointError(f"{directory}: no checkpoint; train first")
        return found
    if which != BEST:
        return load(Path(which))
    pointer = directory / BEST
    if not pointer.is_file():
        raise CheckpointError(f"{pointer}: no checkpoint is called best yet; use 'latest'")
    return load(directory / pointer.read_text(encoding="utf-8").strip())


def _synthetic(data: SyntheticData, vocab_size: int, documents: int, first: int) -> Corpus:
    return synthetic_corpus(
        vocab_size=vocab_size,
        documents=documents,
        length=data.length,
        seed=data.seed,
        first=first,
    )


def _device(config: RunConfig) -> torch.device:
    if config.pipeline is not None:
        return devices_of(config).targets[0]
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: 'cuda' asked for, but torch finds no GPU here; use 'auto'")
    if config.device != "auto":
        return torch.device(config.device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
