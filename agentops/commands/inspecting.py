"""One process with its relations: ``inspect_process``.

Here: what /proc and systemd say about tree, files, sockets, locks, cards, and who would start it
again. Not here: whether it may be touched (``agentops.policy``).
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.processes import ProcessRow, RawRow, process_row
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Identity, Retry

# Programs that own sessions or the host; being below one of them restarts nothing by itself.
_HOUSEHOLD = frozenset({"systemd", "init", "sshd", "tmux: server", "screen", "login"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "busybox"})
# Programs whose purpose is to start their child again.
_RESTARTERS = re.compile(
    r"torchrun|torch/distributed/(run|launch)|elastic|supervisord|runsv|s6-supervise|accelerate"
    r"|deepspeed|nodemon|forever|pm2"
)


class Supervisor(Observation):
    """What would start the process again.

    kind "unit" is a systemd unit that restarts; "restarter" a program made for that; "shell" a
    shell script above it, which may loop; "parent" another ancestor that waits for it.
    """

    kind: Literal["unit", "restarter", "shell", "parent"]
    name: str
    identity: Identity | None


class ProcessInspected(Observation):
    """One process and its relations at one moment.

    ancestors go from the parent up. related holds the rows of all pids that are named, the process
    first. connections counts established TCP connections: a quiet process with some may be at
    work. log is the file that standard output goes to; heartbeats are files of that name below the
    working directory. supervisor is the nearest candidate, a reason to look and not a proof.
    """

    found: bool
    identity: Identity | None
    process: ProcessRow | None
    ancestors: tuple[Count, ...]
    descendants: tuple[Count, ...]
    session_members: tuple[Count, ...]
    related: tuple[ProcessRow, ...]
    supervisor: Supervisor | None
    unit: str | None
    unit_properties: dict[str, str]
    files_readable: bool
    open_files: Count
    deleted_files: tuple[str, ...]
    gpu_devices: tuple[Count, ...]
    listening_ports: tuple[Count, ...]
    connections: Count
    locks: tuple[str, ...]
    log: str | None
    heartbeats: tuple[str, ...]
    variables: dict[str, str]
    kernel_stack: tuple[str, ...]
    read_bytes: Count | None
    written_bytes: Count | None


class _Place(Observation):
    boot_id: str
    pid_namespace: Count
    namespace_init_start_ticks: Count
    pid: Count
    found: bool
    ancestors: tuple[Count, ...] = ()
    descendants: tuple[Count, ...] = ()
    session_members: tuple[Count, ...] = ()
    files_readable: bool = False
    open_files: Count = 0
    deleted_files: tuple[str, ...] = ()
    gpu_devices: tuple[Count, ...] = ()
    listening_ports: tuple[Count, ...] = ()
    connections: Count = 0
    locks: tuple[str, ...] = ()
    log: str | None = None
    heartbeats: tuple[str, ...] = ()
    variables: dict[str, str] = Field(default_factory=dict)
    unit: str | None = None
    unit_properties: dict[str, str] = Field(default_factory=dict)
    stack: str = ""
    io: str = ""

    def identity(self, row: ProcessRow) -> Identity:
        return Identity(
            boot_id=self.boot_id,
            pid_namespace=self.pid_namespace,
            namespace_init_start_ticks=self.namespace_init_start_ticks,
            pid=row.pid,
            start_ticks=row.start_ticks,
        )


class InspectProcess(ScriptCommand):
    """One process: tree, session, unit, supervisor, open cards, ports, locks, telling variables."""

    name: ClassVar[str] = "inspect_process"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "an ancestor that ended before this look is not seen; its orphans hang below init",
        "a shell above a process may loop or just wait",
    )
    silence: ClassVar[str] = "Nothing was learned; a pid without a process is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards(
        *("cpu_ticks", "rss_kib", "start_ticks"),
        read_bytes="Bytes that this process caused to be read from storage since its start.",
        written_bytes="Bytes that this process caused to be written to storage since its start.",
        connections="Established TCP connections; idle ones count as well.",
    )
    python: ClassVar[tuple[str, ...]] = (
        "identity",
        "list_processes",
        "inspecting",
        "inspect_process",
    )

    pid: int = Field(gt=0, lt=2**22)
    """The process, in the namespace of the innermost layer."""

    def script_arguments(self) -> tuple[str, ...]:
        """The pid."""
        return (str(self.pid),)

    def read(self, rows: Sequence[dict[str, object]]) -> ProcessInspected | Malformed:
        """The place, then the rows of the process and its relatives."""
        if not rows:
            return Malformed("the first row is missing")
        place = _Place.model_validate(rows[0])
        related = [process_row(RawRow.model_validate(row)) for row in rows[1:]]
        process = next((row for row in related if row.pid == place.pid), None)
        io = _numbers(place.io)
        return ProcessInspected(
            found=process is not None,
            identity=None if process is None else place.identity(process),
            process=process,
            ancestors=place.ancestors,
            descendants=place.descendants,
            session_members=place.session_members,
            related=tuple(related),
            supervisor=None if process is None else _supervisor(place, related),
            unit=place.unit,
            unit_properties=place.unit_properties,
            files_readable=place.files_readable,
            open_files=place.open_files,
            deleted_files=place.deleted_files,
            gpu_devices=place.gpu_devices,
            listening_ports=place.listening_ports,
            connections=place.connections,
            locks=place.locks,
            log=place.log,
            heartbeats=place.heartbeats,
            variables=place.variables,
            kernel_stack=tuple(place.stack.splitlines()),
            read_bytes=io.get("read_bytes"),
            written_bytes=io.get("write_bytes"),
        )


def _supervisor(place: _Place, related: Sequence[ProcessRow]) -> Supervisor | None:
    """The nearest thing above that would start the process again."""
    by_pid = {row.pid: row for row in related}
    for pid in place.ancestors:
        row = by_pid.get(pid)
        if row is None or row.pid == 1 or row.comm in _HOUSEHOLD or row.comm.startswith("sshd"):
            break
        words = " ".join(row.cmdline)
        identity = place.identity(row)
        if _RESTARTERS.search(words):
            return Supervisor(kind="restarter", name=row.comm, identity=identity)
        kind: Literal["shell", "parent"] = "shell" if row.comm in _SHELLS else "parent"
        return Supervisor(kind=kind, name=row.comm, identity=identity)
    if place.unit is not None and place.unit_properties.get("Restart", "no") != "no":
        return Supervisor(kind="unit", name=place.unit, identity=None)
    return None


def _numbers(text: str) -> dict[str, int]:
    """The lines of /proc/PID/io."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {
        name: int(value)
        for name, _, value in ((n, s, v.strip()) for n, s, v in pairs)
        if value.isascii() and value.isdigit() and len(value) <= 15  # noqa: PLR2004 - below 2^53
    }
