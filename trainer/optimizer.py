"""A module's float32 masters, their optimizer's state by name, and the learning rate of a step.

The drafter computes in its own precision; the masters are what is trained. With bfloat16 alone a
norm's gain stops moving once the step is below its last bit (2^-8 of its value). When the drafter
is float32 it is its own master, and nothing is copied. The step itself is ``trainer.kernels``',
saving is ``trainer.checkpoint``'s.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.config import OptimizerSettings
from trainer.errors import CheckpointError
from trainer.kernels.choice import adamw


def learning_rate(settings: OptimizerSettings, step: int, steps: int) -> float:
    """The rate of the 1-based ``step`` of ``steps``.

    Warm-up is linear; then ``cosine`` falls to ``final_share`` of the peak, ``wsd`` stays and
    falls along a cosine over its last ``decay_share``, ``constant`` stays.

    >>> peak = OptimizerSettings(learning_rate=1.0, warmup_share=0.1)
    >>> [round(learning_rate(peak, step, 100), 3) for step in (1, 10, 55, 100)]
    [0.1, 1.0, 0.5, 0.0]
    """
    warmup = max(1, round(settings.warmup_share * steps))
    if step <= warmup:
        return settings.learning_rate * step / warmup
    if settings.schedule == "constant":
        return settings.learning_rate
    start = warmup
    if settings.schedule == "wsd":
        start = max(warmup, steps - round(settings.decay_share * steps))
    progress = max(0.0, (step - start) / max(1, steps - start))
    fall = (1 + math.cos(math.pi * min(1.0, progress))) / 2
    share = settings.final_share + (1 - settings.final_share) * fall
    return settings.learning_rate * share


@dataclass(frozen=True)
class Stepped:
    """What one optimiser step saw: the gradient's norm before clipping."""

    grad_norm: Tensor


class MasterOptimizer:
    """Trains float32 masters of a module's parameters and copies them back."""

    def __init__(self, module: nn.Module, settings: OptimizerSettings) -> None:
        self.settings = settings
        self._named: dict[str, Tensor] = dict(module.named_parameters())
        self.masters: dict[str, Tensor] = {
            name: parameter
            if parameter.dtype == torch.float32
            else parameter.detach().float().requires_grad_()
            for name, parameter in self._named.items()
        }
        masters, copies = list(self.masters.values()), list(self._named.values())
        self._adamw = adamw(masters, copies, settings)

    def step(self, rate: float) -> Stepped:
        """Clip, step at this rate, copy to the module, forget the gradients."""
        self.set_rate(rate)
        return self.apply()

    def set_rate(self, rate: float) -> None:
        """The learning rate of the steps to come."""
        self._adamw.rate.fill_(rate)

    def make_moments(self) -> None:
        """Create the moments now, at zero steps, rather than in the first step.

        A graph that captured their creation would forget them at every replay.
        """
        self._adamw.make_moments()

    def apply(self) -> Stepped:
        """Clip, step at the rate that is set, copy to the module, forget the gradients."""
        norm = self._adamw.step()
        for parameter in self._named.values():
            parameter.grad = None
        return Stepped(norm.detach())

    def state(self) -> dict[str, Tensor]:
        """Masters and moments by name: all that :meth:`load` needs."""
        tensors = {f"master.{name}": master.detach() for name, master in self.masters.items()}
        adamw = self._adamw
        for name, first, second in zip(self.masters, adamw.first, adamw.second, strict=False):
            tensors[f"exp_avg.{name}"] = first
            tensors[f"exp_avg_sq.{name}"] = second
            tensors[f"step.{name}"] = adamw.count.clone()  # a file keeps no shared tensors
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a :meth:`state`.

        Raises:
            CheckpointError: a tensor is missing, unknown, or has another shape.
        """
        kinds = ("master", "exp_avg", "exp_avg_sq", "step")
        known = {f"{kind}.{name}" for name in self.masters for kind in kinds}
        if known != tensors.keys():
            odd = min(known ^ tensors.keys())
            raise CheckpointError(f"tensor '{odd}' does not fit this drafter; is it another run's?")
        self._adamw.make_moments()
        moments = zip(self.masters.items(), self._adamw.first, self._adamw.second, strict=True)
        for (name, master), first, second in moments:
            saved = tensors[f"master.{name}"]
            if saved.shape != master.shape:
                raise CheckpointError(
                    f"tensor '{name}' has shape {list(saved.shape)}, not {list(master.shape)}"
                )
            with torch.no_grad():
                master.copy_(saved)
                first.copy_(tensors[f"exp_avg.{name}"])
                second.copy_(tensors[f"exp_avg_sq.{name}"])
                # All parameters step together, so they share one count.
                self._adamw.count.copy_(tensors[f"step.{name}"])
                if master is not self._named[name]:
                    self._named[name].copy_(master)
