"""Ask nvidia-smi about devices or their processes, and the kernel beside it. Runs on hosts."""

from __future__ import annotations

import os
import re
import sys

from agentops.commands.remote.gpu_query import smi
from agentops.commands.remote.identity import answer, here, read_bytes, stat_fields

TIMEOUT_S = 20.0
XML_TIMEOUT_S = 20.0
BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
PROCESS_FIELDS = ["gpu_uuid", "pid", "process_name", "used_gpu_memory"]


def stuck_tools() -> list[int]:
    """Pids of nvidia-smi processes in state D: asking once more would only add another."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or read_bytes("/proc/" + name + "/comm") != b"nvidia-smi\n":
            continue
        fields = stat_fields(name)
        if fields is not None and fields[0] == b"D":
            found.append(int(name))
    return found


def kernel_devices() -> int | None:
    """How many GPUs the kernel driver knows; None without the driver."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return None


def ask(query: str, fields: list[str]) -> dict[str, object]:
    """One CSV question; a field that this version does not know is dropped once."""
    asked = list(fields)
    dropped: list[str] = []
    while True:
        said = smi(
            ["--query-%s=%s" % (query, ",".join(asked)), "--format=csv,noheader,nounits"], TIMEOUT_S
        )
        bad = BAD_FIELD.search(str(said["stdout"]) + str(said["stderr"]))
        name = bad.group(1) if bad else None
        if said["status"] != 2 or name not in asked:  # noqa: PLR2004 - nvidia-smi's own status
            break
        asked.remove(name)
        dropped.append(name)
    said.update(asked=asked, dropped=dropped)
    return said


def namespaces_of(pid: int) -> list[int]:
    """The process's pids, from this namespace inwards; [] if it cannot be seen from here."""
    for line in (read_bytes("/proc/%d/status" % pid) or b"").splitlines():
        if line.startswith(b"NSpid:"):
            return [int(part) for part in line.split()[1:]]
    return []


def owners(said: dict[str, object]) -> list[dict[str, object]]:
    """What this namespace knows about the pids in the answer."""
    rows: list[dict[str, object]] = []
    rows_of_text = str(said["stdout"]).splitlines()
    pids = {line.split(",")[1].strip() for line in rows_of_text if "," in line}
    for pid in sorted(int(x) for x in pids if x.isdigit()):
        fields = stat_fields(pid)
        rows.append({
            "pid": pid,
            "state": None if fields is None else fields[0].decode(),
            "start_ticks": None if fields is None else int(fields[19]),
            "namespace_pids": namespaces_of(pid),
        })  # fmt: skip
    return rows


def device_holders() -> list[int]:
    """Pids in this namespace that have /dev/nvidia0 or another card open."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            links = [
                os.readlink("/proc/" + name + "/fd/" + fd)
                for fd in os.listdir("/proc/" + name + "/fd")
            ]
        except OSError:
            continue
        if any(re.fullmatch(r"/dev/nvidia[0-9]+", link) for link in links):
            found.append(int(name))
    return sorted(found)


def available_kib() -> int:
    """MemAvailable of /proc/meminfo."""
    for line in (read_bytes("/proc/meminfo") or b"").splitlines():
        if line.startswith(b"MemAvailable:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Argument: "devices" with the fields to ask for, or "processes"."""
    question, *fields = sys.argv[1:]
    stuck = stuck_tools()
    row = here()
    row.update(kernel_devices=kernel_devices(), stuck=stuck, memory_available_kib=available_kib())
    if stuck:
        answer(
            row,
            {
                "asked": [],
                "dropped": [],
                "tool": None,
                "status": None,
                "timed_out": True,
                "stdout": "",
                "stderr": "",
            },
        )
        return
    if question == "devices":
        said = ask("gpu", fields)
        rows = [said]
        if "Enabled" in str(said["stdout"]):
            rows.append(smi(["-q", "-x"], XML_TIMEOUT_S))
        answer(row, *rows)
    else:
        said = ask("compute-apps", PROCESS_FIELDS)
        row.update(owners=owners(said), holders=device_holders())
        answer(row, said)


if __name__ == "__main__":
    main()
