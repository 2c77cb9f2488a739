"""The manners of starting a program that stays: setsid, tmux, a systemd scope. Runs on hosts.

Each gives the pid that the program has, or raises Refused. In each the program
writes both outputs to the log and holds the log's lock; it reads nothing, in tmux the terminal.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import socket
import struct
import subprocess
import sys

from agentops.commands.remote.identity import read_bytes, stat_fields, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMEOUT_S = 10.0
# The first process of the pane. It is handed the job and the locked log over a socket: in an argv
# the environment could be read by all, and a tmux server keeps the argv that it was started by.
PANE = r"""
import json, os, signal, socket, sys
way = socket.socket(socket.AF_UNIX)
way.connect("\0" + sys.argv[1])
_, files, _, _ = socket.recv_fds(way, 1, 1)
handed = b""
while True:
    part = way.recv(65536)
    if not part:
        break
    handed += part
job = json.loads(handed)
# The terminal stays its stdin: tmux takes a pane for dead once nobody has its terminal open.
job["env"].update({k: v for k, v in os.environ.items() if k in ("TMUX", "TMUX_PANE")})
print("launch %s runs here; its output goes to %a" % (job["launch_id"], job["log"]), flush=True)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.chdir(job["cwd"])
    for number in (1, 2):
        os.dup2(files[0], number)
    os.close(files[0])
    os.execvpe(job["argv"][0], job["argv"], job["env"])
except OSError as error:
    way.sendall(("%s: %s" % (error.filename, error.strerror)).encode("utf-8", "surrogateescape"))
    sys.exit(126)
"""


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """Nothing was started, and why."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Started:
    """A process that was started, and how to see its end."""

    def __init__(
        self,
        pid: int,
        child: subprocess.Popen[bytes] | None = None,
        pane_id: str | None = None,
        unit: str | None = None,
    ) -> None:
        self.pid = pid
        self.child = child
        self.pane_id = pane_id
        self.unit = unit

    def in_place(self) -> bool:
        """Whether the program itself runs, and where it was to run."""
        if self.unit is None:
            return True
        groups = (read_bytes("/proc/%d/cgroup" % self.pid) or b"").splitlines()
        words = (read_bytes("/proc/%d/cmdline" % self.pid) or b"").split(b"\0")
        put = any(line.endswith(b"/" + self.unit.encode()) for line in groups)
        return put and os.path.basename(words[0]) != b"systemd-run"

    def ended(self) -> str | None:
        """How it ended; None while it lives."""
        if self.child is not None:
            status = self.child.poll()
            return None if status is None else "status %d" % status
        fields = stat_fields(self.pid)
        return "it ended" if fields is None or fields[0] in (b"Z", b"X") else None


def with_job(job: dict[str, Any], environment: dict[str, str]) -> dict[str, str]:
    """The environment that the program gets."""
    return {**environment, **job["env"], "AGENTOPS_LAUNCH_ID": job["launch_id"]}


def by_setsid(
    job: dict[str, Any],
    environment: dict[str, str],
    log: int,
    before: tuple[str, ...] = (),
    unit: str | None = None,
) -> Started:
    """In a session of its own; its parent is whoever adopts orphans."""
    child = subprocess.Popen(
        [*before, *job["argv"]],
        cwd=job["cwd"],
        env=with_job(job, environment),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    return Started(child.pid, child=child, unit=unit)


def scope_words(unit: str, *, user: bool) -> tuple[str, ...]:
    """What to put before an argv so that systemd holds it in a scope: same pid, same outputs."""
    whose = ("--user",) if user else ()
    return ("systemd-run", *whose, "--scope", "--quiet", "--collect", "--unit=" + unit, "--")


def by_systemd_scope(job: dict[str, Any], environment: dict[str, str], log: int) -> Started:
    """In a scope of the machine's manager, or of the user's own where that one stays."""
    if not os.path.isdir("/run/systemd/system") or shutil.which("systemd-run") is None:
        raise Refused("no_systemd", "this place was not started by systemd")
    user = os.getuid() != 0 or not os.path.exists("/run/systemd/private")
    if user:
        name = pwd.getpwuid(os.getuid()).pw_name
        own = environment.get("XDG_RUNTIME_DIR", "/run/user/%d" % os.getuid())
        if not os.path.exists(own + "/systemd/private"):
            raise Refused("no_systemd", "no systemd manager for user %s in %s" % (name, own))
        if not os.path.exists("/var/lib/systemd/linger/" + name):
            told = "the manager of %s ends with the last login: loginctl enable-linger %s"
            raise Refused("no_systemd", told % (name, name))
        environment = {**environment, "XDG_RUNTIME_DIR": own}
    unit = "agentops-%s.scope" % job["launch_id"]
    return by_setsid(job, environment, log, scope_words(unit, user=user), unit)


def by_tmux(job: dict[str, Any], environment: dict[str, str], log: int) -> Started:
    """As the only process of a new tmux session, which C-c reaches."""
    if shutil.which("tmux") is None:
        raise Refused("no_tmux", "no tmux on PATH")
    # tmux takes no colon and no dot in a session's name.
    session = "agentops-" + job["launch_id"].replace(":", "_").replace(".", "_")
    meeting = secrets.token_hex(16)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("\0" + meeting)
        door.listen(1)
        door.settimeout(TIMEOUT_S)
        boot = [sys.executable, "-I", "-S", "-c", PANE, meeting]
        try:
            made = subprocess.run(
                ["tmux", "new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "--", *boot],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Refused("cannot_start", "tmux did not answer") from None
        if made.returncode != 0:
            raise Refused("cannot_start", text(made.stderr[:500]).strip())
        try:
            way, _ = door.accept()
        except OSError:
            # The pane's process ends when it finds nobody to ask.
            raise Refused("cannot_start", "the pane's process did not answer") from None
    with way:
        return Started(hand_over(way, job, environment, log), pane_id=text(made.stdout).strip())


def hand_over(
    way: socket.socket, job: dict[str, Any], environment: dict[str, str], log: int
) -> int:
    """Give the pane's process its job and the log; its pid once it became the program."""
    credentials = way.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid: int
    pid, uid, _ = struct.unpack("3i", credentials)
    if uid != os.getuid() or pid == 0:
        raise Refused("cannot_start", "a stranger answered instead of the pane's process")
    socket.send_fds(way, [b"."], [log])
    way.sendall(json.dumps({**job, "env": with_job(job, environment)}).encode())
    way.shutdown(socket.SHUT_WR)
    way.settimeout(TIMEOUT_S)
    # The program closes the socket by being executed; a word on it is a failure, and none in time
    # leaves it to whoever looks for the launch id.
    try:
        failure = way.recv(4096)
    except OSError:
        failure = b""
    if failure:
        raise Refused("cannot_start", text(failure))
    return pid


MANNERS = {"setsid": by_setsid, "tmux": by_tmux, "systemd_scope": by_systemd_scope}
