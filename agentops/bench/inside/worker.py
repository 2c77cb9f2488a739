"""A data worker as multiprocessing spawns it: another command line, the job's memory on a card.

Arguments: its parent's pid, "outlive" or "follow", "ignore" or "take", the folder of the cards'
registry (or "-"), the card, MiB.
"""

import json
import os
import signal
import sys
import threading


def start_ticks() -> int:
    """This process's start, field 22 of its stat."""
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - starts fast
        return int(file.read().rsplit(b")", 1)[1].split()[19])


def main() -> None:
    """Hold the memory until told to end, or until the parent is gone."""
    parent, life, interrupt, registry, card, mib = sys.argv[1:]
    if interrupt == "ignore":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if registry != "-":
        row = {"pid": os.getpid(), "start_ticks": start_ticks(), "device": int(card)}
        path = f"{registry}/{os.getpid()}-{row['start_ticks']}"
        with open(path + ".new", "w") as file:  # noqa: PTH123
            json.dump({**row, "mib": int(mib)}, file)
        os.rename(path + ".new", path + ".json")  # noqa: PTH104
    pause = threading.Event()
    while life == "outlive" or os.getppid() == int(parent):
        pause.wait(0.1)


if __name__ == "__main__":
    main()
