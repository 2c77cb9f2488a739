"""Starts ``benchmarks/journal_speed.py``.

A script's folder is the first place where Python looks for modules, and this script has the name of
the package that it measures; so that folder is taken off the path first.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != HERE]
    runpy.run_path(str(HERE / "journal_speed.py"), run_name="__main__")
