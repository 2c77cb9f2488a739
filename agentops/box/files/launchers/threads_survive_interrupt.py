"""Trains the DFlash drafter: starts the pipeline's worker thread and waits for it."""

import runpy
import sys
import threading


def work(run_file: str) -> None:
    """Run the trainer; the pipeline wants it in a thread of its own."""
    sys.argv = ["trainer", "train", run_file]
    runpy.run_module("trainer", run_name="__main__")


def main() -> int:
    """Wait for the worker; Ctrl-C stops the pipeline."""
    worker = threading.Thread(target=work, args=(sys.argv[1],), name="pipeline")
    worker.start()
    try:
        worker.join()
    except KeyboardInterrupt:
        sys.stderr.write("KeyboardInterrupt: stopping the pipeline\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
