"""Where all tools stand: one open session on the journal, the settings, and a door for each client.

Here: what lives as long as the server does, and the faults that tools raise to answer with. Not
here: the protocol (``agentops.server.protocol``), work that outlives a call
(``agentops.server.works``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentops.commands import Command
from agentops.errors import AgentopsError
from agentops.executor import Executed, Executor
from agentops.hosts import Host, Inventory
from agentops.policy import Job, PolicyConfig
from agentops.policy.ledger import Terms
from agentops.policy.state import PolicyState
from agentops.recover import Sources
from agentops.server.answer import Answer, Code, Fault
from agentops.transport import connector
from journal import Actor, Clock, Event, HostRef, Journal, JournalError, NewEvent, Reader
from journal.events import Payload
from journal.upkeep import record_reading
from reports import Depth


class Refused(AgentopsError):  # noqa: N818 - an answer, not a fault of ours
    """A tool cannot do what was asked; carries the answer's fault."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.fault = Fault(code=code, detail=detail)

    def answer(self) -> Answer:
        """The whole answer."""
        return Answer(ok=False, summary=self.fault.detail, error=self.fault)


@dataclass(frozen=True, slots=True)
class Ground:
    """What the server was started with.

    says gives one line for an event, tells a report's text. person is for whom agents act here.
    through_client says that the person who configured this server lets clients put questions.
    """

    journal: Journal
    clock: Clock
    config: PolicyConfig
    sources: Sources
    source: str
    inventory: Inventory
    leases: Path
    person: str
    says: Callable[[Event], str]
    tells: Callable[[Reader, str, Depth], str]
    through_client: bool = False
    model: str | None = None


async def _no_progress(_done: float, _total: float, _message: str) -> None:
    """For callers that asked for none."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and how to tell them that a wait goes on (seconds done, seconds in all, text)."""

    name: str = "mcp"
    progress: Callable[[float, float, str], Awaitable[None]] = field(default=_no_progress)


class Desk:
    """The tools' common ground while the server lives."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._doors: dict[str, Executor] = {}
        self._acting: set[str] = set()

    def note_reading(self, purpose: str, query: str) -> None:
        """Looking is part of the record too; a disk that refuses the note hides nothing."""
        with suppress(JournalError):
            record_reading(self.ground.journal, purpose, query)

    @property
    def reader(self) -> Reader:
        """The journal, for reading."""
        return self.ground.journal.reader()

    def actor(self, caller: Caller) -> Actor:
        """The agent that calls, on behalf of the person who started the server."""
        return Actor("agent", caller.name, self.ground.model, self.ground.person)

    def host(self, name: str) -> Host:
        """The inventory's host.

        Raises:
            UsageError: there is none of that name; lists the names there are.
        """
        return self.ground.inventory.get(name)

    def job(self, name: str) -> Job:
        """The policy file's job.

        Raises:
            Refused: there is none of that name; lists the names there are.
        """
        job = self.ground.config.job.get(name)
        if job is None:
            known = ", ".join(sorted(self.ground.config.job)) or "none"
            raise Refused("BAD_ARGS", f"job {name!r} is not in the policy file (it has: {known})")
        return job

    def executor(self, actor: Actor) -> Executor:
        """A door of its own, for one who holds the acting lease over many commands."""
        ground = self.ground
        return Executor(
            ground.journal,
            clock=ground.clock,
            config=ground.config,
            connect=connector(ground.inventory),
            actor=actor,
            leases=ground.leases,
        )

    async def door(self, caller: Caller) -> Executor:
        """The caller's door for single commands; connections stay open between calls."""
        if caller.name not in self._doors:
            made = await asyncio.to_thread(self.executor, self.actor(caller))
            self._doors.setdefault(caller.name, made)
        return self._doors[caller.name]

    @contextmanager
    def acting(self, host: Host) -> Iterator[None]:
        """One act at a time on a host: the door's lease binds processes, this binds calls.

        Raises:
            Refused: another call of this server acts on the host now.
        """
        if host.name in self._acting:
            raise Refused("BUSY", f"another call acts on {host.name} now; nothing was sent")
        self._acting.add(host.name)
        try:
            yield
        finally:
            self._acting.discard(host.name)

    async def look(self, caller: Caller, command: Command, host: Host, reason: str) -> Executed:
        """Run a command that only observes."""
        door = await self.door(caller)
        state = PolicyState(terms=Terms(tier=host.tier, host=host.name))
        return await door.execute(command, host, state=state, reason=reason)

    async def record(self, host: Host, payload: Payload, actor: Actor) -> Event:
        """Make one event about *host* durable."""
        place = HostRef(host.name, host.fingerprint or host.transport)
        draft = NewEvent(payload, host=place, actor=actor)
        (event,) = await asyncio.to_thread(self.ground.journal.append, draft)
        return event

    async def close(self) -> None:
        """Let go of all connections."""
        for door in self._doors.values():
            await door.close()
        self._doors.clear()
