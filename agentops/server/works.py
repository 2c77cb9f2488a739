"""Work that outlives a call: a job's recovery, waited for in slices and joined by a repeated call.

Here: starting, joining, waiting, and letting go when nobody waits any more. All that is known
stands in the journal, so after the server's end the next call goes on with the open incident. Not
here: the loop itself (``agentops.recover``), what it means as an answer
(``agentops.server.stories``).
"""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

from agentops.errors import AgentopsError
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.leases import HostBusy
from agentops.recover import Recovery, Terms, engine_for, recover
from agentops.server.desk import Caller, Desk, Refused
from agentops.server.waiting import ended_within
from journal import Event, JournalError

Goal = Literal["recover", "stop"]


@dataclass(slots=True)
class Work:
    """One recovery under way: what its incident's journal holds so far, and how it ended."""

    job: str
    host: Host
    goal: Goal
    events: list[Event] = field(default_factory=list)
    ended: Recovery | None = None
    failed: AgentopsError | JournalError | None = None
    waiters: int = 0
    leaving: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def incident(self) -> str | None:
        """The incident that it works on, once one is known."""
        return self.events[0].incident if self.events else None


class Works:
    """What is under way in this server: one recovery for each job on a host."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._under_way: dict[tuple[str, str], Work] = {}

    def under_way(self, job: str, host: Host) -> Work | None:
        """The recovery of this job that runs now, or None."""
        return self._under_way.get((job, host.name))

    async def start(self, job: str, host: Host, goal: Goal, caller: Caller) -> Work:
        """Begin, go on, or join what already runs to the same goal.

        What is being let go of is not joined: it ends first, and the work begins where it left off.

        Raises:
            Refused: the job is being worked on to another goal.
        """
        running = self.under_way(job, host)
        while running is not None and running.leaving and running.task is not None:
            await asyncio.wait({running.task})
            running = self.under_way(job, host)
        if running is not None:
            if running.goal != goal:
                raise Refused(
                    "BUSY", f"job {job!r} is being worked on to the goal {running.goal!r} now"
                )
            return running
        work = Work(job, host, goal)
        self._under_way[job, host.name] = work
        work.task = asyncio.create_task(self._run(work, caller))
        return work

    async def wait(self, work: Work, limit_s: float, caller: Caller) -> bool:
        """Whether it ended within *limit_s*; progress is told every few seconds.

        When the last one who waits gives up, the work is let go of: what was sent is journalled,
        and the incident stays open for the next call.
        """
        assert work.task is not None  # noqa: S101 - set where it is made
        work.waiters += 1
        try:
            await ended_within(work.task, caller, limit_s, lambda: self.says(work))
        except asyncio.CancelledError:
            if work.waiters == 1:
                await self._let_go(work)
            raise
        finally:
            work.waiters -= 1
        if not work.task.done():
            return False
        if work.task.cancelled():
            raise Refused("BUSY", "the work was let go of meanwhile; call again to go on")
        # A fault of ours shows here, with its traceback; what the world refused is in work.failed.
        work.task.result()
        return True

    def says(self, work: Work) -> str:
        """The last thing that it did, in one line."""
        return self._desk.ground.says(work.events[-1]) if work.events else "starting"

    async def close(self) -> None:
        """Let go of everything under way, and see that each has written down where it stands."""
        for work in list(self._under_way.values()):
            await self._let_go(work)

    async def _let_go(self, work: Work) -> None:
        work.leaving = True
        if work.task is not None:
            work.task.cancel()
            await asyncio.wait({work.task})

    async def _run(self, work: Work, caller: Caller) -> None:
        ground = self._desk.ground
        executor: Executor | None = None
        try:
            actor = engine_for(self._desk.actor(caller))
            executor = await asyncio.to_thread(self._desk.executor, actor)
            work.ended = await recover(
                work.job,
                work.host,
                executor=executor,
                journal=ground.journal,
                clock=ground.clock,
                config=ground.config,
                sources=ground.sources,
                source=ground.source,
                terms=Terms(goal=work.goal),
                on_event=work.events.append,
            )
        except HostBusy as busy:
            work.failed = Refused("BUSY", str(busy))
        except (AgentopsError, JournalError) as error:
            work.failed = error
        finally:
            self._under_way.pop((work.job, work.host.name), None)
            if executor is not None:
                await executor.close()
