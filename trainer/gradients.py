"""All gradients of a module end to end, for replicas that add theirs before they step.

How replicas meet is ``trainer.pipeline.drafters``' business.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def flattened(parameters: Sequence[Tensor]) -> Tensor:
    """All gradients in one tensor, in the parameters' order; zeros where there is none."""
    return torch.cat([_gradient(each).flatten() for each in parameters])


def spread(flat: Tensor, parameters: Sequence[Tensor]) -> None:
    """Make views of ``flat`` the parameters' gradients."""
    sizes = [each.numel() for each in parameters]
    for parameter, part in zip(parameters, torch.split(flat, sizes), strict=True):
        parameter.grad = part.view(parameter.shape)


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
