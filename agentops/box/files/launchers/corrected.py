"""Trains the DFlash drafter in the main thread, where the trainer takes signals itself."""

import runpy
import sys


def main() -> None:
    """Run the trainer; one Ctrl-C makes it save a checkpoint and stop."""
    sys.argv = ["trainer", "train", sys.argv[1]]
    runpy.run_module("trainer", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
