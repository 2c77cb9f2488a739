"""A controller that is killed at a chosen moment of its loop: run as a process of its own.

``python crash_driver.py SPEC`` runs ``recover`` as the command line does, on the project in the
working directory, with two seams put in: a journal that tells each acknowledged event id on a pipe,
and a transport that knows when a request is under way. At its moment the process sends SIGKILL to
itself; nothing is flushed, closed or told.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from agentops.cli.context import actor
from agentops.cli.policies import policy_for
from agentops.config import load_settings
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.recover import engine_for, read_sources, recover
from agentops.transport import Request, Sink, Transport, TransportAnswer, open_transport
from journal import Event, Journal, KeyStore, NewEvent, SystemClock
from journal.events import CommandCompleted, CommandIntended

PHASES = ("before_intent", "intent_durable", "under_way", "answered", "outcome_durable")


@dataclass(frozen=True, slots=True)
class Moment:
    """When to die: in which phase of the nth command of that name; delay_ms only under way."""

    phase: str
    command: str
    nth: int
    delay_ms: int

    def __str__(self) -> str:
        """As printed, so that a failure can be run again."""
        late = f" after {self.delay_ms} ms" if self.phase == "under_way" else ""
        return f"{self.phase} of {self.command} #{self.nth}{late}"


def die() -> None:
    """The end, as a power cut would make it for this process."""
    os.kill(os.getpid(), signal.SIGKILL)


class Fate:
    """Counts commands and knows whether the current one is the fatal one."""

    def __init__(self, moment: Moment, pipe: int) -> None:
        self.moment = moment
        self.pipe = pipe
        self.seen = 0
        self.command_id = ""

    def meets(self, phase: str) -> bool:
        """Whether this is the phase, in the command that is running now."""
        return self.command_id != "" and phase == self.moment.phase

    def before(self, new: tuple[NewEvent, ...]) -> None:
        """Look at what is about to be appended."""
        for draft in new:
            said = draft.payload
            if isinstance(said, CommandIntended) and said.command == self.moment.command:
                self.seen += 1
                if self.seen == self.moment.nth:
                    self.command_id = said.command_id
                    if self.meets("before_intent"):
                        die()

    def after(self, events: tuple[Event, ...]) -> None:
        """Tell what was acknowledged, then look at it."""
        os.write(self.pipe, "".join(f"{event.id}\n" for event in events).encode())
        for event in events:
            said = event.payload
            if isinstance(said, CommandIntended) and said.command_id == self.command_id:
                if self.meets("intent_durable"):
                    die()
            elif (
                isinstance(said, CommandCompleted)
                and said.command_id == self.command_id
                and self.meets("outcome_durable")
            ):
                die()


class ToldJournal(Journal):
    """A journal whose acknowledgements are told outside, one id a line."""

    fate: Fate

    def append(self, *new: NewEvent) -> tuple[Event, ...]:
        """Append, with fate before and after."""
        self.fate.before(new)
        events = super().append(*new)
        self.fate.after(events)
        return events


class FatedTransport:
    """The real transport, with fate while a request is under way and when it was answered."""

    def __init__(self, inner: Transport, fate: Fate) -> None:
        self._inner = inner
        self._fate = fate

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Carry the request."""
        if self._fate.meets("under_way"):
            asyncio.get_running_loop().call_later(self._fate.moment.delay_ms / 1000, die)
        answer = await self._inner.run(request, sink)
        if self._fate.meets("answered"):
            die()
        return answer

    async def close(self) -> None:
        """Let go."""
        await self._inner.close()


async def main(spec: dict[str, object]) -> None:
    """Recover the job until the moment comes."""
    fate = Fate(Moment(**spec["moment"]), int(str(spec["pipe"])))  # type: ignore[arg-type]  # own JSON
    settings = load_settings(environ=os.environ, cwd=Path.cwd())
    config, source = policy_for(settings)
    config, sources = read_sources(config, Path.cwd())
    keys = KeyStore(settings.places.keys)
    clock = SystemClock()
    ToldJournal.fate = fate
    place = settings.journal
    way = ToldJournal.open if place.exists() else ToldJournal.create
    with way(place, clock=clock, actor=actor(), keys=keys, anchor=settings.anchor) as journal:

        def connect(host: Host) -> Transport:
            return FatedTransport(open_transport(host), fate)

        executor = Executor(
            journal, clock=clock, config=config, connect=connect, actor=engine_for(journal.actor)
        )
        await recover(
            str(spec["job"]),
            settings.inventory.get(str(spec["host"])),
            executor=executor,
            journal=journal,
            clock=clock,
            config=config,
            sources=sources,
            source=source,
        )
        await executor.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
