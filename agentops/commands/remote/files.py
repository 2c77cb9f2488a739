"""Look at one file: its end, or its digest. Runs on hosts."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time

from agentops.commands.remote.identity import answer, text

CHUNK = 1 << 20


def kind_of(mode: int) -> str:
    """What a path is."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def look(path: str) -> dict[str, object]:
    """Existence, kind, size and time; the same row for both questions."""
    row: dict[str, object] = {
        "exists": False, "kind": None, "size_bytes": None, "modified_unix_ms": None, "inode": None,
        "problem": None, "now_unix_ms": time.time_ns() // 10**6,
    }  # fmt: skip
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return row
    except OSError as error:
        row["problem"] = error.strerror
        return row
    row.update(
        exists=True,
        kind=kind_of(found.st_mode),
        size_bytes=found.st_size,
        modified_unix_ms=found.st_mtime_ns // 10**6,
        inode=found.st_ino,
    )
    return row


def tail(path: str, limit: int, row: dict[str, object]) -> None:
    """Add the last *limit* bytes."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - limit))
        row["tail"] = text(file.read(limit))
        row["tail_offset"] = max(0, size - limit)


def digest(path: str, row: dict[str, object]) -> None:
    """Add the SHA-256 of the whole content, and how much it was."""
    hashed = hashlib.sha256()
    length = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            hashed.update(chunk)
            length += len(chunk)
    row["sha256"] = hashed.hexdigest()
    row["hashed_bytes"] = length


def main() -> None:
    """Arguments: "tail" or "digest", the path, and for a tail the number of bytes."""
    question, path = sys.argv[1:3]
    row = look(path)
    if question == "tail":
        row.update(tail=None, tail_offset=None)
    else:
        row.update(sha256=None, hashed_bytes=None)
    if row["kind"] == "file":
        try:
            if question == "tail":
                tail(path, int(sys.argv[3]), row)
            else:
                digest(path, row)
        except OSError as error:
            row["problem"] = error.strerror
    answer(row)


if __name__ == "__main__":
    main()
