"""The journal's loops at full length: the tests of ``tests/real``, with their counts raised."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REAL = Path(__file__).parent.parent / "real"
LOOPS = ("crash", "index", "tamper", "faults", "stateful")

pytestmark = pytest.mark.skipif(
    os.environ.get("AGENTOPS_TORTURE") != "1", reason="takes long: run by make torture"
)


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_long_loop_passes(loop: str) -> None:
    path = REAL / f"test_journal_{loop}.py"
    program = [sys.executable, "-m", "pytest", "-q", "--timeout=7000", "--durations=5", str(path)]
    done = subprocess.run(program, cwd=REAL.parent.parent, check=False)
    assert done.returncode == 0


@pytest.mark.timeout(1_200)
def test_ten_minutes_of_fuzzing_find_no_crash() -> None:
    script = Path(__file__).parent / "fuzz_journal.py"
    program = [sys.executable, "-P", str(script), "-max_total_time=600"]
    root = REAL.parent.parent
    done = subprocess.run(
        program, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False
    )
    assert done.returncode == 0
