"""Print every process but kernel threads, one JSON row each. Runs on hosts."""

from __future__ import annotations

import os
import time

from agentops.commands.remote.identity import (
    PF_KTHREAD,
    answer,
    here,
    own_chain,
    read_bytes,
    stat_fields,
    text,
)

CMDLINE_LIMIT = 8192
LAUNCH_VARIABLE = b"AGENTOPS_LAUNCH_ID="


def link(path: str) -> str | None:
    """Target of a symbolic link; None if it may not be read."""
    try:
        return text(os.readlink(path.encode()))
    except OSError:
        return None


def status_fields(directory: str) -> dict[str, str]:
    """The lines of /proc/PID/status."""
    lines = text(read_bytes(directory + "/status")).split("\n")
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def launch_id(directory: str) -> str | None:
    """The launch id in the process's environment."""
    for variable in (read_bytes(directory + "/environ") or b"").split(b"\0"):
        if variable.startswith(LAUNCH_VARIABLE):
            return text(variable[len(LAUNCH_VARIABLE) :])
    return None


def words(cmdline: bytes) -> list[str]:
    """The arguments of a command line."""
    return text(cmdline[:-1] if cmdline.endswith(b"\0") else cmdline).split("\0") if cmdline else []


def row(pid: int, page_kib: int) -> dict[str, object] | None:
    """One process; None if it ended meanwhile or is a kernel thread."""
    directory = "/proc/" + str(pid)
    fields = stat_fields(pid)
    if fields is None or int(fields[6]) & PF_KTHREAD:
        return None
    status = status_fields(directory)
    cmdline = read_bytes(directory + "/cmdline", CMDLINE_LIMIT)
    if "Uid" not in status or cmdline is None:
        return None
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "pgid": int(fields[2]),
        "sid": int(fields[3]),
        "state": fields[0].decode(),
        "uid": int(status["Uid"].split()[0]),
        "threads": int(status.get("Threads", "0")),
        "start_ticks": int(fields[19]),
        "cpu_ticks": int(fields[11]) + int(fields[12]),
        "rss_kib": int(fields[21]) * page_kib,
        "ignored": status.get("SigIgn", "0"),
        "caught": status.get("SigCgt", "0"),
        "pending": status.get("SigPnd", "0"),
        "shared_pending": status.get("ShdPnd", "0"),
        "comm": status.get("Name", ""),
        "cmdline": words(cmdline),
        "exe": link(directory + "/exe"),
        "cwd": link(directory + "/cwd"),
        "cgroup": text(read_bytes(directory + "/cgroup", 4096)),
        "wchan": (read_bytes(directory + "/wchan", 256) or b"").decode("ascii", "replace"),
        "launch_id": launch_id(directory),
    }


def main() -> None:
    """Header first, then the rows."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
    own = own_chain()
    own_session = os.getsid(0)
    rows = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = row(int(name), page_kib)
            if found is None:
                continue
            if found["pid"] in own and found["sid"] == own_session:
                # This script's own text, several times over; the reader drops these rows.
                found["cmdline"] = []
            rows.append(found)
    header = here()
    header.update(
        # CLOCK_BOOTTIME counts like start ticks do; /proc/uptime is another one in an LXC.
        uptime_ticks=time.clock_gettime_ns(time.CLOCK_BOOTTIME) * ticks_per_s // 10**9,
        ticks_per_s=ticks_per_s,
        # hidepid hides init from other users; then the table is not the whole truth.
        init_visible=os.path.exists("/proc/1/stat"),
        own=own,
        channel=int(os.environ.get("AGENTOPS_CHANNEL", "0")),
    )
    answer(header, *rows)


if __name__ == "__main__":
    main()
