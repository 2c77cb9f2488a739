"""Process rows as policy reads them, and the trees that they form.

Here: identities, rows, ancestors and descendants. Not here: which rows belong to a job
(``agentops.policy.roles``) or how ``/proc`` is read (``agentops.commands``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from agentops.policy.facts import FactTable
from journal.events import Identity, JsonObject

HOST = "host"
TABLE = (HOST, "process_table")
INTERRUPT_BIT = 2
SIGNALS = {"HUP": 1, "INT": 2, "KILL": 9, "TERM": 15, "CONT": 18}


def process_subject(pid: int, start_ticks: int) -> str:
    """The fact subject of one process; boot and namespace stand in the table's own fact."""
    return f"process:{pid}:{start_ticks}"


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the newest process table. Ticks are the host's clock ticks since boot."""

    pid: int
    ppid: int
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
    event: str

    @property
    def key(self) -> tuple[int, int]:
        """What tells this process from all others of its boot and namespace."""
        return (self.pid, self.start_ticks)

    @property
    def zombie(self) -> bool:
        """It has ended; only its parent has not looked yet."""
        return self.state in {"Z", "X"}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _numbers(value: JsonValue) -> tuple[int, ...]:
    return tuple(_number(item) for item in value) if isinstance(value, list) else ()


def read_process(row: JsonValue, event: str) -> Process | None:
    """A row, or None where it has no pid or start ticks: such a row identifies nothing."""
    if not isinstance(row, dict):
        return None
    pid, start = row.get("pid"), row.get("start_ticks")
    if not isinstance(pid, int) or not isinstance(start, int):
        return None
    cmdline = row.get("cmdline")
    launch = row.get("launch_id")
    return Process(
        pid=pid,
        ppid=_number(row.get("ppid")),
        sid=_number(row.get("sid")),
        state=_text(row.get("state"))[:1],
        uid=_number(row.get("uid")),
        start_ticks=start,
        cpu_ticks=_number(row.get("cpu_ticks")),
        threads=_number(row.get("threads")),
        signals_ignored=_numbers(row.get("signals_ignored")),
        signals_caught=_numbers(row.get("signals_caught")),
        signals_pending=_numbers(row.get("signals_pending")),
        comm=_text(row.get("comm")),
        cmdline=tuple(_text(part) for part in cmdline) if isinstance(cmdline, list) else (),
        exe=_text(row.get("exe")),
        cwd=_text(row.get("cwd")),
        cgroup=_text(row.get("cgroup")),
        wchan=_text(row.get("wchan")),
        launch_id=launch if isinstance(launch, str) and launch else None,
        event=event,
    )


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The newest listing: where it was taken, whether it is whole, and its rows by pid.

    A listing of which a row is not known is not whole, whatever it says of itself.
    """

    boot_id: str
    pid_namespace: int
    namespace_init_start_ticks: int
    uptime_ticks: int
    ticks_per_s: int
    complete: bool
    at_us: int
    order: int
    event: str
    by_pid: Mapping[int, Process]

    def __iter__(self) -> Iterator[Process]:
        return iter(self.by_pid.values())

    def identity(self, process: Process) -> Identity:
        """The process beyond doubt."""
        return Identity(
            boot_id=self.boot_id,
            pid_namespace=self.pid_namespace,
            namespace_init_start_ticks=self.namespace_init_start_ticks,
            pid=process.pid,
            start_ticks=process.start_ticks,
        )

    def find(self, identity: Identity) -> Process | None:
        """The row of *identity*, or None: absent, recycled, or of another boot or namespace."""
        process = self.by_pid.get(identity.pid)
        if process is None or not self.covers(identity):
            return None
        return process if process.start_ticks == identity.start_ticks else None

    def covers(self, identity: Identity) -> bool:
        """Whether this listing could have shown *identity* at all."""
        return (
            identity.boot_id == self.boot_id
            and identity.pid_namespace == self.pid_namespace
            and identity.namespace_init_start_ticks == self.namespace_init_start_ticks
        )

    def ancestors(self, process: Process) -> tuple[Process, ...]:
        """Parents up to the namespace's init, nearest first; a cycle ends the walk."""
        found: list[Process] = []
        seen = {process.pid}
        parent = self.by_pid.get(process.ppid)
        while parent is not None and parent.pid not in seen:
            found.append(parent)
            seen.add(parent.pid)
            parent = self.by_pid.get(parent.ppid)
        return tuple(found)


def read_table(facts: FactTable) -> ProcessTable | None:
    """The newest process table in *facts*; None where none was ever taken."""
    head = facts.get(TABLE)
    if head is None or not isinstance(head.value, dict):
        return None
    about: JsonObject = head.value
    rows: dict[int, Process] = {}
    for (subject, predicate), fact in facts.items():
        if predicate == "row" and subject.startswith("process:"):
            process = read_process(fact.value, fact.event)
            if process is not None:
                rows[process.pid] = process
    return ProcessTable(
        boot_id=_text(about.get("boot_id")),
        pid_namespace=_number(about.get("pid_namespace")),
        namespace_init_start_ticks=_number(about.get("namespace_init_start_ticks")),
        uptime_ticks=_number(about.get("uptime_ticks")),
        ticks_per_s=_number(about.get("ticks_per_s")) or 100,
        complete=about.get("complete") is True and about.get("rows") == len(rows),
        at_us=head.at_us,
        order=head.order,
        event=head.event,
        by_pid=rows,
    )
