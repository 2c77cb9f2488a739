"""The fused kernels, run by Triton's interpreter, give what their eager twins give; and compile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from trainer.kernels import anchors, anchors_backward, rows
from trainer.kernels.anchors import Tile, Tiles
from trainer.kernels.choice import layer_math, row_math
from trainer.kernels.eager import EagerRowMath
from trainer.kernels.pointwise import EagerLayerMath

ROOT = Path(__file__).parents[2]


CASES = {"row_cases": 20, "kernel_cases": 11, "target_cases": 4}
RUN_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(f"tests.support.{name}").main()
"""


@pytest.mark.timeout(300)
def test_fused_kernels_are_their_eager_twins() -> None:
    """In a process of its own: Triton reads the variable when it is imported."""
    ended = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *CASES],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "".join(f"{count} cases hold\n" for count in CASES.values())


def test_a_cpu_gets_the_eager_twins() -> None:
    cpu = torch.device("cpu")
    assert isinstance(row_math(cpu), EagerRowMath)
    assert isinstance(layer_math(cpu), EagerLayerMath)


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_fused_rows_compile_for_hopper_with_wide_loads() -> None:
    """Needs no GPU: Triton's own assembler is on the CPU. 128 bits a load, or bandwidth is lost."""
    pointers = {"logits": "*bf16", "labels": "*i64", "log_sum": "*fp32"}
    constants = {"VOCABULARY": "constexpr", "COLUMNS": "constexpr"}
    for kernel, others in (
        (rows._statistics, {"picked": "*fp32", "best": "*i64"}),
        (rows._gradient, {"coefficient": "*fp32"}),
    ):
        signature = {**pointers, **others, **constants}
        last = len(signature) - 1
        source = ASTSource(
            fn=kernel,
            signature=signature,
            constexprs={(last - 1,): 49_152, (last,): 4096},
            attrs={(0,): [["tt.divisibility", 16]]},
        )
        made = triton.compile(
            source, target=GPUTarget("cuda", 90, 32), options={"num_warps": rows._WARPS}
        )
        assert "ld.global.v4.b32" in made.asm["ptx"]
        assert made.asm["cubin"]


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("kind", ["forward", "rows", "keys"])
def test_attention_compiles_for_hoppers_matrix_units(kind: str) -> None:
    """Needs no GPU. All products on the warp-group units, and tiles that fit a processor."""
    kernel = {
        "forward": anchors._forward,
        "rows": anchors_backward._rows_backward,
        "keys": anchors_backward._keys_backward,
    }[kind]
    tile: Tile = getattr(Tiles(), kind)
    constants = {
        "ROWS": tile.rows, "KEYS": tile.keys, "GROUP": 4, "MEMBERS": 4, "WIDTH": 128,
        "PRECISION": "tf32",
    }  # fmt: skip
    tables = {"log_sum": "*fp32", "inner": "*fp32", "intervals": "*i32", "spans": "*i32",
              "visitors": "*i32"}  # fmt: skip
    tensors = ("query", "key", "value", "out", "slope", "d_query", "d_key", "d_value")
    signature, values, aligned = {}, {}, {}
    for place, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name], values[place,] = "constexpr", constants[name]
            continue
        signature[name] = (
            "*bf16" if name in tensors else "fp32" if "scale" in name else tables.get(name, "i32")
        )
        if name in tensors or name.endswith(("_row", "_head", "_batch")):
            aligned[place,] = [["tt.divisibility", 16]]
    made = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=aligned),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": tile.warps, "num_stages": tile.stages},
    )
    assert "wgmma.mma_async" in made.asm["ptx"]
    assert "mma.sync" not in made.asm["ptx"]
    assert made.metadata.shared <= 227 * 1024
