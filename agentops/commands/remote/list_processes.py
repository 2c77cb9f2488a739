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
)

CMDLINE_LIMIT = 8192
LAUNCH_VARIABLE = b"AGENTOPS_LAUNCH_ID="


def link_hex(path: str) -> str | None:
    """Target of a symbolic link as hex; None if it may not be read."""
    try:
        return os.readlink(path.encode()).hex()
    except OSError:
        return None


def status_fields(directory: str) -> dict[str, str]:
    """The lines of /proc/PID/status."""
    text = (read_bytes(directory + "/status") or b"").decode("utf-8", "backslashreplace")
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def launch_id_hex(directory: str) -> str | None:
    """The launch id in the process's environment, as hex."""
    for variable in (read_bytes(directory + "/environ") or b"").split(b"\0"):
        if variable.startswith(LAUNCH_VARIABLE):
            return variable[len(LAUNCH_VARIABLE) :].hex()
    return None


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
        "cmdline_hex": cmdline.hex(),
        "exe_hex": link_hex(directory + "/exe"),
        "cwd_hex": link_hex(directory + "/cwd"),
        "cgroup_hex": (read_bytes(directory + "/cgroup", 4096) or b"").hex(),
        "wchan": (read_bytes(directory + "/wchan", 256) or b"").decode("ascii", "replace"),
        "launch_id_hex": launch_id_hex(directory),
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
                found["cmdline_hex"] = ""
            rows.append(found)
    header = here()
    header.update(
        # CLOCK_BOOTTIME counts like start ticks do; /proc/uptime is another one in an LXC.
        uptime_ticks=time.clock_gettime_ns(time.CLOCK_BOOTTIME) * ticks_per_s // 10**9,
        ticks_per_s=ticks_per_s,
        # hidepid hides init from other users; then the table is not the whole truth.
        init_visible=os.path.exists("/proc/1/stat"),
        own=own,
    )
    answer(header, *rows)


if __name__ == "__main__":
    main()
