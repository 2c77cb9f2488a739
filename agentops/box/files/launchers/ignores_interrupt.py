"""Trains the DFlash drafter; a stray Ctrl-C in the terminal must not end a long run."""

import runpy
import signal
import sys
import threading


def work(run_file: str) -> None:
    """Run the trainer; the pipeline wants it in a thread of its own."""
    sys.argv = ["trainer", "train", run_file]
    runpy.run_module("trainer", run_name="__main__")


def main() -> int:
    """Ignore Ctrl-C and wait for the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = threading.Thread(target=work, args=(sys.argv[1],), name="pipeline")
    worker.start()
    worker.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
