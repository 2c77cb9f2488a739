"""The settings of a run: what ``run.json`` (or ``.toml``) may say, and what it means.

Paths are relative to the file that names them. What the drafter's published ``config.json`` holds
is for ``trainer.drafter``; this module only says how to make one. No value here is a guess about
the target model: the mask token and the taps are given, or taken by a stated formula and stored.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainer.anchors import AnchorConfig
from trainer.drafter import LayerType
from trainer.errors import ConfigError
from trainer.loss import CHUNK_ROWS, LossConfig
from trainer.reading import build, read_file

SCHEMA = 1


@dataclass(frozen=True)
class RandomTarget:
    """A small Qwen3-style target model with seeded random weights: no file, no download."""

    kind: Literal["random"] = "random"
    vocab_size: int = 128
    hidden_size: int = 64
    intermediate_size: int = 128
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 10000.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "num_hidden_layers", "head_dim"):
            _positive(name, getattr(self, name))
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError("num_key_value_heads: must divide num_attention_heads")


@dataclass(frozen=True)
class SafetensorsTarget:
    """A Hugging Face causal language model in a local directory of safetensors files."""

    path: str
    kind: Literal["safetensors"] = "safetensors"
    dtype: Literal["float32", "bfloat16"] = "bfloat16"


@dataclass(frozen=True)
class GgufTarget:
    """A GGUF file; its weights are dequantised.

    ``path`` is a file, or ``PACKAGE:FILE`` for a file that an installed Python package ships.
    """

    path: str
    kind: Literal["gguf"] = "gguf"
    dtype: Literal["float32", "bfloat16"] = "bfloat16"


@dataclass(frozen=True)
class DrafterSettings:
    """The drafter to train; hidden size, vocabulary and rope base are the target model's.

    ``target_layer_ids`` are the taps, in the published convention (output of the 0-based target
    layer). With ``tap_count`` instead, they are spaced by the published formula and then stored.
    ``layer_types`` has one entry a draft layer; empty means full attention everywhere.
    """

    block_size: int = 8
    num_hidden_layers: int = 2
    target_layer_ids: tuple[int, ...] = ()
    tap_count: int | None = None
    mask_token_id: int | None = None
    intermediate_size: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    layer_types: tuple[LayerType, ...] = ()
    sliding_window: int | None = None
    warm_start: str | None = None

    def __post_init__(self) -> None:
        if self.block_size < 2:  # noqa: PLR2004 - the anchor and at least one token to draft
            raise ConfigError(f"block_size: {self.block_size} is below 2")
        _positive("num_hidden_layers", self.num_hidden_layers)
        if bool(self.target_layer_ids) == (self.tap_count is not None):
            raise ConfigError("target_layer_ids: give these, or tap_count, not both or neither")
        if self.layer_types and len(self.layer_types) != self.num_hidden_layers:
            raise ConfigError(
                f"layer_types: {len(self.layer_types)} entries for {self.num_hidden_layers} layers"
            )
        if "sliding_attention" in self.layer_types and self.sliding_window is None:
            raise ConfigError("sliding_window: missing; layer_types has a sliding layer")


@dataclass(frozen=True)
class SyntheticData:
    """Documents of a seeded synthetic language (``trainer.synthetic``)."""

    kind: Literal["synthetic"] = "synthetic"
    documents: int = 256
    length: int = 64
    seed: int = 0


@dataclass(frozen=True)
class PreparedData:
    """A directory that ``trainer data prepare`` wrote (``trainer.data``)."""

    path: str
    kind: Literal["prepared"] = "prepared"
    evaluation_share: float = 0.02

    def __post_init__(self) -> None:
        if not 0 <= self.evaluation_share < 1:
            raise ConfigError(f"evaluation_share: {self.evaluation_share} is not in [0, 1)")


@dataclass(frozen=True)
class OptimizerSettings:
    """AdamW with fp32 masters, gradient clipping, and the learning rate's schedule.

    Defaults are the DFlash paper's (arXiv 2602.06036) where it states them.
    """

    learning_rate: float = 6e-4
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    schedule: Literal["cosine", "wsd", "constant"] = "cosine"
    warmup_share: float = 0.04
    decay_share: float = 0.2
    final_share: float = 0.0

    def __post_init__(self) -> None:
        _positive("learning_rate", self.learning_rate)
        _positive("clip_norm", self.clip_norm)
        for name in ("warmup_share", "decay_share", "final_share"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ConfigError(f"{name}: {share} is not in [0, 1]")


@dataclass(frozen=True)
class EvaluationSettings:
    """Real decoding on held-out prompts during training; ``every`` 0 means never."""

    every: int = 0
    prompts: int = 8
    new_tokens: int = 64
    temperature: float = 0.0
    divergence_alarm: float = 0.35

    def __post_init__(self) -> None:
        _positive("prompts", self.prompts)
        _positive("new_tokens", self.new_tokens)


@dataclass(frozen=True)
class PipelineSettings:
    """The asynchronous pipeline: which devices read the target model and which train the drafter.

    Attributes:
        targets: A device for each copy of the target model: ``cpu``, ``cuda:0``, or ``auto``.
        drafters: A device for each replica of the drafter; may be a target's.
        pool_bytes: Host memory for features between the two; pinned where there is a GPU.
        min_ready: Documents among which the next is drawn; mixes what is batched by length.
        page_tokens: Tokens of a page of that memory.
        buckets: Lengths that documents are padded to; when empty, powers of two and halves between.
        token_budget: Most tokens, padding included, that a target model reads at once.
        max_batch_size: Most documents that it reads at once.
        window: Documents that are sorted by length before batching.
        copies: Most copies to the host in flight.
        queue: Jobs waiting a target.
        graphs: Replay full batches of a target model as CUDA graphs, where there is a GPU.
        headroom_bytes: Free GPU memory that must be left once the largest batch was read.
        hang_s: Seconds after which a job's target counts as hung and another takes the job.
        attempts: Times that a job is tried.
        stop_s: Seconds within which a stop is answered while a step cannot end.
    """

    targets: tuple[str, ...] = ("auto",)
    drafters: tuple[str, ...] = ("auto",)
    pool_bytes: int = 1 << 30
    min_ready: int = 32
    page_tokens: int = 64
    buckets: tuple[int, ...] = ()
    token_budget: int = 8192
    max_batch_size: int = 64
    window: int = 64
    copies: int = 2
    queue: int = 2
    graphs: bool = True
    headroom_bytes: int = 0
    hang_s: float = 120.0
    attempts: int = 3
    stop_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("targets", "drafters"):
            if not getattr(self, name):
                raise ConfigError(f"{name}: names no device; give 'auto', 'cpu' or 'cuda:0'")
        for name in (
            "pool_bytes", "min_ready", "page_tokens", "token_budget", "max_batch_size", "window",
            "copies", "queue", "hang_s", "attempts", "stop_s",
        ):  # fmt: skip
            _positive(name, getattr(self, name))
        if list(self.buckets) != sorted(set(self.buckets)) or any(
            each < 1 for each in self.buckets
        ):
            raise ConfigError(f"buckets: {list(self.buckets)} are not ascending positive lengths")


@dataclass(frozen=True)
class RunConfig:
    """One run. ``steps`` is the total, also for a run that is resumed."""

    run_id: str
    output_dir: str
    steps: int
    drafter: DrafterSettings
    target: RandomTarget | SafetensorsTarget | GgufTarget = field(default_factory=RandomTarget)
    data: SyntheticData | PreparedData = field(default_factory=SyntheticData)
    anchors: AnchorConfig = field(default_factory=lambda: AnchorConfig(per_row=32))
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    pipeline: PipelineSettings | None = None
    schema: int = SCHEMA
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["auto", "sdpa", "flex", "anchors"] = "auto"
    compile: bool = False
    deterministic: bool = True
    threads: int | None = None
    row_tokens: int = 256
    rows_per_step: int = 1
    rows_per_pass: int = 1
    head_chunk_rows: int = CHUNK_ROWS
    log_every: int = 1
    checkpoint_every: int = 50
    keep_checkpoints: int = 3
    heartbeat_ms: int = 100
    resume: Literal["latest", "never"] = "latest"
    preflight: Literal["required", "skip"] = "required"

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ConfigError(f"schema: {self.schema} is not known; this trainer reads {SCHEMA}")
        if not self.run_id:
            raise ConfigError("run_id: is empty; give the run a name")
        for name in ("steps", "row_tokens", "rows_per_step", "rows_per_pass", "head_chunk_rows"):
            _positive(name, getattr(self, name))
        for name in ("log_every", "checkpoint_every", "keep_checkpoints"):
            _positive(name, getattr(self, name))
        drafters = 1 if self.pipeline is None else len(self.pipeline.drafters)
        if self.compile and self.rows_per_pass * drafters < self.rows_per_step:
            raise ConfigError(
                f"compile: needs all rows of a step in one pass; set rows_per_pass to"
                f" {-(-self.rows_per_step // drafters)}"
            )
        self._check_pipeline()
        if self.row_tokens < self.drafter.block_size:
            raise ConfigError(f"row_tokens: {self.row_tokens} is below drafter.block_size")

    def _check_pipeline(self) -> None:
        if self.pipeline is None:
            return
        passes = -(-self.rows_per_step // self.rows_per_pass)
        drafters = len(self.pipeline.drafters)
        if passes % drafters:
            raise ConfigError(
                f"pipeline.drafters: {drafters} drafters cannot share {passes} passes of a step"
                " alike; change rows_per_step or rows_per_pass"
            )


def read_config(path: Path) -> RunConfig:
    """The run that ``path`` describes, its own paths made absolute.

    Raises:
        ConfigError: naming file, field, value and remedy.
    """
    try:
        config = build(RunConfig, read_file(path))
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(str(path)) else f"{path}: {text}") from error
    return _anchored(config, path.resolve().parent)


def _anchored(config: RunConfig, base: Path) -> RunConfig:
    target = config.target
    if isinstance(target, SafetensorsTarget | GgufTarget) and ":" not in target.path:
        target = dataclasses.replace(target, path=str(base / target.path))
    data = config.data
    if isinstance(data, PreparedData):
        data = dataclasses.replace(data, path=str(base / data.path))
    drafter = config.drafter
    if drafter.warm_start is not None:
        drafter = dataclasses.replace(drafter, warm_start=str(base / drafter.warm_start))
    output_dir = str(base / config.output_dir)
    return dataclasses.replace(
        config, target=target, data=data, drafter=drafter, output_dir=output_dir
    )


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{name}: {value} is not positive")
