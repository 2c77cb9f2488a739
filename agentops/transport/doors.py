"""How many connections may wait at one server's door at once, not yet let in.

A server counts those by itself, whatever names its hosts have here, and drops what is too many
(OpenSSH's MaxStartups). Here: the count for each address, and what was learned. Not here: the
connecting (``ssh_connection``).
"""

import asyncio
import ipaddress
import socket

from agentops.hosts import Host
from agentops.transport.limits import Limit

# OpenSSH drops at random from 10 on (MaxStartups 10:30:100); two are left for others.
AT_ONCE_DEFAULT = 8


class Doors:
    """The limits of all servers that one program connects to, by resolved address and port."""

    def __init__(self, at_once: int = AT_ONCE_DEFAULT) -> None:
        self._at_once = at_once
        self._limits: dict[tuple[str, str, int], Limit] = {}

    async def of(self, host: Host) -> Limit:
        """The limit of the server that *host* is behind; the same for all its names."""
        # Behind a jump host the address means what it means there.
        where = host.address if host.jump is not None else await _resolved(host)
        place = (host.jump or "", where, host.port)
        return self._limits.setdefault(place, Limit(self._at_once))


async def _resolved(host: Host) -> str:
    """The first address of the name; the name itself where nothing resolves it."""
    try:
        return str(ipaddress.ip_address(host.address))
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host.address, host.port, type=socket.SOCK_STREAM)
    except OSError:
        return host.address
    return str(found[0][4][0])
