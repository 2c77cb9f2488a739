"""The loop over one incident.

Here: fold what the journal holds, decide, record the decision, carry it out, again. Everything that
is known stands in the journal, so a loop that was killed is continued by the next one. Not here:
what to do (``agentops.policy``), or how a command reaches its host (``agentops.executor``).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from agentops.approvals import this_party
from agentops.errors import ConfigError
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.policy import (
    Close,
    Decision,
    Job,
    Judge,
    Pause,
    PolicyConfig,
    PolicyState,
    Run,
    authorize,
    decide,
)
from agentops.policy.asking import question_for
from agentops.policy.decide import unanswered
from agentops.policy.fold import RECONCILED, SETTLED
from agentops.policy.reconciling import TOOK_EFFECT
from agentops.recover.building import build
from agentops.recover.following import Following
from agentops.recover.opening import Terms, engine_for, load_configuration, open_incident
from agentops.recover.pacing import rest_us
from agentops.recover.sources import Sources
from journal import Clock, Event, HostRef, Journal, NewEvent
from journal.events import (
    CommandReconciled,
    IncidentClosed,
    Payload,
    Resolution,
    VerdictReached,
)

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """How an incident ended.

    waits_for names the approvals that somebody must give first. unanswered says that the host
    brought no answer and nothing was done, so that nothing is known of the job; frozen that an
    operator froze acting meanwhile.
    """

    incident: str
    resolution: Resolution | None
    reason: str
    decisions: int
    waits_for: tuple[str, ...] = ()
    unanswered: bool = False
    frozen: bool = False


async def rest(duration_us: int) -> None:
    """Let real time pass: only for pauses that policy decided on, each with its reason."""
    await asyncio.sleep(duration_us / SECOND_US)


async def recover(
    job: str,
    host: Host,
    *,
    executor: Executor,
    journal: Journal,
    clock: Clock,
    config: PolicyConfig,
    sources: Sources,
    terms: Terms | None = None,
    incident: str | None = None,
    source: str = "policy.toml",
    on_event: Callable[[Event], None] | None = None,
    pause: Callable[[int], Awaitable[None]] = rest,
) -> Recovery:
    """Bring *job* on *host* to a resolution, going on with its open incident where there is one.

    Raises:
        ConfigError: the policy file has no such job, or asks for what cannot be built.
        UsageError: *incident* is not an open incident of this job.
        HostBusy: somebody else acts on the host now; nothing was written.
        journal.JournalError: something could not be made durable; nothing was done after that.
    """
    table = config.job.get(job)
    if table is None:
        known = ", ".join(sorted(config.job)) or "none"
        raise ConfigError(f"{source}: job {job!r} is not in it (it has: {known}); add [job.{job}]")
    asked = terms or Terms()
    asked = replace(asked, shadow=asked.shadow or config.policy.shadow)
    with nullcontext() if asked.shadow else executor.acting(host):
        name = await asyncio.to_thread(open_incident, journal, clock, job, host, incident, asked)
        await asyncio.to_thread(
            load_configuration, journal, name, job, host, config, asked, source=source
        )
        loop = _Loop(name, table, host, executor, journal, clock, config, sources, on_event, pause)
        return await loop.run()


class _Loop:
    """One incident being worked on: what does not change, and the state folded so far."""

    def __init__(
        self,
        incident: str,
        job: Job,
        host: Host,
        executor: Executor,
        journal: Journal,
        clock: Clock,
        config: PolicyConfig,
        sources: Sources,
        on_event: Callable[[Event], None] | None,
        pause: Callable[[int], Awaitable[None]],
    ) -> None:
        self._incident = incident
        self._job = job
        self._host = host
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._config = config
        self._sources = sources
        self._on_event = on_event
        self._pause = pause
        self._following = Following(journal.reader(), incident)

    async def run(self) -> Recovery:
        """Decide and act until the incident is closed."""
        made = 0
        while True:
            state = await self._fold()
            decision = decide(state, self._config, self._now_us(state))
            await self._append(decision.made(state.configuration))
            made += 1
            action = decision.action
            if isinstance(action, Close):
                await self._close(action, state)
                return Recovery(
                    self._incident,
                    action.resolution,
                    action.reason,
                    made,
                    unanswered=bool(unanswered(state)) and not state.acts,
                    frozen=state.frozen,
                )
            waits_for = await self._carry_out(decision, state)
            if waits_for is not None:
                return Recovery(
                    self._incident, None, "a person must say yes first", made, (waits_for,)
                )

    def _now_us(self, state: PolicyState) -> int:
        """The engine's time, which no setting of a clock moves."""
        clocks = (self._clock.wall_us(), self._clock.mono_ns() // 1_000)
        return state.reckoning.now_us(*clocks, self._journal.settings.machine.boot_id)

    async def _carry_out(self, decision: Decision, state: PolicyState) -> str | None:
        """Do what was decided; gives the approval that must be given first, if one must."""
        action = decision.action
        match action:
            case Run():
                return await self._command(action, decision)
            case Judge():
                await self._append(*_judged(action))
            case Pause():
                await self._pause(rest_us(action, state, self._now_us(state)))
            case Close():
                raise AssertionError("a close ends the loop")
        return None

    async def _command(self, run: Run, decision: Decision) -> str | None:
        state = await self._fold()
        command = build(run, self._job, self._sources)
        asked = authorize(command, decision, state, self._config, self._host, self._now_us(state))
        if asked.answer == "ask":
            # Until when is told to people, who go by the wall clock.
            wall_us = self._clock.wall_us()
            question = question_for(
                command, asked, state, self._config, self._host, wall_us, this_party()
            )
            if question.request is not None:
                await self._append(question.request)
                await self._fold()
            return question.approval_id
        await self._executor.execute(
            command,
            self._host,
            state=state,
            reason=_reason(decision),
            incident=self._incident,
            decision=decision,
        )
        return None

    async def _close(self, action: Close, state: PolicyState) -> None:
        """Close the incident once; an incident that was closed before stays as it is."""
        if state.incident is not None and state.incident.resolution is None:
            await self._append(
                IncidentClosed(
                    resolution=action.resolution, reason=action.reason, evidence=action.evidence
                )
            )
        await self._fold()

    async def _fold(self) -> PolicyState:
        """The state after all that the journal holds now."""
        new = await asyncio.to_thread(self._following.refresh)
        if self._on_event is not None:
            for event in new:
                self._on_event(event)
        return self._following.state

    async def _append(self, *payloads: Payload) -> None:
        where = HostRef(self._host.name, self._host.fingerprint or self._host.transport)
        drafts = [
            NewEvent(
                payload, incident=self._incident, host=where, actor=engine_for(self._journal.actor)
            )
            for payload in payloads
        ]
        await asyncio.to_thread(self._journal.append, *drafts)


def _reason(decision: Decision) -> str:
    """Why the command runs, in the words of the rules that spoke for it."""
    return "; ".join(f"{hit.rule}: {hit.text}" for hit in decision.because)


def _judged(action: Judge) -> tuple[Payload, ...]:
    """The verdict, and for an unknown outcome what it settles."""
    reached = VerdictReached(
        condition=action.condition,
        verdict=action.verdict,
        reason=action.reason,
        evidence=action.evidence,
    )
    unknown = action.condition.get("status") in RECONCILED
    if action.condition.get("kind") != TOOK_EFFECT or not unknown:
        return (reached,)
    settled = CommandReconciled(
        command_id=str(action.condition.get("command_id")),
        settled=SETTLED[action.verdict],
        evidence=action.evidence,
    )
    return (reached, settled)
