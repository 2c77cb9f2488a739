"""Bytes to and from a host: frames, layers, and the transports that carry them."""

from agentops.hosts import Host
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
    "offered_key",
    "open_transport",
]


def open_transport(host: Host) -> LocalTransport | SshTransport:
    """The transport for *host*; nothing is connected before the first request."""
    if host.transport == "local":
        return LocalTransport(host.layers)
    return SshTransport(host)
