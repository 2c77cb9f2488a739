"""A frozen Hugging Face decoder, read by fused kernels over the model's own weights.

Query, key and value become one product, and so do gate and up: their weights are laid side by
side once, and the model's own parameters become views of them, so the model still works and
nothing is held twice. Norms, residual additions, rope and the gate run as one pass each; taps are
written where they belong as they arise. Only what a family does exactly is taken: anything else
(biases, sliding windows, another activation or norm) is left to the model's own forward.

Shape suffixes: B sequences, S tokens, H hidden size, F taps side by side; R is B * S.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainer.kernels.gate import gate_into
from trainer.kernels.norms import add_norm_into, norm_rotate_into

FAMILIES = ("llama", "qwen3")
"""``model_type`` of the families whose decoder layer is computed here."""

_KERNELS = [
    SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]  # fmt: skip
_PLANNED, _BUCKET = 1024, 128
"""cuDNN's kernel is the faster one, but plans anew for each shape: it gets lengths that come again,
which those of buckets and fixed rows do. By the shape alone, so that a resumed run reads alike."""


def unfit(decoder: Any, config: Any) -> str | None:  # noqa: ANN401 - untyped library
    """Why a decoder cannot be read here; None when it can."""
    if config.model_type not in FAMILIES:
        return f"family {config.model_type}"
    if config.hidden_act != "silu":
        return f"activation {config.hidden_act}"
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return "sliding attention"
    names = {name.rsplit(".", 1)[-1] for name, _ in decoder.layers.named_parameters()}
    if names != {"weight"}:
        return f"parameters {sorted(names - {'weight'})}"
    linear = (nn.Linear, nn.ModuleList)
    for layer in decoder.layers:
        parts = (*layer.self_attn.children(), *layer.mlp.children())
        if any(isinstance(part, linear) and type(part) is not nn.Linear for part in parts):
            return "quantised or adapted projections"
    return None


class _Layer:
    """Weights of one layer, fused where they share an input."""

    def __init__(self, layer: Any) -> None:  # noqa: ANN401 - untyped library
        attention, mlp = layer.self_attn, layer.mlp
        self.qkv = _side_by_side([attention.q_proj, attention.k_proj, attention.v_proj])
        self.gate_up = _side_by_side([mlp.gate_proj, mlp.up_proj])
        self.out, self.down = attention.o_proj.weight, mlp.down_proj.weight
        self.first, self.second = layer.input_layernorm, layer.post_attention_layernorm
        self.q_gain, self.k_gain = (
            norm.weight if (norm := getattr(attention, name, None)) is not None else None
            for name in ("q_norm", "k_norm")
        )
        self.scale = float(attention.scaling)


class FusedReader:
    """Reads taps and final states of clean sequences; the model must pass :func:`unfit`."""

    def __init__(self, decoder: Any, config: Any) -> None:  # noqa: ANN401 - untyped library
        self._decoder = decoder
        self._head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._inner = config.intermediate_size
        self._layers = [_Layer(layer) for layer in decoder.layers]

    @torch.no_grad()
    def read(
        self, ids_BS: Tensor, taps: Sequence[int], *, final: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Taps (B, S, F) and final-normed states (B, S, H); H is 0 when they are not wanted.

        Without the final states, layers behind the last tap do not run.
        """
        hidden_RH = functional.embedding(ids_BS.flatten(), self._decoder.embed_tokens.weight)
        place = torch.arange(ids_BS.shape[1], device=ids_BS.device)[None]
        cos, sin = (each.unsqueeze(2) for each in self._decoder.rotary_emb(hidden_RH, place))
        size = hidden_RH.shape[1]
        taps_RF = hidden_RH.new_empty(len(hidden_RH), len(taps) * size)
        stream_RH, normed_RH = hidden_RH, torch.empty_like(hidden_RH)
        add_norm_into(
            hidden_RH, None, *_gain(self._layers[0].first), None, normed_RH, rounds_first=True
        )
        last = len(self._layers) if final else max(taps) + 1
        for number, layer in enumerate(self._layers[:last]):
            update_RH = self._attend(layer, normed_RH, ids_BS.shape, cos, sin)
            add_norm_into(
                hidden_RH, update_RH, *_gain(layer.second), stream_RH, normed_RH, rounds_first=True
            )
            update_RH = self._feed_forward(layer, normed_RH)
            hidden_RH = stream_RH
            if number in taps:
                start = list(taps).index(number) * size
                hidden_RH = taps_RF[:, start : start + size]
            is_last = number + 1 == len(self._layers)
            norm = self._decoder.norm if is_last else self._layers[number + 1].first
            add_norm_into(
                stream_RH, update_RH, *_gain(norm), hidden_RH, normed_RH, rounds_first=True
            )
        taps_BSF = taps_RF.view(*ids_BS.shape, -1)
        final_RH = normed_RH if final else normed_RH[:, :0]
        return taps_BSF, final_RH.view(*ids_BS.shape, final_RH.shape[1])

    def _attend(
        self, layer: _Layer, normed_RH: Tensor, shape: torch.Size, cos: Tensor, sin: Tensor
    ) -> Tensor:
        heads, groups = self._heads, self._groups
        merged = (normed_RH @ layer.qkv.T).view(*shape, -1, self._head_dim)
        query, key = merged[:, :, :heads], merged[:, :, heads : heads + groups]
        value = merged[:, :, heads + groups :]
        for part, gain, norm in (
            (query, layer.q_gain, layer.first), (key, layer.k_gain, layer.first)
        ):  # fmt: skip
            norm_rotate_into(part, gain, norm.variance_epsilon, cos, sin, part, rounds_first=True)
        with sdpa_kernel(_kernels(shape[1]), set_priority=True):
            mixed = functional.scaled_dot_product_attention(
                query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
                is_causal=True, enable_gqa=heads != groups, scale=layer.scale,
            )  # fmt: skip
        mixed_RE = mixed.transpose(1, 2).reshape(len(normed_RH), -1)
        return torch.mm(mixed_RE, layer.out.T)

    def _feed_forward(self, layer: _Layer, normed_RH: Tensor) -> Tensor:
        merged = normed_RH @ layer.gate_up.T
        gate, up = merged[:, : self._inner], merged[:, self._inner :]
        # Written over the gate: down's product then reads rows that are apart.
        gate_into(gate, up, gate)
        return torch.mm(gate, layer.down.T)


def _kernels(length: int) -> list[SDPBackend]:
    return _KERNELS if length >= _PLANNED and length % _BUCKET == 0 else _KERNELS[1:]


def _gain(norm: Any) -> tuple[Tensor, float]:  # noqa: ANN401 - untyped library
    return norm.weight, float(norm.variance_epsilon)


def _side_by_side(parts: Sequence[nn.Linear]) -> Tensor:
    """The weights under one another; the modules' own become views of that."""
    merged = torch.cat([part.weight.detach() for part in parts])
    start = 0
    for part in parts:
        stop = start + part.out_features
        part.weight = nn.Parameter(merged[start:stop], requires_grad=False)
        start = stop
    return merged
