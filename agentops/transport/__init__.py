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
    "connector",
    "offered_key",
    "open_transport",
]


def open_transport(host: Host, inventory: Inventory | None = None) -> LocalTransport | SshTransport:
    """The transport for *host*; nothing is connected before the first request.

    Raises:
        UsageError: the host is reached by a jump host that *inventory* does not have, or that is
            reached by way of this very host.
    """
    if host.transport == "local":
        return LocalTransport(host.layers)
    return SshTransport(host, jump=_jump_of(host, inventory, seen=(host.name,)))


def connector(inventory: Inventory) -> Callable[[Host], LocalTransport | SshTransport]:
    """``open_transport`` for the hosts of one inventory, jump hosts included."""
    return partial(open_transport, inventory=inventory)


def _jump_of(
    host: Host, inventory: Inventory | None, *, seen: tuple[str, ...]
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
    return SshTransport(hop, jump=_jump_of(hop, inventory, seen=(*seen, hop.name)))
