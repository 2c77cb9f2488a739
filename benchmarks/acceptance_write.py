"""Writes answers with the target model, thousands of texts at a time, a CUDA graph a step.

All texts of a batch stand at the same position; while a text is still in its prompt, the prompt's
token is taken instead of the drawn one, so prompts need no separate pass. For models of the Llama
layout (SmolLM2): pre-norm, rotary over halves, SwiGLU, no biases, no norm on queries and keys.

Shape letters: B texts of a batch, L longest text, H hidden size, G key/value heads, D head size,
V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.acceptance_data import Text

_BUCKET = 128
"""Positions by which the part of the cache that is read grows; a graph each."""
_CHECK_EVERY = 32
"""Steps between two looks at whether all texts have ended."""


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class BatchWriter:
    """Writes one batch after another with the weights of a Hugging Face model.

    Args:
        model: A causal language model of the Llama layout, on the device.
        texts: B.
        length: L, prompts included.
        stop: The token that ends an answer.
        captures: Whether to replay CUDA graphs; needs a GPU.
    """

    def __init__(
        self, model: Any, *, texts: int, length: int, stop: int, captures: bool  # noqa: ANN401
    ) -> None:  # fmt: skip
        config, decoder = model.config, model.get_decoder()
        self._eps = config.rms_norm_eps
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._size = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._layers = [_weights(layer) for layer in decoder.layers]
        self._norm = decoder.norm.weight
        self._embedding = decoder.embed_tokens.weight
        self._head = model.get_output_embeddings().weight
        self._stop, self._length, self._captures = stop, length, captures
        device, dtype = self._embedding.device, self._embedding.dtype
        reach = -(-length // _BUCKET) * _BUCKET
        shape = (len(self._layers), 2, texts, self._groups, reach, self._size)
        self._cache = torch.zeros(shape, device=device, dtype=dtype)
        self._text = torch.zeros((texts, reach + 1), device=device, dtype=torch.int64)
        self._prompt = torch.ones(texts, device=device, dtype=torch.int64)
        self._temperature = torch.zeros(texts, 1, device=device)
        self._ended = torch.zeros(texts, device=device, dtype=torch.bool)
        self._at = torch.zeros(1, device=device, dtype=torch.int64)
        self._rotary = _rotary(config, reach, self._size, device, dtype)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    @torch.inference_mode()
    def write(self, prompts: Sequence[tuple[Sequence[int], float]]) -> list[Text]:
        """Answers to at most B prompts, each with its temperature; 0 is greedy.

        A text that does not stop is cut at L tokens. A prompt that leaves no room is left out.
        """
        fitting = [pair for pair in prompts if len(pair[0]) < self._length]
        self._load(fitting)
        for position in range(self._length - 1):
            self._step(min(-(-(position + 1) // _BUCKET) * _BUCKET, self._cache.shape[4]))
            if position % _CHECK_EVERY == 0 and bool(self._ended[: len(fitting)].all()):
                break
        written = self._text[:, : int(self._at) + 1].tolist()
        return [
            self._text_of(ids, len(prompt), temperature)
            for ids, (prompt, temperature) in zip(written, fitting, strict=False)
        ]

    def _text_of(self, ids: list[int], prompt: int, temperature: float) -> Text:
        ids = ids[: self._length]
        ends = [place for place in range(prompt, len(ids)) if ids[place] == self._stop]
        return Text(tuple(ids[: ends[0] + 1] if ends else ids), prompt, temperature)

    def _load(self, prompts: Sequence[tuple[Sequence[int], float]]) -> None:
        text, length = torch.zeros(self._text.shape, dtype=torch.int64), []
        for slot, (ids, _) in enumerate(prompts):
            text[slot, : len(ids)] = torch.tensor(ids)
            length.append(len(ids))
        empty = len(self._text) - len(prompts)
        self._text.copy_(text)
        self._prompt.copy_(torch.tensor(length + [1] * empty))
        warmth = [temperature for _, temperature in prompts] + [0.0] * empty
        self._temperature.copy_(torch.tensor(warmth)[:, None])
        self._ended.fill_(value=False)
        self._at.zero_()

    def _step(self, reach: int) -> None:
        if not self._captures:
            self._body(reach)
            return
        if reach not in self._graphs:
            self._graphs[reach] = self._captured(reach)
        self._graphs[reach].replay()

    def _captured(self, reach: int) -> torch.cuda.CUDAGraph:
        held = [each.clone() for each in (self._text, self._ended, self._at)]
        self._body(reach)  # once for real, so that libraries have their workspaces
        for buffer, before in zip((self._text, self._ended, self._at), held, strict=True):
            buffer.copy_(before)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._body(reach)
        return graph

    def _body(self, reach: int) -> None:
        """Feed every text's token at the position, and set the next one."""
        token = self._text.index_select(1, self._at)[:, 0]
        hidden = functional.embedding(token, self._embedding)
        seen = torch.arange(reach, device=hidden.device) <= self._at
        bias = torch.where(seen, 0.0, -torch.inf).to(hidden.dtype)
        for index, layer in enumerate(self._layers):
            hidden = hidden + self._attend(index, layer, hidden, bias, reach)
            normed = functional.rms_norm(hidden, layer.mlp_norm.shape, layer.mlp_norm, self._eps)
            gate, up = (normed @ layer.gate_up.T).chunk(2, dim=-1)
            hidden = hidden + (functional.silu(gate) * up) @ layer.down.T
        normed = functional.rms_norm(hidden, self._norm.shape, self._norm, self._eps)
        logits = (normed @ self._head.T).float()
        # The argmax of logits + T * Gumbel noise is a draw at temperature T; at 0, the argmax.
        noise = torch.empty_like(logits).exponential_().log_().neg_()
        drawn = (logits + self._temperature * noise).argmax(-1)
        self._at.add_(1)
        given = self._text.index_select(1, self._at)[:, 0]
        is_prompt = self._at < self._prompt
        self._text.index_copy_(1, self._at, torch.where(is_prompt, given, drawn)[:, None])
        self._ended |= ~is_prompt & (drawn == self._stop)

    def _attend(
        self, index: int, layer: _Layer, hidden: Tensor, bias: Tensor, reach: int
    ) -> Tensor:
        texts, size, groups = len(hidden), self._size, self._groups
        normed = functional.rms_norm(
            hidden, layer.attention_norm.shape, layer.attention_norm, self._eps
        )
        qkv = (normed @ layer.qkv.T).view(texts, -1, size)
        cos, sin = (part.index_select(0, self._at) for part in self._rotary)
        turned = _turn(qkv[:, : self._heads + groups], cos, sin)
        query, key = turned[:, : self._heads], turned[:, self._heads :]
        keys, values = self._cache[index]
        keys.index_copy_(2, self._at, key[:, :, None])
        values.index_copy_(2, self._at, qkv[:, self._heads + groups :, None])
        query = query.reshape(texts, groups, -1, size) * size**-0.5
        score = query @ keys[:, :, :reach].transpose(-1, -2) + bias
        mixed = score.float().softmax(-1).to(query.dtype) @ values[:, :, :reach]
        update: Tensor = mixed.reshape(texts, -1) @ layer.out.T
        return update


def _weights(layer: Any) -> _Layer:  # noqa: ANN401 - a layer of an untyped library
    attention, mlp = layer.self_attn, layer.mlp
    parts = (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
    return _Layer(
        attention_norm=layer.input_layernorm.weight,
        qkv=torch.cat(parts),
        out=attention.o_proj.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)),
        down=mlp.down_proj.weight,
    )


def _rotary(
    config: Any, reach: int, size: int, device: torch.device, dtype: torch.dtype  # noqa: ANN401
) -> tuple[Tensor, Tensor]:  # fmt: skip
    held = getattr(config, "rope_parameters", None) or {}
    theta = float(held.get("rope_theta") or config.rope_theta)
    step = torch.arange(0, size, 2, device=device, dtype=torch.float32)
    place = torch.arange(reach, device=device, dtype=torch.float32)
    angle = torch.outer(place, 1.0 / theta ** (step / size)).repeat(1, 2)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _turn(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin
