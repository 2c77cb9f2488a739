"""Trains the DFlash drafter: starts the pipeline's worker thread and waits for it."""

import runpy
import sys
import threading


def work(run_file: str, finished: threading.Event) -> None:
    """Run the trainer; the pipeline wants it in a thread of its own."""
    sys.argv = ["trainer", "train", run_file]
    try:
        runpy.run_module("trainer", run_name="__main__")
    finally:
        finished.set()


def main() -> int:
    """Wait for the worker; Ctrl-C stops the pipeline."""
    # Not Thread.join: in CPython 3.11 an interrupt there makes the interpreter forget the thread.
    finished = threading.Event()
    threading.Thread(target=work, args=(sys.argv[1], finished), name="pipeline").start()
    try:
        finished.wait()
    except KeyboardInterrupt:
        sys.stderr.write("KeyboardInterrupt: stopping the pipeline\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
