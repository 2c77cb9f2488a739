"""The freeze of all acting: set, lifted, and where it stands.

It binds whoever acts by this journal, from the next decision on. Not here: how a decision heeds it
(``agentops.policy``), or a person's answer to one question (``agentops.recover.approving``).
"""

from dataclasses import dataclass

from agentops.errors import UsageError
from journal import Event, HostRef, Journal, NewEvent, Reader
from journal.events import ActingFrozen, ActingThawed


@dataclass(frozen=True, slots=True)
class Freeze:
    """One freeze that stands. host is None where it is everywhere; by is who said so."""

    host: str | None
    since_us: int
    by: str
    reason: str

    @property
    def where(self) -> str:
        """The place, in words."""
        return "everywhere" if self.host is None else f"on {self.host}"

    @property
    def lifted_by(self) -> str:
        """The command that lifts it."""
        return f"agentops thaw {'--all' if self.host is None else self.host}"


def freezes(reader: Reader) -> tuple[Freeze, ...]:
    """The freezes that stand, everywhere first; thawing everywhere lifts each."""
    standing: dict[str | None, Freeze] = {}
    for event in reader.events(kinds={"acting_frozen", "acting_thawed"}):
        host = None if event.host is None else event.host.name
        match event.payload:
            case ActingFrozen() as frozen:
                standing[host] = Freeze(host, event.ts_us, event.actor.id, frozen.reason)
            case ActingThawed() if host is None:
                standing.clear()
            case ActingThawed():
                standing.pop(host, None)
            case _:
                pass
    return tuple(sorted(standing.values(), key=lambda freeze: freeze.host or ""))


def freeze(journal: Journal, host: HostRef | None, reason: str) -> Event:
    """Stop all acting on *host*, or everywhere, from the next decision on."""
    (event,) = journal.append(NewEvent(ActingFrozen(reason=reason), host=host))
    return event


def thaw(journal: Journal, host: HostRef | None, reason: str) -> Event | None:
    """Allow acting again on *host*; without one, everywhere. None where nothing was frozen.

    Raises:
        UsageError: an agent asked for it, or acting is frozen everywhere and not on *host* alone.
    """
    if journal.actor.kind != "human":
        raise UsageError(f"{journal.actor.kind} {journal.actor.id} cannot thaw: a person must")
    standing = freezes(journal.reader())
    if not standing:
        return None
    if host is not None and host.name not in {freeze.host for freeze in standing}:
        if standing[0].host is not None:
            return None
        raise UsageError(
            f"host {host.name!r}: acting is frozen everywhere, and not on this host alone;"
            f" {standing[0].lifted_by}"
        )
    (event,) = journal.append(NewEvent(ActingThawed(reason=reason), host=host))
    return event
