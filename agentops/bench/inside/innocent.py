"""An innocent: notes every signal before it takes it, and does no harm.

Arguments: the file for its notes, words that only stand in the command line, and perhaps ``--``
with an argv to run as its child. It reaps that child unless CARELESS is in its environment.
"""

import os
import signal
import sys
import threading


def note(number: int, _frame: object) -> None:
    """Write the signal down, then take it as if nobody had been listening."""
    with open(sys.argv[1] + ".signals", "a") as notes:  # noqa: PTH123 - starts fast
        notes.write(signal.Signals(number).name + "\n")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def serve(port: int) -> None:
    """Take the port as soon as nobody has it, and keep it."""
    import socket  # noqa: PLC0415 - only this habit needs it

    pause = threading.Event()
    listener = socket.socket()
    while True:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            pause.wait(0.02)
            continue
        listener.listen()
        while True:
            signal.pause()


def share(size: int) -> object:
    """Make a segment of shared memory with this pid in its name, and hold it."""
    import mmap  # noqa: PLC0415 - only this habit needs it

    path = f"/dev/shm/torch_{os.getpid()}_1_0"  # noqa: S108 - the stage's own
    with open(path, "w+b") as file:  # noqa: PTH123
        file.write(b"\0" * size)
        file.flush()
        return mmap.mmap(file.fileno(), size)


def main() -> None:
    """Note signals, start the child if there is one, wait."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, note)
    if "--" in sys.argv:
        argv = sys.argv[sys.argv.index("--") + 1 :]
        env = {**os.environ, **dict(p.partition("=")[::2] for p in os.environ["CHILD"].split(";"))}
        del env["CHILD"]
        os.posix_spawn(argv[0], argv, env, setsigdef=[signal.SIGINT])
        if "CARELESS" not in os.environ:
            signal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, os.WNOHANG))
    _held = share(int(os.environ["SHARE"])) if "SHARE" in os.environ else None
    with open(sys.argv[1] + ".ready", "w"):  # noqa: PTH123
        pass
    if "SERVE" in os.environ:
        serve(int(os.environ["SERVE"]))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
