"""AdamW over float32 masters as one Triton pass: clip, moments, master and the low-precision copy.

28 bytes of traffic a parameter, which is all that it must move. Bias corrections, the clip's
factor and the rate are read from the device, so that a graph can replay a step. What is kept from
step to step, and the twin, are ``trainer.kernels.descent``'s.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainer.kernels.descent import AdamW, Settings

_BLOCK = 4096
_WARPS = 8


class FusedAdamW(AdamW):
    """A pass a parameter; rate and count stay on the masters' device."""

    def __init__(
        self, masters: Sequence[Tensor], copies: Sequence[Tensor], settings: Settings
    ) -> None:
        rate, count = (torch.zeros((), device=masters[0].device) for _ in range(2))
        super().__init__(masters, copies, settings, rate=rate, count=count)

    @torch.no_grad()
    def step(self) -> Tensor:
        """See ``AdamW``."""
        self.make_moments()
        slopes = [copy.grad for copy in self._copies]
        norm = gradient_norm([slope for slope in slopes if slope is not None])
        self.count += 1
        one, two = self._settings.beta1, self._settings.beta2
        # In float64, as 1 - beta^step loses digits early on.
        steps = self.count.double()
        facts = torch.stack([
            (self._settings.clip_norm / (norm + 1e-6)).clamp(max=1.0).double(), self.rate.double(),
            1 - one**steps, (1 - two**steps).sqrt(),
        ]).float()  # fmt: skip
        for place, slope in enumerate(slopes):
            if slope is not None:
                self._update(place, slope.contiguous(), facts)
        return norm

    def _update(self, place: int, slope: Tensor, facts: Tensor) -> None:
        master, copy = self._masters[place], self._copies[place]
        count = master.numel()
        one, two = self._settings.beta1, self._settings.beta2
        _adamw[(triton.cdiv(count, _BLOCK),)](
            master, copy, self.first[place], self.second[place], slope, facts, count, one, two,
            self._settings.epsilon, self._settings.weight_decay, COPIES=copy is not master,
            BLOCK=_BLOCK, num_warps=_WARPS,
        )  # fmt: skip


def gradient_norm(slopes: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients together, summed in float32 whatever their dtype."""
    norms = torch._foreach_norm(list(slopes), 2, dtype=torch.float32)  # noqa: SLF001 - it has no public name
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _adamw(
    master: tl.tensor, copy: tl.tensor, first: tl.tensor, second: tl.tensor, slope: tl.tensor,
    facts: tl.tensor, count: int, beta_one: float, beta_two: float, epsilon: float, decay: float,
    COPIES: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    clip, rate = tl.load(facts), tl.load(facts + 1)
    bias_one, bias_two = tl.load(facts + 2), tl.load(facts + 3)
    g = tl.load(slope + place, mask=inside, other=0.0).to(tl.float32) * clip
    m = tl.load(first + place, mask=inside, other=0.0)
    v = tl.load(second + place, mask=inside, other=0.0)
    w = tl.load(master + place, mask=inside, other=0.0)
    m = m + (1.0 - beta_one) * (g - m)
    v = beta_two * v + (1.0 - beta_two) * g * g
    w = w * (1.0 - rate * decay)
    w = w - (rate / bias_one) * (m / (tl.sqrt(v) / bias_two + epsilon))
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    tl.store(master + place, w, mask=inside)
    if COPIES:
        tl.store(copy + place, w.to(copy.dtype.element_ty), mask=inside)
