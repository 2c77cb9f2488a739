"""Print free space of the file systems behind some paths, or of all real ones. Runs on hosts."""

from __future__ import annotations

import os
import re
import sys

from agentops.commands.remote.identity import answer, read_bytes

# File systems without a disk or memory of their own.
VIRTUAL = frozenset({
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs",
    "bpf", "pstore", "configfs", "fusectl", "hugetlbfs", "autofs", "binfmt_misc", "nsfs",
    "rpc_pipefs",
})  # fmt: skip
OCTAL = re.compile(r"\\([0-7]{3})")


def plain(word: str) -> str:
    """A path of /proc/mounts, where a space is an octal escape. Source: proc_pid_mounts(5)."""
    return OCTAL.sub(lambda match: chr(int(match.group(1), 8)), word)


def mounts() -> list[tuple[str, str, str]]:
    """Mount point, device and type."""
    rows = []
    for line in (
        (read_bytes("/proc/self/mounts") or b"").decode("utf-8", "backslashreplace").splitlines()
    ):
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] not in VIRTUAL:  # noqa: PLR2004
            rows.append((plain(fields[1]), plain(fields[0]), fields[2]))
    return rows


def mount_of(path: str, table: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    """The mount that a path lies on: the last one whose point is the longest prefix."""
    real = os.path.realpath(path)
    fitting = [m for m in table if real == m[0] or real.startswith(m[0].rstrip("/") + "/")]
    return max(fitting, key=lambda m: len(m[0]), default=("", "", ""))


def main() -> None:
    """Arguments: paths; none means all."""
    table = mounts()
    wanted = sys.argv[1:]
    targets = [(p, mount_of(p, table)) for p in wanted] or [(m[0], m) for m in table]
    rows = []
    for path, (point, device, kind) in targets:
        row: dict[str, object] = {
            "path": path, "mount": point, "device": device, "kind": kind, "problem": None,
            "total_bytes": None, "available_bytes": None, "files_free": None, "read_only": None,
        }  # fmt: skip
        try:
            found = os.statvfs(path)
        except OSError as error:
            row["problem"] = error.strerror
        else:
            row.update(
                total_bytes=found.f_blocks * found.f_frsize,
                available_bytes=found.f_bavail * found.f_frsize,
                # File systems that make inodes on demand say 0 of 0.
                files_free=found.f_favail if found.f_files else None,
                read_only=bool(found.f_flag & os.ST_RDONLY),
            )
        rows.append(row)
    answer(*rows)


if __name__ == "__main__":
    main()
