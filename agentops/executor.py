"""The one door to the world: authorize, record the intent, send, parse, record the outcome.

Here: the order of these steps and nothing else. What may run is ``agentops.policy``, how bytes
travel is ``agentops.transport``, what they say is the command's own ``parse``.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentops.commands.base import Command, Completed, Malformed, Observation
from agentops.hosts import Host
from agentops.policy import Authorization, Decision, PolicyConfig, PolicyState, authorize
from agentops.transport.base import Ended, Lost, NotSent, Request, Transport, TransportAnswer
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

_CAPTURE_LIMIT_BYTES = 256 * 1024 * 1024
_PARSE_LIMIT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Executed:
    """One command's end.

    events are all that was appended, in order; the last ones are outcome and observation.
    observation is None unless the outcome is ``command_completed``.
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
        self.out.write(chunk)

    def stderr(self, chunk: bytes) -> None:
        self.err.write(chunk)


class Executor:
    """Runs typed commands on hosts, with every step in the journal."""

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock,
        actor: Actor,
        config: PolicyConfig,
        connect: Callable[[Host], Transport],
        draw: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._actor = actor
        self._config = config
        self._connect = connect
        self._draw = draw
        self._transports: dict[str, Transport] = {}
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
        authorization = authorize(
            command, decision, state, self._config, host, self._clock.wall_us()
        )
        if authorization.answer != "allow":
            denied = await self._append(
                self._event(
                    CommandDenied(
                        command=command.name,
                        arguments=command.arguments(),
                        victims=command.victims(),
                        decision_id=None if decision is None else decision.decision_id,
                        rule=authorization.rule,
                        reason=authorization.reason,
                    ),
                    host,
                    incident,
                )
            )
            return Executed(authorization, denied, denied[-1], None)
        return await self._run(command, host, authorization, reason, incident, decision)

    async def close(self) -> None:
        """Let go of all connections."""
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    async def _run(
        self,
        command: Command,
        host: Host,
        authorization: Authorization,
        reason: str,
        incident: str | None,
        decision: Decision | None,
    ) -> Executed:
        command_id = self._draw()
        intent = CommandIntended(
            command_id=command_id,
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
            decision_id=None if decision is None else decision.decision_id,
            authority=authorization.rule,
            reason=reason,
        )
        if command.effect == "destroys":
            await asyncio.to_thread(self._journal.seal)
        before = await self._append(
            *self._definition(command, host, incident),
            self._event(intent, host, incident, idem=command_id),
        )
        intended = before[-1]
        streams = _Streams(
            self._journal.capture(limit_bytes=_CAPTURE_LIMIT_BYTES),
            self._journal.capture(limit_bytes=_CAPTURE_LIMIT_BYTES),
        )
        request = Request(command.argv(), command.stdin(), command.deadline(), self._draw())
        try:
            answer = await self._transport(host).run(request, streams)
        except asyncio.CancelledError:
            lost = Lost("connection_lost", "the caller cancelled the wait", 0)
            await asyncio.shield(
                self._append(*self._outcome(command, command_id, lost, streams, intended)[0])
            )
            raise
        drafts, observation = self._outcome(command, command_id, answer, streams, intended)
        after = await self._append(*drafts)
        if command.effect == "destroys":
            await asyncio.to_thread(self._journal.seal)
        return Executed(authorization, (*before, *after), after[0], observation)

    def _outcome(
        self,
        command: Command,
        command_id: str,
        answer: TransportAnswer,
        streams: _Streams,
        intended: Event,
    ) -> tuple[tuple[NewEvent, ...], Observation | None]:
        """The outcome event of *answer*, and the observation where the answer could be read."""
        outputs: Mapping[str, bytes | Capture] = {"stdout": streams.out, "stderr": streams.err}
        match answer:
            case NotSent():
                payload: Payload = CommandNotSent(
                    command_id=command_id, reason=answer.reason, detail=answer.detail
                )
                return (self._following(payload, intended),), None
            case Lost():
                payload = CommandOutcomeUnknown(
                    command_id=command_id,
                    reason=answer.reason,
                    detail=answer.detail,
                    duration_ms=answer.duration_ms,
                )
                return (self._following(payload, intended, outputs),), None
            case Ended():
                return self._ended(command, command_id, answer, streams, intended)

    def _ended(
        self,
        command: Command,
        command_id: str,
        answer: Ended,
        streams: _Streams,
        intended: Event,
    ) -> tuple[tuple[NewEvent, ...], Observation | None]:
        outputs: dict[str, bytes | Capture] = {"stdout": streams.out, "stderr": streams.err}
        if answer.preamble:
            outputs["preamble"] = answer.preamble
        read = read_answer(command, answer.exit_status, streams.out, streams.err)
        if isinstance(read, Malformed):
            failed = CommandFailed(
                command_id=command_id,
                exit_status=answer.exit_status,
                duration_ms=answer.duration_ms,
                fault=read.reason if read.line == 0 else f"line {read.line}: {read.reason}",
            )
            return (self._following(failed, intended, outputs),), None
        completed = CommandCompleted(
            command_id=command_id,
            exit_status=answer.exit_status,
            duration_ms=answer.duration_ms,
        )
        dumped = read.model_dump(mode="json")
        observed = ObservationParsed(
            command_id=command_id,
            command=command.name,
            definition=command.definition_digest(),
            parser_version=command.parser_version,
            observation=dumped if command.no_free_text else None,
        )
        attachments = {} if command.no_free_text else {"observation": canonical(dumped)}
        return (
            self._following(completed, intended, outputs),
            self._following(observed, intended, attachments),
        ), read

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

    def _event(
        self, payload: Payload, host: Host, incident: str | None, *, idem: str | None = None
    ) -> NewEvent:
        return NewEvent(
            payload,
            actor=self._actor,
            incident=incident,
            host=HostRef(host.name, host.fingerprint),
            idem=idem,
        )

    def _following(
        self,
        payload: Payload,
        intended: Event,
        attachments: Mapping[str, bytes | Capture] | None = None,
    ) -> NewEvent:
        return NewEvent(
            payload,
            actor=self._actor,
            incident=intended.incident,
            host=intended.host,
            cause=intended.id,
            attachments=attachments or {},
        )

    async def _append(self, *drafts: NewEvent) -> tuple[Event, ...]:
        return await asyncio.to_thread(self._journal.append, *drafts)

    def _transport(self, host: Host) -> Transport:
        return self._transports.setdefault(host.name, self._connect(host))


def read_answer(
    command: Command, exit_status: int, stdout: Capture, stderr: Capture
) -> Observation | Malformed:
    """What the bytes say, or why they cannot be read; a status not declared readable is a failure."""
    if exit_status not in command.readable_statuses:
        return Malformed(f"exit status {exit_status}")
    return command.parse(
        Completed(
            exit_status,
            stdout.content(_PARSE_LIMIT_BYTES),
            stderr.content(_PARSE_LIMIT_BYTES),
            stdout_truncated=stdout.length_bytes > _PARSE_LIMIT_BYTES,
            stderr_truncated=stderr.length_bytes > _PARSE_LIMIT_BYTES,
        )
    )
