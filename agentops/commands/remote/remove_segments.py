"""Remove files of /dev/shm that nobody has in hand. Runs on hosts. Stdin: a JSON list."""

from __future__ import annotations

import json
import os
import stat
import sys

from agentops.commands.remote.clearing import lives, users_of
from agentops.commands.remote.identity import answer, boot_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHM = "/dev/shm/"  # noqa: S108 - the very folder that is meant


def refusal_of(entry: dict[str, Any], boot: str) -> str | None:
    """Why this segment must stay; None if it may go."""
    path = SHM + entry["name"]
    try:
        seen = os.lstat(path)
    except OSError:
        return "absent"
    if not stat.S_ISREG(seen.st_mode) or seen.st_ino != entry["inode"]:
        return "changed"
    if os.geteuid() != 0:
        return "users_hidden"
    if users_of(seen.st_dev, seen.st_ino, entry["name"]):
        return "held"
    return "owner_lives" if any_owner_lives(entry, boot) else None


def any_owner_lives(entry: dict[str, Any], boot: str) -> bool:
    """Whether a process that held it, or the one that its name tells of, may still live."""
    creator = entry["creator_pid"]
    return (creator is not None and lives(creator, None)) or any(
        owner["boot_id"] == boot and lives(owner["pid"], owner["start_ticks"])
        for owner in entry["owners"]
    )


def main() -> None:
    """Each is checked right before it is removed; one row each."""
    boot = boot_id()
    rows = []
    for entry in json.loads(sys.stdin.read()):
        refusal = refusal_of(entry, boot)
        if refusal is None:
            try:
                os.unlink(SHM + entry["name"])
            except OSError:
                refusal = "not_permitted"
        rows.append({"name": entry["name"], "removed": refusal is None, "refusal": refusal})
    answer(*rows)


if __name__ == "__main__":
    main()
