"""Poll one condition until it holds or the time is up; print the series. Runs on hosts."""

from __future__ import annotations

import json
import os
import sys
import time

from agentops.commands.remote.gpu_query import memory_used_mib
from agentops.commands.remote.identity import answer, here, read_bytes, stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SERIES_MAX = 400
GPU_TIMEOUT_S = 10.0


def process_absent(condition: dict[str, Any]) -> tuple[bool, object, object]:
    """Value: how many of the processes are alive. A zombie is dead and only unreaped."""
    alive: list[int] = []
    unreaped: list[int] = []
    place = here()
    for identity in condition["identities"]:
        if identity["boot_id"] != place["boot_id"]:
            continue
        same_namespace = identity["pid_namespace"] == place["pid_namespace"]
        if not same_namespace:
            # From here nothing can be said about it, and absence least of all.
            return False, None, {"blind": "other_namespace"}
        if identity["namespace_init_start_ticks"] != place["namespace_init_start_ticks"]:
            continue
        fields = stat_fields(identity["pid"])
        if fields is None or int(fields[19]) != identity["start_ticks"]:
            continue
        (unreaped if fields[0] in (b"Z", b"X") else alive).append(identity["pid"])
    return not alive, len(alive), {"alive": alive, "unreaped": unreaped}


def heartbeat_step(condition: dict[str, Any]) -> tuple[bool, object, object]:
    """Value: the step in the heartbeat file, if it is of the run and launch that is meant."""
    try:
        beat = json.loads(read_bytes(str(condition["path"]), 65536) or b"")
        step = beat["step"]
        for key in ("run_id", "launch_id"):
            if condition[key] is not None and beat.get(key) != condition[key]:
                return False, None, {"other": key}
    except (ValueError, TypeError, KeyError):
        return False, None, {"other": "unreadable"}
    if not isinstance(step, int):
        return False, None, {"other": "unreadable"}
    return step >= condition["at_least_step"], step, {"state": beat.get("state")}


def gpu_memory_at_most(condition: dict[str, Any]) -> tuple[bool, object, object]:
    """Value: used MiB of each GPU; the condition has one limit for each."""
    used = memory_used_mib(GPU_TIMEOUT_S)
    limits = condition["limits_mib"]
    if used is None or len(used) != len(limits):
        return False, None, {"blind": "nvidia_smi" if used is None else "device_count"}
    low = all(mib is not None and mib <= limit for mib, limit in zip(used, limits))  # noqa: B905
    return low, used, {}


def file_exists(condition: dict[str, Any]) -> tuple[bool, object, object]:
    """Value: the size in bytes."""
    try:
        size = os.stat(condition["path"]).st_size
    except OSError:
        return False, None, {}
    return size >= condition["at_least_bytes"], size, {}


def port_open(condition: dict[str, Any]) -> tuple[bool, object, object]:
    """Value: 1 if something listens on this TCP port, read from /proc/net, without connecting."""
    wanted = "%04X" % condition["port"]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (read_bytes(table) or b"").decode().splitlines()[1:]:
            fields = line.split()
            if fields[1].rsplit(":", 1)[1] == wanted and fields[3] == "0A":
                return True, 1, {}
    return False, 0, {}


CHECKS = {
    "process_absent": process_absent,
    "heartbeat_step": heartbeat_step,
    "gpu_memory_at_most": gpu_memory_at_most,
    "file_exists": file_exists,
    "port_open": port_open,
}


def main() -> None:
    """Arguments: condition as JSON, timeout in ms, pause between polls in ms."""
    condition = json.loads(sys.argv[1])
    timeout_s, poll_s = int(sys.argv[2]) / 1000, int(sys.argv[3]) / 1000
    check = CHECKS[condition["kind"]]
    start = time.monotonic()
    series: list[list[object]] = []
    polls = 0
    while True:
        met, value, detail = check(condition)
        polls += 1
        elapsed_s = time.monotonic() - start
        elapsed_ms = int(elapsed_s * 1000)
        if not series or series[-1][1] != value:
            series = [*series[: SERIES_MAX - 1], [elapsed_ms, value]]
        if met or elapsed_s + poll_s > timeout_s:
            break
        time.sleep(poll_s)
    answer({
        "met": met, "elapsed_ms": elapsed_ms, "polls": polls, "series": series, "detail": detail,
    })  # fmt: skip


if __name__ == "__main__":
    main()
