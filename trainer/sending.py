"""Copies to a device that do not make the host wait for the work before them.

A copy from ordinary memory to a GPU waits until the GPU comes to it, and then nothing is queued
behind it; from pinned memory it is queued like any other work.
"""

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor`` on ``device``; itself where it is there already."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fill(buffer: Tensor, tensor: Tensor) -> None:
    """Overwrite ``buffer``, on a device, with ``tensor`` from anywhere."""
    if buffer.is_cuda and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    buffer.copy_(tensor, non_blocking=True)
