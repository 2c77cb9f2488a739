"""Who has ended, and who still has a file in hand. Runs on hosts."""

from __future__ import annotations

import os

from agentops.commands.remote.identity import read_bytes, stat_fields

ENDED = (b"Z", b"X")


def lives(pid: int, start: int | None) -> bool:
    """Whether the process with this pid, and this start where one is known, may still live."""
    fields = stat_fields(pid)
    if fields is None:
        # A process that may not be looked at is not one that is gone.
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return stat_fields(pid) is not None
    return fields[0] not in ENDED and (start is None or int(fields[19]) == start)


def users_of(device: int, inode: int, name: str) -> list[int]:
    """Pids that map this file or have it open, whatever path they know it by."""
    mark = ("%02x:%02x %d " % (os.major(device), os.minor(device), inode)).encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        text = read_bytes("/proc/" + entry + "/maps", 1 << 24) or b""
        if mark in text or has_open(entry, device, inode, name):
            found.append(int(entry))
    return sorted(found)


def has_open(pid: str, device: int, inode: int, name: str) -> bool:
    """Whether a descriptor of the process is this file; only likely ones are looked at."""
    folder = "/proc/" + pid + "/fd/"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return False
    for number in numbers:
        try:
            # By name first: to look at a file of a dead mount would never end.
            if name in os.readlink(folder + number):
                seen = os.stat(folder + number)
                if (seen.st_dev, seen.st_ino) == (device, inode):
                    return True
        except OSError:
            continue
    return False
