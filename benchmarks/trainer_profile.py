"""Where a training step's time goes on a GPU: python -m benchmarks.trainer_profile [PART ...].

Parts: attention (own kernels with several tiles, flex attention), sdpa (the target's attention by
library), steps (kernel times of the drafter's step by kind), target, end. About a minute in all;
JSON lines go to $OUT/trainer_h200.jsonl.
"""

import collections
import re
import sys
import traceback
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

import benchmarks.trainer_ours as ours
import benchmarks.trainer_shapes as common
from trainer.attention import Attend, flex_attend
from trainer.kernels.anchors import Tiles, tile_mask
from trainer.kernels.anchors_backward import attend
from trainer.kernels.target import FusedReader
from trainer.mask import Layout, MaskRule, flex_block_mask

KINDS = (
    ("attention", r"^_forward|_rows_backward|_keys_backward|flex|flash|fmha|sdpa"),
    ("loss", r"^_statistics|^_gradient|^_compared"),
    ("norms, rope, gate", r"_norm|_gate"),
    ("optimizer", r"_adamw|multi_tensor|lpnorm"),
    ("products", r"nvjet|gemm|cutlass|xmma|splitK"),
    ("copies", r"[Mm]emcpy|[Mm]emset"),
)
TILES = (
    Tiles(),
    Tiles(128, 64, 64, 128, stages=(3, 2, 2)),
    Tiles(128, 64, 64, 64, warps=(8, 8, 4), stages=(2, 3, 2)),
    Tiles(128, 128, 64, 64, warps=(8, 8, 8), stages=(2, 2, 3)),
    Tiles(64, 64, 32, 128, warps=(4, 4, 8), stages=(3, 3, 3)),
    Tiles(128, 32, 32, 64, warps=(8, 8, 4), stages=(4, 4, 3)),
)


def attention(name: str) -> None:
    """Forward and backward of one layer's attention, in each way."""
    shape = common.SHAPES[name]
    made = ours.Ours(shape, "cross_entropy", compiled=True, attention="anchors")
    layout = made.batch().layout
    layout = Layout(
        layout.anchor.cuda(), layout.first.cuda(), layout.valid.cuda(), layout.context,
        layout.block_size,
    )  # fmt: skip
    del made
    query, key, value = (
        torch.randn(1, length, heads, shape.head_dim, device="cuda", dtype=torch.bfloat16)
        .transpose(1, 2).requires_grad_()
        for heads, length in (
            (shape.heads, layout.rows), (shape.groups, layout.keys), (shape.groups, layout.keys)
        )
    )  # fmt: skip
    slope = torch.randn_like(query)
    ways: dict[str, Attend] = {}
    for tiles in TILES:
        mask = tile_mask(layout, MaskRule(), tiles)
        ways[str(tiles)] = partial(attend, mask=mask)
    block_mask = flex_block_mask(layout, MaskRule())
    ways["flex"] = flex_attend(block_mask)
    for way, run in ways.items():
        try:

            def step(mark: common.Mark, run: Attend = run) -> None:
                mixed = run(query, key, value)
                mark("forward")
                torch.autograd.grad(mixed, (query, key, value), slope)
                mark("backward")

            common.emit(kind="attention", shape=name, way=way, ms=common.timed(step, steps=8))
        except Exception as error:  # noqa: BLE001 - a way that does not compile is a result
            common.emit(kind="attention", shape=name, way=way, error=repr(error)[:300])
    common.emit(kind="mask", shape=name, ms=common.timed(
        lambda _: tile_mask(layout, MaskRule(), TILES[0]), steps=8))  # fmt: skip


def sdpa(name: str) -> None:
    """The target's causal attention, by library."""
    shape = common.SHAPES[name]
    merged = torch.randn(
        common.DOCUMENTS, common.LENGTH, shape.heads + 2 * shape.groups, shape.head_dim,
        device="cuda", dtype=torch.bfloat16,
    )  # fmt: skip
    heads, groups = shape.heads, shape.groups
    merged = merged.transpose(1, 2)
    query, key = merged[:, :heads], merged[:, heads : heads + groups]
    value = merged[:, heads + groups :]
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        try:
            with sdpa_kernel(backend):
                found = common.timed(
                    lambda _: functional.scaled_dot_product_attention(
                        query, key, value, is_causal=True, enable_gqa=True
                    )
                )
            common.emit(kind="sdpa", shape=name, way=backend.name, ms=found)
        except RuntimeError as error:
            common.emit(kind="sdpa", shape=name, way=backend.name, error=repr(error)[:200])


def steps(name: str, *, captured: bool) -> None:
    """Kernel times of three steps by kind, and the time in which none ran."""
    shape = common.SHAPES[name]
    common.clean()
    if captured:
        model = ours.hugging_face(shape)
        replayed = ours.OursCaptured(shape, "cross_entropy", FusedReader(model, model.config))

        def run() -> None:
            replayed.replay(lambda _: None)

    else:
        plain = ours.Ours(shape, "cross_entropy", compiled=False, attention=None)
        ready = plain.states()

        def run() -> None:
            plain.step(ready[plain.turn % ours.SETS], lambda _: None)

    for _ in range(4):
        run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(3):
            run()
        torch.cuda.synchronize()
    kernels = [each for each in seen.events() if each.device_type.name == "CUDA"]
    spans = sorted((each.time_range.start, each.time_range.end, each.name) for each in kernels)
    total: collections.Counter[str] = collections.Counter()
    times: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for start, end, kernel in spans:
        found = (kind for kind, pattern in KINDS if re.search(pattern, kernel))
        total[next(found, "other")] += (end - start) / 3e3
        times[kernel[:90]] += (end - start) / 3e3
        counts[kernel[:90]] += 1
    span = (max(end for _, end, _ in spans) - spans[0][0]) / 3e3
    common.emit(
        kind="profile", shape=name, captured=captured, span_ms=round(span, 2),
        idle_ms=round(span - sum(total.values()), 2), kernels=len(spans) // 3,
        ms={kind: round(ms, 2) for kind, ms in total.most_common()},
    )  # fmt: skip
    for kernel, ms in times.most_common(22):
        common.say(f"  {ms:8.3f} ms x{counts[kernel] / 3:6.1f}  {kernel}")


def _each(*calls: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for call in calls:
            call()

    return run


LARGE, SMALL = "qwen3-8b", "smollm2-135m"
PARTS: dict[str, Callable[[], None]] = {
    "drafter": _each(
        partial(ours.measure_drafter, LARGE, "cross_entropy"),
        partial(ours.measure_drafter, LARGE, "teacher_argmax"),
    ),
    "steps": partial(steps, LARGE, captured=False),
    "small": _each(
        partial(ours.measure_captured, SMALL, "cross_entropy", reads=True),
        partial(ours.measure_captured, SMALL, "cross_entropy", reads=False),
        partial(steps, SMALL, captured=True),
    ),
    "target": _each(
        partial(ours.measure_target, LARGE, itself=False), partial(ours.measure_target, SMALL)
    ),
    "sdpa": _each(partial(sdpa, LARGE), partial(sdpa, SMALL)),
    "end": partial(ours.measure_end_to_end, LARGE, "cross_entropy"),
    "attention": _each(partial(attention, LARGE), partial(attention, SMALL)),
}


def main() -> int:
    """Run the named parts, or all; a part that fails is told and the next begins."""
    failed = 0
    for part in sys.argv[1:] or PARTS:
        common.say("part", part)
        try:
            PARTS[part]()
        except Exception:  # noqa: BLE001 - the other parts are worth their time
            failed += 1
            traceback.print_exc()
        common.clean()
    return failed


if __name__ == "__main__":
    sys.exit(main())
