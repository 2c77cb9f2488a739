"""An SSH connection with a pinned host key, or the reason why there is none.

Here: connecting, checking the key, telling refusals apart. Not here: requests (``ssh``).
Every failure here is ``NotSent``: no byte of a frame was written.
"""

import asyncio
import secrets
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from agentops.hosts import Host, fingerprint_of
from agentops.transport.base import NotSent

KEEPALIVE_S = 15
KEEPALIVE_MISSED_MAX = 3
# OpenSSH drops unauthenticated connections at random from 10 on (MaxStartups 10:30:100).
_CONNECT_ATTEMPTS_MAX = 12
_BACKOFF_FIRST_S = 0.05
_BACKOFF_MAX_S = 2.0
_RSA_ALGORITHMS = ("rsa-sha2-512", "rsa-sha2-256")


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """The key that a server showed, for a person to compare with what the machine's owner says."""

    line: str
    fingerprint: str


class _PinnedClient(asyncssh.SSHClient):
    """Accepts exactly one host key, and remembers the one it was shown."""

    def __init__(self, pinned: str | None) -> None:
        self._pinned = None if pinned is None else fingerprint_of(pinned)
        self.offered: str | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        del host, addr, port
        self.offered = fingerprint_of(key.export_public_key().decode())
        return self.offered == self._pinned


async def connect(
    host: Host, *, tunnel: asyncssh.SSHClientConnection | None = None
) -> asyncssh.SSHClientConnection | NotSent:
    """Connect, with patience for a server that drops early connections.

    The caller bounds the time. ``~/.ssh/config`` and ``known_hosts`` are not read here: the
    inventory says it all.
    """
    if host.host_key is None:
        return NotSent(
            "host_key_unknown",
            f"no host key is pinned for {host.name}; run agentops hosts check {host.name}",
        )
    keys = _own_keys(host)
    if isinstance(keys, NotSent):
        return keys
    for attempt in range(_CONNECT_ATTEMPTS_MAX):
        client = _PinnedClient(host.host_key)
        try:
            return await _connect_once(host, client, keys, tunnel)
        except (ConnectionResetError, asyncssh.ConnectionLost) as error:
            if attempt + 1 == _CONNECT_ATTEMPTS_MAX:
                return NotSent("unreachable", f"{_where(host)}: the server hung up: {error}")
        except (OSError, asyncssh.Error) as error:
            return _refusal(host, client, error)
        # Full jitter on a doubling step: clients that were dropped together come back apart.
        step_s = min(_BACKOFF_FIRST_S * 2**attempt, _BACKOFF_MAX_S)
        await asyncio.sleep(step_s * secrets.randbelow(1000) / 1000)
    raise AssertionError("unreachable: the last attempt returns")


async def offered_key(host: Host) -> OfferedKey | NotSent:
    """Ask the server for its key, without logging in, for the first-use question.

    The caller bounds the time.
    """
    try:
        key = await asyncssh.get_server_host_key(
            host.address, host.port, server_host_key_algs=_algorithms(host.host_key), config=None
        )
    except (OSError, asyncssh.Error) as error:
        return NotSent("unreachable", f"{_where(host)}: {_text(error)}")
    if key is None:
        return NotSent("unreachable", f"{_where(host)}: the server showed no key")
    line = " ".join(key.export_public_key().decode().split()[:2])
    return OfferedKey(line=line, fingerprint=fingerprint_of(line))


def _own_keys(host: Host) -> list[asyncssh.SSHKeyPair] | NotSent | None:
    """The configured key; None leaves the choice to the agent and the user's default keys."""
    if host.key is None:
        return None
    path = Path(host.key).expanduser()
    try:
        return list(asyncssh.load_keypairs(str(path)))
    except (OSError, asyncssh.KeyImportError) as error:
        return NotSent("auth", f"{_where(host)}: key file {path} cannot be used: {error}")


async def _connect_once(
    host: Host,
    client: _PinnedClient,
    keys: list[asyncssh.SSHKeyPair] | None,
    tunnel: asyncssh.SSHClientConnection | None,
) -> asyncssh.SSHClientConnection:
    connection, _ = await asyncssh.create_connection(
        lambda: client,
        host.address,
        host.port,
        tunnel=tunnel or (),
        username=host.user,
        known_hosts=([], [], []),
        server_host_key_algs=_algorithms(host.host_key),
        keepalive_interval=KEEPALIVE_S,
        keepalive_count_max=KEEPALIVE_MISSED_MAX,
        preferred_auth="publickey",
        config=None,
        client_keys=() if keys is None else keys,
    )
    return connection


def _algorithms(host_key: str | None) -> list[str]:
    """Ask for the pinned type, else a server with several keys may show another one."""
    kind = "ssh-ed25519" if host_key is None else host_key.split()[0]
    if kind == "ssh-rsa":
        return list(_RSA_ALGORITHMS)
    if host_key is None:
        return [kind, "ecdsa-sha2-nistp256", *_RSA_ALGORITHMS]
    return [kind]


def _refusal(host: Host, client: _PinnedClient, error: OSError | asyncssh.Error) -> NotSent:
    where = _where(host)
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return NotSent(
            "host_key_changed",
            f"{where}: the host key changed: pinned {host.fingerprint}, offered {client.offered};"
            " if the machine's owner confirms it, pin the new key with agentops hosts add",
        )
    if isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in str(error).lower():
        return NotSent(
            "host_key_changed",
            f"{where}: the server no longer has a key of the pinned type (pinned"
            f" {host.fingerprint})",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return NotSent("auth", f"{where}: user {host.user} was not let in: {_text(error)}")
    return NotSent("unreachable", f"{where}: {_text(error)}")


def _where(host: Host) -> str:
    return f"{host.name} ({host.address}:{host.port})"


def _text(error: OSError | asyncssh.Error) -> str:
    if isinstance(error, asyncssh.Error):
        return str(error.reason)
    return error.strerror or str(error)
