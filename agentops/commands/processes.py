"""Which processes are there: ``list_processes`` and the row that all others speak about.

Here: reading a whole table. Not here: which of them matters (``agentops.policy``), signals
(``signals``).
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.place import Place
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Identity, Retry

_HEX64 = r"^[0-9a-fA-F]{1,32}$"
_SIGNALS_MAX = 64


class _Row(Observation):
    """What a script prints and an observation holds alike."""

    pid: Count = Field(gt=0)
    ppid: Count
    pgid: Count
    sid: Count
    state: str = Field(min_length=1, max_length=1)
    uid: Count
    threads: Count
    start_ticks: Count
    cpu_ticks: Count
    rss_kib: Count
    comm: str
    cmdline: tuple[str, ...]
    exe: str | None
    cwd: str | None
    cgroup: str
    wchan: str
    launch_id: str | None


class ProcessRow(_Row):
    """One process. Ticks are counted since boot; masks are signal numbers, ascending.

    cmdline is empty for a zombie and cut at 8192 bytes. exe, cwd and launch_id are None where this
    user may not read them, or there is none.
    """

    signals_ignored: tuple[int, ...]
    signals_caught: tuple[int, ...]
    signals_pending: tuple[int, ...]


class ProcessTable(Place):
    """All processes of one PID namespace at one moment, but kernel threads and the probe itself.

    complete is False where this user is not shown all processes (hidepid).
    """

    uptime_ticks: int
    ticks_per_s: int
    complete: bool
    processes: tuple[ProcessRow, ...]

    def identity(self, row: ProcessRow) -> Identity:
        """The identity of one of this table's rows."""
        return self.at(row.pid, row.start_ticks)


class _Header(Place):
    boot_id: str = Field(min_length=36, max_length=36)
    pid_namespace: Count = Field(gt=0)
    uptime_ticks: Count
    ticks_per_s: Count = Field(gt=0)
    init_visible: bool
    own: tuple[Count, ...] = Field(min_length=1)
    channel: Count = 0


class RawRow(_Row):
    """A row as the scripts print it; masks are hexadecimal."""

    ignored: str = Field(pattern=_HEX64)
    caught: str = Field(pattern=_HEX64)
    pending: str = Field(pattern=_HEX64)
    shared_pending: str = Field(pattern=_HEX64)


class ListProcesses(ScriptCommand):
    """Every process of the host's PID namespace, read from /proc, each with its identity."""

    name: ClassVar[str] = "list_processes"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "/proc is mounted and belongs to the PID namespace that the command runs in",
        "processes of other PID namespaces are visible only from their host",
        "a process that starts or ends during the reading may be missing",
    )
    silence: ClassVar[str] = "Nothing was learned: an empty host still answers with its own rows."
    metric_cards: ClassVar[dict[str, str]] = cards(
        *("cpu_ticks", "namespace_init_start_ticks", "rss_kib", "start_ticks", "ticks_per_s"),
        "uptime_ticks",
        threads="Threads of the process; a Python interpreter that ends still counts them.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "list_processes")
    shell: ClassVar[str | None] = "list_processes"

    def read(self, rows: Sequence[dict[str, object]]) -> ProcessTable | Malformed:
        """The first row is the header."""
        if not rows:
            return Malformed("the header is missing")
        header = _Header.model_validate(rows[0])
        raw = [RawRow.model_validate(row) for row in rows[1:]]
        probe = _tree_of(header.own, header.channel, raw)
        return ProcessTable(
            boot_id=header.boot_id,
            pid_namespace=header.pid_namespace,
            namespace_init_start_ticks=header.namespace_init_start_ticks,
            uptime_ticks=header.uptime_ticks,
            ticks_per_s=header.ticks_per_s,
            complete=header.init_visible,
            processes=tuple(process_row(entry) for entry in raw if entry.pid not in probe),
        )


def _tree_of(own: Sequence[int], channel: int, rows: Sequence[RawRow]) -> frozenset[int]:
    """The probe's pids: itself up to its session's leader, and everything below that.

    A probe that came through a persistent channel leads a session itself; then the channel is the
    top, which stays on the host from probe to probe. Inside a container the leader is outside and
    its id reads 0; then the chain ends where the parent is outside too. Names are never looked at:
    an innocent may be called like the probe.
    """
    parents = {row.pid: row for row in rows}
    top = own[0]
    for pid in own:
        row = parents.get(pid)
        if row is None:
            break
        top = pid
        if row.pid == channel or row.ppid == 0:
            break
        if row.pid == row.sid and channel not in own:
            break
    tree = {top}
    grown = True
    while grown:
        below = {row.pid for row in rows if row.ppid in tree} - tree
        grown = bool(below)
        tree |= below
    return frozenset(tree)


def process_row(raw: RawRow) -> ProcessRow:
    """The row with masks, words and paths decoded."""
    groups = raw.cgroup.splitlines()
    pending = {*signal_numbers(raw.pending), *signal_numbers(raw.shared_pending)}
    alike = {name: getattr(raw, name) for name in _Row.model_fields}
    # Version 2's line is "0::PATH"; on a host with version 1 only, the last line stands.
    last = groups[-1] if groups else ""
    alike["cgroup"] = next((line[3:] for line in groups if line.startswith("0::")), last)
    return ProcessRow(
        **alike,
        signals_ignored=signal_numbers(raw.ignored),
        signals_caught=signal_numbers(raw.caught),
        signals_pending=tuple(sorted(pending)),
    )


def signal_numbers(mask: str) -> tuple[int, ...]:
    """Signal numbers of a mask in hex, as /proc/PID/status shows it.

    >>> signal_numbers("4002")
    (2, 15)
    """
    value = int(mask, 16)
    return tuple(n for n in range(1, _SIGNALS_MAX + 1) if value >> (n - 1) & 1)
