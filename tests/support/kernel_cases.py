"""What the fused layer kernels must do, on any device: run by Triton's interpreter and on a GPU.

Every case runs the eager twin and the fused form on the same draws and compares results and
gradients by their distance over the twin's norm. Run as a script, it checks every case on the CPU;
TRITON_INTERPRET=1 must be set from the start. The interpreter has no bfloat16 products, so
attention runs in float32 there.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from trainer.attention import eager_attend
from trainer.config import OptimizerSettings
from trainer.kernels.adamw import FusedAdamW
from trainer.kernels.anchors import Tile, Tiles, tile_mask
from trainer.kernels.anchors_backward import attend
from trainer.kernels.descent import EagerAdamW
from trainer.kernels.layers import FusedLayerMath
from trainer.kernels.pointwise import EagerLayerMath
from trainer.mask import Layout, MaskRule, dense_mask

Function = Callable[..., Tensor | tuple[Tensor, ...]]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1.5e-2}
RULES = (MaskRule(), MaskRule(causal=True), MaskRule(window=12), MaskRule(causal=True, window=20))
SMALL = Tiles(Tile(16, 32, 4, 2), Tile(32, 16, 4, 2), Tile(16, 32, 4, 2))
SPLIT = replace(SMALL, splits=True)


def results(function: Function, draws: Sequence[Tensor]) -> list[Tensor]:
    """Outputs, then the inputs' gradients under fixed random upstream gradients."""
    inputs = [draw.clone().requires_grad_() for draw in draws]
    found = function(*inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    chosen = torch.Generator(draws[0].device).manual_seed(7)
    loss = torch.zeros((), device=draws[0].device)
    for output in outputs:
        weight = torch.randn(output.shape, generator=chosen, device=output.device)
        loss = loss + (output.float() * weight).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    slopes = [each.grad for each in inputs]
    assert all(slope is not None for slope in slopes)
    return [*(output.detach() for output in outputs), *(s for s in slopes if s is not None)]


def check_same(eager: Function, fused: Function, draws: Sequence[Tensor]) -> None:
    """Both give the same results and gradients, of the same dtypes, all finite."""
    tolerance = TOLERANCE[draws[0].dtype]
    for place, (ours, theirs) in enumerate(
        zip(results(fused, draws), results(eager, draws), strict=True)
    ):
        assert ours.dtype == theirs.dtype
        assert bool(ours.isfinite().all())
        distance = float((ours.float() - theirs.float()).norm() / theirs.float().norm())
        assert distance < tolerance, f"result {place}: {distance}"


def packed_layout(block: int, device: torch.device) -> Layout:
    """Two rows of two documents, 63 tokens; some blocks not valid, the last run over the end.

    In the second row, tiles of rows reach from one document into the next.
    """
    draw = torch.Generator().manual_seed(block)
    anchor = torch.randint(1, 63, (2, 6), generator=draw)
    anchor[0, :2] = torch.tensor([0, 40])  # a document's first token sees no context
    anchor[1] = torch.tensor([33, 35, 40, 45, 50, 60])
    anchor = anchor.sort(1).values
    valid = torch.ones_like(anchor, dtype=torch.bool)
    valid[0, 3] = False
    valid[1, 4:] = False
    first = torch.where(anchor < 40, 0, 40)
    return Layout(anchor.to(device), first.to(device), valid.to(device), 63, block)


def check_attention(
    layout: Layout, rule: MaskRule, dtype: torch.dtype, tiles: Tiles, *, width: int = 16
) -> None:
    """Forward and backward, grouped queries, under any rule; unseen rows give zeros."""
    device, batch = layout.anchor.device, layout.anchor.shape[0]
    draw = torch.Generator(device).manual_seed(0)
    draws = [
        torch.randn(batch, length, heads, width, generator=draw, device=device, dtype=dtype)
        for heads, length in ((4, layout.rows), (2, layout.keys), (2, layout.keys))
    ]
    mask, dense = tile_mask(layout, rule, tiles), dense_mask(layout, rule)
    eager = eager_attend(dense)

    def by_formula(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return eager(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))

    def by_kernels(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), mask)

    check_same(by_formula, by_kernels, draws)
    unseen = ~dense.any(-1)
    if bool(unseen.any()):
        found = by_kernels(*draws)
        assert float(found[unseen[:, None].expand(found.shape[:3])].abs().max()) == 0.0


def check_layers(width: int, dtype: torch.dtype, device: torch.device) -> None:
    """Norm, residual addition with norm, heads' norm with rope, and the feed-forward."""
    eager, fused = EagerLayerMath(), FusedLayerMath()
    draw = torch.Generator(device).manual_seed(width)

    def drawn(*shape: int, scale: float = 1.0) -> Tensor:
        made = torch.randn(shape, generator=draw, device=device, dtype=torch.float32)
        return (scale * made).to(dtype)

    hidden, update, gain = drawn(2, 7, width), drawn(2, 7, width), drawn(width)
    for chosen in (slice(None), slice(1, None)):
        check_same(
            lambda h, u, g, c=chosen: eager.add_norm(h, u, g, 1e-6)[c],
            lambda h, u, g, c=chosen: fused.add_norm(h, u, g, 1e-6)[c],
            (hidden, update, gain),
        )
    check_same(
        lambda h, g: eager.norm(h, g, 1e-6), lambda h, g: fused.norm(h, g, 1e-6), (hidden, gain)
    )
    angle = torch.rand(2, 11, 1, width // 2, generator=draw, device=device).repeat(1, 1, 1, 2)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    check_same(
        lambda h, g: eager.norm_rotate(h, g, 1e-6, cos, sin),
        lambda h, g: fused.norm_rotate(h, g, 1e-6, cos, sin),
        (drawn(2, 7, 3, width), gain),
    )
    check_same(
        eager.project, fused.project,
        (hidden, drawn(2, 5, width), *(drawn(out, width) / width**0.5 for out in (32, 16, 16))),
    )  # fmt: skip
    inner = 3 * width + 2
    weights = (drawn(inner, width), drawn(inner, width), drawn(width, inner))
    check_same(
        eager.feed_forward, fused.feed_forward,
        (hidden, *(weight / width**0.5 for weight in weights)),
    )  # fmt: skip


def check_adamw(copies_in: torch.dtype, device: torch.device) -> None:
    """Five steps give the twin's masters, moments, copies and norms, clipped or not."""
    settings = OptimizerSettings(weight_decay=0.1, clip_norm=1.0)
    sides = []
    for kind in (EagerAdamW, FusedAdamW):
        draw = torch.Generator().manual_seed(3)
        masters = [torch.randn(shape, generator=draw).to(device) for shape in ((70, 61), (33,))]
        copies = [
            master if copies_in == torch.float32 else master.to(copies_in) for master in masters
        ]
        copies = [nn.Parameter(copy) for copy in copies]
        if copies_in == torch.float32:
            masters = [*copies]
        side = kind(masters, copies, settings)
        side.rate.fill_(1e-2)
        norms = []
        for step in range(5):
            for copy in copies:
                drawn = torch.randn(copy.shape, generator=draw) * (1e-3 if step == 2 else 1.0)
                copy.grad = drawn.to(device, copies_in)
            norms.append(float(side.step()))
        sides.append((masters, copies, side, norms))
    (masters, copies, eager, norms), (others, other_copies, fused, other_norms) = sides
    close = torch.testing.assert_close
    close(torch.tensor(other_norms), torch.tensor(norms), atol=0, rtol=1e-5)
    assert float(fused.count) == float(eager.count) == 5
    pairs = ((others, masters), (fused.first, eager.first), (fused.second, eager.second))
    for one, other in pairs:
        for ours, theirs in zip(one, other, strict=True):
            close(ours.detach(), theirs.detach(), atol=1e-6, rtol=1e-5)
    for ours, master in zip(other_copies, others, strict=True):
        # The interpreter cuts bits off where the hardware rounds.
        close(ours.detach(), master.detach().to(copies_in), atol=0, rtol=8e-3)
        if device.type == "cuda":
            assert torch.equal(ours.detach(), master.detach().to(copies_in))


def main() -> int:
    """Every case; the number of cases on stdout."""
    cpu, count = torch.device("cpu"), 0
    tiles = (SMALL, SMALL, SPLIT, SMALL, SPLIT)
    for rule, block, chosen in zip((*RULES, MaskRule()), (4, 16, 5, 16, 3), tiles, strict=True):
        check_attention(packed_layout(block, cpu), rule, torch.float32, chosen)
        count += 1
    for dtype in TOLERANCE:
        for width in (48, 64):
            check_layers(width, dtype, cpu)
            count += 1
        check_adamw(dtype, cpu)
        count += 1
    sys.stdout.write(f"{count} cases hold\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
