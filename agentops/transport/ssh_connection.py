"""An SSH connection with a pinned host key, or the reason why there is none.

Here: connecting, checking the key, telling refusals apart. Not here: requests (``ssh``).
Every failure here is ``NotSent``: no byte of a frame was written.
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import asyncssh

from agentops.hosts import Host, fingerprint_of
from agentops.transport.base import NotSent
from agentops.transport.doors import Doors
from agentops.transport.ssh_keys import OwnKeys, PinnedClient, algorithms, own_keys

KEEPALIVE_S = 15
KEEPALIVE_MISSED_MAX = 3
_CONNECT_ATTEMPTS_MAX = 12
_BACKOFF_FIRST_S = 0.05
_BACKOFF_MAX_S = 2.0


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """The key that a server showed, for a person to compare with what the machine's owner says."""

    line: str
    fingerprint: str


async def connect(
    host: Host, doors: Doors, *, tunnel: asyncssh.SSHClientConnection | None = None
) -> asyncssh.SSHClientConnection | NotSent:
    """Connect, with patience for a server that drops early connections.

    The caller bounds the time.
    """
    if host.host_key is None and not host.host_ca:
        return NotSent(
            "host_key_unknown",
            f"no host key is pinned for {host.name}; run agentops hosts pin {host.name}",
        )
    own = own_keys(host)
    if isinstance(own, str):
        return NotSent("auth", f"{_where(host)}: {own}")
    door = await doors.of(host)
    for attempt in range(_CONNECT_ATTEMPTS_MAX):
        client = PinnedClient(host)
        await door.take()
        try:
            return await _connect_once(host, client, own, tunnel)
        except (ConnectionResetError, asyncssh.ConnectionLost) as error:
            if client.greeted and attempt > 0:
                return await _why_it_hung_up(host, error, tunnel)
            if not client.greeted:
                door.learn_refusal()
            if attempt + 1 == _CONNECT_ATTEMPTS_MAX:
                return NotSent("unreachable", f"{_where(host)}: the server hung up: {error}")
        except (OSError, asyncssh.Error) as error:
            return _refusal(host, client, own, error)
        finally:
            await door.give_back()
        # Full jitter on a doubling step: clients that were dropped together come back apart.
        step_s = min(_BACKOFF_FIRST_S * 2**attempt, _BACKOFF_MAX_S)
        await asyncio.sleep(step_s * secrets.randbelow(1000) / 1000)
    raise AssertionError("unreachable: the last attempt returns")


async def offered_key(
    host: Host, *, tunnel: asyncssh.SSHClientConnection | None = None
) -> OfferedKey | NotSent:
    """Ask the server for its key, without logging in, for the first-use question.

    The caller bounds the time.
    """
    try:
        key = await asyncssh.get_server_host_key(
            host.address,
            host.port,
            tunnel=tunnel or (),
            server_host_key_algs=_plain(host),
            config=None,
        )
    except (OSError, asyncssh.Error) as error:
        return NotSent("unreachable", f"{_where(host)}: {_text(error)}")
    if key is None:
        return NotSent("unreachable", f"{_where(host)}: the server showed no key")
    line = " ".join(key.export_public_key().decode().split()[:2])
    return OfferedKey(line=line, fingerprint=fingerprint_of(line))


async def _why_it_hung_up(
    host: Host, error: Exception, tunnel: asyncssh.SSHClientConnection | None
) -> NotSent:
    """A server that has no key of the kinds that were asked for may hang up without a word."""
    as_pinned = await _shown(host, algorithms(host), tunnel)
    other = None if as_pinned is not None else await _shown(host, (), tunnel)
    if other is None:
        return NotSent("unreachable", f"{_where(host)}: the server hung up: {error}")
    return NotSent(
        "host_key_changed",
        f"{_where(host)}: the server has no key or certificate as pinned ({host.fingerprint});"
        f" it shows {other}",
    )


async def _shown(
    host: Host, kinds: Sequence[str], tunnel: asyncssh.SSHClientConnection | None
) -> str | None:
    """Fingerprint of the key of one of these kinds that the server shows; None if it shows none."""
    try:
        key = await asyncssh.get_server_host_key(
            host.address, host.port, tunnel=tunnel or (), server_host_key_algs=kinds, config=None
        )
    except (OSError, asyncssh.Error):
        return None
    return None if key is None else fingerprint_of(key.export_public_key().decode())


def _plain(host: Host) -> list[str]:
    """The algorithms of the pinned key, without those of certificates."""
    return algorithms(host.model_copy(update={"host_ca": ()}))


async def _connect_once(
    host: Host,
    client: PinnedClient,
    own: OwnKeys,
    tunnel: asyncssh.SSHClientConnection | None,
) -> asyncssh.SSHClientConnection:
    connection, _ = await asyncssh.create_connection(
        lambda: client,
        host.address,
        host.port,
        tunnel=tunnel or (),
        username=host.user,
        known_hosts=([], [], []),
        server_host_key_algs=algorithms(host),
        keepalive_interval=KEEPALIVE_S,
        keepalive_count_max=KEEPALIVE_MISSED_MAX,
        preferred_auth="publickey",
        config=None,
        client_keys=() if own.keys is None else list(own.keys),
        client_certs=list(own.certificates),
        agent_path=own.agent or None,
        agent_identities=None if own.only is None else [own.only],
    )
    return connection


def _refusal(
    host: Host, client: PinnedClient, own: OwnKeys, error: OSError | asyncssh.Error
) -> NotSent:
    where = _where(host)
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and client.certified:
        return NotSent(
            "host_key_changed", f"{where}: its certificate does not hold: {_text(error)}"
        )
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return NotSent(
            "host_key_changed",
            f"{where}: the host key changed: pinned {host.fingerprint}, offered {client.offered};"
            f" if the machine's owner confirms it, agentops hosts pin {host.name} pins the new one",
        )
    if isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in str(error).lower():
        return NotSent(
            "host_key_changed",
            f"{where}: the server no longer has a key of the pinned type (pinned"
            f" {host.fingerprint})",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        return NotSent(
            "auth", f"{where}: user {host.user} was not let in {own.account}: {_text(error)}"
        )
    return NotSent("unreachable", f"{where}: {_text(error)}")


def _where(host: Host) -> str:
    return f"{host.name} ({host.address}:{host.port})"


def _text(error: OSError | asyncssh.Error) -> str:
    if isinstance(error, asyncssh.Error):
        return str(error.reason)
    return error.strerror or str(error)
