"""Start a program that outlives the session, once per launch id and log. Runs on hosts.

Its log is locked, and the lock lives as long as any process has the log open: a second launch
with the same log is refused while the first one's processes live, whoever started them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import sys
import time

from agentops.commands.remote.identity import answer, here, read_bytes, stat_fields, text
from agentops.commands.remote.launch_manners import MANNERS, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentops.commands.remote.launch_manners import Started

SETTLE_S = 2.0
PAUSE_S = 0.01
SAID_BYTES = 400


def running(variable: bytes) -> int | None:
    """A living process with this launch id in its environment; the oldest if there are more."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        environment = read_bytes("/proc/" + name + "/environ") or b""
        fields = stat_fields(name)
        if variable in environment.split(b"\0") and fields and fields[0] not in (b"Z", b"X"):
            found.append((int(fields[19]), int(name)))
    return min(found)[1] if found else None


def identity(pid: int) -> dict[str, object] | None:
    """The process's identity; None if it is gone."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    place = here()
    place.update(pid=pid, start_ticks=int(fields[19]))
    return place


def refuse(reason: str, detail: str, known: dict[str, object] | None = None) -> None:
    """Answer that nothing was started."""
    row = {"started": False, "refusal": reason, "detail": detail, "identity": known}
    answer({**row, "pane_id": None, "unit": None})


def said_since(path: str, offset: int) -> str:
    """The end of what was written to the log since then, for a start that failed."""
    whole = read_bytes(path, offset + 65536) or b""
    return text(whole[offset:][-SAID_BYTES:]).strip()


def start(job: dict[str, Any], log: int) -> None:
    """Start it in a session of its own, and answer when its identity was observed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "SSH_"))}
    # Whatever started us may ignore these; a job that inherits that could never be interrupted.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    offset = os.fstat(log).st_size
    try:
        started = MANNERS[job["manner"]](job, environment, log)
    except Refused as refused:
        refuse(refused.reason, refused.detail)
        return
    except OSError as error:
        refuse("cannot_start", "%s: %s" % (error.filename, error.strerror))
        return
    observe(job, started, offset)


def observe(job: dict[str, Any], started: Started, offset: int) -> None:
    """Answer when the process was seen with its launch id, where it was put."""
    variable = b"AGENTOPS_LAUNCH_ID=" + job["launch_id"].encode()
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        known = identity(started.pid)
        environ = read_bytes("/proc/%d/environ" % started.pid) or b""
        if known is not None and variable in environ.split(b"\0") and started.in_place():
            row = {"started": True, "refusal": None, "detail": "", "identity": known}
            answer({**row, "pane_id": started.pane_id, "unit": started.unit})
            return
        status = started.ended()
        if status is not None:
            said = said_since(job["log"], offset)
            refuse("ended_at_once", status + (": " + said if said else ""))
            return
        time.sleep(PAUSE_S)
    refuse("not_observed", "pid %d" % started.pid)


def main() -> None:
    """Argument: the job as JSON."""
    job = json.loads(sys.argv[1])
    variable = b"AGENTOPS_LAUNCH_ID=" + job["launch_id"].encode()
    try:
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        refuse("cannot_start", "%s: %s" % (job["log"], error.strerror))
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        pid = running(variable)
        if pid is None:
            refuse("log_in_use", "a process of another launch has the log open")
        else:
            refuse("already_running", "this launch id is running", identity(pid))
        return
    pid = running(variable)
    if pid is not None:
        refuse("already_running", "this launch id is running", identity(pid))
        return
    start(job, log)


if __name__ == "__main__":
    main()
