"""The trap box: sshd on loopback, a PID namespace for the host, one for each container.

Here: starting and ending it, and running things inside as their owner would. Not here: what runs
inside (``workloads``), connecting to it (``agentops.transport``).
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

from agentops.box.namespaces import Isolation, Namespace, isolation
from agentops.box.places import Place, take_place
from agentops.box.processes import Truth, processes_in
from agentops.box.sshd import (
    ServerFiles,
    ServerKind,
    ServerOptions,
    answers,
    make_files,
    server_argv,
    server_kind,
    user_name,
)
from agentops.box.waiting import wait_for

_START_TIMEOUT_S = 10.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class BoxAddress:
    """How a client gets in: the fields of an inventory entry."""

    address: str
    port: int
    user: str
    key: Path
    host_key: str


class Box:
    """A private host with containers; use it in a ``with`` statement.

    As root the host and each container have PID namespaces of their own. ``isolation`` says what
    was possible: "root", "user" (containers only) or "none". environment is added to every SSH
    session's; "@box@" in a value stands for the box's directory.
    """

    def __init__(
        self,
        *,
        containers: Sequence[str] = ("200",),
        server: ServerKind | None = None,
        options: ServerOptions | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._container_names = tuple(containers)
        self._options = options or ServerOptions()
        self._environment = dict(environment or {})
        self.server: ServerKind = server or server_kind()
        self.isolation: Isolation = "none"
        self.containers: dict[str, Namespace] = {}
        self._host: Namespace | None = None
        self._files: ServerFiles | None = None
        self._place: Place | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """The box's own directory; gone when the box is closed."""
        if self._place is None:
            raise RuntimeError("the box is not open")
        return self._place.directory

    @property
    def address(self) -> BoxAddress:
        """How to get in."""
        if self._files is None:
            raise RuntimeError("the box is not open")
        made = self._files
        return BoxAddress("127.0.0.1", made.port, user_name(), made.client_key, made.host_key)

    @property
    def account(self) -> str:
        """One line for people: which server runs, and how well the box is isolated."""
        server = {"openssh": "OpenSSH's sshd", "asyncssh": "asyncssh's own server"}[self.server]
        walls = {
            "root": "host and containers in private PID namespaces",
            "user": "containers in PID namespaces of this user; the host has none",
            "none": "no PID namespace: not permitted to this user",
        }[self.isolation]
        return f"{server} on 127.0.0.1:{self.address.port}; {walls}"

    def open(self) -> None:
        """Start everything; on failure nothing is left behind."""
        self._place = take_place()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process of the box and remove its directory."""
        for container in self.containers.values():
            container.close()
        self.containers.clear()
        if self._host is not None:
            self._host.close()
            self._host = None
        if self._place is not None:
            self._place.give_up()
            self._place = None

    def run_inside(
        self,
        argv: Sequence[str],
        *,
        container: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run argv inside, not through SSH, and wait: for setting a stage and reading truth."""
        where = self._namespace(container)
        return subprocess.run(
            [*where.enter_argv(), *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self._outer_env(env),
            timeout=timeout_s,
            check=False,
        )

    def start_inside(
        self,
        argv: Sequence[str],
        *,
        container: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log: Path | None = None,
    ) -> Truth:
        """Start argv detached, as a child of the namespace's init, and say which process it is."""
        where = self._namespace(container)
        log = log or self.directory / "started.log"
        note = Path(tempfile.mkdtemp(dir=self.directory, prefix="start-")) / "pid"
        # The shell notes its own pid, then becomes the command; setsid -f orphans it to init.
        script = 'cd "$1" && echo $$ >"$2.new" && mv "$2.new" "$2" && shift 2 && exec "$@"'
        shell = ["sh", "-c", script, "start", str(cwd or self.directory), str(note), *argv]
        with log.open("ab") as output:
            subprocess.run(
                [*where.enter_argv(), "setsid", "-f", *shell],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._outer_env(env),
                check=True,
            )
        pid = int(wait_for(lambda: _text_of(note), _START_TIMEOUT_S, f"pid of {argv[0]}"))

        def become() -> Truth | None:
            # Until exec the process still is the shell, whose argv holds the note's path.
            found = [t for t in processes_in(where.inode) if t.identity.pid == pid]
            return found[0] if found and str(note) not in found[0].cmdline else None

        return wait_for(become, _START_TIMEOUT_S, f"process {argv[0]}")

    def processes(self, container: str | None = None) -> tuple[Truth, ...]:
        """The truth: all processes of one namespace, read from outside."""
        return processes_in(self._namespace(container).inode)

    def stop_container(self, name: str) -> None:
        """End a container, as ``pct stop`` would."""
        self.containers.pop(name).close()

    def start_container(self, name: str) -> None:
        """Start a container, new or again."""
        directory = self.directory / "containers" / name
        for part in ("bin", "root"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        within = self._host if self.isolation == "root" else None
        namespace = Namespace(
            self.isolation, within=within, stderr=self.directory / f"container-{name}.log"
        )
        self.containers[name] = namespace
        depth = 1 if within is not None else 0
        pid = namespace.pid_within(depth) if depth else namespace.init_pid
        (directory / "enter").write_text(f"{namespace.kind}\n")
        (directory / "init").write_text(f"{pid}\n")

    def _open(self) -> None:
        directory = self.directory
        for part in ("bin", "containers", "home"):
            (directory / part).mkdir()
        pct = directory / "bin" / "pct"
        pct.write_bytes((files("agentops.box") / "files" / "pct").read_bytes())
        pct.chmod(0o755)
        self.isolation = isolation()
        self._files = make_files(directory / "ssh")
        environment = {
            "HOME": str(directory / "home"),
            "PATH": f"{directory}/bin:{_PATH}",
            **{n: v.replace("@box@", str(directory)) for n, v in self._environment.items()},
        }
        argv = server_argv(self.server, self._files, self._options, environment)
        host_isolation: Isolation = "root" if self.isolation == "root" else "none"
        host = Namespace(host_isolation, argv, stderr=directory / "sshd.log")
        self._host = host
        for name in self._container_names:
            self.start_container(name)
        port = self._files.port

        def up() -> bool | None:
            if host.ended:
                raise OSError(f"the box's SSH server ended: {self._log()}")
            return answers(port) or None

        wait_for(up, _START_TIMEOUT_S, "answer from the box's SSH server")
        if self.isolation == "root":
            wait_for(self._is_quiet, _START_TIMEOUT_S, "end of the connection that asked it")

    def _is_quiet(self) -> bool | None:
        """Whether no connection has a process, which somebody might take for a bystander."""
        those = self.processes()
        init = self._namespace(None).init_pid
        servers = {truth.outer_pid for truth in those if truth.outer_ppid == init}
        return not any(truth.outer_ppid in servers for truth in those) or None

    def _outer_env(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return {"PATH": _PATH, "HOME": str(self.directory / "home"), **(env or {})}

    def _log(self) -> str:
        return (self.directory / "sshd.log").read_text("utf-8", "replace")[-500:].strip()

    def _namespace(self, container: str | None) -> Namespace:
        where = self._host if container is None else self.containers[container]
        if where is None:
            raise RuntimeError("the box is not open")
        return where


def _text_of(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
