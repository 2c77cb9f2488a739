"""Advisory locks between processes: one writer per stream, one indexer at a time.

flock(2) on a descriptor of its own: it excludes other openings within this process too, and the
kernel lets go of it when the process dies, however it dies.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.005


def try_lock(path: Path) -> int | None:
    """An exclusive lock on a file or folder, as a descriptor to close; None if another has it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return None
        raise
    return descriptor


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock on *path* (made if absent) for a block; waits for as long as it takes.

    Meant for blocks that are short by design: an index batch, one line.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_within(path: Path, *, deadline_s: float, shared: bool = False) -> Iterator[bool]:
    """Like ``locked``, but gives False when the lock was not to be had before the deadline."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    end = time.monotonic() + deadline_s
    try:
        held = False
        while not held:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                held = True
            except OSError as error:
                if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                    raise
                if time.monotonic() >= end:
                    break
                time.sleep(_POLL_S)  # noqa: TID251 - flock has no timed wait; the deadline bounds it
        yield held
    finally:
        os.close(descriptor)
