"""The acting lease: who may act on a host now. One holder a host; observers need none.

A lease is a lock on a file, so it ends with the process that holds it, however that ends. It binds
the processes that share the folder: all of one user's on one machine. Not here: which commands need
one (``agentops.executor``).
"""

import fcntl
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from agentops.errors import AgentopsError
from agentops.hosts import Host

_HOLDER_BYTES_MAX = 1_000


class HostBusy(AgentopsError):  # noqa: N818 - a state of the world, not a fault
    """Somebody else holds the acting lease; says who, and that nothing was done."""


class Lease:
    """A held lease; use it in a ``with`` statement, or release it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let others act. Safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Leases:
    """The folder in which leases lie, and how their holder is named to others."""

    folder: Path
    holder: str

    def take(self, host: Host) -> Lease:
        """The lease on *host*, at once or not at all.

        Raises:
            HostBusy: another holds it, in this process or elsewhere.
            AgentopsError: the folder cannot be written.
        """
        path = self.folder / f"{_name_of(host)}.lease"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AgentopsError(
                f"host {host.name!r}: its acting lease {path} cannot be taken ({error.strerror});"
                " nothing was done"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, _HOLDER_BYTES_MAX).decode("utf-8", "replace")
            os.close(descriptor)
            raise HostBusy(
                f"host {host.name!r}: {holder or 'another process'} acts on it now, and only one"
                " may; nothing was done; wait until it has ended, or only look"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, self.holder.encode()[:_HOLDER_BYTES_MAX])
        return Lease(descriptor)


def _name_of(host: Host) -> str:
    """The same for every inventory that reaches this machine or container."""
    machine = host.fingerprint or f"{host.transport}:{host.address}:{host.port}"
    route = [machine, *(layer.text for layer in host.layers)]
    return hashlib.sha256("\n".join(route).encode()).hexdigest()[:32]
