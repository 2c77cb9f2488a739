"""Where a training step's time goes on a GPU: python -m benchmarks.trainer_profile [PART ...].

Parts: drafter (the step at the large shape), steps (its kernel times by kind), small (the small
shape as one graph), target, end (target and drafter), sdpa (the target's attention by library),
flex (own attention against flex attention), tiles (each attention kernel with several tiles).
Each takes seconds; JSON lines go to $OUT/trainer_h200.jsonl. The parts compile-large and
compile-small only fill Triton's cache for tiles, each process its SHARD (0 to 3) of them.
"""

import collections
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import triton.errors
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

import benchmarks.trainer_ours as ours
import benchmarks.trainer_shapes as common
from trainer.attention import Attend, flex_attend
from trainer.kernels.anchors import Tile, TileMask, Tiles, attend_forward, tile_mask, tiles_for
from trainer.kernels.anchors_backward import attend, keys_backward, rows_backward
from trainer.kernels.target import FusedReader
from trainer.mask import MaskRule, flex_block_mask

KINDS = (
    ("attention", r"^_forward|_rows_backward|_keys_backward|flex|flash|fmha|sdpa"),
    ("loss", r"^_statistics|^_gradient|^_compared"),
    ("norms, rope, gate", r"_norm|_gate"),
    ("optimizer", r"_adamw|multi_tensor|lpnorm"),
    ("products", r"nvjet|gemm|cutlass|xmma|splitK"),
    ("copies", r"[Mm]emcpy|[Mm]emset"),
)
# What a device or a compiler may say to a shape; everything else is a mistake of ours.
FAILURES = (RuntimeError, triton.errors.TritonError)
_SHARDS = 4
TILES = {
    "forward": (
        Tile(128, 64, 8, 3), Tile(64, 64, 4, 3), Tile(64, 64, 4, 2), Tile(64, 128, 4, 2),
        Tile(128, 64, 8, 2), Tile(64, 32, 4, 4),
    ),
    "rows": (
        Tile(128, 64, 8, 2), Tile(128, 64, 8, 3), Tile(128, 32, 8, 4), Tile(64, 64, 4, 2),
        Tile(64, 64, 4, 3), Tile(64, 32, 4, 3),
    ),
    "keys": (
        Tile(32, 128, 8, 2), Tile(64, 128, 8, 2), Tile(64, 64, 4, 2), Tile(32, 64, 4, 2),
        Tile(32, 64, 4, 3), Tile(64, 64, 8, 2), Tile(64, 64, 4, 3), Tile(64, 128, 8, 1),
    ),
}  # fmt: skip


class Attention:
    """One layer's attention in the benchmark's layout."""

    def __init__(self, name: str) -> None:
        self.name, shape = name, common.SHAPES[name]
        # Where blocks stand does not depend on the model.
        made = ours.Ours(common.SHAPES["tiny"], "cross_entropy", compiled=True, attention="anchors")
        self.layout = made.batch().layout.to(common.DEVICE)
        rows, keys = self.layout.rows, self.layout.keys
        self.query, self.key, self.value = (
            torch.randn(1, length, heads, shape.head_dim, device="cuda", dtype=torch.bfloat16)
            .transpose(1, 2).requires_grad_()
            for heads, length in ((shape.heads, rows), (shape.groups, keys), (shape.groups, keys))
        )  # fmt: skip
        self.slope = torch.randn_like(self.query)
        self.usual = tiles_for(self.query, self.key)
        with torch.no_grad():
            self.out, self.log_sum = self.forward(self.mask(self.usual))
            self.inner = torch.empty_like(self.log_sum)
            self.rows(self.mask(self.usual))

    def mask(self, tiles: Tiles) -> TileMask:
        """The layout's mask in these tiles."""
        return tile_mask(self.layout, MaskRule(), tiles)

    def forward(self, mask: TileMask) -> tuple[Tensor, Tensor]:
        """Results and log-sums."""
        return attend_forward(self.query, self.key, self.value, mask)

    def rows(self, mask: TileMask) -> Tensor:
        """The queries' gradient."""
        return rows_backward(
            self.query, self.key, self.value, self.slope, self.out, self.log_sum, self.inner, mask
        )

    def keys(self, mask: TileMask) -> tuple[Tensor, Tensor]:
        """The keys' and values' gradients."""
        return keys_backward(
            self.query, self.key, self.value, self.slope, self.log_sum, self.inner, mask
        )

    def told(self, way: str, run: Callable[[common.Mark], object], *, quick: bool) -> None:
        """Time a way and say so; one that does not compile is a result, too."""
        try:
            steps, warm_up = (2, 0) if quick else (8, 3)
            found = common.timed(run, steps=steps, warm_up=warm_up)
        except FAILURES as error:
            common.emit(kind="attention", shape=self.name, way=way, error=repr(error)[:300])
            return
        if not quick:
            common.say(f"{found['step']['median']:8.3f} ms  {self.name} {way}")
            common.emit(kind="attention", shape=self.name, way=way, ms=found)


@torch.no_grad()
def tiles(name: str, *, quick: bool = False) -> None:
    """Each attention kernel with several tiles.

    With ``quick`` each runs twice, so that several processes can compile side by side.
    """
    made, shard = Attention(name), os.environ.get("SHARD")
    split = " split" if made.usual.splits else ""
    runs: dict[str, Callable[[TileMask], object]] = {
        "forward": made.forward, "rows": made.rows, "keys": made.keys
    }  # fmt: skip
    for kernel, some in TILES.items():
        for number, tile in enumerate(some):
            if shard is None or number % _SHARDS == int(shard):
                chosen: Any = {kernel: tile}
                mask = made.mask(replace(made.usual, **chosen))
                run = partial(_with, runs[kernel], mask)
                made.told(f"{kernel} {tile}{split}", run, quick=quick)
    made.told("mask", lambda _: made.mask(made.usual), quick=quick)


def _with(run: Callable[[TileMask], object], mask: TileMask, _: common.Mark) -> object:
    return run(mask)


def against_flex(name: str) -> None:
    """Forward and backward of own kernels and of flex attention."""
    made = Attention(name)
    ways: dict[str, Attend] = {
        "anchors": partial(attend, mask=made.mask(made.usual)),
        "flex": flex_attend(flex_block_mask(made.layout, MaskRule())),
    }
    inputs = made.query, made.key, made.value
    for way, run in ways.items():

        def step(mark: common.Mark, run: Attend = run) -> None:
            mixed = run(*inputs)
            mark("forward")
            torch.autograd.grad(mixed, inputs, made.slope)
            mark("backward")

        made.told(way, step, quick=False)


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
    "flex": _each(partial(against_flex, LARGE), partial(against_flex, SMALL)),
    "tiles": _each(partial(tiles, LARGE), partial(tiles, SMALL)),
    "compile-large": partial(tiles, LARGE, quick=True),
    "compile-small": partial(tiles, SMALL, quick=True),
}


def main() -> int:
    """Run the named parts, or all; a part that fails is told and the next begins."""
    failed = 0
    for part in sys.argv[1:] or [name for name in PARTS if not name.startswith("compile")]:
        common.say("part", part)
        try:
            PARTS[part]()
        except FAILURES:
            failed += 1
            traceback.print_exc()
        common.clean()
    return failed


if __name__ == "__main__":
    sys.exit(main())
