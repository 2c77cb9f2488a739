"""Say who holds a lock on some files. Runs on hosts. Arguments: paths."""

from __future__ import annotations

import os
import sys

from agentops.commands.remote.identity import answer, here, read_bytes, start_ticks

HOLDER_FIELD, FILE_FIELD = 4, 5


def table() -> dict[tuple[int, int, int], list[tuple[str, str, int]]]:
    """Kind, mode and pid of every granted lock, by device and inode. Source: proc_locks(5)."""
    found: dict[tuple[int, int, int], list[tuple[str, str, int]]] = {}
    for line in (read_bytes("/proc/locks") or b"").decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) <= FILE_FIELD or fields[1] == "->":
            continue
        major, minor, inode = fields[FILE_FIELD].split(":")
        key = (int(major, 16), int(minor, 16), int(inode))
        found.setdefault(key, []).append((fields[1], fields[3], int(fields[HOLDER_FIELD])))
    return found


def main() -> None:
    """The place, then one row a path."""
    held = table()
    rows = []
    for path in sys.argv[1:]:
        row: dict[str, object] = {"path": path, "exists": False, "pid_text": None, "locks": []}
        try:
            found = os.stat(path)
        except OSError:
            rows.append(row)
            continue
        key = (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
        text = read_bytes(path, 64) if found.st_size < 64 else None  # noqa: PLR2004 - a pid and no more
        row.update(
            exists=True,
            # Many lock files hold the pid of their maker; it is a claim, not a holder.
            pid_text=None if text is None else text.decode("ascii", "replace").strip(),
            locks=[
                {
                    "kind": kind,
                    "mode": mode,
                    "pid": pid,
                    "start_ticks": start_ticks(pid) if pid > 0 else 0,
                }
                for kind, mode, pid in held.get(key, [])
            ],
        )
        rows.append(row)
    answer(here(), *rows)


if __name__ == "__main__":
    main()
