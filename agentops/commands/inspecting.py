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
from agentops.commands.place import Place
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


class _Relations(Observation):
    """What the script says and the observation holds alike."""

    ancestors: tuple[Count, ...] = ()
    descendants: tuple[Count, ...] = ()
    session_members: tuple[Count, ...] = ()
    unit: str | None = None
    unit_properties: dict[str, str] = Field(default_factory=dict)
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


class ProcessInspected(_Relations):
    """One process and its relations at one moment.

    ancestors go from the parent up. related holds the rows of all pids that are named, the process
    first. connections counts established TCP connections: a quiet process with some may be at
    work. log is the file that standard output goes to; heartbeats are files of that name below the
    working directory. supervisor is the nearest candidate, a reason to look and not a proof.
    """

    found: bool
    identity: Identity | None
    process: ProcessRow | None
    related: tuple[ProcessRow, ...]
    supervisor: Supervisor | None
    kernel_stack: tuple[str, ...]
    read_bytes: Count | None
    written_bytes: Count | None


class _Seen(Place, _Relations):
    pid: Count
    found: bool
    stack: str = ""
    io: str = ""


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
        place = _Seen.model_validate(rows[0])
        related = [process_row(RawRow.model_validate(row)) for row in rows[1:]]
        process = next((row for row in related if row.pid == place.pid), None)
        io = _numbers(place.io)
        return ProcessInspected(
            **{name: getattr(place, name) for name in _Relations.model_fields},
            found=process is not None,
            identity=None if process is None else place.at(process.pid, process.start_ticks),
            process=process,
            related=tuple(related),
            supervisor=None if process is None else _supervisor(place, related),
            kernel_stack=tuple(place.stack.splitlines()),
            read_bytes=io.get("read_bytes"),
            written_bytes=io.get("write_bytes"),
        )


def _supervisor(place: _Seen, related: Sequence[ProcessRow]) -> Supervisor | None:
    """The nearest thing above that would start the process again."""
    by_pid = {row.pid: row for row in related}
    for pid in place.ancestors:
        row = by_pid.get(pid)
        if row is None or row.pid == 1 or row.comm in _HOUSEHOLD or row.comm.startswith("sshd"):
            break
        words = " ".join(row.cmdline)
        identity = place.at(row.pid, row.start_ticks)
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
