"""AdamW over float32 masters: what it keeps from step to step, and the eager form of a step.

The fused form is ``trainer.kernels.adamw``'s; ``trainer.kernels.choice`` says which one a device
gets.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw as torch_adamw


class Settings(Protocol):
    """What a step reads of the optimizer's settings; ``trainer.config`` has them."""

    @property
    def beta1(self) -> float: ...  # noqa: D102 - the names of the paper
    @property
    def beta2(self) -> float: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def weight_decay(self) -> float: ...  # noqa: D102
    @property
    def clip_norm(self) -> float: ...  # noqa: D102


class AdamW(ABC):
    """Steps masters by their copies' gradients; two forms give the same numbers.

    ``rate`` and ``count`` (steps so far) are scalars; the moments are in the masters' order, and
    empty until they are made.

    Args:
        masters: float32.
        copies: What the model computes with, in the same order; a copy may be its master.
        settings: Betas, epsilon, decoupled weight decay (a share of the rate), clipping norm.
        rate: Where the learning rate is kept, and in which precision.
        count: Where the steps are counted.
    """

    def __init__(
        self,
        masters: Sequence[Tensor],
        copies: Sequence[Tensor],
        settings: Settings,
        *,
        rate: Tensor,
        count: Tensor,
    ) -> None:
        self._masters, self._copies, self._settings = masters, copies, settings
        self.rate, self.count = rate, count
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []

    def make_moments(self) -> None:
        """Create the moments, at zero steps, unless they exist."""
        if not self.first:
            self.first = [torch.zeros_like(each) for each in self._masters]
            self.second = [torch.zeros_like(each) for each in self._masters]

    @abstractmethod
    def step(self) -> Tensor:
        """Clip, step, copy; a copy without a gradient stays. The norm before clipping."""


class EagerAdamW(AdamW):
    """Torch's AdamW, with clipping before it and copying after it."""

    def __init__(
        self, masters: Sequence[Tensor], copies: Sequence[Tensor], settings: Settings
    ) -> None:
        rate, count = torch.zeros((), dtype=torch.float64), torch.zeros(())
        super().__init__(masters, copies, settings, rate=rate, count=count)

    @torch.no_grad()
    def step(self) -> Tensor:
        """See :class:`AdamW`."""
        self.make_moments()
        settings = self._settings
        given = [place for place, copy in enumerate(self._copies) if copy.grad is not None]
        slopes = [slope.float() for copy in self._copies if (slope := copy.grad) is not None]
        norm = nn.utils.get_total_norm(slopes)
        clip = (settings.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        masters, first, second = (
            [held[place] for place in given] for held in (self._masters, self.first, self.second)
        )
        torch_adamw(
            masters, [slope * clip for slope in slopes], first, second, [],
            [self.count.clone() for _ in given], foreach=False, amsgrad=False,
            beta1=settings.beta1, beta2=settings.beta2, lr=float(self.rate),
            weight_decay=settings.weight_decay, eps=settings.epsilon, maximize=False,
        )  # fmt: skip
        self.count += 1
        for place in given:
            if self._copies[place] is not self._masters[place]:
                self._copies[place].copy_(self._masters[place])
        return norm
