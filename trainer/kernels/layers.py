"""All of a layer's fused pieces; see ``LayerMath`` in ``trainer.kernels.pointwise``."""

from torch import Tensor

from trainer.kernels import gate as gated
from trainer.kernels import project as projecting
from trainer.kernels.norms import FusedNorms


class FusedLayerMath(FusedNorms):
    """The fused twin of ``EagerLayerMath``."""

    def project(
        self, block: Tensor, context: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``LayerMath``."""
        return projecting.project(block, context, query, key, value)

    def feed_forward(self, hidden: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """See ``LayerMath``."""
        return gated.feed_forward(hidden, gate, up, down)
