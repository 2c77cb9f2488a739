"""The drafter: a small transformer that fills a draft block in one forward pass.

Holds its configuration, its modules under the published tensor names, and its key/value cache.
The token embedding and the LM head are the target model's, stay frozen, and are not here; who may
see whom is ``trainer.mask``'s; how attention is computed is ``trainer.attention``'s.

Shape suffixes and letters:
    N  rows of a micro-batch     S  context tokens of a row     Q  draft rows (anchors * block)
    H  hidden size               T  taps                        K  keys (cached + S + Q)

Source: DFlash, arXiv 2602.06036; module names as in the published z-lab checkpoints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.attention import Attend
from trainer.errors import ConfigError
from trainer.kernels.choice import layer_math
from trainer.mask import MaskRule

LayerType = Literal["full_attention", "sliding_attention"]


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """The drafter's shape, and the facts of its target model that it depends on.

    The attention shape is the drafter's own. ``rope_theta``, ``vocab_size``, ``hidden_size``,
    ``num_target_layers`` and ``mask_token_id`` are the target model's. ``target_layer_ids`` are
    0-based layers whose *output*, after both residual adds, is tapped: Hugging Face's
    ``hidden_states[id + 1]``. They are stored, never guessed when a checkpoint is read.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    num_target_layers: int
    target_layer_ids: tuple[int, ...]
    mask_token_id: int
    layer_types: tuple[LayerType, ...] = ("full_attention",) * 5
    block_size: int = 16
    sliding_window: int | None = None
    is_causal: bool | None = None
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 40_960
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        for name in (
            "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
            "head_dim", "vocab_size", "num_target_layers", "max_position_embeddings",
        ):  # fmt: skip
            _require(getattr(self, name) >= 1, name, getattr(self, name), "give at least 1")
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        _require(heads % kv_heads == 0, "num_key_value_heads", kv_heads, f"must divide {heads}")
        _require(self.head_dim % 2 == 0, "head_dim", self.head_dim, "rotary needs an even number")
        _require(self.block_size >= 2, "block_size", self.block_size, "give at least 2")  # noqa: PLR2004 - the anchor and one token
        _require(len(self.layer_types) >= 1, "layer_types", self.layer_types, "name one a layer")
        _require(self.rope_theta > 0, "rope_theta", self.rope_theta, "give the target's theta")
        self._check_taps()
        if "sliding_attention" in self.layer_types:
            window = self.sliding_window
            _require(window is not None and window >= 1, "sliding_window", window,
                     "a sliding_attention layer needs a window of at least 1")  # fmt: skip

    def _check_taps(self) -> None:
        taps, layers = self.target_layer_ids, self.num_target_layers
        _require(len(taps) >= 1, "target_layer_ids", taps, "name at least one layer")
        _require(len(set(taps)) == len(taps), "target_layer_ids", taps, "name each layer once")
        _require(
            min(taps) >= 0 and max(taps) < layers, "target_layer_ids", taps,
            f"the target model has layers 0 to {layers - 1}",
        )  # fmt: skip
        _require(0 <= self.mask_token_id < self.vocab_size, "mask_token_id", self.mask_token_id,
                 f"the target's embedding has ids 0 to {self.vocab_size - 1}")  # fmt: skip

    @property
    def num_hidden_layers(self) -> int:
        """Draft layers."""
        return len(self.layer_types)

    @property
    def tap_width(self) -> int:
        """Width of the concatenated taps of one token, T * H."""
        return len(self.target_layer_ids) * self.hidden_size

    @property
    def mask_rules(self) -> tuple[MaskRule, ...]:
        """One rule per draft layer.

        A sliding layer is causal inside its block unless ``is_causal`` says otherwise; a full
        layer sees both ways unless ``is_causal`` is true. Source: dflash 0.1.0.
        """
        return tuple(
            MaskRule(
                causal=layer == "sliding_attention" if self.is_causal is None else self.is_causal,
                window=self.sliding_window if layer == "sliding_attention" else None,
            )
            for layer in self.layer_types
        )


def default_target_layer_ids(num_target_layers: int, taps: int) -> tuple[int, ...]:
    """Evenly spread layers from the second to the third last, for a *new* drafter only.

    Published checkpoints follow this formula in 6 cases of 20, so a stored list always wins.

    >>> default_target_layer_ids(36, 5)
    (1, 9, 17, 25, 33)
    """
    if taps == 1:
        return (num_target_layers // 2,)
    span = num_target_layers - 4
    return tuple(round(1 + index * span / (taps - 1)) for index in range(taps))


class RMSNorm(nn.Module):
    """Root-mean-square norm with a learned gain, computed in float32 as Qwen3 does."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise the last axis; the result has the input's dtype."""
        return layer_math(hidden.device).norm(hidden, self.weight, self.eps)


@dataclass(slots=True)
class LayerCache:
    """Keys and values one draft layer has computed, rotary applied: (N, kv heads, tokens, D)."""

    key: Tensor
    value: Tensor


class DraftCache:
    """Keys and values of committed context, per draft layer, between rounds of decoding."""

    def __init__(self) -> None:
        self._layers: dict[int, LayerCache] = {}

    @property
    def length(self) -> int:
        """Tokens held."""
        first = self._layers.get(0)
        return 0 if first is None else first.key.shape[2]

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append to ``layer`` and return all its keys and values."""
        held = self._layers.get(layer)
        if held is not None:
            key = torch.cat([held.key, key], dim=2)
            value = torch.cat([held.value, value], dim=2)
        self._layers[layer] = LayerCache(key, value)
        return key, value

    def crop(self, length: int) -> None:
        """Forget everything behind the first ``length`` tokens: the draft block's own rows."""
        for held in self._layers.values():
            held.key = held.key[:, :, :length]
            held.value = held.value[:, :, :length]


class DraftAttention(nn.Module):
    """Attention of block rows over ``[context; block]``, both projected by the same matrices."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        queries = config.num_attention_heads * config.head_dim
        keys = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(
        self, block: Tensor, context: Tensor, rotary: "Rotary", attend: Attend,
        cache: tuple[DraftCache, int] | None, masked: int | None,
    ) -> Tensor:  # fmt: skip
        """The layer's update of the block rows: (N, Q, H)."""
        query, key, values = self._projected(block, context, masked)
        query = self._turned(query, self.q_norm, rotary)
        key = self._turned(key, self.k_norm, rotary)
        value = self._heads(values).transpose(1, 2)
        if cache is not None:
            store, layer = cache
            key, value = store.extend(layer, key, value)
        mixed = attend(query, key, value).transpose(1, 2)
        return functional.linear(mixed.flatten(2), self.o_proj.weight)

    def _projected(
        self, block: Tensor, context: Tensor, masked: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        weights = self.q_proj.weight, self.k_proj.weight, self.v_proj.weight
        math = layer_math(block.device)
        if masked is None or masked < 2:  # noqa: PLR2004 - a block of one row has no masked one
            return math.project(block, context, *weights)
        blocks = block.view(len(block), -1, masked, block.shape[2])
        few = torch.cat([blocks[:, :, 0], blocks[:, 0, 1:2]], dim=1)
        query, key, value = math.project(few, context, *weights)
        seen = context.shape[1]
        key, value = (
            torch.cat([each[:, :seen], _spread(each[:, seen:], masked)], dim=1)
            for each in (key, value)
        )
        return _spread(query, masked), key, value

    def _turned(self, projected: Tensor, norm: RMSNorm, rotary: "Rotary") -> Tensor:
        """Normed heads, turned by the positions they stand at: (N, heads, T, D)."""
        math = layer_math(projected.device)
        heads = self._heads(projected)
        return math.norm_rotate(heads, norm.weight, norm.eps, rotary.cos, rotary.sin).transpose(
            1, 2
        )

    def _heads(self, projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:-1], -1, self.head_dim)


def _spread(few: Tensor, size: int) -> Tensor:
    """Rows (N, A + 1, E), the anchors' and the masked one, as whole blocks: (N, A * size, E)."""
    anchors, masked = few[:, :-1, None], few[:, -1:, None]
    return torch.cat([anchors, masked.expand(-1, anchors.shape[1], size - 1, -1)], 2).flatten(1, 2)


class DraftMLP(nn.Module):
    """The SwiGLU feed-forward of a draft layer."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, Q, H) to (N, Q, H)."""
        return layer_math(hidden.device).feed_forward(
            hidden, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight
        )


class DraftLayer(nn.Module):
    """A pre-norm decoder layer whose keys and values also come from the fused context.

    The context passes through no norm, MLP or output projection here, and no layer updates it.
    """

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.self_attn = DraftAttention(config)
        self.mlp = DraftMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, block: Tensor, normed: Tensor, context: Tensor, rotary: "Rotary", attend: Attend,
        following: RMSNorm, cache: tuple[DraftCache, int] | None = None,
        masked: int | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The rows after this layer, and their norm for what follows: (N, Q, H) twice.

        ``normed`` is ``block`` through this layer's first norm. A residual addition and the norm
        after it are one step, so the norm of the next layer (or the last one) is made here. With
        ``masked``, all rows of a block of that size but its first are one and the same row, and
        are projected once.
        """
        math = layer_math(block.device)
        mixed = self.self_attn(normed, context, rotary, attend, cache, masked)
        middle = self.post_attention_layernorm
        block, normed = math.add_norm(block, mixed, middle.weight, middle.eps)
        return math.add_norm(block, self.mlp(normed), following.weight, following.eps)


@dataclass(frozen=True, slots=True)
class Rotary:
    """Cosines and sines of each key's position, shared by all layers: (N, S + Q, 1, D)."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def at(cls, positions: Tensor, config: DrafterConfig, dtype: torch.dtype) -> "Rotary":
        """Angles for integer ``positions`` (N, S + Q), over the whole head.

        Always plain one-dimensional rotary: a target's multi-axis or partial rotary does not
        carry over to its drafter.
        """
        steps = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32)
        frequency = 1.0 / (config.rope_theta ** (steps / config.head_dim))
        half = positions[..., None].float() * frequency
        angle = torch.cat([half, half], dim=-1).unsqueeze(2)
        return cls(angle.cos().to(dtype), angle.sin().to(dtype))


class Drafter(nn.Module):
    """The trained part of DFlash: ``fc``, ``hidden_norm``, the layers, ``norm``.

    Its state dict is exactly the published checkpoint: 11 tensors per layer and 3 more.
    """

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.tap_width, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(DraftLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def initialise(self, seed: int) -> None:
        """Draw every matrix from N(0, initializer_range) and set every gain to one.

        The draw is made on the CPU in float32, so it does not depend on the device.
        """
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.ndim == 1:
                    parameter.fill_(1.0)
                else:
                    drawn = torch.randn(parameter.shape, generator=generator)
                    parameter.copy_(drawn * self.config.initializer_range)

    def fuse(self, taps: Tensor) -> Tensor:
        """Context features (..., S, H) from concatenated taps (..., S, T * H)."""
        fused: Tensor = self.hidden_norm(self.fc(taps))
        return fused

    def forward(
        self, block: Tensor, taps: Tensor, positions: Tensor, attend: Sequence[Attend],
        cache: DraftCache | None = None, *, masked: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Final-normed hidden states of the block rows, ready for the LM head.

        Args:
            block: Embedded draft blocks, (N, Q, H).
            taps: Concatenated taps of the context tokens that are not cached yet, (N, S, T * H).
            positions: Positions of those context tokens, then of the block rows, (N, S + Q).
            attend: One attention per draft layer; ``trainer.attention`` makes them.
            cache: Where keys and values of earlier context are, and these are appended.
            masked: The block size, when each block is its anchor's row and then the mask token's
                alone; the first layer then projects the latter once for all blocks.

        Returns:
            (N, Q, H).
        """
        context = self.fuse(taps)
        rotary = Rotary.at(positions, self.config, block.dtype)
        layers = [layer for layer in self.layers if isinstance(layer, DraftLayer)]
        norms = [*(layer.input_layernorm for layer in layers), self.norm]
        normed: Tensor = norms[0](block)
        for index, layer in enumerate(layers):
            block, normed = layer(
                block, normed, context, rotary, attend[index], norms[index + 1],
                None if cache is None else (cache, index), masked if index == 0 else None,
            )  # fmt: skip
        return normed


def _require(holds: bool, field: str, value: object, remedy: str) -> None:  # noqa: FBT001 - a claim
    if not holds:
        raise ConfigError(f"{field}: {value!r} cannot be used; {remedy}")
