"""Take victims down a ladder of signals, watching each by a handle. Runs on hosts.

Argument: {"victims": [identity...], "ladder": [{"signal", "grace_ms"}...]} as JSON. Victims are
signalled in the given order, supervisors first; each rung ends when all are gone or its time is up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from agentops.commands.remote.identity import answer, read_bytes, stat_fields
from agentops.commands.remote.signal_process import refusal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAUSE_S = 0.02


def state_of(victim: dict[str, Any]) -> str:
    """The kernel's letter, or "gone"; a reused pid is gone as well."""
    fields = stat_fields(victim["pid"])
    if fields is None or int(fields[19]) != victim["start_ticks"]:
        return "gone"
    return fields[0].decode()


def send(victim: dict[str, Any], entry: dict[str, Any], number: int) -> None:
    """One signal to one victim, if nothing speaks against it."""
    try:
        if entry["handle"] is None:
            os.kill(victim["pid"], number)
        else:
            signal.pidfd_send_signal(entry["handle"], number)
        entry["signals"].append(signal.Signals(number).name[3:])
    except ProcessLookupError:
        pass
    except PermissionError:
        entry["refusal"] = "not_permitted"


def settle(
    pairs: list[tuple[dict[str, Any], dict[str, Any]]], start: float, grace_s: float
) -> None:
    """Wait until no victim lives, or the rung's time is up; note when each was gone."""
    deadline = time.monotonic() + grace_s
    while True:
        waiting = False
        for victim, entry in pairs:
            if entry["refusal"] is not None or entry["gone_ms"] is not None:
                continue
            state = state_of(victim)
            entry["state"] = state
            if state in ("gone", "Z", "X"):
                entry["gone_ms"] = int((time.monotonic() - start) * 1000)
            else:
                waiting = True
        if not waiting or time.monotonic() > deadline:
            return
        time.sleep(PAUSE_S)


def main() -> None:
    """One row a victim, then nothing."""
    job = json.loads(sys.argv[1])
    start = time.monotonic()
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    # All handles are opened before the first signal: children are reparented after it.
    for victim in job["victims"]:
        handle = None
        try:
            if hasattr(os, "pidfd_open"):
                handle = os.pidfd_open(victim["pid"])
        except OSError:
            handle = None
        fields = stat_fields(victim["pid"])
        refusal = refusal_of(victim, victim["pid"], fields)
        gone = refusal in ("gone", "zombie")
        pairs.append((victim, {
            "handle": handle,
            "refusal": None if gone else refusal,
            "signals": [],
            "state": "gone" if fields is None else fields[0].decode(),
            "gone_ms": 0 if gone else None,
        }))  # fmt: skip
    for rung in job["ladder"]:
        number = getattr(signal, "SIG" + rung["signal"])
        for victim, entry in pairs:
            if entry["refusal"] is None and entry["gone_ms"] is None:
                send(victim, entry, number)
        settle(pairs, start, rung["grace_ms"] / 1000)
        if all(e["gone_ms"] is not None or e["refusal"] is not None for _, e in pairs):
            break
    answer(*[
        {
            "pid": victim["pid"],
            "start_ticks": victim["start_ticks"],
            "quality": "recheck" if entry["handle"] is None else "pidfd",
            "refusal": entry["refusal"],
            "signals": entry["signals"],
            "state": entry["state"],
            "gone_ms": entry["gone_ms"],
            "wchan": (read_bytes("/proc/%d/wchan" % victim["pid"], 128) or b"").decode("ascii", "replace"),  # noqa: E501
        }
        for victim, entry in pairs
    ])  # fmt: skip


if __name__ == "__main__":
    main()
