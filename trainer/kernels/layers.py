"""All of a layer's fused pieces; see ``LayerMath`` in ``trainer.kernels.pointwise``."""

from torch import Tensor

from trainer.kernels import gate as gated
from trainer.kernels.norms import FusedNorms


class FusedLayerMath(FusedNorms):
    """The fused twin of ``EagerLayerMath``."""

    def feed_forward(self, hidden: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """See ``LayerMath``."""
        return gated.feed_forward(hidden, gate, up, down)
