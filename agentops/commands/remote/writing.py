"""Writing files whole or not at all, with what stood there before kept. Runs on hosts."""

from __future__ import annotations

import contextlib
import hashlib
import os

from agentops.commands.remote.identity import read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONTENT_LIMIT = 1 << 30


def digest_at(path: str) -> str | None:
    """SHA-256 of the file; None if there is none."""
    if not os.path.lexists(path):
        return None
    content = read_bytes(path, CONTENT_LIMIT)
    return "unreadable" if content is None else hashlib.sha256(content).hexdigest()


def refusal_of(entry: dict[str, Any], content: bytes, before: str | None) -> str | None:
    """Why this file must not be written; None if it may be."""
    wanted = hashlib.sha256(content).hexdigest()
    if wanted != entry["sha256"] or len(content) != entry["size_bytes"]:
        return "content_damaged"
    if os.path.islink(entry["path"]) or os.path.isdir(entry["path"]):
        return "not_a_file"
    if not os.path.isdir(os.path.dirname(entry["path"])) and not entry["make_folder"]:
        return "no_folder"
    if before != wanted and entry["expects"] != "anything" and before != entry["expects"]:
        return "unexpected_content"
    if entry["compile"]:
        try:
            compile(content, entry["path"], "exec")
        except (SyntaxError, ValueError):
            return "does_not_compile"
    return None


def sync_folder(path: str) -> None:
    """Make a rename in this file's folder durable."""
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_beside(path: str, content: bytes, mode: int) -> str:
    """Write a temporary file in the same folder, durable, and give its path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = "%s.agentops-%d" % (path, os.getpid())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except OSError:
        os.unlink(temporary)
        raise
    return temporary


def replace(entry: dict[str, Any], temporary: str, before: str | None) -> str | None:
    """Move the temporary file into place; the old content stays beside it, if it was asked for."""
    path = entry["path"]
    backup = None
    if before is not None:
        was = os.stat(path)
        entry["old_mode"] = was.st_mode & 0o777
        # Who may write there is kept, as far as this user may give files away.
        with contextlib.suppress(PermissionError):
            os.chown(temporary, was.st_uid, was.st_gid)
    if before is not None and entry["backup"]:
        backup = "%s.before-%s" % (path, before[:12])
        if not os.path.lexists(backup):
            os.link(path, backup)
    os.rename(temporary, path)
    sync_folder(path)
    return backup


def undo(done: list[tuple[dict[str, Any], str | None, bytes | None]]) -> None:
    """Put back what was there, last one first."""
    for entry, before, content in reversed(done):
        with contextlib.suppress(OSError):
            if before is None:
                os.unlink(entry["path"])
            else:
                temporary = write_beside(entry["path"], content or b"", entry["old_mode"])
                os.rename(temporary, entry["path"])


def write_all(entries: list[dict[str, Any]], contents: list[bytes], plan: bool) -> str | None:  # noqa: FBT001
    """Check all, then write all; fills each entry's result. The reason if nothing was written."""
    for entry, content in zip(entries, contents):  # noqa: B905 - Python 3.9 has no strict
        entry["before"] = digest_at(entry["path"])
        entry["refusal"] = refusal_of(entry, content, entry["before"])
    if any(entry["refusal"] for entry in entries):
        return "refused"
    if plan:
        return "planned"
    done: list[tuple[dict[str, Any], str | None, bytes | None]] = []
    try:
        for entry, content in zip(entries, contents):  # noqa: B905
            if entry["before"] == entry["sha256"]:
                continue
            old = read_bytes(entry["path"], CONTENT_LIMIT) if entry["before"] else None
            temporary = write_beside(entry["path"], content, entry["mode"])
            entry["backup_path"] = replace(entry, temporary, entry["before"])
            done.append((entry, entry["before"], old))
            entry["changed"] = True
    except OSError as error:
        undo(done)
        for entry in entries:
            entry["changed"] = False
        return "failed: %s" % error.strerror
    return None


def result_rows(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What became of each file, read back from the disk."""
    return [
        {
            "path": entry["path"],
            "before_sha256": entry["before"],
            "after_sha256": digest_at(entry["path"]),
            "changed": entry["changed"],
            "backup": entry["backup_path"],
            "refusal": entry["refusal"],
        }
        for entry in entries
    ]
