"""A wish for one command, and the yes that it may need.

Here: what policy knows when somebody wishes for a command directly (freeze, questions, answers),
and the order of wish, question, answer and act. A question is journalled before anybody is asked,
and bound to verb, argv, host key, identities and policy version. Not here: who may answer
(``agentops.recover.approving``), commands that the engine decides on (``agentops.recover``).
"""

import asyncio
from dataclasses import dataclass

from agentops.commands import Command
from agentops.executor import Executed, Executor
from agentops.hosts import Host
from agentops.policy import Authorization, PolicyConfig, PolicyState, authorize, fold
from agentops.policy.asking import Question, question_for
from agentops.policy.ledger import Terms
from agentops.policy.state import APPROVAL
from journal import Actor, Clock, Event, HostRef, Journal, NewEvent, Reader
from journal.events import CommandIntended

_TELLING = frozenset(
    {
        "acting_frozen",
        "acting_thawed",
        "approval_requested",
        "approval_granted",
        "approval_refused",
        "approval_expired",
        "command_intended",
    }
)


@dataclass(frozen=True, slots=True)
class Waits:
    """A wish that a person must say yes to first; nothing was sent.

    asked is the event that put the question, None where the very same question is open already.
    """

    question: Question
    authorization: Authorization
    asked: Event | None


@dataclass(frozen=True, slots=True)
class Wish:
    """One command that somebody wants to run on a host, and why; it is on no decision's account."""

    command: Command
    host: Host
    reason: str
    incident: str | None = None
    actor: Actor | None = None


def known_of(reader: Reader, host: Host) -> PolicyState:
    """What the journal says that bears on a direct wish: freeze, questions, answers, used ones."""
    state = PolicyState(terms=Terms(tier=host.tier, host=host.name))
    for event in reader.events(kinds=_TELLING):
        intent = event.payload
        if not isinstance(intent, CommandIntended) or intent.authority.startswith(APPROVAL):
            state = fold(state, event)
    return state


async def carry_out(
    wish: Wish, *, executor: Executor, journal: Journal, clock: Clock, config: PolicyConfig
) -> Executed | Waits:
    """Run what is wished for where policy allows it; put the question where a person must say yes.

    An answered question is used by the command that it is bound to, once.

    Raises:
        journal.JournalError: something could not be made durable; nothing was sent after that.
    """
    state = await asyncio.to_thread(known_of, journal.reader(), wish.host)
    now_us = clock.wall_us()
    answer = authorize(wish.command, None, state, config, wish.host, now_us)
    if answer.answer != "ask":
        return await executor.execute(
            wish.command, wish.host, state=state, reason=wish.reason, incident=wish.incident
        )
    question = question_for(wish.command, answer, state, config, wish.host, now_us)
    if question.request is None:
        return Waits(question, answer, None)
    draft = NewEvent(
        question.request,
        incident=wish.incident,
        host=HostRef(wish.host.name, wish.host.fingerprint or wish.host.transport),
        actor=wish.actor,
    )
    (asked,) = await asyncio.to_thread(journal.append, draft)
    return Waits(question, answer, asked)
