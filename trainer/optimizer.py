"""AdamW over float32 masters, gradient clipping, and the learning rate of a step.

The drafter computes in its own precision; the masters are what is trained. With bfloat16 alone a
norm's gain stops moving once the step is below its last bit (2^-8 of its value). When the drafter
is float32 it is its own master, and nothing is copied. Saving is ``trainer.checkpoint``'s.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainer.config import OptimizerSettings
from trainer.errors import CheckpointError


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
        parameters = list(self.masters.values())
        is_cuda = parameters[0].is_cuda
        self._adamw = torch.optim.AdamW(
            parameters,
            # On a GPU the rate and the step counters live there, so that a graph can replay a step.
            lr=torch.tensor(settings.learning_rate, device=parameters[0].device)
            if is_cuda
            else settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
            fused=is_cuda,
            capturable=is_cuda,
        )

    def step(self, rate: float) -> Stepped:
        """Clip, step at this rate, copy to the module, forget the gradients."""
        self.set_rate(rate)
        return self.apply()

    def set_rate(self, rate: float) -> None:
        """The learning rate of the steps to come."""
        for group in self._adamw.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def make_moments(self) -> None:
        """Create the moments now, at zero steps, rather than in the first step.

        A graph that captured their creation would forget them at every replay.
        """
        if self._adamw.state:
            return
        self.set_rate(0.0)
        for parameter in self._named.values():
            parameter.grad = torch.zeros_like(parameter)
        self.apply()
        for state in self._adamw.state.values():
            state["step"].zero_()

    def apply(self) -> Stepped:
        """Clip, step at the rate that is set, copy to the module, forget the gradients."""
        for name, master in self.masters.items():
            parameter = self._named[name]
            if master is not parameter:
                master.grad = None if parameter.grad is None else parameter.grad.float()
        norm = nn.utils.clip_grad_norm_(
            self.masters.values(), self.settings.clip_norm, error_if_nonfinite=False
        )
        self._adamw.step()
        self._copy_to_module()
        for parameter in (*self._named.values(), *self.masters.values()):
            parameter.grad = None
        return Stepped(norm.detach())

    def state(self) -> dict[str, Tensor]:
        """Masters and moments by name: all that :meth:`load` needs."""
        tensors: dict[str, Tensor] = {}
        for name, master in self.masters.items():
            moments = self._adamw.state.get(master, {})
            tensors[f"master.{name}"] = master.detach()
            for key in ("exp_avg", "exp_avg_sq", "step"):
                if key in moments:
                    tensors[f"{key}.{name}"] = moments[key].detach()
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
        for name, master in self.masters.items():
            saved = tensors[f"master.{name}"]
            if saved.shape != master.shape:
                raise CheckpointError(
                    f"tensor '{name}' has shape {list(saved.shape)}, not {list(master.shape)}"
                )
            with torch.no_grad():
                master.copy_(saved)
            self._adamw.state[master] = {
                "step": tensors[f"step.{name}"].to(_step_device(master)),
                "exp_avg": tensors[f"exp_avg.{name}"].to(master.device).clone(),
                "exp_avg_sq": tensors[f"exp_avg_sq.{name}"].to(master.device).clone(),
            }
        self._copy_to_module()

    def _copy_to_module(self) -> None:
        with torch.no_grad():
            for name, master in self.masters.items():
                if master is not self._named[name]:
                    self._named[name].copy_(master)


def _step_device(master: Tensor) -> torch.device:
    # The fused kernel wants its step counter on the device, the plain one on the CPU.
    return master.device if master.is_cuda else torch.device("cpu")
