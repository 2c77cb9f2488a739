"""Numbers that the published DFlash packages gave for fixed weights, as plain data.

``tests/golden/oracle/README.md`` says which package made which group and how.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from trainer.drafter import Drafter, DrafterConfig

FOLDER = Path(__file__).parents[1] / "golden" / "oracle"
TOLERANCE = 2e-5
"""Absolute and relative, float32; the packages themselves agree to about 1e-6."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Tensors by name, and scalars by name."""

    tensors: dict[str, Tensor]
    scalars: dict[str, object]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def weights(self, prefix: str) -> dict[str, Tensor]:
        """The weight set ``prefix``, under the published names."""
        start = prefix + "."
        found = {name: value for name, value in self.tensors.items() if name.startswith(start)}
        return {name.removeprefix(start): value for name, value in found.items()}

    def drafter(self, prefix: str = "w") -> Drafter:
        """A drafter with the weight set ``prefix``, loaded strictly."""
        drafter = Drafter(CONFIG)
        drafter.load_state_dict(self.weights(prefix))
        return drafter


CONFIG = DrafterConfig(
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=97,
    num_target_layers=8,
    target_layer_ids=(1, 3, 5),
    mask_token_id=96,
    layer_types=("full_attention",) * 2,
    block_size=4,
    rope_theta=10_000.0,
)
"""The shape of all the oracle's drafters."""


def load_oracle() -> Oracle:
    """The whole oracle: 0.8 MB."""
    return Oracle(
        tensors=load_file(FOLDER / "dflash_oracle.safetensors"),
        scalars=json.loads((FOLDER / "meta.json").read_text(encoding="utf-8")),
    )


def assert_close(got: Tensor, expected: Tensor) -> None:
    """Equal to the oracle's tolerance."""
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=TOLERANCE)
