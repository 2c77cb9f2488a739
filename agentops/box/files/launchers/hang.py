"""Trains the DFlash drafter, on storage that stops answering after some steps.

A write of the heartbeat that never returns stands for a dead file system or a collective that
waits for a lost peer: the process lives and does nothing.
"""

import json
import os
import runpy
import sys
import threading
from collections.abc import Callable
from typing import Any

STALL_AT_STEP = int(os.environ.get("STALL_AT_STEP", "5"))


def stalling(move: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, until a heartbeat of the fatal step is moved into place."""

    def call(source: Any, target: Any, **options: Any) -> Any:  # noqa: ANN401 - os.replace's own
        if str(target).endswith("heartbeat.json"):
            with open(source, "rb") as file:  # noqa: PTH123 - a launcher of its own
                if json.load(file)["step"] >= STALL_AT_STEP:
                    threading.Event().wait()
        return move(source, target, **options)

    return call


def work(run_file: str) -> None:
    """Run the trainer; the pipeline wants it in a thread of its own."""
    sys.argv = ["trainer", "train", run_file]
    runpy.run_module("trainer", run_name="__main__")


def main() -> int:
    """Wait for the worker; Ctrl-C ends the program."""
    os.replace = stalling(os.replace)
    os.rename = stalling(os.rename)
    worker = threading.Thread(target=work, args=(sys.argv[1],), name="pipeline", daemon=True)
    worker.start()
    try:
        worker.join()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
