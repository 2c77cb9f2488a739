"""What the kernel says about processes, seen from outside every namespace of the box.

This is the truth that commands are checked against, so it shares no code with them.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from journal.events import Identity

_PROC = Path("/proc")
# Fields of /proc/PID/stat after the command's closing parenthesis, 0-based. Source: proc(5).
_STATE = 0
_PPID = 1
_START_TICKS = 19


@dataclass(frozen=True, slots=True)
class Truth:
    """One process as the kernel sees it.

    outer_pid counts in the namespace of the reader, identity.pid in the process's own one.
    """

    outer_pid: int
    outer_ppid: int
    state: str
    cmdline: tuple[str, ...]
    identity: Identity


def boot_id() -> str:
    """This boot's id. Source: random(4)."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_truth(outer_pid: int) -> Truth | None:
    """The process with this pid in the reader's namespace; None if there is none."""
    directory = _PROC / str(outer_pid)
    try:
        stat = (directory / "stat").read_bytes()
        status = (directory / "status").read_text("utf-8", "backslashreplace")
        cmdline = (directory / "cmdline").read_bytes()
        namespace = (directory / "ns/pid").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # A process that is ending denies its namespaces even to root.
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    inner_pid = next(
        int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:")
    )
    return Truth(
        outer_pid=outer_pid,
        outer_ppid=int(fields[_PPID]),
        state=fields[_STATE].decode(),
        cmdline=tuple(
            part.decode("utf-8", "backslashreplace") for part in cmdline.split(b"\0")[:-1]
        ),
        identity=Identity(
            boot_id=boot_id(),
            pid_namespace=namespace,
            namespace_init_start_ticks=0,
            pid=inner_pid,
            start_ticks=int(fields[_START_TICKS]),
        ),
    )


def processes_in(pid_namespace: int) -> tuple[Truth, ...]:
    """All processes of one PID namespace, with the start ticks of its init filled in."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and _namespace_of(entry) == pid_namespace:
            truth = read_truth(int(entry.name))
            if truth is not None:
                found.append(truth)
    init_ticks = next((t.identity.start_ticks for t in found if t.identity.pid == 1), 0)
    return tuple(_with_init(truth, init_ticks) for truth in found)


def child_of(outer_pid: int) -> int | None:
    """The first child of a process, if it has one."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        children = (_PROC / f"{outer_pid}/task/{outer_pid}/children").read_text().split()
        if children:
            return int(children[0])
    return None


def pids_by_namespace(outer_pid: int) -> tuple[int, ...]:
    """The pids of one process, outermost namespace first; () when it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in (_PROC / f"{outer_pid}/status").read_text("utf-8", "replace").splitlines():
            if line.startswith("NSpid:"):
                return tuple(int(pid) for pid in line.split()[1:])
    return ()


def namespace_of(outer_pid: int) -> int:
    """Inode of the PID namespace that the process is in."""
    return (_PROC / f"{outer_pid}/ns/pid").stat().st_ino


def _namespace_of(entry: Path) -> int | None:
    try:
        return (entry / "ns/pid").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _with_init(truth: Truth, init_ticks: int) -> Truth:
    identity = truth.identity.model_copy(update={"namespace_init_start_ticks": init_ticks})
    return Truth(truth.outer_pid, truth.outer_ppid, truth.state, truth.cmdline, identity)
