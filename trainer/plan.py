"""What a run will cost before it starts: parameters, bytes, operations, seconds.

Counts follow from shapes. Bytes of weights, optimiser, taps and logits are exact; what autograd
keeps is counted tensor by tensor as the drafter is written, and a test holds it to the truth. Time
is counted operations over a speed that is measured here or given, so it is a floor: launches and
small kernels come on top.

Letters: P parameters, S tokens of a row, Q draft rows of a pass, H hidden size, F features,
D head size, V vocabulary.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from trainer.config import RunConfig
from trainer.drafter import DrafterConfig
from trainer.errors import ConfigError
from trainer.kernels.choice import is_fused
from trainer.pipeline.costs import PipelinePlan, StageCosts, plan_pipeline
from trainer.step import DTYPES, drafter_config
from trainer.target import TargetShape

GIB = 1 << 30
_OPTIMISER_BYTES = 28  # read master, two moments and gradient, write all but the gradient, float32
_RESERVE = 0.9  # share of memory to plan for; the rest is fragmentation and the framework's
_BACKWARD_ATTENTION = 2.5  # backward work of attention over its forward
_PROBE = 1024  # side of the matrices whose product is timed


@dataclass(frozen=True)
class Device:
    """What a step has to run on; ``tflops`` of matrix products in the run's precision.

    ``count`` is how many such GPUs a pipeline may be dealt out to; 0 where there is none.
    ``fused`` devices run this package's kernels, which hold less.
    """

    name: str
    memory_bytes: int
    tflops: float
    gigabytes_per_s: float
    count: int = 0
    fused: bool = False


@dataclass(frozen=True)
class Memory:
    """Bytes on the device at the fullest moment of a step, by what holds them."""

    target: int
    drafter: int
    optimizer: int
    gradients: int
    features: int
    activations: int
    masks: int
    head: int

    @property
    def total(self) -> int:
        """All of it."""
        return (
            self.target + self.drafter + self.optimizer + self.gradients
            + self.features + self.activations + self.masks + self.head
        )  # fmt: skip


@dataclass(frozen=True)
class Work:
    """Floating-point operations of one step, forward and backward."""

    target: float
    drafter: float
    head: float
    attention: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.target + self.drafter + self.head + self.attention


@dataclass(frozen=True)
class Plan:
    """A run's cost as configured, and batch sizes that fit the memory.

    With a pipeline, time and fitting are its devices'; ``memory`` still says what one device needs
    for everything.
    """

    drafter_parameters: int
    target_parameters: int
    memory: Memory
    memory_total: int
    memory_available: int
    fits: bool
    work: Work
    seconds_per_step: float
    seconds: float
    tokens_per_s: float
    checkpoint_bytes: int
    rows_per_pass: int
    anchors_per_row: int
    pipeline: PipelinePlan | None = None


def drafter_parameters(shape: DrafterConfig) -> int:
    """P of the drafter: 11 tensors a layer, and 3.

    >>> qwen3_8b = DrafterConfig(4096, 12288, 32, 8, 128, 151936, 36, (1, 9, 17, 25, 33), 151669)
    >>> drafter_parameters(qwen3_8b)
    1048626432
    """
    hidden, heads = shape.hidden_size, shape.num_attention_heads * shape.head_dim
    kv = shape.num_key_value_heads * shape.head_dim
    layer = 2 * hidden * heads + 2 * hidden * kv + 3 * hidden * shape.intermediate_size
    norms = 2 * hidden + 2 * shape.head_dim
    return shape.num_hidden_layers * (layer + norms) + shape.tap_width * hidden + 2 * hidden


def target_parameters(shape: TargetShape, *, ties_head: bool) -> int:
    """P of a dense target model of this shape; its few norms and biases are left out."""
    hidden, heads = shape.hidden_size, shape.num_attention_heads * shape.head_dim
    kv = shape.num_key_value_heads * shape.head_dim
    layer = 2 * hidden * heads + 2 * hidden * kv + 3 * hidden * shape.intermediate_size
    tables = shape.vocab_size * hidden * (1 if ties_head else 2)
    return shape.num_hidden_layers * layer + tables


def make_plan(
    config: RunConfig, target: TargetShape, device: Device, *, ties_head: bool, is_random: bool
) -> Plan:
    """The cost of ``config``, and the largest pass and anchor count that the device holds."""
    shape = drafter_config(config.drafter, target, is_random=is_random)
    parameters = drafter_parameters(shape)
    weights = target_parameters(target, ties_head=ties_head)
    memory = predict_memory(config, shape, target, weights, fused=device.fused)
    work = predict_work(config, shape, target, weights)
    step_s = work.total / (device.tflops * 1e12) + _traffic_s(shape, device)
    rows, anchors = _largest(config, shape, target, weights, device)
    tokens = config.row_tokens * config.rows_per_step
    apart = _apart(config, shape, target, weights, device)
    if apart is not None:
        step_s = apart.seconds_per_step
    return Plan(
        drafter_parameters=parameters,
        target_parameters=weights,
        memory=memory,
        memory_total=memory.total,
        memory_available=device.memory_bytes,
        fits=_fits(config, shape, target, weights, device),
        work=work,
        seconds_per_step=step_s,
        seconds=step_s * config.steps,
        tokens_per_s=tokens / step_s,
        checkpoint_bytes=12 * parameters,
        rows_per_pass=rows,
        anchors_per_row=anchors,
        pipeline=apart,
    )


def predict_memory(
    config: RunConfig, shape: DrafterConfig, target: TargetShape, weights: int,
    *, fused: bool = False,
) -> Memory:  # fmt: skip
    """Bytes at the fullest moment: the first backward pass after the first optimiser step.

    Fused kernels write a chunk's gradient over its logits, and step by gradients as they are.
    """
    wide = DTYPES[config.precision].itemsize
    table = _target_itemsize(config)
    parameters = drafter_parameters(shape)
    tokens = config.rows_per_pass * config.row_tokens
    has_copy = wide != torch.float32.itemsize
    rows = config.rows_per_pass * config.anchors.per_row * (shape.block_size - 1)
    chunk = min(rows, config.head_chunk_rows)
    taught = config.loss.needs_teacher
    # Logits, their float32 copy, and the gradient in both; or logits alone, and the teacher's.
    logits = chunk * shape.vocab_size * (wide * (1 + taught) if fused else 2 * wide + 8)
    return Memory(
        target=weights * table,
        drafter=parameters * wide,
        optimizer=parameters * (8 + (4 if has_copy else 0)),
        gradients=parameters * (wide + (4 if has_copy and not fused else 0)),
        features=tokens * (shape.tap_width + (target.hidden_size if taught else 0)) * table
        + (tokens * shape.tap_width * wide if wide != table else 0),
        activations=(kept_by_kernels if fused else kept_for_backward)(config, shape),
        masks=_mask_bytes(config, shape, fused=fused),
        head=logits + 3 * rows * shape.hidden_size * wide,
    )


def _apart(
    config: RunConfig, shape: DrafterConfig, target: TargetShape, weights: int, device: Device
) -> PipelinePlan | None:
    """The run's pipeline on such devices; None without one."""
    if config.pipeline is None:
        return None
    memory = predict_memory(config, shape, target, weights, fused=device.fused)
    work = predict_work(config, shape, target, weights)
    table = _target_itemsize(config)
    width = shape.tap_width + (target.hidden_size if config.loss.needs_teacher else 0)
    costs = StageCosts(
        target_bytes=memory.target,
        table_bytes=2 * target.vocab_size * target.hidden_size * table,
        drafter_bytes=memory.total - memory.target - memory.features,
        gradient_bytes=memory.gradients,
        feature_bytes=width * table,
        target_s=work.target / (device.tflops * 1e12),
        draft_s=(work.total - work.target) / (device.tflops * 1e12),
        optimizer_s=_traffic_s(shape, device),
        memory_bytes=_RESERVE * device.memory_bytes,
    )
    return plan_pipeline(config, costs, gpus=device.count)


def _fits(
    config: RunConfig, shape: DrafterConfig, target: TargetShape, weights: int, device: Device
) -> bool:
    """Whether the device holds everything, or each of a pipeline's devices its part."""
    apart = _apart(config, shape, target, weights, device)
    if apart is not None:
        return all(each.fits for each in apart.devices)
    needed = predict_memory(config, shape, target, weights, fused=device.fused).total
    return needed <= _RESERVE * device.memory_bytes


def _traffic_s(shape: DrafterConfig, device: Device) -> float:
    """Seconds of the optimiser's step, which only moves bytes."""
    return _OPTIMISER_BYTES * drafter_parameters(shape) / (device.gigabytes_per_s * 1e9)


def kept_for_backward(config: RunConfig, shape: DrafterConfig) -> int:
    """Bytes that autograd keeps between a pass's forward and backward.

    Counted as ``trainer.drafter`` computes: a norm keeps its input and the scaled form in
    float32; a product keeps its input; rotary keeps its angles; attention keeps query, keys,
    values and result, and without flex attention its mask as numbers, once a layer.
    """
    wide = DTYPES[config.precision].itemsize
    rows = config.rows_per_pass
    draft = rows * config.anchors.per_row * shape.block_size
    context = rows * config.row_tokens
    both = draft + context
    hidden, head = shape.hidden_size, shape.head_dim
    heads, kv = shape.num_attention_heads * head, shape.num_key_value_heads * head

    def norm(count: int, size: int) -> int:
        return 8 * count * size + 4 * count

    layer = (
        2 * norm(draft, hidden)
        + norm(draft * shape.num_attention_heads, head)
        + norm(both * shape.num_key_value_heads, head)
        + wide * (2 * draft * hidden + both * hidden)  # inputs of q, of gate and up; of k and v
        + wide * (draft * heads * 3 + both * kv * 2)  # query, result twice, keys, values
        + wide * draft * shape.intermediate_size * 4  # gate, its activation, up, their product
    )
    if _is_dense(config, fused=False):
        layer += wide * draft * (config.row_tokens + draft // rows)
    fused = norm(context, hidden) + wide * both * head * 2
    return shape.num_hidden_layers * layer + fused + norm(draft, hidden)


def kept_by_kernels(config: RunConfig, shape: DrafterConfig) -> int:
    """The same where kernels are fused: what each of them keeps for its backward pass.

    A norm keeps its input, which is the residual stream; projections keep their common input;
    heads are kept before and after they turn; the feed-forward keeps its input, gate and up.
    """
    wide = DTYPES[config.precision].itemsize
    rows = config.rows_per_pass
    draft = rows * config.anchors.per_row * shape.block_size
    both = draft + rows * config.row_tokens
    hidden, head = shape.hidden_size, shape.head_dim
    heads, kv = shape.num_attention_heads * head, shape.num_key_value_heads * head
    layer = wide * (
        draft * (3 * hidden + 3 * heads + 2 * shape.intermediate_size)
        + both * (hidden + 3 * kv)
    ) + 4 * draft * shape.num_attention_heads  # fmt: skip
    ends = wide * (2 * both * hidden + 2 * both * head)
    return shape.num_hidden_layers * layer + ends


def predict_work(
    config: RunConfig, shape: DrafterConfig, target: TargetShape, weights: int
) -> Work:
    """Operations of one step; the frozen head needs no weight gradient, the taps none at all."""
    tokens = config.rows_per_step * config.row_tokens
    draft = config.rows_per_step * config.anchors.per_row * shape.block_size
    tables = target.vocab_size * target.hidden_size
    body = max(0, weights - tables)  # neither the embedding's look-up nor the head is computed
    hidden, head = shape.hidden_size, shape.head_dim
    heads, kv = shape.num_attention_heads * head, shape.num_key_value_heads * head
    block = 2 * hidden * heads + 2 * hidden * kv + 3 * hidden * shape.intermediate_size
    linears = 6 * draft * block * shape.num_hidden_layers
    context = 6 * tokens * 2 * hidden * kv * shape.num_hidden_layers
    fusion = 4 * tokens * shape.tap_width * hidden
    # Half the row stands before an anchor on average; its own block comes on top.
    keys = config.row_tokens / 2 + shape.block_size
    pairs = draft * keys * heads * shape.num_hidden_layers
    own = target.num_hidden_layers * target.num_attention_heads * target.head_dim
    return Work(
        target=2.0 * body * tokens + 2.0 * tokens * config.row_tokens * own,
        drafter=float(linears + context + fusion),
        head=4.0 * draft * (shape.block_size - 1) / shape.block_size * tables,
        attention=4.0 * pairs * (1 + _BACKWARD_ATTENTION),
    )


def measure_device(device: torch.device, precision: torch.dtype) -> Device:
    """Memory, speed of a matrix product, and of a copy, measured in well under a second."""
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        name, memory = facts.name, int(facts.total_memory)
        side = 8 * _PROBE
    else:
        name, memory, side = "cpu", _system_memory(), _PROBE
    left = torch.randn(side, side, device=device, dtype=precision)
    product_s = _fastest(lambda: left @ left, device)
    copy_s = _fastest(left.clone, device)
    return Device(
        name=name,
        memory_bytes=memory,
        tflops=2 * side**3 / product_s / 1e12,
        gigabytes_per_s=2 * left.numel() * left.itemsize / copy_s / 1e9,
        count=torch.cuda.device_count() if device.type == "cuda" else 0,
        fused=is_fused(device.type),
    )


def _largest(
    config: RunConfig, shape: DrafterConfig, target: TargetShape, weights: int, device: Device
) -> tuple[int, int]:
    """The most anchors a row, then rows a pass, that fit; powers of two and halves between."""
    best: tuple[int, int] | None = None
    for rows in (config.rows_per_step, *range(config.rows_per_step - 1, 0, -1)):
        if config.rows_per_step % rows:
            continue
        for anchors in (1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 8, 4):
            if anchors > config.row_tokens:
                continue
            tried = replace(
                config, rows_per_pass=rows, anchors=replace(config.anchors, per_row=anchors)
            )
            fits = _fits(tried, shape, target, weights, device)
            if fits and (best is None or anchors > best[1]):
                best = (rows, anchors)
                break
    if best is None:
        raise ConfigError(
            f"row_tokens: {config.row_tokens} do not fit {device.memory_bytes / GIB:.1f} GiB"
            " with this target model, whatever the batch; use a smaller one"
        )
    return best


def _is_dense(config: RunConfig, *, fused: bool) -> bool:
    """Whether attention holds masks of numbers; the kernels' and flex attention's hold tiles."""
    return config.attention == "sdpa" or (config.attention == "auto" and not fused)


def _mask_bytes(config: RunConfig, shape: DrafterConfig, *, fused: bool) -> int:
    """Dense masks of the SDPA path: one a rule, and one more with empty rows opened."""
    if not _is_dense(config, fused=fused):
        return 0
    draft = config.anchors.per_row * shape.block_size
    keys = config.row_tokens + draft
    return 2 * len(set(shape.mask_rules)) * config.rows_per_pass * draft * keys


def _target_itemsize(config: RunConfig) -> int:
    return DTYPES[getattr(config.target, "dtype", "float32")].itemsize


def _system_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of a few calls, after one to warm up."""
    times: list[float] = []
    for _ in range(4):
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return max(min(times[1:]), 1e-9)
