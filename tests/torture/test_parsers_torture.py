"""Ten minutes of fuzzing for all that reads a host's bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

pytestmark = pytest.mark.skipif(
    os.environ.get("AGENTOPS_TORTURE") != "1", reason="takes long: run by make torture"
)


@pytest.mark.timeout(1_200)
def test_ten_minutes_of_fuzzing_find_no_fault_in_a_parser(tmp_path: Path) -> None:
    words = ["-max_total_time=600", f"-dict={HERE / 'parsers.dict'}", str(tmp_path)]
    program = [sys.executable, "-P", str(HERE / "fuzz_parsers.py"), *words]
    done = subprocess.run(
        program, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0
