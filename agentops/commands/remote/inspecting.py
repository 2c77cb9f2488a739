"""What /proc says about one process beyond its row: tree, files, sockets, locks. Runs on hosts."""

from __future__ import annotations

import os
import re
import subprocess

from agentops.commands.remote.identity import read_bytes, stat_fields

FD_LIMIT = 4096
SHOWN = 50
DEPTH_MAX = 2
FOLDERS_MAX = 1000
GPU_DEVICE = re.compile(r"/dev/nvidia([0-9]+)$")
UNIT = re.compile(rb"/([^/]+\.(?:service|scope))(?:/|$)", re.MULTILINE)
# Variables that say what a process is part of; their values are shown, no others are.
TELLING = (
    "AGENTOPS_LAUNCH_ID", "CUDA_VISIBLE_DEVICES", "RANK", "LOCAL_RANK", "WORLD_SIZE", "TMUX",
    "TMUX_PANE", "INVOCATION_ID", "MASTER_ADDR", "MASTER_PORT", "VLLM_WORKER_MULTIPROC_METHOD",
)  # fmt: skip


def parents() -> dict[int, tuple[int, int, int, str]]:
    """Every process's parent, session, start ticks and state."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(name)
            if fields is not None:
                found[int(name)] = (
                    int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode(),
                )  # fmt: skip
    return found


def ancestors(pid: int, table: dict[int, tuple[int, int, int, str]]) -> list[int]:
    """Parent, grandparent and so on; the namespace's init is the last one."""
    chain: list[int] = []
    while pid in table and table[pid][0] not in (0, pid) and table[pid][0] not in chain:
        pid = table[pid][0]
        chain.append(pid)
    return chain


def descendants(pid: int, table: dict[int, tuple[int, int, int, str]]) -> list[int]:
    """All processes below this one."""
    below: list[int] = []
    level = [pid]
    while level:
        level = [child for child, entry in table.items() if entry[0] in level and child != pid]
        level = [child for child in level if child not in below]
        below += level
    return sorted(below)


def open_files(pid: int) -> tuple[list[str], bool]:
    """Targets of the process's descriptors; False if they may not be read."""
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)[:FD_LIMIT]
    except OSError:
        return [], False
    targets = []
    for name in names:
        try:
            targets.append(os.readlink(folder + "/" + name))
        except OSError:
            continue
    return targets, True


def gpu_devices(targets: list[str]) -> list[int]:
    """Numbers of the cards that are open."""
    found = (GPU_DEVICE.match(target) for target in targets)
    return sorted({int(match.group(1)) for match in found if match})


def tcp_sockets(pid: int) -> dict[str, tuple[int, bool]]:
    """Local port and whether it listens, by socket inode, in the process's network namespace."""
    found = {}
    for table in ("tcp", "tcp6"):
        text = read_bytes("/proc/%d/net/%s" % (pid, table)) or b""
        for line in text.decode("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9:  # noqa: PLR2004 - the inode is the tenth field
                found[fields[9]] = (int(fields[1].rsplit(":", 1)[1], 16), fields[3] == "0A")
    return found


def log_of(pid: int) -> str | None:
    """The file that standard output goes to; None for a pipe, a terminal, or nothing."""
    try:
        target = os.readlink("/proc/%d/fd/1" % pid)
    except OSError:
        return None
    return target if target.startswith("/") and os.path.isfile(target) else None


def heartbeats_below(folder: str | None) -> list[str]:
    """Files named heartbeat.json in a folder and two levels below, a thousand folders at most."""
    found: list[str] = []
    if folder is None:
        return found
    depth = folder.rstrip("/").count("/")
    for seen, (at, folders, names) in enumerate(os.walk(folder)):
        if "heartbeat.json" in names:
            found.append(os.path.join(at, "heartbeat.json"))
        if at.rstrip("/").count("/") - depth >= DEPTH_MAX or seen > FOLDERS_MAX:
            folders.clear()
    return sorted(found)[:SHOWN]


def listening_ports(pid: int, targets: list[str]) -> list[int]:
    """TCP ports on which this very process listens."""
    inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    if not inodes:
        return []
    table = tcp_sockets(pid)
    return sorted({table[i][0] for i in inodes if i in table and table[i][1]})


def established(pid: int, targets: list[str]) -> int:
    """How many TCP connections this process holds."""
    inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    table = tcp_sockets(pid) if inodes else {}
    return len([i for i in inodes if i in table and not table[i][1]])


def locks_of(pid: int) -> list[str]:
    """Kinds of the file locks that the process holds. Source: proc_locks(5)."""
    found = []
    for line in (read_bytes("/proc/locks") or b"").decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) > 5 and "->" not in fields[1] and fields[4] == str(pid):  # noqa: PLR2004
            found.append(fields[1] + " " + fields[3] + " " + fields[5])
    return found


def telling_variables(pid: int) -> dict[str, str]:
    """The environment's telling variables."""
    found = {}
    for variable in (read_bytes("/proc/%d/environ" % pid) or b"").split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name.decode("ascii", "replace") in TELLING:
            found[name.decode()] = value[:256].decode("utf-8", "backslashreplace")
    return found


def unit_of(pid: int) -> str | None:
    """The innermost systemd unit in the process's control group."""
    found = UNIT.findall(read_bytes("/proc/%d/cgroup" % pid, 4096) or b"")
    return found[-1].decode("utf-8", "backslashreplace") if found else None


def unit_properties(unit: str) -> dict[str, str]:
    """What systemd would do when the unit's process ends."""
    try:
        said = subprocess.run(
            ["systemctl", "show", "-p", "Restart,RestartUSec,MainPID,ActiveState,KillMode", unit],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition("=") for line in said.stdout.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in pairs if value}
