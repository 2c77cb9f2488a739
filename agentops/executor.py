"""The one door to the world: authorize, record the intent, send, parse, record the outcome.

Who acts holds the host's acting lease meanwhile; who only looks needs none.

Here: the order of these steps and nothing else. What may run is ``agentops.policy``, how bytes
travel is ``agentops.transport``, what they say is the command's own ``parse``.
"""

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentops.commands import Command, Completed, Malformed, Observation
from agentops.hosts import Host
from agentops.leases import HostBusy, Leases
from agentops.policy import Authorization, Decision, PolicyConfig, PolicyState, authorize
from agentops.transport.base import Ended, Lost, NotSent, Request, Transport
from journal import Actor, Capture, Clock, Event, HostRef, Journal, NewEvent
from journal.events import (
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    DefinitionRecorded,
    ObservationParsed,
    Payload,
)
from journal.lines import canonical


@dataclass(frozen=True, slots=True)
class Executed:
    """One command's end.

    events are all that was appended, in order. observation is None unless the outcome is
    ``command_completed``.
    """

    authorization: Authorization
    events: tuple[Event, ...]
    outcome: Event
    observation: Observation | None


@dataclass(frozen=True, slots=True)
class _Streams:
    """A sink that hands a command's bytes to the journal's bounded captures."""

    out: Capture
    err: Capture

    def stdout(self, chunk: bytes) -> None:
        """Take bytes of standard output."""
        self.out.write(chunk)

    def stderr(self, chunk: bytes) -> None:
        """Take bytes of standard error."""
        self.err.write(chunk)

    def attachments(self, preamble: bytes) -> Mapping[str, bytes | Capture]:
        """What the outcome's event carries."""
        outputs: dict[str, bytes | Capture] = {"stdout": self.out, "stderr": self.err}
        return outputs | {"preamble": preamble} if preamble else outputs

    def close(self) -> None:
        """Let go of what was spooled."""
        self.out.close()
        self.err.close()


class Executor:
    """Runs typed commands on hosts, with every step in the journal."""

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock,
        config: PolicyConfig,
        connect: Callable[[Host], Transport],
        actor: Actor | None = None,
        draw: Callable[[], str] = lambda: secrets.token_hex(16),
        leases: Path | None = None,
    ) -> None:
        """*leases* is the folder of acting leases; by default one inside the journal."""
        self._journal = journal
        self._clock = clock
        self._actor = actor or journal.actor
        self._config = config
        self._connect = connect
        self._draw = draw
        self._transports: dict[str, Transport] = {}
        self._leases = Leases(
            leases or journal.layout.root / "leases",
            f"{self._actor.id} (pid {os.getpid()}, journal {journal.layout.root})",
        )
        self._acting_on: set[str] = set()
        self._defined = {
            event.payload.digest
            for event in journal.reader().events(kinds=("definition_recorded",))
            if isinstance(event.payload, DefinitionRecorded)
        }

    async def execute(
        self,
        command: Command,
        host: Host,
        *,
        state: PolicyState,
        reason: str,
        incident: str | None = None,
        decision: Decision | None = None,
    ) -> Executed:
        """Run *command* on *host* if policy allows it.

        Raises:
            journal.JournalError: the intent could not be made durable (nothing was sent), or the
                outcome could not (the intent stays in doubt until the next opening).
        """
        answer = authorize(command, decision, state, self._config, host, self._now_us(state))
        decision_id = None if decision is None else decision.decision_id
        with self._leased(command, host, answer) as authorization:
            if authorization.answer != "allow":
                denial = CommandDenied(
                    command=command.name,
                    arguments=command.arguments(),
                    victims=command.victims(),
                    decision_id=decision_id,
                    rule=authorization.rule,
                    reason=authorization.reason,
                )
                events = await self._append(self._event(denial, host, incident))
                return Executed(authorization, events, events[-1], None)
            intent = CommandIntended(
                command_id=self._draw(),
                command=command.name,
                definition=command.definition_digest(),
                arguments=command.arguments(),
                argv=command.argv(),
                route=host.route(),
                effect=command.effect,
                intrusiveness=command.intrusiveness,
                retry=command.retry,
                deadline_ms=command.deadline(),
                victims=command.victims(),
                decision_id=decision_id,
                authority=authorization.rule,
                reason=reason,
            )
            before, given_up = await self._append_whole(
                *self._definition(command, host, incident), self._event(intent, host, incident)
            )
            if given_up:
                unsent = CommandNotSent(
                    command_id=intent.command_id,
                    reason="given_up",
                    detail="the caller gave up before anything was sent",
                )
                await self._append(_after(before[-1], unsent, {}))
                raise asyncio.CancelledError
            after, observation = await self._send(command, host, intent.command_id, before[-1])
            return Executed(authorization, (*before, *after), after[0], observation)

    def _now_us(self, state: PolicyState) -> int:
        """The engine's time, which no setting of a clock moves."""
        clocks = (self._clock.wall_us(), self._clock.mono_ns() // 1_000)
        return state.reckoning.now_us(*clocks, self._journal.settings.machine.boot_id)

    @contextmanager
    def acting(self, host: Host) -> Iterator[None]:
        """Hold the acting lease on *host* for many commands, so that nobody acts between them.

        Raises:
            HostBusy: somebody else holds it.
        """
        with self._leases.take(host):
            self._acting_on.add(host.name)
            try:
                yield
            finally:
                self._acting_on.discard(host.name)

    @contextmanager
    def _leased(
        self, command: Command, host: Host, answer: Authorization
    ) -> Iterator[Authorization]:
        """Hold the lease while a command acts; without it the answer becomes a denial."""
        if answer.answer != "allow" or command.effect == "observes" or host.name in self._acting_on:
            yield answer
            return
        with ExitStack() as held:
            try:
                held.enter_context(self._leases.take(host))
            except HostBusy as busy:
                answer = Authorization("deny", "acting-lease", str(busy))
            yield answer

    async def close(self) -> None:
        """Let go of all connections."""
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    async def _send(
        self, command: Command, host: Host, command_id: str, intended: Event
    ) -> tuple[tuple[Event, ...], Observation | None]:
        """Send what was intended, and make its outcome durable before anybody hears of it."""
        streams = _Streams(self._journal.capture(), self._journal.capture())
        request = Request(
            command.argv(),
            command.stdin(),
            command.deadline(),
            self._draw(),
            repeatable=command.retry == "repeat",
        )
        transport = self._transports.setdefault(host.name, self._connect(host))
        try:
            answer = await transport.run(request, streams)
        except asyncio.CancelledError:
            lost = CommandOutcomeUnknown(
                command_id=command_id,
                reason="connection_lost",
                detail="the caller gave up waiting; the command may still run",
                duration_ms=0,
            )
            await self._append(_after(intended, lost, streams.attachments(b"")))
            streams.close()
            raise
        drafts, observation = _outcome(command, command_id, answer, streams, intended)
        appended = await self._append(*drafts)
        streams.close()
        return appended, observation

    def _definition(
        self, command: Command, host: Host, incident: str | None
    ) -> tuple[NewEvent, ...]:
        """What the command means, once per journal and content digest."""
        digest = command.definition_digest()
        if digest in self._defined:
            return ()
        self._defined.add(digest)
        recorded = DefinitionRecorded(
            digest=digest, subject="command", name=command.name, body=command.definition()
        )
        return (self._event(recorded, host, incident),)

    def _event(self, payload: Payload, host: Host, incident: str | None) -> NewEvent:
        return NewEvent(
            payload,
            actor=self._actor,
            incident=incident,
            host=HostRef(host.name, host.fingerprint or host.transport),
        )

    async def _append(self, *drafts: NewEvent) -> tuple[Event, ...]:
        events, given_up = await self._append_whole(*drafts)
        if given_up:
            raise asyncio.CancelledError
        return events

    async def _append_whole(self, *drafts: NewEvent) -> tuple[tuple[Event, ...], bool]:
        """Append, and say whether the caller gave up meanwhile: a write is never half known."""
        appending = asyncio.ensure_future(asyncio.to_thread(self._journal.append, *drafts))
        given_up = False
        while not appending.done():
            try:
                await asyncio.shield(appending)
            except asyncio.CancelledError:
                given_up = True
        return appending.result(), given_up


def _outcome(
    command: Command,
    command_id: str,
    answer: Ended | NotSent | Lost,
    streams: _Streams,
    intended: Event,
) -> tuple[tuple[NewEvent, ...], Observation | None]:
    """The outcome of *answer*, and the observation where the answer could be read."""
    match answer:
        case NotSent():
            unsent = CommandNotSent(
                command_id=command_id, reason=answer.reason, detail=answer.detail
            )
            return (_after(intended, unsent, {}),), None
        case Lost():
            unknown = CommandOutcomeUnknown(
                command_id=command_id,
                reason=answer.reason,
                detail=answer.detail,
                duration_ms=answer.duration_ms,
            )
            return (_after(intended, unknown, streams.attachments(answer.preamble)),), None
        case Ended():
            outputs = streams.attachments(answer.preamble)
            read = read_answer(command, answer.exit_status, _completed(answer, streams))
            if isinstance(read, Malformed):
                failed = CommandFailed(
                    command_id=command_id,
                    exit_status=answer.exit_status,
                    duration_ms=answer.duration_ms,
                    fault=read.reason if read.line == 0 else f"line {read.line}: {read.reason}",
                )
                return (_after(intended, failed, outputs),), None
            completed = CommandCompleted(
                command_id=command_id,
                exit_status=answer.exit_status,
                duration_ms=answer.duration_ms,
            )
            observed = _observed(command, command_id, read, intended)
            return (_after(intended, completed, outputs), observed), read


def read_answer(
    command: Command, exit_status: int, completed: Completed
) -> Observation | Malformed:
    """What the bytes say, or why they say nothing; an undeclared status is a failure."""
    if exit_status not in command.readable_statuses:
        return Malformed(f"exit status {exit_status}")
    return command.parse(completed)


def _completed(answer: Ended, streams: _Streams) -> Completed:
    return Completed(
        answer.exit_status,
        streams.out.content(),
        streams.err.content(),
        stdout_truncated=streams.out.truncated,
        stderr_truncated=streams.err.truncated,
    )


def _observed(
    command: Command, command_id: str, observation: Observation, intended: Event
) -> NewEvent:
    value = observation.model_dump(mode="json")
    payload = ObservationParsed(
        command_id=command_id,
        command=command.name,
        definition=command.definition_digest(),
        parser_version=command.parser_version,
        observation=value if command.no_free_text else None,
    )
    attachments = {} if command.no_free_text else {"observation": canonical(value)}
    return _after(intended, payload, attachments)


def _after(
    intended: Event, payload: Payload, attachments: Mapping[str, bytes | Capture]
) -> NewEvent:
    """An event that follows from an intent: same actor, incident and host, caused by it."""
    return NewEvent(
        payload,
        actor=intended.actor,
        incident=intended.incident,
        host=intended.host,
        cause=intended.id,
        attachments=attachments,
    )
