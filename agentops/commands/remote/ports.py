"""Print listening TCP sockets with their owners. Runs on hosts."""

from __future__ import annotations

import os

from agentops.commands.remote.identity import answer, here, read_bytes, start_ticks

INODE_FIELD = 9


def owners() -> dict[str, list[int]]:
    """Pids that hold a socket, by its inode."""
    found: dict[str, list[int]] = {}
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        folder = "/proc/" + pid + "/fd"
        try:
            links = {os.readlink(folder + "/" + name) for name in os.listdir(folder)}
        except OSError:
            continue
        for link in links:
            if link.startswith("socket:["):
                found.setdefault(link[8:-1], []).append(int(pid))
    return found


def address(word: str) -> tuple[str, int]:
    """Kernel's little-endian hex address, and the port."""
    host, port = word.split(":")
    raw = bytes.fromhex(host)
    parts = [raw[i : i + 4][::-1] for i in range(0, len(raw), 4)]
    whole = b"".join(parts)
    if len(whole) == 4:  # noqa: PLR2004 - IPv4
        return ".".join(str(byte) for byte in whole), int(port, 16)
    return whole.hex(), int(port, 16)


def main() -> None:
    """The place, then one row a listening socket."""
    held = owners()
    rows = []
    for table in ("tcp", "tcp6"):
        for line in (read_bytes("/proc/self/net/" + table) or b"").decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] != "0A":
                continue
            where, port = address(fields[1])
            pids = sorted(held.get(fields[INODE_FIELD], []))
            rows.append({
                "family": table, "address": where, "port": port, "uid": int(fields[7]),
                "pids": pids, "start_ticks": [start_ticks(pid) for pid in pids],
            })  # fmt: skip
    answer(here(), *rows)


if __name__ == "__main__":
    main()
