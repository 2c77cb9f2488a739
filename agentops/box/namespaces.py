"""The box's two PID namespaces: the host that sshd serves, and the containers behind pct.

As root each is a real namespace with its own /proc. Without root a container gets one inside a
user namespace where the kernel permits that, and the host gets none. Where nothing is permitted
the box still runs, and says so: then it cannot hide the machine's other processes.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

from agentops.box.processes import child_of, namespace_of, pids_by_namespace
from agentops.box.waiting import wait_for

Isolation = Literal["root", "user", "none"]
_START_TIMEOUT_S = 5.0


def isolation() -> Isolation:
    """The strongest isolation that this user may have here, found by trying."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "none"
    wanted: Isolation = "root" if os.geteuid() == 0 else "user"
    tried = subprocess.run(
        [*_unshare(wanted), "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return wanted if tried.returncode == 0 else "none"


class Namespace:
    """One PID namespace with ``init.py`` as its first process; ends when closed or orphaned."""

    def __init__(
        self,
        kind: Isolation,
        argv: Sequence[str] = (),
        *,
        within: "Namespace | None" = None,
        stderr: Path,
        env: dict[str, str] | None = None,
    ) -> None:
        init = [sys.executable, "-I", "-S", str(files("agentops.box") / "files" / "init.py")]
        enter = [] if within is None else within.enter_argv()
        with stderr.open("ab") as log:
            self._process = subprocess.Popen(
                [*enter, *_unshare(kind), *init, *argv],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )
        self.kind = kind
        self._stderr = stderr
        self.init_pid = self._wait_for_init(depth_enter=bool(enter))
        """Pid of the namespace's first process, as this process sees it."""

    @property
    def inode(self) -> int:
        """Inode of the PID namespace."""
        return namespace_of(self.init_pid)

    @property
    def ended(self) -> bool:
        """Whether the first process is gone."""
        return self._process.poll() is not None

    def pid_within(self, depth: int) -> int:
        """Pid of the first process, *depth* namespaces above its own one."""
        pids = pids_by_namespace(self.init_pid)
        return pids[-1 - depth] if len(pids) > depth else self.init_pid

    def enter_argv(self) -> list[str]:
        """What to put before an argv so that it runs inside, started from here."""
        target = ["nsenter", "--target", str(self.init_pid)]
        match self.kind:
            case "root":
                return [*target, "--pid", "--mount", "--"]
            case "user":
                return [*target, "--user", "--preserve-credentials", "--pid", "--mount", "--"]
            case "none":
                return []

    def close(self) -> None:
        """Close init's stdin, which ends the namespace, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_for_init(self, *, depth_enter: bool) -> int:
        """Follow nsenter's and unshare's forks down to the Python that runs ``init.py``."""

        def found() -> int | None:
            if self._process.poll() is not None:
                text = self._stderr.read_text("utf-8", "replace")[-500:]
                raise OSError(f"the box's namespace could not be started: {text.strip()}")
            if self.kind == "none":
                return self._process.pid
            pid: int | None = self._process.pid
            if depth_enter and pid is not None:
                pid = child_of(pid)
            pid = None if pid is None else child_of(pid)
            return pid if pid is not None and pids_by_namespace(pid)[-1:] == (1,) else None

        return wait_for(found, _START_TIMEOUT_S, "the first process of the box's namespace")


def _unshare(kind: Isolation) -> list[str]:
    common = ["--pid", "--fork", "--mount-proc", "--kill-child", "--"]
    match kind:
        case "root":
            return ["unshare", *common]
        case "user":
            return ["unshare", "--user", "--map-root-user", *common]
        case "none":
            return []
