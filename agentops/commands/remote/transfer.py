"""Print a part of one file as base64, with the digest of the whole. Runs on hosts."""

from __future__ import annotations

import base64
import hashlib
import os
import sys

from agentops.commands.remote.identity import answer

CHUNK = 1 << 20


def main() -> None:
    """Arguments: path, offset, length."""
    path, offset, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    row: dict[str, object] = {
        "size_bytes": None, "sha256": None, "content_base64": "", "problem": None,
    }  # fmt: skip
    try:
        with open(path, "rb") as file:
            hashed = hashlib.sha256()
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
            row["size_bytes"] = file.seek(0, os.SEEK_END)
            row["sha256"] = hashed.hexdigest()
            file.seek(offset)
            row["content_base64"] = base64.b64encode(file.read(length)).decode()
    except OSError as error:
        row["problem"] = error.strerror
    answer(row)


if __name__ == "__main__":
    main()
