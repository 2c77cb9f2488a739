"""The frozen target model: its taps, its logits, and decoding with a cache that can be cropped.

A tap is the output of a 0-based target layer after both residual additions and before the next
norm (``hidden_states[l + 1]`` in Hugging Face's words). Hooks read it; they change nothing, so the
logits are bitwise those of the model without hooks. Where models come from is for
``trainer.loading``; whether one keeps the conventions is proved by ``trainer.preflight``.

Shape suffixes:
    B  sequences   S  tokens of a sequence, right-padded   M  tokens fed at once
    F  features, taps side by side: len(target_layer_ids) * hidden size   H  hidden size
    V  vocabulary
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from trainer.errors import TargetError
from trainer.qwen3 import Cache, Qwen3


@dataclass(frozen=True)
class TargetShape:
    """What a drafter must know of its target model."""

    hidden_size: int
    vocab_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    rope_theta: float
    rms_norm_eps: float
    max_position_embeddings: int


@dataclass(frozen=True)
class Reading:
    """One forward pass over clean sequences; rows past a sequence's end are meaningless."""

    taps_BSF: Tensor
    final_BSH: Tensor  # after the final norm: what the head multiplies; H is 0 when unwanted


@dataclass(frozen=True)
class Fed:
    """What one decoding call gave, for the tokens fed: float32 logits and taps."""

    logits_MV: Tensor
    taps_MF: Tensor


class Reader(Protocol):
    """A faster way to read clean sequences than the model's own forward pass."""

    def read(self, ids_BS: Tensor, taps: Sequence[int], *, final: bool) -> tuple[Tensor, Tensor]:
        """Taps ``(B, S, F)``, and final states ``(B, S, H)`` or, unwanted, ``(B, S, 0)``."""
        ...


class Backbone(Protocol):
    """What a loaded model must offer; one implementation a family of models."""

    shape: TargetShape
    name: str
    digest: str
    declares_tied_head: bool

    def logits(self, ids_BM: Tensor) -> Tensor:
        """The model's own logits, by its own forward pass from end to end."""
        ...

    def rope_base(self) -> float | None:
        """The base that the loaded model rotates by, read from what it computes with."""
        ...

    def reader(self) -> Reader | str:
        """A reader of fused kernels over the same weights, or why there is none."""
        ...

    def layers(self) -> Sequence[nn.Module]:
        """The decoder layers, first to last."""
        ...

    def embedding(self) -> Tensor:
        """The token embedding, ``(V, H)``."""
        ...

    def head(self) -> Tensor:
        """The output projection, ``(V, H)``."""
        ...

    def new_cache(self) -> Any:  # noqa: ANN401 - opaque: each family has its own
        """An empty cache."""
        ...

    def hidden(self, ids_BM: Tensor, cache: Any) -> Tensor:  # noqa: ANN401 - from new_cache
        """Hidden states after the final norm; ``cache`` None reads without one."""
        ...

    def project(self, hidden: Tensor) -> Tensor:
        """Logits of final hidden states, any soft-capping included."""
        ...

    def cache_length(self, cache: Any) -> int:  # noqa: ANN401 - from new_cache
        """Tokens in the cache."""
        ...

    def crop(self, cache: Any, length: int) -> None:  # noqa: ANN401 - from new_cache
        """Forget all but the first ``length`` tokens."""
        ...


class TapHooks:
    """Reads the outputs of chosen layers while it is entered; holds them only until taken."""

    def __init__(self, layers: Sequence[nn.Module], target_layer_ids: Sequence[int]) -> None:
        self._layers = layers
        self._ids = tuple(target_layer_ids)
        self._seen: dict[int, Tensor] = {}
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> Self:
        for layer_id in self._ids:
            self._handles.append(self._layers[layer_id].register_forward_hook(self._hook(layer_id)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._seen.clear()

    def take(self) -> Tensor:
        """The taps of the last forward pass side by side, in the order of the ids; then forget."""
        missing = [layer_id for layer_id in self._ids if layer_id not in self._seen]
        if missing:
            raise TargetError(f"target layers {missing} did not run; their taps are unknown")
        taps = torch.cat([self._seen[layer_id] for layer_id in self._ids], dim=-1)
        self._seen.clear()
        return taps

    def _hook(self, layer_id: int) -> Any:  # noqa: ANN401 - torch's hook type is private
        def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            self._seen[layer_id] = output[0] if isinstance(output, tuple) else output

        return keep


class Target:
    """A frozen model with its taps chosen.

    ``unfused`` says why the model's own forward reads it, and is None where fused kernels do.

    Raises:
        TargetError: a tap is not a layer of the model, is its last one, or is named twice.
    """

    def __init__(self, backbone: Backbone, target_layer_ids: Sequence[int]) -> None:
        self.backbone = backbone
        self.shape = backbone.shape
        self.target_layer_ids = tuple(target_layer_ids)
        _check_taps(self.target_layer_ids, self.shape.num_hidden_layers)
        self.embedding_VH = backbone.embedding()
        self.head_VH = backbone.head()
        found = backbone.reader()
        self._reader = None if isinstance(found, str) else found
        self.unfused = found if isinstance(found, str) else None

    @property
    def feature_size(self) -> int:
        """F: width of the taps side by side."""
        return len(self.target_layer_ids) * self.shape.hidden_size

    @torch.no_grad()
    def read(self, ids_BS: Tensor, *, final: bool = True) -> Reading:
        """Read clean sequences, right-padded with any token.

        The model is causal, so padding on the right never reaches a real token; no mask is needed.
        Without ``final``, a fused reader stops behind the last tap.
        """
        if self._reader is not None:
            return Reading(*self._reader.read(ids_BS, self.target_layer_ids, final=final))
        with TapHooks(self.backbone.layers(), self.target_layer_ids) as hooks:
            final_BSH = self.backbone.hidden(ids_BS, None)
            return Reading(hooks.take(), final_BSH if final else final_BSH[..., :0])

    @torch.no_grad()
    def logits(self, ids_BS: Tensor) -> Tensor:
        """The model's own logits ``(B, S, V)``, without any hook."""
        return self.backbone.logits(ids_BS)

    def session(self) -> "TargetSession":
        """Begin decoding one sequence."""
        return TargetSession(self)


class TargetSession:
    """One sequence being decoded: feed tokens, then crop what was not accepted."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._cache = target.backbone.new_cache()

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._target.backbone.cache_length(self._cache)

    @torch.no_grad()
    def feed(self, ids_M: Tensor) -> Fed:
        """Run the tokens after those cached; the cache grows by them."""
        backbone = self._target.backbone
        with TapHooks(backbone.layers(), self._target.target_layer_ids) as hooks:
            final_BMH = backbone.hidden(ids_M[None], self._cache)
            logits_BMV = backbone.project(final_BMH)
            return Fed(logits_BMV[0].float(), hooks.take()[0])

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self._target.backbone.crop(self._cache, length)


class Qwen3Backbone:
    """The plain torch model of ``trainer.qwen3`` as a backbone."""

    def __init__(self, model: Qwen3, name: str, digest: str) -> None:
        self.model = model.eval().requires_grad_(requires_grad=False)
        self.name = name
        self.digest = digest
        self.declares_tied_head = False
        geometry = model.geometry
        self.shape = TargetShape(
            hidden_size=geometry.hidden_size,
            vocab_size=geometry.vocab_size,
            num_hidden_layers=geometry.num_hidden_layers,
            num_attention_heads=geometry.num_attention_heads,
            num_key_value_heads=geometry.num_key_value_heads,
            head_dim=geometry.head_dim,
            intermediate_size=geometry.intermediate_size,
            rope_theta=geometry.rope_theta,
            rms_norm_eps=geometry.rms_norm_eps,
            max_position_embeddings=1 << 16,
        )

    def logits(self, ids_BM: Tensor) -> Tensor:
        """The model's own logits."""
        return torch.as_tensor(self.model(ids_BM))

    def rope_base(self) -> float | None:
        """The base that the model rotates by."""
        return self.model.geometry.rope_theta

    def reader(self) -> Reader | str:
        """None: the model is a plain one, for tests and first steps."""
        return "plain torch model"

    def layers(self) -> Sequence[nn.Module]:
        """The decoder layers, first to last."""
        return list(self.model.model.layers)

    def embedding(self) -> Tensor:
        """The token embedding, ``(V, H)``."""
        return self.model.model.embed_tokens.weight

    def head(self) -> Tensor:
        """The output projection, ``(V, H)``."""
        return self.model.lm_head.weight

    def new_cache(self) -> Cache:
        """An empty cache."""
        return Cache()

    def hidden(self, ids_BM: Tensor, cache: Cache | None) -> Tensor:
        """Hidden states after the final norm."""
        return torch.as_tensor(self.model.model(ids_BM, cache))

    def project(self, hidden: Tensor) -> Tensor:
        """Logits of final hidden states."""
        return torch.as_tensor(self.model.lm_head(hidden))

    def cache_length(self, cache: Cache) -> int:
        """Tokens in the cache."""
        return cache.length

    def crop(self, cache: Cache, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        cache.crop(length)


def _check_taps(ids: tuple[int, ...], num_hidden_layers: int) -> None:
    if not ids:
        raise TargetError("target_layer_ids: empty; name at least one target layer")
    if len(set(ids)) != len(ids):
        raise TargetError(f"target_layer_ids: {list(ids)} names a layer twice")
    # After the last layer there is nothing between a tap and the logits left to predict.
    outside = [layer_id for layer_id in ids if not 0 <= layer_id < num_hidden_layers - 1]
    if outside:
        raise TargetError(
            f"target_layer_ids: {outside} outside 0..{num_hidden_layers - 2};"
            f" the model has {num_hidden_layers} layers and its last one is no tap"
        )
