"""Where target models come from: seeded random, a safetensors directory, a GGUF file.

Only local files are read: nothing is fetched. What a loaded model can do is
``trainer.target``'s; whether it keeps the conventions that training relies on is proved by
``trainer.preflight``.
"""

import hashlib
import importlib.util
import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainer.config import GgufTarget, RandomTarget, SafetensorsTarget
from trainer.errors import TargetError
from trainer.files import canonical, sha256_of
from trainer.kernels.choice import is_fused
from trainer.qwen3 import random_model
from trainer.reading import plain
from trainer.target import Backbone, Qwen3Backbone, Reader, TargetShape

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_backbone(
    settings: RandomTarget | SafetensorsTarget | GgufTarget, device: torch.device
) -> Backbone:
    """The frozen model that the settings name, on ``device``.

    Raises:
        TargetError: a file is missing, is not a causal language model's, or cannot be tapped.
    """
    match settings:
        case RandomTarget():
            model = random_model(settings).to(device)
            digest = hashlib.sha256(canonical(plain(settings))).hexdigest()
            return Qwen3Backbone(model, f"random-{settings.seed}", digest)
        case SafetensorsTarget():
            directory = Path(settings.path)
            if not (directory / "config.json").is_file():
                raise TargetError(f"{directory}: no config.json; give a model's directory")
            return _hugging_face(directory, None, settings.dtype, device)
        case GgufTarget():
            file = gguf_path(settings.path)
            return _hugging_face(file.parent, file.name, settings.dtype, device)


def gguf_path(path: str) -> Path:
    """The file that ``path`` names: itself, or ``PACKAGE:FILE`` inside an installed package.

    Raises:
        TargetError: there is no such package or file.
    """
    package, colon, name = path.partition(":")
    if not colon:
        file = Path(path)
    else:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise TargetError(f"{path}: package '{package}' is not installed")
        file = Path(found.origin).parent / name
    if not file.is_file():
        raise TargetError(f"{file}: no such file")
    return file


def model_digest(directory: Path, file: str | None) -> str:
    """SHA-256 over the weights and the configuration, so that two runs can be compared."""
    names = (
        [file]
        if file is not None
        else [*sorted(path.name for path in directory.glob("*.safetensors")), "config.json"]
    )
    parts = {name: sha256_of(directory / name) for name in names}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class HuggingFaceBackbone:
    """A dense causal model of the ``transformers`` library as a backbone."""

    def __init__(self, model: Any, name: str, digest: str) -> None:  # noqa: ANN401 - untyped library
        self.model = model.eval().requires_grad_(requires_grad=False)
        self.name = name
        self.digest = digest
        self._decoder = model.get_decoder()
        self._reader: Reader | str | None = None  # made once: it lays the weights out anew
        # transformers renamed the argument in 5.24 and warns about the earlier name.
        arguments = inspect.signature(self._decoder.forward).parameters
        self._cache_name = "cache" if "cache" in arguments else "past_key_values"
        self.shape = _shape_of(model.config.get_text_config())
        self.declares_tied_head = bool(model.config.get_text_config().tie_word_embeddings)

    @torch.no_grad()
    def logits(self, ids_BM: Tensor) -> Tensor:
        """The model's own logits."""
        return torch.as_tensor(self.model(input_ids=ids_BM, use_cache=False).logits)

    def rope_base(self) -> float | None:
        """The base behind the frequencies that the model rotates by; None when it shows none.

        Frequency i of n is base^(-i/n) for plain rope, so the second one tells the base.
        """
        rotary = getattr(self._decoder, "rotary_emb", None)
        frequencies = getattr(rotary, "inv_freq", None)
        if not isinstance(frequencies, Tensor) or len(frequencies) < 2:  # noqa: PLR2004 - see above
            return None
        return float(frequencies[1].double() ** -len(frequencies))

    def reader(self) -> Reader | str:
        """Fused kernels over the model's weights, where the device and the family have them."""
        if self._reader is None:
            self._reader = self._made_reader()
        return self._reader

    def _made_reader(self) -> Reader | str:
        if not is_fused(self.embedding().device.type):
            return "no GPU with Triton"
        from trainer.kernels.target import FusedReader, unfit  # noqa: PLC0415 - needs Triton

        config = self.model.config.get_text_config()
        return unfit(self._decoder, config) or FusedReader(self._decoder, config)

    def layers(self) -> Sequence[nn.Module]:
        """The decoder layers, first to last."""
        return list(self._decoder.layers)

    def embedding(self) -> Tensor:
        """The token embedding, ``(V, H)``."""
        return torch.as_tensor(self.model.get_input_embeddings().weight)

    def head(self) -> Tensor:
        """The output projection, ``(V, H)``."""
        return torch.as_tensor(self.model.get_output_embeddings().weight)

    def new_cache(self) -> Any:  # noqa: ANN401 - untyped library
        """An empty cache that keeps all tokens, so that it can be cropped."""
        from transformers import DynamicCache  # noqa: PLC0415 - only this family needs it

        return DynamicCache()

    def hidden(self, ids_BM: Tensor, cache: Any) -> Tensor:  # noqa: ANN401 - untyped library
        """Hidden states after the final norm."""
        named = {self._cache_name: cache}
        output = self._decoder(input_ids=ids_BM, use_cache=cache is not None, **named)
        return torch.as_tensor(output.last_hidden_state)

    def project(self, hidden: Tensor) -> Tensor:
        """Logits of final hidden states."""
        return torch.as_tensor(self.model.get_output_embeddings()(hidden))

    def cache_length(self, cache: Any) -> int:  # noqa: ANN401 - untyped library
        """Tokens in the cache."""
        return int(cache.get_seq_length())

    def crop(self, cache: Any, length: int) -> None:  # noqa: ANN401 - untyped library
        """Forget all but the first ``length`` tokens."""
        surplus = self.cache_length(cache) - length
        if surplus > 0:
            cache.crop(-surplus)  # "remove so many" is the form that all versions take


def _hugging_face(
    directory: Path, gguf: str | None, dtype: str, device: torch.device
) -> HuggingFaceBackbone:
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - a random target needs none
    from transformers.utils import logging  # noqa: PLC0415

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the library has no types
    extra = {"gguf_file": gguf} if gguf is not None else {}
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=_DTYPES[dtype],
            local_files_only=True,
            attn_implementation="sdpa",
            output_loading_info=True,
            **extra,
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())  # the library's errors have many lines
        raise TargetError(f"{directory}: cannot be loaded ({reason})") from error
    model, found = loaded
    # Some versions fill a tensor that is missing or does not fit with random numbers, and go on.
    for kind in ("missing_keys", "mismatched_keys"):
        if found.get(kind):
            tensor = min(str(each) for each in found[kind])
            raise TargetError(f"{directory}: cannot be loaded ({kind}: {tensor})")
    for need in ("get_decoder", "get_input_embeddings", "get_output_embeddings"):
        if not hasattr(model, need) or getattr(model, need)() is None:
            raise TargetError(f"{directory}: the model has no {need}(); it cannot be tapped")
    if not hasattr(model.get_decoder(), "layers"):
        raise TargetError(f"{directory}: the decoder has no layers to tap")
    name = gguf if gguf is not None else directory.name
    return HuggingFaceBackbone(model.to(device), name, model_digest(directory, gguf))


def _shape_of(config: Any) -> TargetShape:  # noqa: ANN401 - untyped library
    heads = config.num_attention_heads
    return TargetShape(
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=heads,
        num_key_value_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        intermediate_size=config.intermediate_size,
        rope_theta=_rope_theta(config),
        rms_norm_eps=config.rms_norm_eps,
        max_position_embeddings=config.max_position_embeddings,
    )


def _rope_theta(config: Any) -> float:  # noqa: ANN401 - untyped library
    """The rope base; transformers 5 keeps it in ``rope_parameters``, older files beside it.

    Raises:
        TargetError: it is in neither place, or differs between layer types. A default would be a
            silent wrong guess.
    """
    parameters = getattr(config, "rope_parameters", None) or {}
    theta = parameters.get("rope_theta", getattr(config, "rope_theta", None))
    if theta is None:
        raise TargetError(f"{config.model_type}: rope_theta is nowhere in the configuration")
    return float(theta)
