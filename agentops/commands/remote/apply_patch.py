"""Apply one unified diff to one file, exactly or not at all. Runs on hosts.

stdin: the diff. Argument: {"path", "expects", "compile", "backup", "plan"} as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys

from agentops.commands.remote.identity import answer, read_bytes
from agentops.commands.remote.writing import CONTENT_LIMIT, digest_at, result_rows, write_all

HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
NO_NEWLINE = b"\\ No newline at end of file"


def hunks_of(diff: bytes) -> list[tuple[int, list[tuple[bytes, bytes]]]]:
    """Each hunk's first line (0-based) and its rows: mark and text."""
    rows = diff.splitlines(keepends=True)
    hunks: list[tuple[int, list[tuple[bytes, bytes]]]] = []
    for number, row in enumerate(rows):
        found = HUNK.match(row)
        if found:
            # "-0,0" stands before the first line; every other start counts from 1.
            shift = 0 if found.group(2) == b"0" else 1
            hunks.append((int(found.group(1)) - shift, []))
        elif hunks and row[:1] in (b" ", b"-", b"+", b"\n"):
            mark, text = (b" ", b"\n") if row == b"\n" else (row[:1], row[1:])
            if rows[number + 1 : number + 2] and rows[number + 1].startswith(NO_NEWLINE):
                text = text.rstrip(b"\n")
            hunks[-1][1].append((mark, text))
    return hunks


def patched(old: bytes, diff: bytes) -> bytes | None:
    """The new content; None if the diff does not fit this content to the letter."""
    lines = old.splitlines(keepends=True)
    result: list[bytes] = []
    at = 0
    hunks = hunks_of(diff)
    for start, rows in hunks:
        if start < at:
            return None
        result += lines[at:start]
        at = start
        for mark, text in rows:
            if mark == b"+":
                result.append(text)
                continue
            if at >= len(lines) or lines[at] != text:
                return None
            result += [text] if mark == b" " else []
            at += 1
    return b"".join(result + lines[at:]) if hunks else None


def main() -> None:
    """First the problem, then the file's row."""
    job = json.loads(sys.argv[1])
    diff = sys.stdin.buffer.read()
    old = read_bytes(job["path"], CONTENT_LIMIT)
    entry = dict(
        job, mode=0o644, make_folder=False, before=None, refusal=None, changed=False,
        backup_path=None,
    )  # fmt: skip
    new = None if old is None else patched(old, diff)
    if new is None:
        entry["before"] = digest_at(job["path"])
        problem = "no_file" if old is None else "does_not_apply"
        answer({"problem": problem}, *result_rows([entry]))
        return
    entry.update(
        sha256=hashlib.sha256(new).hexdigest(),
        size_bytes=len(new),
        # Mode bits are kept: a script that could be run must still be.
        mode=os.stat(job["path"]).st_mode & 0o777,
    )
    answer({"problem": write_all([entry], [new], job["plan"])}, *result_rows([entry]))


if __name__ == "__main__":
    main()
