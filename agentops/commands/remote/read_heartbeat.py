"""Print a heartbeat file as it is, and the clocks to judge its age by. Runs on hosts."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from agentops.commands.remote.identity import answer, read_bytes, text

LIMIT = 65536


def main() -> None:
    """Argument: the path."""
    path = sys.argv[1]
    row: dict[str, object] = {"exists": os.path.lexists(path), "modified_unix_ms": None}
    with contextlib.suppress(OSError):
        row["modified_unix_ms"] = os.stat(path).st_mtime_ns // 10**6
    content = read_bytes(path, LIMIT)
    row["content"] = None if content is None else text(content)
    row["now_unix_ms"] = time.time_ns() // 10**6
    answer(row)


if __name__ == "__main__":
    main()
