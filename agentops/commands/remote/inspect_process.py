"""Print one process with its relations. Runs on hosts. Argument: the pid."""

from __future__ import annotations

import os
import sys

from agentops.commands.remote.identity import (
    answer,
    here,
    own_chain,
    read_bytes,
    stat_fields,
    text,
)
from agentops.commands.remote.inspecting import (
    SHOWN,
    ancestors,
    descendants,
    established,
    gpu_devices,
    heartbeats_below,
    listening_ports,
    locks_of,
    log_of,
    open_files,
    parents,
    telling_variables,
    unit_of,
    unit_properties,
)
from agentops.commands.remote.list_processes import link, row


def main() -> None:
    """The place with the relations, then the rows of all relatives."""
    pid = int(sys.argv[1])
    place = here()
    place.update(pid=pid, found=stat_fields(pid) is not None)
    if not place["found"]:
        answer(place)
        return
    table = parents()
    own = set(own_chain())
    up, down = ancestors(pid, table), descendants(pid, table)
    session = sorted(p for p, entry in table.items() if entry[1] == table[pid][1] != 0)
    targets, readable = open_files(pid)
    unit = unit_of(pid)
    place.update(
        ancestors=up,
        descendants=down,
        session_members=[p for p in session if p not in own],
        files_readable=readable,
        open_files=len(targets),
        deleted_files=[t for t in targets if t.endswith(" (deleted)")][:SHOWN],
        gpu_devices=gpu_devices(targets),
        listening_ports=listening_ports(pid, targets),
        connections=established(pid, targets),
        locks=locks_of(pid),
        log=log_of(pid),
        heartbeats=heartbeats_below(link("/proc/%d/cwd" % pid)),
        variables=telling_variables(pid),
        unit=unit,
        unit_properties=unit_properties(unit) if unit else {},
        stack=text(read_bytes("/proc/%d/stack" % pid, 4096)),
        io=text(read_bytes("/proc/%d/io" % pid, 4096)),
    )
    page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
    rows = [row(p, page_kib) for p in [pid, *up, *down, *session] if p not in own or p in up]
    known = {r["pid"]: r for r in rows if r is not None}
    answer(place, *known.values())


if __name__ == "__main__":
    main()
