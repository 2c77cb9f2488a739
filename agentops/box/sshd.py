"""The box's SSH server on a loopback port: OpenSSH's where installed, else asyncssh's own.

Here: keys, configuration, start. Not here: what a session finds when it is in (``box``).
"""

import os
import pwd
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncssh

ServerKind = Literal["openssh", "asyncssh"]
_READ_TIMEOUT_S = 0.5


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What a server needs on disk, and what its client must know."""

    directory: Path
    client_key: Path
    host_key: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server behaves; the defaults are OpenSSH's own.

    config is further lines of sshd_config, for traps.
    """

    max_sessions: int = 10
    max_startups: str = "10:30:100"
    banner: str = ""
    config: tuple[str, ...] = ()


def make_files(directory: Path, client_key: asyncssh.SSHKey | None = None) -> ServerFiles:
    """Generate host key, client key and authorized_keys; pick a free loopback port."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    host_key = asyncssh.generate_private_key("ssh-ed25519", comment="agentops trap box")
    client_key = client_key or asyncssh.generate_private_key("ssh-ed25519", comment="agentops box")
    for name, key in (("host_key", host_key), ("client_key", client_key)):
        path = directory / name
        path.write_bytes(key.export_private_key("openssh"))
        path.chmod(0o600)
    (directory / "authorized_keys").write_bytes(client_key.export_public_key("openssh"))
    public = host_key.export_public_key("openssh").decode()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    return ServerFiles(
        directory=directory,
        client_key=directory / "client_key",
        host_key=" ".join(public.split()[:2]),
        port=port,
    )


def server_kind() -> ServerKind:
    """Which server this machine can run for this user."""
    return "asyncssh" if _sshd() is None or not _may_log_in() else "openssh"


def user_name() -> str:
    """This user's login name; a number for one that the system does not know."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _may_log_in() -> bool:
    """Whether OpenSSH would let this user in: known to the system, with a shell to log in to."""
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        return False
    return Path(shell).name not in {"nologin", "false"}


def server_argv(
    kind: ServerKind, made: ServerFiles, options: ServerOptions, environment: dict[str, str]
) -> list[str]:
    """Write the server's configuration and give the argv that runs it in the foreground.

    environment is what every session starts with.
    """
    if kind == "asyncssh":
        pairs = [f"{name}={value}" for name, value in environment.items()]
        module = [sys.executable, "-m", "agentops.box.asyncssh_server"]
        return [*module, str(made.directory), str(made.port), str(options.max_sessions), *pairs]
    config = made.directory / "sshd_config"
    config.write_text("\n".join(_config_lines(made, options, environment)) + "\n")
    # sshd insists on this directory when it runs as root; distributions make it at boot.
    privilege_separation = Path("/run/sshd")
    if Path("/proc/self").owner() == "root" and not privilege_separation.exists():
        privilege_separation.mkdir(mode=0o755, parents=True)
    return [str(_sshd()), "-D", "-e", "-f", str(config)]


def answers(port: int) -> bool:
    """Whether an SSH server shows its version line on this loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), _READ_TIMEOUT_S) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _config_lines(
    made: ServerFiles, options: ServerOptions, environment: dict[str, str]
) -> list[str]:
    # Only the first SetEnv line counts, so all variables stand in one.
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
    lines = [
        f"Port {made.port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {made.directory}/host_key",
        f"AuthorizedKeysFile {made.directory}/authorized_keys",
        f"PidFile {made.directory}/sshd.pid",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "StrictModes no",
        "PermitRootLogin prohibit-password",
        "PrintMotd no",
        "PrintLastLog no",
        "UseDNS no",
        "LogLevel VERBOSE",
        f"MaxSessions {options.max_sessions}",
        f"MaxStartups {options.max_startups}",
        f"SetEnv {variables}",
    ]
    if options.banner:
        (made.directory / "banner").write_text(options.banner)
        lines.append(f"Banner {made.directory}/banner")
    return [*lines, *options.config]


def _sshd() -> str | None:
    return shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/opt/homebrew/sbin")
