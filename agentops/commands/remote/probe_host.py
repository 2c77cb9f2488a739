"""Print what kind of host this is. Runs on hosts."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time

from agentops.commands.remote.identity import answer, here, read_bytes, start_ticks

# Lines of /proc/PID/limits, and what they are called in the answer.
LIMITS = (
    ("Max open files", "open_files"), ("Max processes", "processes"),
    ("Max locked memory", "locked_memory_bytes"), ("Max core file size", "core_bytes"),
)  # fmt: skip
# Version 1 of control groups says "no limit" by a number about 2^63.
UNLIMITED = 10**18
TOOLS = (
    "sh", "bash", "python3", "timeout", "setsid", "ps", "tmux", "nvidia-smi", "systemctl",
    "docker", "pct", "sudo", "nsenter", "unshare", "busybox", "sha256sum", "ss", "dmesg", "strace",
    "py-spy",
)  # fmt: skip
TOOLS_PATH_EXTRA = ("/usr/local/bin", "/usr/local/nvidia/bin", "/opt/conda/bin")


def found(tool: str, folders: list[str]) -> str | None:
    """First executable file of that name in the folders."""
    for folder in folders:
        path = os.path.join(folder, tool)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def memory_kib() -> dict[str, int]:
    """The numbers of /proc/meminfo."""
    lines = (read_bytes("/proc/meminfo") or b"").decode().splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: int(value.split()[0]) for name, _, value in pairs if value.split()}


def shortest_us(argv: list[str]) -> int | None:
    """The shortest of three runs; None if it cannot be run."""
    times = []
    for _ in range(3):
        start = time.monotonic_ns()
        try:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        times.append((time.monotonic_ns() - start) // 1000)
    return min(times)


def shell_tax_us() -> int | None:
    """What the login shell's start-up files cost each command, over plain sh."""
    shell = pwd.getpwuid(os.getuid()).pw_shell
    taxed, plain = shortest_us([shell, "-c", ":"]), shortest_us(["sh", "-c", ":"])
    return None if taxed is None or plain is None else max(0, taxed - plain)


def limits() -> dict[str, str]:
    """Soft limits of a process here, in the kernel's own words, and what its control group may."""
    lines = (read_bytes("/proc/self/limits") or b"").decode("utf-8", "replace").splitlines()
    seen = {}
    for line in lines:
        for words, name in LIMITS:
            if line.startswith(words):
                seen[name] = line[len(words) :].split()[0]
    groups = (read_bytes("/proc/self/cgroup", 4096) or b"").decode("utf-8", "replace").splitlines()
    smallest = min((m for group in groups for m in memory_limits(group)), default=None)
    if smallest is not None:
        seen["cgroup_memory_bytes"] = str(smallest)
    return seen


def memory_limits(group: str) -> list[int]:
    """The limits on the way from this line's control group up; what is unlimited is not there."""
    number, controllers, path = [*group.split(":", 2), "", ""][:3]
    if number == "0":
        top, name = "/sys/fs/cgroup", "memory.max"
    elif "memory" in controllers.split(","):
        top, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
    else:
        return []
    values = []
    while True:
        value = (read_bytes(top + path.rstrip("/") + "/" + name, 64) or b"").strip()
        if value.isdigit() and int(value) < UNLIMITED:
            values.append(int(value))
        if path in ("", "/"):
            return values
        path = path.rpartition("/")[0]


def main() -> None:
    """One row."""
    path = os.environ.get("PATH", "").split(":")
    extra = [folder for folder in TOOLS_PATH_EXTRA if folder not in path]
    system = os.uname()
    memory = memory_kib()
    load = (read_bytes("/proc/loadavg") or b"0 0 0").split()
    row = here()
    row["shell_tax_us"] = shell_tax_us() if sys.argv[1:] == ["shell"] else None
    row.update(
        unix_ms=time.time_ns() // 10**6,
        uptime_ticks=time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 10**9,
        ticks_per_s=os.sysconf("SC_CLK_TCK"),
        hostname=system.nodename,
        kernel=system.release,
        machine=system.machine,
        python="%d.%d.%d" % sys.version_info[:3],
        uid=os.getuid(),
        home=os.environ.get("HOME"),
        login_shell=os.environ.get("SHELL"),
        path=path,
        tools={tool: found(tool, path) for tool in TOOLS},
        tools_off_path={
            tool: found(tool, extra)
            for tool in TOOLS
            if not found(tool, path) and found(tool, extra)
        },
        cpus=len(os.sched_getaffinity(0)),
        load_1m=load[0].decode(),
        memory_total_kib=memory.get("MemTotal", 0),
        memory_available_kib=memory.get("MemAvailable", 0),
        cgroup=(read_bytes("/proc/self/cgroup", 4096) or b"").decode("utf-8", "replace"),
        init_comm=(read_bytes("/proc/1/comm") or b"").decode("utf-8", "replace").rstrip("\n"),
        init_visible=start_ticks(1) > 0,
        pidfd=hasattr(os, "pidfd_open"),
        limits=limits(),
    )
    answer(row)


if __name__ == "__main__":
    main()
