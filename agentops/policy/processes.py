"""Process tables as policy reads them, and the trees that they form.

Here: identities, look-up and ancestors. Not here: which rows belong to a job
(``agentops.policy.roles``), or one row's form (``agentops.policy.process``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentops.policy.facts import FactTable
from agentops.policy.process import Process, number, text
from journal.events import Identity

HOST = "host"
TABLE = (HOST, "process_table")


def process_subject(pid: int, start_ticks: int) -> str:
    """The fact subject of one process; boot and namespace stand in the table's own fact."""
    return f"process:{pid}:{start_ticks}"


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
    about = head.value
    rows: dict[int, Process] = {}
    for fact in facts.values():
        if isinstance(fact.value, Process):
            rows[fact.value.pid] = fact.value
    return ProcessTable(
        boot_id=text(about.get("boot_id")),
        pid_namespace=number(about.get("pid_namespace")),
        namespace_init_start_ticks=number(about.get("namespace_init_start_ticks")),
        uptime_ticks=number(about.get("uptime_ticks")),
        ticks_per_s=number(about.get("ticks_per_s")) or 100,
        complete=about.get("complete") is True and about.get("rows") == len(rows),
        at_us=head.at_us,
        order=head.order,
        event=head.event,
        by_pid=rows,
    )
