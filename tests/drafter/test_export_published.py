"""What is exported reads back, and what a reader must not guess is never guessed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support.oracle import CONFIG
from trainer.drafter import Drafter, DrafterConfig
from trainer.errors import CheckpointError, ConfigError
from trainer.export import (
    SpecialTokens,
    export_z_lab,
    parse_config,
    published_config,
    read_published,
)
from trainer.reading import Json

SLIDING = replace(
    CONFIG, layer_types=("sliding_attention", "full_attention"), sliding_window=5, is_causal=False
)


def _drafter(config: DrafterConfig = CONFIG) -> Drafter:
    drafter = Drafter(config)
    drafter.initialise(seed=2)
    return drafter


@pytest.mark.parametrize("config", [CONFIG, SLIDING], ids=["full", "mixed"])
def test_an_export_reads_back_as_the_same_drafter(tmp_path: Path, config: DrafterConfig) -> None:
    drafter = _drafter(config)
    export_z_lab(drafter, tmp_path / "out", dtype="float32")
    back = read_published(tmp_path / "out")
    assert back.config == config
    for name, value in drafter.state_dict().items():
        assert torch.equal(back.state_dict()[name], value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_weights_are_published_in_bfloat16_under_the_published_names(tmp_path: Path) -> None:
    export_z_lab(_drafter(), tmp_path / "out")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.bfloat16}
    assert len(weights) == 11 * 2 + 3
    layer = {name.removeprefix("layers.1.") for name in weights if name.startswith("layers.1.")}
    assert layer == {
        "input_layernorm.weight", "post_attention_layernorm.weight",
        "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
        "self_attn.o_proj.weight", "self_attn.q_norm.weight", "self_attn.k_norm.weight",
        "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
    }  # fmt: skip
    assert {"fc.weight", "hidden_norm.weight", "norm.weight"} <= set(weights)


def test_the_config_says_twice_what_readers_look_for_in_two_places() -> None:
    published = published_config(CONFIG, SpecialTokens(eos=7))
    nested = published["dflash_config"]
    assert isinstance(nested, dict)
    assert nested["block_size"] == published["block_size"] == 4
    assert nested["target_layer_ids"] == [1, 3, 5]
    assert nested["mask_token_id"] == 96
    assert published["rope_theta"] == 10_000.0
    assert published["rope_parameters"] == {"rope_type": "default", "rope_theta": 10_000.0}
    assert published["eos_token_id"] == 7


def _without(*path: str) -> Callable[[dict[str, Json]], None]:
    def edit(published: dict[str, Json]) -> None:
        table: Json = published
        for key in path[:-1]:
            assert isinstance(table, dict)
            table = table[key]
        assert isinstance(table, dict)
        del table[path[-1]]

    return edit


def _with(**values: Json) -> Callable[[dict[str, Json]], None]:
    return lambda published: published.update(values)


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (_without("dflash_config"), "no DFlash drafter"),
        (_without("dflash_config", "target_layer_ids"), "target_layer_ids is missing"),
        (_without("dflash_config", "mask_token_id"), "mask_token_id is missing"),
        (_with(rope_theta=5.0), "rope_theta is 5.0 and"),
        (_with(rope_theta=None, rope_parameters=None), "rope_theta is missing"),
        (_with(rope_parameters={"rope_type": "yarn", "rope_theta": 1.0}), "rope is plain"),
        (_with(block_size=8), "block_size is 8 and, in dflash_config, 4"),
        (_with(final_logit_softcapping=30.0), "final_logit_softcapping is 30.0"),
        (_with(conv_kernel_size=2), "conv_kernel_size is 2"),
        (_with(is_neox_style=False), "is_neox_style is False"),
        (_with(attention_bias=True), "attention_bias is True"),
        (_with(num_hidden_layers=3), "layer_types has 2 entries"),
        (_with(head_dim=7), "head_dim: 7"),
        (_with(num_key_value_heads=3), "num_key_value_heads: 3"),
        (_with(layer_types=["sliding_attention"] * 2, sliding_window=None), "sliding_window: None"),
        (_with(num_target_layers=5), "num_target_layers is 5 and"),
    ],
)
def test_a_config_that_would_serve_wrong_numbers_is_refused(
    edit: Callable[[dict[str, Json]], None], complaint: str
) -> None:
    published = json.loads(json.dumps(published_config(CONFIG, SpecialTokens())))
    edit(published)
    with pytest.raises(ConfigError, match=complaint):
        parse_config(published, "config.json")


def test_older_configs_with_the_block_size_on_top_only_are_read() -> None:
    published = json.loads(json.dumps(published_config(CONFIG, SpecialTokens())))
    del published["dflash_config"]["block_size"]
    del published["dflash_config"]["num_target_layers"]
    del published["rope_parameters"]
    assert parse_config(published, "config.json") == CONFIG


def test_a_weight_that_is_not_finite_is_not_published(tmp_path: Path) -> None:
    drafter = _drafter()
    with torch.no_grad():
        drafter.layers[1].get_parameter("mlp.up_proj.weight")[3, 4] = torch.nan
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight.*not finite"):
        export_z_lab(drafter, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckpointError, match="exists"):
        export_z_lab(_drafter(), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_left_over_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    export_z_lab(_drafter(), tmp_path / "out", dtype="float32")
    file = tmp_path / "out" / "model.safetensors"
    weights = load_file(file)
    for edited, complaint in (
        ({**weights, "embed_tokens.weight": torch.ones(2)}, "embed_tokens.weight is none of"),
        ({k: v for k, v in weights.items() if k != "fc.weight"}, "fc.weight is missing"),
        ({**weights, "norm.weight": torch.ones(31)}, r"norm.weight has shape \[31\] instead"),
    ):
        save_file(edited, file)
        with pytest.raises(CheckpointError, match=complaint):
            read_published(tmp_path / "out")
