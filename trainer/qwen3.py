"""A small Qwen3-style target model in plain torch: the random target, and a twin for tests.

Parameter names are those of Hugging Face's ``Qwen3ForCausalLM``, so a directory written by
:func:`save` loads there. It exists so that a run on a tiny target needs no ``transformers`` and
starts at once; a real target model goes through ``trainer.target``.

Shape suffixes:
    B  sequences   M  new tokens   N  cached and new tokens   H  hidden size   V  vocabulary
    K  query heads   G  key/value heads   D  head size
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.config import RandomTarget

_EPSILON = 1e-6
_INIT_STD = 0.08  # large enough that a random model's next token depends on its context


@dataclass(frozen=True)
class Geometry:
    """The sizes of one model, by the names of its ``config.json``."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float
    rms_norm_eps: float = _EPSILON


class Cache:
    """Keys and values of the committed tokens, a pair a layer; ``crop`` forgets the newest."""

    def __init__(self) -> None:
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def length(self) -> int:
        """Tokens held."""
        return self.layers[0][0].shape[2] if self.layers else 0

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append to one layer and give all of it: ``(B, G, N, D)`` twice."""
        if layer in self.layers:
            held_key, held_value = self.layers[layer]
            key = torch.cat([held_key, key], dim=2)
            value = torch.cat([held_value, value], dim=2)
        self.layers[layer] = (key, value)
        return key, value

    def crop(self, length: int) -> None:
        """Keep the first ``length`` tokens."""
        self.layers = {
            layer: (key[:, :, :length], value[:, :, :length])
            for layer, (key, value) in self.layers.items()
        }


class RmsNorm(nn.Module):
    """Root-mean-square norm with a learned gain, computed in float32."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Same shape and dtype as ``x``."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * wide.to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query attention with per-head norms before rope."""

    def __init__(self, geometry: Geometry, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = geometry.head_dim
        heads, groups = geometry.num_attention_heads, geometry.num_key_value_heads
        hidden, head = geometry.hidden_size, geometry.head_dim
        self.q_proj = nn.Linear(hidden, heads * head, bias=False)
        self.k_proj = nn.Linear(hidden, groups * head, bias=False)
        self.v_proj = nn.Linear(hidden, groups * head, bias=False)
        self.o_proj = nn.Linear(heads * head, hidden, bias=False)
        self.q_norm = RmsNorm(head, geometry.rms_norm_eps)
        self.k_norm = RmsNorm(head, geometry.rms_norm_eps)

    def forward(self, x_BMH: Tensor, rope: tuple[Tensor, Tensor], cache: Cache | None) -> Tensor:
        """Attend to the cached tokens and, causally, to the new ones."""
        split = (*x_BMH.shape[:2], -1, self.head_dim)
        q = _rotate(self.q_norm(self.q_proj(x_BMH).view(split)).transpose(1, 2), rope)
        k = _rotate(self.k_norm(self.k_proj(x_BMH).view(split)).transpose(1, 2), rope)
        v = self.v_proj(x_BMH).view(split).transpose(1, 2)
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)
        new, total = q.shape[2], k.shape[2]
        mask = torch.ones(new, total, dtype=torch.bool, device=q.device).tril(total - new)
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return torch.as_tensor(self.o_proj(out.transpose(1, 2).flatten(2)))


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        hidden, inner = geometry.hidden_size, geometry.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as ``x``."""
        return torch.as_tensor(self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x)))


class Layer(nn.Module):
    """Pre-norm decoder layer."""

    def __init__(self, geometry: Geometry, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(geometry, layer)
        self.mlp = Mlp(geometry)
        self.input_layernorm = RmsNorm(geometry.hidden_size, geometry.rms_norm_eps)
        self.post_attention_layernorm = RmsNorm(geometry.hidden_size, geometry.rms_norm_eps)

    def forward(self, x_BMH: Tensor, rope: tuple[Tensor, Tensor], cache: Cache | None) -> Tensor:
        """The tap of this layer is what this gives: after both residual additions."""
        x_BMH = x_BMH + self.self_attn(self.input_layernorm(x_BMH), rope, cache)
        return x_BMH + torch.as_tensor(self.mlp(self.post_attention_layernorm(x_BMH)))


class Decoder(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry
        self.embed_tokens = nn.Embedding(geometry.vocab_size, geometry.hidden_size)
        self.layers = nn.ModuleList(
            Layer(geometry, layer) for layer in range(geometry.num_hidden_layers)
        )
        self.norm = RmsNorm(geometry.hidden_size, geometry.rms_norm_eps)

    def forward(self, ids_BM: Tensor, cache: Cache | None = None) -> Tensor:
        """Hidden states after the final norm, ``(B, M, H)``."""
        start = 0 if cache is None else cache.length
        rope = _rope(self.geometry, start, ids_BM.shape[1], ids_BM.device)
        x_BMH = self.embed_tokens(ids_BM)
        for layer in self.layers:
            x_BMH = layer(x_BMH, rope, cache)
        return torch.as_tensor(self.norm(x_BMH))


class Qwen3(nn.Module):
    """A causal language model: decoder and an untied head."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry
        self.model = Decoder(geometry)
        self.lm_head = nn.Linear(geometry.hidden_size, geometry.vocab_size, bias=False)

    def forward(self, ids_BM: Tensor, cache: Cache | None = None) -> Tensor:
        """Logits ``(B, M, V)`` of the token after each of ``ids_BM``."""
        return torch.as_tensor(self.lm_head(self.model(ids_BM, cache)))


def random_model(settings: RandomTarget) -> Qwen3:
    """The model that these settings name: same settings, same weights, on every machine."""
    sizes = {key: value for key, value in asdict(settings).items() if key not in ("kind", "seed")}
    model = Qwen3(Geometry(**sizes))
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, _INIT_STD, generator=generator)
        model.model.embed_tokens.weight.normal_(0.0, 1.0, generator=generator)
    return model


def save(model: Qwen3, directory: Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as Hugging Face reads them."""
    from safetensors.torch import save_file  # noqa: PLC0415 - keeps start-up of a run short

    directory.mkdir(parents=True, exist_ok=True)
    geometry = asdict(model.geometry)
    rope = {"rope_type": "default", "rope_theta": geometry["rope_theta"]}
    config = {
        **geometry,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "rope_parameters": rope,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "hidden_act": "silu",
        "dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    tensors = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _rope(
    geometry: Geometry, start: int, length: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Cosine and sine ``(M, D)`` of positions from ``start``; halves rotate together (neox)."""
    half = torch.arange(0, geometry.head_dim, 2, device=device, dtype=torch.float32)
    frequency = 1.0 / geometry.rope_theta ** (half / geometry.head_dim)
    position = torch.arange(start, start + length, device=device, dtype=torch.float32)
    angle = torch.outer(position, frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


def _rotate(x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = (part.to(x.dtype) for part in rope)
    left, right = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-right, left], dim=-1) * sine
