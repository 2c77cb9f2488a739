"""One process as policy reads it.

Here: a row's typed form, read once when it is folded. Not here: tables and trees
(``agentops.policy.processes``), or how ``/proc`` is read (``agentops.commands``).
"""

from dataclasses import dataclass

from pydantic import JsonValue

INTERRUPT_BIT = 2


@dataclass(frozen=True, slots=True)
class Process:
    """One row of a process table. Ticks are the host's clock ticks since boot."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    state: str
    uid: int
    start_ticks: int
    cpu_ticks: int
    threads: int
    signals_ignored: tuple[int, ...]
    signals_caught: tuple[int, ...]
    signals_pending: tuple[int, ...]
    comm: str
    cmdline: tuple[str, ...]
    exe: str
    cwd: str
    cgroup: str
    wchan: str
    launch_id: str | None
    command_line: str

    @property
    def key(self) -> tuple[int, int]:
        """What tells this process from all others of its boot and namespace."""
        return (self.pid, self.start_ticks)

    @property
    def zombie(self) -> bool:
        """It has ended; only its parent has not looked yet."""
        return self.state in {"Z", "X"}


def text(value: object) -> str:
    """*value* if it is text, else the empty string."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """*value* if it is a whole number, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def numbers(value: object) -> tuple[int, ...]:
    """The whole numbers of a list; nothing of anything else."""
    return tuple(number(item) for item in value) if isinstance(value, list) else ()


def read_process(row: JsonValue) -> Process | None:
    """A row, or None where it has no pid or start ticks: such a row identifies nothing."""
    if not isinstance(row, dict):
        return None
    pid, start = row.get("pid"), row.get("start_ticks")
    if not isinstance(pid, int) or not isinstance(start, int):
        return None
    cmdline = row.get("cmdline")
    launch = row.get("launch_id")
    words = tuple(text(part) for part in cmdline) if isinstance(cmdline, list) else ()
    return Process(
        pid=pid,
        ppid=number(row.get("ppid")),
        pgid=number(row.get("pgid")),
        sid=number(row.get("sid")),
        state=text(row.get("state"))[:1],
        uid=number(row.get("uid")),
        start_ticks=start,
        cpu_ticks=number(row.get("cpu_ticks")),
        threads=number(row.get("threads")),
        signals_ignored=numbers(row.get("signals_ignored")),
        signals_caught=numbers(row.get("signals_caught")),
        signals_pending=numbers(row.get("signals_pending")),
        comm=text(row.get("comm")),
        cmdline=words,
        exe=text(row.get("exe")),
        cwd=text(row.get("cwd")),
        cgroup=text(row.get("cgroup")),
        wchan=text(row.get("wchan")),
        launch_id=launch if isinstance(launch, str) and launch else None,
        command_line=" ".join(words),
    )
