"""Bytes to and from a host: frames, layers, and the transports that carry them."""

from collections.abc import Callable
from functools import partial

from agentops.errors import UsageError
from agentops.hosts import Host, Inventory
from agentops.transport.base import (
    Ended,
    Lost,
    NotSent,
    Request,
    Sink,
    Transport,
    TransportAnswer,
)
from agentops.transport.doors import Doors
from agentops.transport.local import LocalTransport
from agentops.transport.ssh import SshTransport
from agentops.transport.ssh_connection import OfferedKey, offered_key

__all__ = [
    "Ended",
    "LocalTransport",
    "Lost",
    "NotSent",
    "OfferedKey",
    "Request",
    "Sink",
    "SshTransport",
    "Transport",
    "TransportAnswer",
    "certified",
    "connector",
    "open_transport",
    "shown_key",
]


def open_transport(
    host: Host, inventory: Inventory | None = None, doors: Doors | None = None
) -> LocalTransport | SshTransport:
    """The transport for *host*; nothing is connected before the first request.

    Transports that share *doors* do not crowd a server that several of them lead to.

    Raises:
        UsageError: the host is reached by a jump host that *inventory* does not have, or that is
            reached by way of this very host.
    """
    if host.transport == "local":
        return LocalTransport(host.layers)
    doors = doors or Doors()
    return SshTransport(host, jump=_jump_of(host, inventory, doors, seen=(host.name,)), doors=doors)


async def shown_key(host: Host, inventory: Inventory) -> OfferedKey | NotSent:
    """The key that *host* shows to whoever asks, by way of its jump host; nobody logs in to it.

    The caller bounds the time.
    """
    jump = _jump_of(host, inventory, Doors(), seen=(host.name,))
    if jump is None:
        return await offered_key(host)
    try:
        tunnel = await jump.connection()
        if isinstance(tunnel, NotSent):
            return tunnel
        return await offered_key(host, tunnel=tunnel)
    finally:
        await jump.close()


async def certified(host: Host, inventory: Inventory) -> NotSent | None:
    """Why *host* does not prove itself by a certificate; None if it does. Logs in and out.

    The caller bounds the time.
    """
    transport = SshTransport(host, jump=_jump_of(host, inventory, Doors(), seen=(host.name,)))
    try:
        made = await transport.connection()
        return made if isinstance(made, NotSent) else None
    finally:
        await transport.close()


def connector(inventory: Inventory) -> Callable[[Host], LocalTransport | SshTransport]:
    """``open_transport`` for the hosts of one inventory, jump hosts included."""
    return partial(open_transport, inventory=inventory, doors=Doors())


def _jump_of(
    host: Host, inventory: Inventory | None, doors: Doors, *, seen: tuple[str, ...]
) -> SshTransport | None:
    if host.jump is None:
        return None
    if inventory is None:
        raise UsageError(
            f"host {host.name} needs jump host {host.jump!r}, and no inventory is known"
        )
    if host.jump in seen:
        raise UsageError(f"jump hosts go in a circle: {' → '.join((*seen, host.jump))}")
    hop = inventory.get(host.jump)
    if hop.transport != "ssh" or hop.layers:
        raise UsageError(f"jump host {hop.name} must be plain SSH, without layers")
    through = _jump_of(hop, inventory, doors, seen=(*seen, hop.name))
    return SshTransport(hop, jump=through, doors=doors)
