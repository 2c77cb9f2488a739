"""Put back what a deployment replaced, all files or none. Runs on hosts.

Argument: [{"path", "expects", "backup"}...] as JSON; backup is null for a file that was new.
"""

from __future__ import annotations

import json
import os
import sys

from agentops.commands.remote.identity import answer
from agentops.commands.remote.writing import digest_at, result_rows, sync_folder

MARK = ".before-"


def kept_digest(entry: dict[str, object]) -> str | None:
    """Digest of the kept content; None for a file that was new."""
    return None if entry["backup"] is None else digest_at(str(entry["backup"]))


def refusal_of(entry: dict[str, object]) -> str | None:
    """Why this file must not be put back; None if it may be, or stands so already."""
    kept, now = entry["kept"], entry["before"]
    if os.path.islink(str(entry["path"])) or os.path.isdir(str(entry["path"])):
        return "not_a_file"
    if entry["backup"] is not None:
        promised = str(entry["backup"]).rpartition(MARK)[2]
        if kept is None or not promised or not str(kept).startswith(promised):
            # The name says what was kept; other content is nobody's backup.
            return "content_damaged"
    return None if now in (kept, entry["expects"]) else "unexpected_content"


def put_back(entry: dict[str, object]) -> None:
    """One rename, or the removal of a file that was new."""
    path = str(entry["path"])
    if entry["backup"] is None:
        os.unlink(path)
    else:
        temporary = "%s.agentops-%d" % (path, os.getpid())
        # The kept file is the old inode itself: mode and owner come back with it.
        os.link(str(entry["backup"]), temporary)
        os.rename(temporary, path)
    sync_folder(path)
    entry["changed"] = True


def main() -> None:
    """Check all, then put back all."""
    entries = json.loads(sys.argv[1])
    for entry in entries:
        entry.update(before=digest_at(entry["path"]), changed=False, backup_path=None)
        entry["kept"] = kept_digest(entry)
        entry["refusal"] = refusal_of(entry)
    problem = "refused" if any(entry["refusal"] for entry in entries) else None
    try:
        for entry in entries if problem is None else ():
            if entry["before"] != entry["kept"]:
                put_back(entry)
    except OSError as error:
        problem = "failed: %s" % error.strerror
    answer({"problem": problem}, *result_rows(entries))


if __name__ == "__main__":
    main()
