"""Published drafter directories: ``config.json`` and ``model.safetensors`` as z-lab lays them out.

Writes them, checks them by reading them back, and reads them for a warm start or for decoding.
Training's own checkpoints are ``trainer.checkpoint``'s. The one thing to know: what a server would
get wrong in silence (taps, mask token, rotary base, a feature that this drafter lacks) is an
error here, never a default.
"""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from trainer.drafter import Drafter, DrafterConfig
from trainer.errors import CheckpointError, ConfigError
from trainer.files import flush_directory, flush_file, write_whole
from trainer.reading import Json, build, read_file

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}

# Features of the family that change what a drafter computes, with the value that changes nothing.
# Keys of config.json or of dflash_config, which may say them in either place.
_NEUTRAL: dict[str, tuple[Json, ...]] = {
    "attention_bias": (False, None),
    "attention_sink_bias": (False, None),
    "attention_value_scale": (1, None),
    "conv_kernel_size": (None,),
    "final_logit_softcapping": (0, None),
    "input_embedding_scale": (1, None),
    "is_neox_style": (True, None),
    "markov_rank": (0, None),
    "output_multiplier": (1, None),
    "projector_type": (None,),
    "rope_scaling": (None,),
    "sample_from_anchor": (False, None),
    "selector_rank": (0, None),
    "shift_label": (False, None),
    "use_swa": (False, None),
}


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the target model's tokenizer that servers look for; None where there is none."""

    bos: int | None = None
    eos: int | None = None
    pad: int | None = None


def export_z_lab(
    drafter: Drafter, directory: Path, *, tokens: SpecialTokens | None = None,
    dtype: str = "bfloat16",
) -> None:  # fmt: skip
    """Write ``drafter`` to a new ``directory``, whole or not at all, and prove that it reads back.

    Args:
        drafter: What to publish.
        directory: Must not exist.
        tokens: The target model's special tokens.
        dtype: Of the weights; published drafters are bfloat16.

    Raises:
        CheckpointError: the directory exists or cannot be written, a weight is not finite, or
            what was written does not read back as what was given.
    """
    from safetensors.torch import save_file  # noqa: PLC0415 - keeps start-up of a run short

    if directory.exists():
        raise CheckpointError(f"{directory}: exists; export to a new directory")
    weights = {
        name: value.detach().to("cpu", _DTYPES[dtype]).contiguous()
        for name, value in drafter.state_dict().items()
    }
    beside = directory.with_name(f".{directory.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        save_file(weights, beside / WEIGHTS, metadata={"format": "pt"})
        flush_file(beside / WEIGHTS)
        config = published_config(drafter.config, tokens or SpecialTokens(), dtype)
        write_whole(beside / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
        _prove(beside, drafter.config, weights)
        beside.rename(directory)
        flush_directory(directory.parent)
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def published_config(
    config: DrafterConfig, tokens: SpecialTokens, dtype: str = "bfloat16"
) -> dict[str, Json]:
    """The published ``config.json``.

    Where readers disagree on a key's place or name, it is in both: the block size, the rotary
    base (one reader falls back to 10,000 when it looks in the wrong place), the dtype.
    """
    window = config.sliding_window if "sliding_attention" in config.layer_types else None
    published: dict[str, Json] = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": config.block_size,
        "dflash_config": {
            "target_layer_ids": list(config.target_layer_ids),
            "mask_token_id": config.mask_token_id,
            "block_size": config.block_size,
            "num_target_layers": config.num_target_layers,
        },
        "num_target_layers": config.num_target_layers,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": config.rms_norm_eps,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "rope_scaling": None,
        "is_neox_style": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "layer_types": list(config.layer_types),
        "sliding_window": window,
        "use_sliding_window": window is not None,
        "max_window_layers": config.num_hidden_layers,
        "initializer_range": config.initializer_range,
        "use_cache": True,
        "dtype": dtype,
        "torch_dtype": dtype,
        "bos_token_id": tokens.bos,
        "eos_token_id": tokens.eos,
        "pad_token_id": tokens.pad,
    }
    if config.is_causal is not None:
        published["is_causal"] = config.is_causal
    return published


def read_published(directory: Path, *, device: torch.device | None = None) -> Drafter:
    """The drafter in a published directory, in float32.

    Raises:
        CheckpointError: a file is missing or damaged, a tensor is missing, left over or of
            another shape, or a weight is not finite.
        ConfigError: the configuration lacks what must not be guessed, or asks for a feature that
            this drafter does not have.
    """
    from safetensors import SafetensorError  # noqa: PLC0415 - keeps start-up of a run short
    from safetensors.torch import load_file  # noqa: PLC0415

    config = parse_config(read_file(directory / CONFIG), str(directory / CONFIG))
    try:
        weights = load_file(directory / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{directory / WEIGHTS}: cannot be read ({error})") from error
    drafter = Drafter(config)
    _check_tensors(directory / WEIGHTS, weights, drafter.state_dict())
    drafter.load_state_dict(weights)
    return drafter.to(device or torch.device("cpu"), torch.float32)


def parse_config(published: dict[str, Json], where: str) -> DrafterConfig:
    """The drafter's configuration from a published ``config.json``.

    Raises:
        ConfigError: see :func:`read_published`.
    """
    nested = published.get("dflash_config")
    if not isinstance(nested, dict):
        raise ConfigError(f"{where}: dflash_config is missing; this is no DFlash drafter")
    both = {**published, **nested}
    for key, neutral in _NEUTRAL.items():
        if both.get(key) not in neutral:
            raise ConfigError(f"{where}: {key} is {both[key]!r}; this drafter cannot do that")
    for key in ("target_layer_ids", "mask_token_id"):
        if key not in nested:
            raise ConfigError(f"{where}: dflash_config.{key} is missing; it must not be guessed")
    layers = both.get("layer_types") or ["full_attention"] * _count(both, where)
    fields: dict[str, Json] = {
        "rope_theta": _rope_theta(both, where),
        "block_size": _agreed(published, nested, "block_size", where),
        "num_target_layers": _agreed(published, nested, "num_target_layers", where),
        "layer_types": layers,
        "is_causal": both.get("is_causal", both.get("causal")),
    }
    for key in (
        "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
        "head_dim", "vocab_size", "target_layer_ids", "mask_token_id", "rms_norm_eps",
        "max_position_embeddings", "sliding_window", "initializer_range",
    ):  # fmt: skip
        if key in both:
            fields[key] = both[key]
    config = build(DrafterConfig, fields, where)
    if config.num_hidden_layers != _count(both, where):
        raise ConfigError(f"{where}: layer_types has {config.num_hidden_layers} entries")
    return config


def _count(published: dict[str, Json], where: str) -> int:
    count = published.get("num_hidden_layers")
    if not isinstance(count, int):
        raise ConfigError(f"{where}: num_hidden_layers is missing")
    return count


def _agreed(published: dict[str, Json], nested: dict[str, Json], key: str, where: str) -> Json:
    """A value that may stand in two places, and must then be the same in both."""
    values = [table[key] for table in (published, nested) if table.get(key) is not None]
    if not values:
        raise ConfigError(f"{where}: {key} is missing; it must not be guessed")
    if values[0] != values[-1]:
        raise ConfigError(f"{where}: {key} is {values[0]} and, in dflash_config, {values[-1]}")
    return values[0]


def _rope_theta(published: dict[str, Json], where: str) -> Json:
    parameters = published.get("rope_parameters")
    inner = parameters if isinstance(parameters, dict) else {}
    if inner.get("rope_type", "default") != "default":
        raise ConfigError(f"{where}: rope_type {inner['rope_type']!r}; a drafter's rope is plain")
    return _agreed(published, inner, "rope_theta", where)


def _check_tensors(path: Path, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name in sorted({*found, *expected}):
        if name not in found:
            raise CheckpointError(f"{path}: tensor {name} is missing")
        if name not in expected:
            raise CheckpointError(f"{path}: tensor {name} is none of this drafter's")
        if found[name].shape != expected[name].shape:
            shapes = f"{list(found[name].shape)} instead of {list(expected[name].shape)}"
            raise CheckpointError(f"{path}: tensor {name} has shape {shapes}")
        if not bool(found[name].isfinite().all()):
            raise CheckpointError(f"{path}: tensor {name} has values that are not finite")


def _prove(directory: Path, config: DrafterConfig, weights: dict[str, Tensor]) -> None:
    """Raise unless ``directory`` reads back as what was to be published."""
    drafter = read_published(directory)
    same = drafter.config == _comparable(config) and all(
        torch.equal(drafter.get_parameter(name), value.float()) for name, value in weights.items()
    )
    tensors = 11 * config.num_hidden_layers + 3
    if not same or len(weights) != tensors:
        raise CheckpointError(f"{directory}: does not read back as the drafter that was given")


def _comparable(config: DrafterConfig) -> DrafterConfig:
    """The same; a window that no layer uses is not published."""
    slides = "sliding_attention" in config.layer_types
    return config if slides else replace(config, sliding_window=None)
