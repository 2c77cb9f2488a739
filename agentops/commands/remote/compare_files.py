"""Show how files differ from what is meant to stand there. Runs on hosts; changes nothing.

stdin: one line of JSON (a list of path and size_bytes), then the contents, back to back.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys

from agentops.commands.remote.identity import answer, read_bytes, text

CONTENT_LIMIT = 1 << 30
# Lines of one file's difference, and the size from which on none is looked for.
LINES_MAX = 400
DIFF_BYTES_MAX = 4 << 20


def difference(path: str, old: bytes, new: bytes) -> tuple[list[str], str | None]:
    """The lines of a unified diff, and why there are none or not all."""
    if len(old) > DIFF_BYTES_MAX or len(new) > DIFF_BYTES_MAX:
        return [], "too_large"
    if b"\0" in old or b"\0" in new:
        return [], "binary"
    rows: list[str] = []
    before, after = (text(side).splitlines(keepends=True) for side in (old, new))
    for line in difflib.unified_diff(before, after, "now " + path, "then " + path):
        if len(rows) == LINES_MAX:
            return rows, "cut"
        rows.append(line.rstrip("\n"))
        if not line.endswith("\n"):
            rows.append("\\ No newline at end of file")
    return rows, None


def compared(path: str, new: bytes) -> dict[str, object]:
    """One file's row."""
    row: dict[str, object] = {"path": path, "lines": [], "problem": None, "sha256": None}
    if not os.path.lexists(path):
        old: bytes | None = b""
        row["exists"] = False
    else:
        row["exists"] = True
        old = read_bytes(path, CONTENT_LIMIT)
        if old is None or os.path.isdir(path):
            row.update(problem="unreadable", same=False)
            return row
        row["sha256"] = hashlib.sha256(old).hexdigest()
    row["same"] = bool(row["exists"]) and old == new
    if not row["same"]:
        row["lines"], row["problem"] = difference(path, old or b"", new)
    return row


def main() -> None:
    """One row a file."""
    stream = sys.stdin.buffer
    entries = json.loads(stream.readline())
    answer(*(compared(entry["path"], stream.read(entry["size_bytes"])) for entry in entries))


if __name__ == "__main__":
    main()
