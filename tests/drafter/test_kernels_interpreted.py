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

from trainer.kernels import rows
from trainer.kernels.choice import layer_math, row_math
from trainer.kernels.eager import EagerRowMath
from trainer.kernels.pointwise import EagerLayerMath

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("cases", "count"), [("row_cases", 20), ("kernel_cases", 11), ("target_cases", 4)]
)
def test_fused_kernels_are_their_eager_twins(cases: str, count: int) -> None:
    """In a process of its own: Triton reads the variable when it is imported."""
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.support.{cases}"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{count} cases hold\n"


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
