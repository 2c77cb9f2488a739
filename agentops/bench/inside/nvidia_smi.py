"""Stand-in for nvidia-smi: memory of each card from a registry of living holders.

The folder with the registry stands in the file beside this program. Like the real one it can be
late (memory falls some time after its holder ended), hang, or fail.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable

BASELINE_MIB = 4
TOTAL_MIB = 97_887
CELLS = {
    "name": "NVIDIA RTX PRO 6000 Blackwell",
    "memory.total": str(TOTAL_MIB),
    "utilization.gpu": "0",
    "power.draw": "31.20",
    "temperature.gpu": "34",
    "ecc.errors.uncorrected.volatile.total": "0",
    "mig.mode.current": "[N/A]",
    "persistence_mode": "Enabled",
    "driver_version": "580.82.07",
}


def alive(row: dict[str, int]) -> bool:
    """Whether the very process that took the memory still runs."""
    try:
        with open(f"/proc/{row['pid']}/stat", "rb") as file:  # noqa: PTH123 - starts fast
            fields = file.read().rsplit(b")", 1)[1].split()
    except OSError:
        return False
    return int(fields[19]) == row["start_ticks"] and fields[0] not in (b"Z", b"X")


def holders(
    registry: str, release_s: float, alive: Callable[[dict[str, int]], bool] = alive
) -> list[dict[str, int]]:
    """Rows whose memory is still in use: of the living, and of those that ended a moment ago."""
    found = []
    for name in sorted(os.listdir(registry)):  # noqa: PTH208
        if not name.endswith(".json"):
            continue
        path = f"{registry}/{name}"
        with open(path) as file:  # noqa: PTH123
            row = json.load(file)
        if alive(row):
            found.append(row)
            continue
        ended = path + ".ended"
        if not os.path.exists(ended):  # noqa: PTH110
            with open(ended, "w") as file:  # noqa: PTH123
                file.write(str(time.monotonic()))
        with open(ended) as file:  # noqa: PTH123
            since = float(file.read() or time.monotonic())
        if time.monotonic() - since < release_s:
            found.append(row)
    return found


def cell(field: str, device: int, used: int) -> str:
    """One cell of the answer."""
    own = {
        "index": str(device),
        "uuid": f"GPU-00000000-0000-0000-0000-{device:012d}",
        "memory.used": str(used),
    }
    return own.get(field, CELLS.get(field, "[N/A]"))


def main() -> int:
    """Answer one question in CSV without header and units."""
    with open(sys.argv[0].rpartition("/")[0] + "/cards.json") as file:  # noqa: PTH123
        cards = json.load(file)
    if cards["tool"] == "hangs":
        while True:
            signal.pause()
    if cards["tool"] == "errors":
        sys.stdout.write(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make"
            " sure that the latest NVIDIA driver is installed and running.\n"
        )
        return 9
    rows = holders(cards["registry"], cards["release_s"])
    question = next((word for word in sys.argv[1:] if word.startswith("--query-")), "")
    kind, _, fields = question.partition("=")
    lines = []
    if kind == "--query-gpu":
        for device in range(cards["devices"]):
            used = BASELINE_MIB + sum(row["mib"] for row in rows if row["device"] == device)
            lines.append(", ".join(cell(f, device, used) for f in fields.split(",")))
    elif kind == "--query-compute-apps":
        for row in rows:
            uuid = cell("uuid", row["device"], 0)
            lines.append(f"{uuid}, {row['pid']}, python3, {row['mib']}")
    sys.stdout.write("".join(line + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
