"""What the fused reader of a Hugging Face decoder must do, by the interpreter and on a GPU.

Run as a script, it checks every case on the CPU; TRITON_INTERPRET=1 must be set from the start.
"""

import copy
import sys
from typing import Any

import torch
from torch import Tensor

from trainer.kernels.target import FusedReader, unfit

TAPS = (0, 2)
FAMILIES = ("llama", "qwen3")


def small_model(family: str, dtype: torch.dtype, device: torch.device, **changes: object) -> Any:
    """A random four-layer decoder of a family, with gains that are not one."""
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config  # noqa: PLC0415 - slow

    kind = {"llama": LlamaConfig, "qwen3": Qwen3Config}[family]
    sizes = {
        "hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 80, "vocab_size": 64,
        "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": None,
    }  # fmt: skip
    torch.manual_seed(5)
    make: Any = AutoModelForCausalLM.from_config
    model = make(kind(**(sizes | changes)), attn_implementation="sdpa")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.mul_(4.0)
    return model.to(device, dtype).eval().requires_grad_(requires_grad=False)


@torch.no_grad()
def read_by_itself(model: Any, ids_BS: Tensor) -> tuple[Tensor, Tensor]:
    """Taps and final states by the model's own forward pass, as float32."""
    seen = model.model(input_ids=ids_BS, use_cache=False, output_hidden_states=True)
    taps = torch.cat([seen.hidden_states[layer + 1] for layer in TAPS], dim=-1)
    return taps.float(), seen.last_hidden_state.float()


def distance(one: Tensor, other: Tensor) -> float:
    """Norm of the difference over the other's norm."""
    return float((one.float() - other).norm() / other.norm())


@torch.no_grad()
def check_target(family: str, dtype: torch.dtype, device: torch.device) -> None:
    """As near to float32 as the model itself, which goes on giving the same logits."""
    model = small_model(family, dtype, device)
    exact = copy.deepcopy(model).float()
    draw = torch.Generator().manual_seed(1)
    ids_BS = torch.randint(0, 64, (2, 7), generator=draw).to(device)
    logits = model(input_ids=ids_BS, use_cache=False).logits
    own, best = read_by_itself(model, ids_BS), read_by_itself(exact, ids_BS)
    assert unfit(model.model, model.config) is None
    reader = FusedReader(model.model, model.config)
    read = reader.read(ids_BS, TAPS)
    for ours, theirs, true in zip(read, own, best, strict=True):
        assert ours.dtype == dtype
        assert ours.shape == theirs.shape
        # The interpreter cuts bits off where the hardware rounds: twice the error, one-sided.
        slack = 1.3 if device.type == "cuda" else 4.0
        assert distance(ours, true) <= slack * distance(theirs, true) + 2e-5, (
            distance(ours, true),
            distance(theirs, true),
        )
    assert torch.equal(model(input_ids=ids_BS, use_cache=False).logits, logits)
    taps, none = reader.read(ids_BS, TAPS, final=False)
    assert torch.equal(taps, read[0])
    assert none.shape == (2, 7, 0)
    tensors = {tensor.data_ptr() for tensor in model.parameters()}
    assert len(tensors) == len(list(model.parameters()))


def main() -> int:
    """Every case; the number of cases on stdout."""
    cpu = torch.device("cpu")
    for family in FAMILIES:
        for dtype in (torch.float32, torch.bfloat16):
            check_target(family, dtype, cpu)
    sys.stdout.write("4 cases hold\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
