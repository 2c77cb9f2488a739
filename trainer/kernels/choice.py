"""Which implementation a device gets: fused where Triton runs, eager elsewhere."""

import functools
import importlib.util
from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.kernels.descent import AdamW, EagerAdamW, Settings
from trainer.kernels.eager import EagerRowMath, RowMath
from trainer.kernels.pointwise import EagerLayerMath, LayerMath


@functools.cache
def is_fused(kind: str) -> bool:
    """Whether devices of this kind (``cuda``, ``cpu``) run the fused kernels."""
    return kind == "cuda" and importlib.util.find_spec("triton") is not None


def row_math(device: torch.device) -> RowMath:
    """The fastest row math for ``device``."""
    if is_fused(device.type):
        from trainer.kernels.rows import FusedRowMath  # noqa: PLC0415 - a CPU host may lack Triton

        return FusedRowMath()
    return EagerRowMath()


def layer_math(device: torch.device) -> LayerMath:
    """The fastest norms, rope and feed-forward for ``device``."""
    if is_fused(device.type):
        from trainer.kernels.layers import FusedLayerMath  # noqa: PLC0415 - as above

        return FusedLayerMath()
    return EagerLayerMath()


def adamw(masters: Sequence[Tensor], copies: Sequence[Tensor], settings: Settings) -> AdamW:
    """The fastest optimizer step for the masters' device."""
    if is_fused(masters[0].device.type):
        from trainer.kernels.adamw import FusedAdamW  # noqa: PLC0415 - as above

        return FusedAdamW(masters, copies, settings)
    return EagerAdamW(masters, copies, settings)
