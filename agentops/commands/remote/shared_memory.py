"""Print what lies in /dev/shm, and who holds it. Runs on hosts."""

from __future__ import annotations

import os
import re
import time

from agentops.commands.remote.identity import answer, read_bytes, start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHM = "/dev/shm/"  # noqa: S108 - the very folder that is asked about
ROWS_MAX = 2000
# Names that carry their creator's pid: multiprocessing "psm_" does not, torch and loky do.
CREATOR = re.compile(r"^(?:torch_|loky-|sem\.loky-|vllm_offload_)([0-9]+)")


def holders() -> dict[str, list[int]]:
    """Pids that map a file of /dev/shm or have it open, by name."""
    found: dict[str, set[int]] = {}
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        names = set()
        text = read_bytes("/proc/" + pid + "/maps", 1 << 24) or b""
        for line in text.split(b"\n"):
            at = line.find(b" " + SHM.encode())
            if at >= 0:
                names.add(line[at + 1 :].decode("utf-8", "backslashreplace"))
        folder = "/proc/" + pid + "/fd"
        try:
            for name in os.listdir(folder):
                target = os.readlink(folder + "/" + name)
                if target.startswith(SHM):
                    names.add(target)
        except OSError:
            pass
        for name in names:
            found.setdefault(name[len(SHM) :], set()).add(int(pid))
    return {name: sorted(pids) for name, pids in found.items()}


def main() -> None:
    """The file system, then its files, largest first."""
    size = os.statvfs(SHM)
    held = holders()
    rows: list[dict[str, Any]] = []
    now = time.time()
    for folder, _, names in os.walk(SHM):
        for name in names:
            path = os.path.join(folder, name)
            try:
                found = os.lstat(path)
            except OSError:
                continue
            short = path[len(SHM) :]
            creator = CREATOR.match(short)
            creator_pid = int(creator.group(1)) if creator else None
            rows.append({
                "name": short,
                "size_bytes": found.st_size,
                "used_bytes": found.st_blocks * 512,
                "uid": found.st_uid,
                "age_s": max(0, int(now - found.st_mtime)),
                "inode": found.st_ino,
                "held_by": held.get(short, []),
                "held_since_ticks": [start_ticks(pid) for pid in held.get(short, [])],
                "creator_pid": creator_pid,
                "creator_alive": None if creator_pid is None else os.path.exists("/proc/%d" % creator_pid),  # noqa: E501
            })  # fmt: skip
    rows.sort(key=lambda row: -row["used_bytes"])
    head = {
        "total_bytes": size.f_blocks * size.f_frsize,
        "free_bytes": size.f_bavail * size.f_frsize,
        "files": len(rows),
        "sees_all": os.getuid() == 0,
    }
    answer(head, *rows[:ROWS_MAX])


if __name__ == "__main__":
    main()
