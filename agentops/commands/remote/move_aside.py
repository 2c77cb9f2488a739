"""Rename a lock file whose owner has ended. Runs on hosts. Arguments: path, text, pid, start."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys

from agentops.commands.remote.clearing import lives, users_of
from agentops.commands.remote.identity import answer
from agentops.commands.remote.writing import sync_folder

TEXT_MAX = 64


def locked_by_others(descriptor: int) -> bool:
    """Whether anybody, of whatever namespace, holds a lock on the open file; we take it if not."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def refusal_of(path: str, descriptor: int, text: str, pid: int, start: int | None) -> str | None:
    """Why the file must stay; None if it may be moved."""
    seen = os.fstat(descriptor)
    if not stat.S_ISREG(seen.st_mode):
        return "not_a_file"
    said = os.read(descriptor, TEXT_MAX + 1).decode("ascii", "replace").strip()
    if said != text:
        return "changed"
    # Where others' descriptors are hidden from this user, their locks still are not.
    if users_of(seen.st_dev, seen.st_ino, os.path.basename(path)) or locked_by_others(descriptor):
        return "held"
    return "owner_lives" if lives(pid, start) else None


def moved(path: str, descriptor: int) -> tuple[str | None, str | None]:
    """Rename it; the new path, or why not."""
    seen = os.fstat(descriptor)
    aside = "%s.aside-%d" % (path, seen.st_mtime_ns)
    if os.path.lexists(aside):
        return None, "name_taken"
    os.rename(path, aside)
    now = os.lstat(aside)
    if (now.st_dev, now.st_ino) != (seen.st_dev, seen.st_ino):
        # Somebody put another one there between the look and the rename: it goes back.
        os.link(aside, path)
        os.unlink(aside)
        return None, "changed"
    sync_folder(path)
    return aside, None


def main() -> None:
    """Open, check, rename; one row."""
    path, text, pid, start = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    aside, refusal = None, None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        names = {errno.ENOENT: "absent", errno.ELOOP: "not_a_file", errno.EISDIR: "not_a_file"}
        refusal = names.get(error.errno or 0, "not_permitted")
    else:
        refusal = refusal_of(path, descriptor, text, pid, int(start) if start else None)
        if refusal is None:
            try:
                aside, refusal = moved(path, descriptor)
            except OSError:
                refusal = "not_permitted"
    answer({"moved_to": aside, "refusal": refusal})


if __name__ == "__main__":
    main()
