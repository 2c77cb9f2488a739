"""The fused kernels, run by Triton's interpreter, give what their eager twins give."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from trainer.kernels.choice import row_math
from trainer.loss import EagerRowMath

ROOT = Path(__file__).parents[2]


def test_fused_rows_are_the_eager_rows() -> None:
    """In a process of its own: Triton reads the variable when it is imported."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.row_cases"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "12 cases hold\n"


def test_a_cpu_gets_the_eager_rows() -> None:
    assert isinstance(row_math(torch.device("cpu")), EagerRowMath)
