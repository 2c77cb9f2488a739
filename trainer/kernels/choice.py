"""Which implementation a device gets: fused where Triton runs, eager elsewhere."""

import importlib.util

import torch

from trainer.kernels.eager import EagerRowMath, RowMath


def row_math(device: torch.device) -> RowMath:
    """The fastest row math for ``device``; only a GPU with Triton has a fused one."""
    if device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        from trainer.kernels.rows import FusedRowMath  # noqa: PLC0415 - a CPU host may lack Triton

        return FusedRowMath()
    return EagerRowMath()
