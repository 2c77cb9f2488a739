"""First process of a private PID namespace: runs argv, reaps orphans, ends with its owner.

The owner holds the write end of this process's stdin. End of file there means that the owner is
gone, in order or not; then this process exits, and the kernel ends the whole namespace. Without a
namespace it ends its own child only. Plain Python, standard library only: it runs with -I -S.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys


def main(argv: list[str]) -> int:
    """Run until stdin closes, SIGTERM comes, or the child (if any) ends."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL) if argv else None
    status = 0
    while not ended:
        ready, _, _ = select.select([0, read_end], [], [])
        if read_end in ready:
            os.read(read_end, 512)
        status_of_child = _reap(None if child is None else child.pid)
        if status_of_child is not None:
            return status_of_child
        if 0 in ready and not os.read(0, 512):
            break
    if child is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)
    return status


def _reap(child: int | None) -> int | None:
    """Wait for all that have ended; the status of *child* if it is among them."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == child:
                return os.waitstatus_to_exitcode(status) & 0xFF
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
