"""An innocent: looks like a stale download of a model that the trainer is named after.

Arguments: folder, repository, words that only stand in the command line. It holds a half-written
file open, does nothing else, and notes every signal that it gets before it takes it.
"""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Note signals, hold the file, wait."""
    folder = Path(sys.argv[1])
    name = Path(sys.argv[0]).stem

    def note(number: int, _frame: object) -> None:
        with (folder / f"{name}.signals").open("a") as notes:
            notes.write(signal.Signals(number).name + "\n")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, note)
    with (folder / f"{name}.incomplete").open("ab") as partial:
        partial.write(b"\0" * 4096)
        partial.flush()
        (folder / f"{name}.ready").touch()
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
