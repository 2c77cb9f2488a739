"""Who belongs to a job: the closure of its processes over everything that binds them. Pure.

A script's name finds neither its spawn workers, nor processes that gave themselves a title, nor
what went on in a session of its own. What binds is listed with each member, strongest first. A
control group that innocents share binds nobody.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from agentops.commands.base import Observation
from agentops.commands.processes import ProcessRow, ProcessTable
from journal.events import Identity

Bond = Literal["seed", "launch_id", "tree", "session", "cgroup", "gpu"]
# Never part of a job, whatever binds them: their end takes sessions, or the host, with it.
_HOUSEHOLD = frozenset(
    {"systemd", "init", "sshd", "tmux: server", "screen", "dockerd", "containerd", "login"}
)


class Member(Observation):
    """One process of the job, and why it is one."""

    identity: Identity
    bond: Bond
    comm: str
    cmdline: tuple[str, ...]


class Closure(Observation):
    """Members with proof, and others that only a card or nothing but a guess binds to the job."""

    members: tuple[Member, ...]
    uncertain: tuple[Member, ...]


def closure(
    table: ProcessTable, seeds: Iterable[Identity], *, gpu_holders: Sequence[int] = ()
) -> Closure:
    """Everything that the seeds' job consists of, as this table shows it.

    gpu_holders are pids that have a card open; a holder that nothing else binds is uncertain.
    """
    rows = {row.pid: row for row in table.processes}
    wanted = {(seed.pid, seed.start_ticks) for seed in seeds}
    bonds: dict[int, Bond] = {
        row.pid: "seed" for row in table.processes if (row.pid, row.start_ticks) in wanted
    }
    grown = True
    while grown:
        found = _bound(rows, bonds)
        grown = bool(found)
        bonds |= found
    uncertain = {pid: "gpu" for pid in gpu_holders if pid in rows and pid not in bonds}
    return Closure(
        members=tuple(_member(table, rows[pid], bond) for pid, bond in sorted(bonds.items())),
        uncertain=tuple(_member(table, rows[pid], "gpu") for pid in sorted(uncertain)),
    )


def _bound(rows: dict[int, ProcessRow], bonds: dict[int, Bond]) -> dict[int, Bond]:
    """Processes that something binds to a member and that are not members yet."""
    members = [rows[pid] for pid in bonds]
    launches = {row.launch_id for row in members if row.launch_id}
    # The session of a member counts if a member leads it: a terminal's session holds strangers.
    sessions = {row.sid for row in members if row.sid in bonds and row.sid != 0}
    groups = {row.cgroup for row in members if _own_group(row.cgroup, rows, bonds)}
    found: dict[int, Bond] = {}
    for row in rows.values():
        if row.pid in bonds or row.pid == 1 or row.comm in _HOUSEHOLD:
            continue
        if row.launch_id in launches:
            found[row.pid] = "launch_id"
        elif row.ppid in bonds:
            found[row.pid] = "tree"
        elif row.sid in sessions:
            found[row.pid] = "session"
        elif row.cgroup in groups:
            found[row.pid] = "cgroup"
    return found


def _own_group(cgroup: str, rows: dict[int, ProcessRow], bonds: dict[int, Bond]) -> bool:
    """Whether a control group was made for the job: a unit or scope, led by a member.

    The root group, a user's session scope and a container's group hold strangers as well.
    """
    last = cgroup.rsplit("/", 1)[-1]
    if not last.endswith((".service", ".scope")) or last.startswith(("session-", "user@")):
        return False
    first = min(
        (row for row in rows.values() if row.cgroup == cgroup),
        key=lambda row: (row.start_ticks, row.pid),
    )
    return first.pid in bonds


def _member(table: ProcessTable, row: ProcessRow, bond: Bond) -> Member:
    return Member(identity=table.identity(row), bond=bond, comm=row.comm, cmdline=row.cmdline)
