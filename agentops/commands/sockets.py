"""Who holds what: ``ports`` (listening sockets) and ``locks`` (locks on files)."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.paths import HostPath
from agentops.commands.place import Place
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Identity, Retry


class ListeningSocket(Observation):
    """One listening TCP socket. owners is empty where this user may not see them."""

    family: str
    address: str
    port: int = Field(ge=0, le=65535)
    uid: Count
    owners: tuple[Identity, ...]


class PortsSeen(Observation):
    """All listening TCP sockets of the network namespace."""

    sockets: tuple[ListeningSocket, ...]


class _RawSocket(Observation):
    family: str
    address: str
    port: int = Field(ge=0, le=65535)
    uid: Count
    pids: tuple[Count, ...]
    start_ticks: tuple[Count, ...]


class Ports(ScriptCommand):
    """Listening TCP sockets with the processes that own them."""

    name: ClassVar[str] = "ports"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a container with the host's network shows the host's sockets",
        "a port that is open is not yet a service that answers",
    )
    silence: ClassVar[str] = "Nothing was learned; no listening socket is an answer."
    python: ClassVar[tuple[str, ...]] = ("identity", "ports")

    def read(self, rows: Sequence[dict[str, object]]) -> PortsSeen | Malformed:
        """The place, then one row a socket."""
        if not rows:
            return Malformed("the first row is missing")
        place = Place.model_validate(rows[0])
        sockets = []
        for row in rows[1:]:
            raw = _RawSocket.model_validate(row)
            pairs = zip(raw.pids, raw.start_ticks, strict=False)
            sockets.append(
                ListeningSocket(
                    family=raw.family,
                    address=raw.address,
                    port=raw.port,
                    uid=raw.uid,
                    owners=tuple(place.at(pid, ticks) for pid, ticks in pairs if ticks),
                )
            )
        return PortsSeen(sockets=tuple(sockets))


class HeldLock(Observation):
    """One granted lock; no holder for locks of open file descriptions and other namespaces."""

    kind: str
    mode: str
    holder: Identity | None


class LockedFile(Observation):
    """One file. pid_text is what a small lock file says; a claim of its maker's, not a holder."""

    path: str
    exists: bool
    pid_text: str | None
    locks: tuple[HeldLock, ...]


class LocksSeen(Observation):
    """The files that were asked about, in order."""

    files: tuple[LockedFile, ...]


class _RawLock(Observation):
    kind: str
    mode: str
    pid: int = Field(gt=-(2**53), lt=2**53)
    start_ticks: Count


class _RawLocked(Observation):
    path: str
    exists: bool
    pid_text: str | None
    locks: tuple[_RawLock, ...]


class Locks(ScriptCommand):
    """Which processes hold locks on some files."""

    name: ClassVar[str] = "locks"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a lock file that merely exists holds nothing",
        "a lock on a network file system may be held on another machine",
    )
    silence: ClassVar[str] = "Nothing was learned; a file without locks is an answer."
    python: ClassVar[tuple[str, ...]] = ("identity", "locks")

    paths: tuple[HostPath, ...] = Field(min_length=1, max_length=100)
    """The files that may be locked."""

    def script_arguments(self) -> tuple[str, ...]:
        """The paths."""
        return self.paths

    def read(self, rows: Sequence[dict[str, object]]) -> LocksSeen | Malformed:
        """The place, then one row a path."""
        if len(rows) != len(self.paths) + 1:
            return Malformed(f"{len(self.paths)} paths were asked for, {len(rows) - 1} answered")
        place = Place.model_validate(rows[0])
        files = []
        for row in rows[1:]:
            raw = _RawLocked.model_validate(row)
            locks = tuple(
                HeldLock(
                    kind=lock.kind,
                    mode=lock.mode,
                    holder=place.at(lock.pid, lock.start_ticks) if lock.start_ticks else None,
                )
                for lock in raw.locks
            )
            fields = {"path": raw.path, "exists": raw.exists, "pid_text": raw.pid_text}
            files.append(LockedFile.model_validate({**fields, "locks": locks}))
        return LocksSeen(files=tuple(files))
