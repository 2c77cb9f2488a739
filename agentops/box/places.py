"""The folders boxes live in, and clearing those whose owner was killed.

Here: making a folder under the system's temporary folder, held by a lock for as long as its box is
open, and removing folders that nobody holds. Not here: what a box keeps inside.

The lock is the proof: the kernel lets go of an ``flock`` when the process that took it has ended,
whatever ended it, and never before.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "agentops-box-"
_LOCK = "owner.lock"


@dataclass(frozen=True, slots=True)
class Place:
    """A box's folder, ours until it is given up."""

    directory: Path
    lock: int

    def give_up(self) -> None:
        """Remove the folder, then let go of it; in this order nobody finds it half removed."""
        shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self.lock)


def take_place() -> Place:
    """A new folder; folders of this user that a killed process left behind are removed first."""
    _clear(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    unheld = directory / f"{_LOCK}.new"
    lock = os.open(unheld, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    unheld.rename(directory / _LOCK)  # it gets its name once it is held: a name means an owner
    return Place(directory, lock)


def _clear(parent: Path) -> None:
    for directory in parent.glob(_PREFIX + "*"):
        # Without its lock a folder is being made right now, or is not ours to judge; one that
        # vanishes, or belongs to somebody else, is left alone as well.
        with suppress(FileNotFoundError, PermissionError):
            if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
                continue
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(lock)
