"""A checkpoint is whole or absent, its damage is found, and old ones go in the right order."""

from pathlib import Path

import pytest
import torch

from trainer.checkpoint import CheckpointStore, load
from trainer.config import OptimizerSettings
from trainer.drafter import Drafter, DrafterConfig
from trainer.errors import CheckpointError
from trainer.files import write_whole
from trainer.optimizer import MasterOptimizer

TENSORS = {"master.weight": torch.arange(6.0), "step.weight": torch.tensor(3.0)}


def _store(directory: Path, keep: int = 2) -> CheckpointStore:
    return CheckpointStore(directory / "checkpoints", keep=keep)


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "checkpoints").glob("step-*"))


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    store = _store(tmp_path)
    path = store.save(7, TENSORS, {"place": [1, 2]}, is_best=False)
    found = store.load_newest()
    assert found is not None
    assert (found.path, found.step, found.state) == (path, 7, {"place": [1, 2]})
    assert torch.equal(found.tensors["master.weight"], TENSORS["master.weight"])


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert _store(tmp_path).load_newest() is None


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for step in range(1, 6):
        store.save(step, TENSORS, {}, is_best=step == 2)
    assert _names(tmp_path) == ["step-00000002", "step-00000004", "step-00000005"]


@pytest.mark.parametrize("name", ["training.safetensors", "state.json"])
def test_one_changed_byte_is_found_and_named(tmp_path: Path, name: str) -> None:
    store = _store(tmp_path)
    path = store.save(1, TENSORS, {"a": 1}, is_best=False)
    content = bytearray((path / name).read_bytes())
    content[-2] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{name}: damaged"):
        store.load_newest()


def test_a_half_written_checkpoint_is_never_the_newest(tmp_path: Path) -> None:
    """What a writer leaves that dies at any moment: a directory beside, or no manifest yet."""
    store = _store(tmp_path)
    store.save(1, TENSORS, {}, is_best=False)
    for left in (".step-00000002.tmp", "step-00000003"):
        (tmp_path / "checkpoints" / left).mkdir()
        (tmp_path / "checkpoints" / left / "training.safetensors").write_bytes(b"half")
    found = _store(tmp_path).load_newest()
    assert found is not None
    assert found.step == 1
    _store(tmp_path).save(4, TENSORS, {}, is_best=False)
    assert not (tmp_path / "checkpoints" / ".step-00000002.tmp").exists()


def test_a_lost_pointer_costs_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for step in (1, 2):
        store.save(step, TENSORS, {}, is_best=False)
    (tmp_path / "checkpoints" / "latest").unlink()
    found = store.load_newest()
    assert found is not None
    assert found.step == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = _store(tmp_path).save(1, TENSORS, {}, is_best=False)
    (path / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"step-00000001: no whole checkpoint"):
        load(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    with pytest.raises(OSError, match=r"File name too long"):
        write_whole(tmp_path / ("x" * 250), b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def _drafter(hidden: int = 16) -> Drafter:
    config = DrafterConfig(
        hidden_size=hidden,
        intermediate_size=24,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        vocab_size=50,
        num_target_layers=6,
        target_layer_ids=(1, 4),
        mask_token_id=49,
        layer_types=("full_attention",),
        block_size=4,
    )
    drafter = Drafter(config)
    drafter.initialise(seed=0)
    return drafter


def _fill_gradients(drafter: Drafter, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    for parameter in drafter.parameters():
        made = torch.randn(parameter.shape, generator=draw)
        parameter.grad = made.to(parameter.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_optimiser_goes_on_bit_for_bit_from_its_state(dtype: torch.dtype) -> None:
    whole, broken = (_drafter().to(dtype) for _ in range(2))
    first, second = (MasterOptimizer(each, OptimizerSettings()) for each in (whole, broken))
    for seed in range(2):
        for drafter, optimizer in ((whole, first), (broken, second)):
            _fill_gradients(drafter, seed)
            optimizer.step(1e-3)
    state = {name: tensor.clone() for name, tensor in second.state().items()}
    restored = _drafter().to(dtype)
    third = MasterOptimizer(restored, OptimizerSettings())
    third.load(state)
    for drafter, optimizer in ((whole, first), (restored, third)):
        _fill_gradients(drafter, 9)
        optimizer.step(1e-3)
    assert all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), restored.parameters(), strict=True)
    )


def test_a_bfloat16_norm_gain_moves_through_its_master() -> None:
    """Steps below the last bit add up in float32; in bfloat16 alone each would be lost."""
    drafter = _drafter().to(torch.bfloat16)
    optimizer = MasterOptimizer(drafter, OptimizerSettings())
    for _ in range(60):
        for parameter in drafter.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step(1e-4)
    assert float(drafter.norm.weight.detach()[0]) < 1.0
    alone = torch.ones(1, dtype=torch.bfloat16)
    for _ in range(60):
        alone -= 1e-4
    assert float(alone) == 1.0


def test_a_state_of_another_shape_is_refused_by_the_tensors_name() -> None:
    donor = MasterOptimizer(_drafter(hidden=32), OptimizerSettings())
    _fill_gradients_and_step(donor)
    with pytest.raises(CheckpointError, match=r"tensor '.*' has shape"):
        MasterOptimizer(_drafter(), OptimizerSettings()).load(donor.state())


def _fill_gradients_and_step(optimizer: MasterOptimizer) -> None:
    for master in optimizer.masters.values():
        master.grad = torch.ones_like(master)
    optimizer.step(1e-3)
