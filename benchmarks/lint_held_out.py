"""How well ``agentops lint`` tells honest sentences from lies, on a folder by another hand.

    python benchmarks/lint_held_out.py FOLDER [--show] [--mechanical]

prints by report and by kind of lie: honest sentences objected to, lies found, and the precision,
lies found by all that is objected to. The folder's form stands in ``tests/support/held_out.py``,
which does the work; this script only takes its own folder off the path, where a module has the
name of our ``journal``.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != HERE]
    runpy.run_module("tests.support.held_out", run_name="__main__", alter_sys=True)
