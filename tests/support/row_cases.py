"""What the fused row kernels must do, on any device: run by Triton's interpreter and on a GPU.

Run as a script, it checks every case on the CPU; TRITON_INTERPRET=1 must be set from the start.
"""

import itertools
import sys

import torch

from trainer.kernels.eager import EagerRowMath
from trainer.kernels.rows import FusedRowMath

# One column, less than a tile, a whole tile, and several with a remainder.
VOCABULARIES = (1, 97, 4096, 9001)
DTYPES = (torch.float32, torch.bfloat16)
SCALES = ((0.0, 0.0), (1.0, 1e4), (1e4, -1e4), (30.0, -5.0))


def check_equal(vocabulary: int, dtype: torch.dtype, device: torch.device) -> None:
    """Statistics and gradient are the eager twin's."""
    draw = torch.Generator().manual_seed(vocabulary)
    logits = (6 * torch.randn(5, vocabulary, generator=draw)).to(dtype)
    labels = torch.randint(0, vocabulary, (5,), generator=draw)
    labels[0] = logits[0].argmax()
    coefficient = torch.rand(5, generator=draw).to(device)
    logits, labels = logits.to(device), labels.to(device)
    eager, fused = EagerRowMath(), FusedRowMath()
    ours, theirs = fused.statistics(logits, labels), eager.statistics(logits, labels)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    expected = eager.gradient(logits.clone(), labels, theirs[0], coefficient)
    slope = fused.gradient(logits, labels, theirs[0], coefficient)
    assert slope.dtype == dtype
    assert slope.data_ptr() == logits.data_ptr()
    # Both round once, from float32: at most one unit in the last place apart.
    torch.testing.assert_close(
        slope, expected, atol=1e-6, rtol=1e-5 if dtype == torch.float32 else 8e-3
    )


def check_compared(vocabulary: int, dtype: torch.dtype, device: torch.device) -> None:
    """KL, overlap and both gradients against a teacher are the eager twin's."""
    draw = torch.Generator().manual_seed(vocabulary)
    logits = (3 * torch.randn(5, vocabulary, generator=draw)).to(device, dtype)
    teacher = (3 * torch.randn(3, vocabulary, generator=draw)).to(device, dtype)
    labels = torch.randint(0, vocabulary, (5,), generator=draw).to(device)
    index = torch.tensor([0, 2, 1, 2, 0], device=device)
    coefficient = torch.rand(5, generator=draw).to(device)
    eager, fused = EagerRowMath(), FusedRowMath()
    sums = [eager.statistics(each, labels[: len(each)])[0] for each in (logits, teacher)]
    for given in (None, labels):
        theirs, ours = (
            math.compared(logits.clone(), sums[0], teacher, sums[1], index, coefficient, given)
            for math in (eager, fused)
        )
        torch.testing.assert_close(ours.divergence, theirs.divergence, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(ours.overlap, theirs.overlap, atol=1e-5, rtol=1e-5)
        tolerance = 1e-5 if dtype == torch.float32 else 8e-3
        torch.testing.assert_close(ours.slope, theirs.slope, atol=1e-6, rtol=tolerance)


def check_finite(scale: float, shift: float, device: torch.device) -> None:
    """Large logits neither overflow nor lose the gradient's zero sum."""
    draw = torch.Generator().manual_seed(0)
    logits = (scale * torch.randn(3, 50, generator=draw) + shift).to(device)
    labels = torch.tensor([0, 49, 7], device=device)
    fused = FusedRowMath()
    log_sum, _, _ = fused.statistics(logits, labels)
    slope = fused.gradient(logits.clone(), labels, log_sum, torch.ones(3, device=device))
    assert bool(slope.isfinite().all())
    # Near 1e4 a float32's last place is 1e-3, and so is the error of an exponential.
    torch.testing.assert_close(slope.sum(-1).cpu(), torch.zeros(3), atol=3e-3, rtol=0)


def main() -> int:
    """Every case; the number of cases on stdout."""
    cpu = torch.device("cpu")
    for vocabulary, dtype in itertools.product(VOCABULARIES, DTYPES):
        check_equal(vocabulary, dtype, cpu)
        check_compared(vocabulary, dtype, cpu)
    for scale, shift in SCALES:
        check_finite(scale, shift, cpu)
    sys.stdout.write(f"{2 * len(VOCABULARIES) * len(DTYPES) + len(SCALES)} cases hold\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
