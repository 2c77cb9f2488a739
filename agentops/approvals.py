"""A wish for one command, and the yes that it may need.

Here: what policy knows when somebody wishes for a command directly (freeze, questions, answers),
and the order of wish, question, answer and act. A question is journalled before anybody is asked,
and bound to verb, argv, host key, identities and policy version; before a yes is used its victims
are observed again. Not here: who may answer (``agentops.recover.approving``), commands that the
engine decides on (``agentops.recover``).
"""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path

from agentops.commands import Command
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.executor import Executed, Executor
from agentops.hosts import Host, Layer
from agentops.leases import HostBusy
from agentops.policy import Authorization, PolicyConfig, PolicyState, authorize, fold
from agentops.policy.asking import Party, Question, question_for
from agentops.policy.authorize import approval_digest
from agentops.policy.cards import Card, argv_line
from agentops.policy.ledger import Terms
from agentops.policy.state import APPROVAL
from agentops.transport.layers import wrap
from journal import Actor, Clock, Event, HostRef, Journal, NewEvent, Reader
from journal.events import (
    ApprovalExpired,
    ApprovalRequested,
    CommandDenied,
    CommandIntended,
    Payload,
)

# Of what a yes is bound to, these two are no part of the command's own words.
CHANGED = "policy.toml, or the host's key, has changed since it was asked"
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
    The authorization's reason names a yes that was given to the same words and no longer counts.
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


def this_party() -> Party:
    """Who this process is, as one who asks or answers; without /proc only the user is known."""
    found = [os.getpid()]
    leader = os.getsid(0)
    while found[-1] not in {leader, 1}:
        try:
            stat = Path(f"/proc/{found[-1]}/stat").read_text("utf-8", "replace")
        except OSError:
            break
        above = int(stat.rpartition(")")[2].split()[1])
        if above == 0:
            break
        found.append(above)
    return Party(os.getuid(), tuple(found))


def by_layer(card: Card) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What each layer of the card's route is told to run, outermost first; empty where unsaid."""
    if not card.argv:
        return ()
    machine, *inside = card.route or ("unknown",)
    layers = tuple(Layer.from_text(word) for word in inside)
    names = (machine, *inside)
    return tuple((name, wrap(layers[place:], card.argv)) for place, name in enumerate(names))


def card_lines(card: Card) -> tuple[str, ...]:
    """The whole card as lines: what the question says, then what each layer is told to run."""
    layers = (f"  on {name:<8} {argv_line(argv)}" for name, argv in by_layer(card))
    return (*card.lines(), *layers)


def known_of(reader: Reader, host: Host, *, agent_wish: bool = False) -> PolicyState:
    """What the journal says that bears on a direct wish: freeze, questions, answers, used ones."""
    terms = Terms(tier=host.tier, host=host.name, agent_wish=agent_wish)
    state = PolicyState(terms=terms)
    for event in reader.events(kinds=_TELLING):
        intent = event.payload
        if not isinstance(intent, CommandIntended) or intent.authority.startswith(APPROVAL):
            state = fold(state, event)
    return state


async def carry_out(
    wish: Wish, *, executor: Executor, journal: Journal, clock: Clock, config: PolicyConfig
) -> Executed | Waits:
    """Run what is wished for where policy allows it; put the question where a person must say yes.

    An answered question is used by the command that it is bound to, once, and only while its
    victims are still those processes.

    Raises:
        journal.JournalError: something could not be made durable; nothing was sent after that.
    """
    door = _Door(wish, executor, journal, clock, config)
    state, answer = await door.ask_policy()
    if answer.answer == "ask":
        return await door.question(state, answer)
    if not _rests_on_a_yes(answer):
        return await door.execute(state)
    try:
        # Who holds the lease uses the yes: two who read it as unused at once would act twice.
        with executor.acting(wish.host):
            return await _use(door)
    except HostBusy as busy:
        return await door.deny(Authorization("deny", "acting-lease", str(busy)))


async def _use(door: "_Door") -> Executed | Waits:
    """Act on a yes, if it is still there and the world is still the one that it was given for."""
    state, answer = await door.ask_policy()
    if answer.answer == "ask":
        return await door.question(state, answer)
    if _rests_on_a_yes(answer) and door.wish.command.victims():
        refusal = await _seen_again(door, answer.rule.removeprefix(APPROVAL))
        if refusal is not None:
            return refusal
    return await door.execute(state)


def _rests_on_a_yes(answer: Authorization) -> bool:
    return answer.answer == "allow" and answer.rule.startswith(APPROVAL)


async def _seen_again(door: "_Door", approval_id: str) -> Executed | None:
    """Observe the victims; a refusal where one is no longer there, or cannot be seen."""
    looked = await door.executor.execute(
        ListProcesses(),
        door.wish.host,
        state=PolicyState(),
        reason=f"the victims of approval {approval_id}, before it is used",
        incident=door.wish.incident,
    )
    table = looked.observation
    if not isinstance(table, ProcessTable):
        reason = "its victims could not be observed again; the approval is kept"
        return await door.deny(Authorization("deny", f"{APPROVAL}{approval_id} unseen", reason))
    there = {table.identity(row) for row in table.processes}
    gone = [victim for victim in door.wish.command.victims() if victim not in there]
    if not gone:
        return None
    pids = ", ".join(str(victim.pid) for victim in gone)
    reason = f"stale: pid {pids} is no longer the process that was approved"
    await door.append(ApprovalExpired(approval_id=approval_id, reason=reason))
    return await door.deny(Authorization("deny", f"{APPROVAL}{approval_id} stale", reason))


@dataclass(frozen=True, slots=True)
class _Door:
    """One wish and what it takes to carry it out."""

    wish: Wish
    executor: Executor
    journal: Journal
    clock: Clock
    config: PolicyConfig

    async def ask_policy(self) -> tuple[PolicyState, Authorization]:
        """What is known now, and what policy says to it."""
        actor = self.wish.actor or self.journal.actor
        state = await asyncio.to_thread(
            known_of, self.journal.reader(), self.wish.host, agent_wish=actor.kind == "agent"
        )
        now_us = self.clock.wall_us()
        return state, authorize(self.wish.command, None, state, self.config, self.wish.host, now_us)

    async def question(self, state: PolicyState, answer: Authorization) -> Waits:
        """Put the question, unless it is open already."""
        question = question_for(
            self.wish.command,
            answer,
            state,
            self.config,
            self.wish.host,
            self.clock.wall_us(),
            this_party(),
        )
        answer = await asyncio.to_thread(self._why_anew, state, answer)
        if question.request is None:
            return Waits(question, answer, None)
        late = _unanswered(state, question.request, self.clock.wall_us())
        *_, asked = await self.append(*late, question.request)
        return Waits(question, answer, asked)

    def _why_anew(self, state: PolicyState, answer: Authorization) -> Authorization:
        """The answer, with the yes to the same words in its reason that is bound to other terms."""
        command, host = self.wish.command, self.wish.host
        now_us = self.clock.wall_us()
        given = {
            known.approval_id
            for known in state.approvals
            if known.answer == "granted" and known.expires_at_us >= now_us
        }
        for event in self.journal.reader().events(kinds={"approval_requested"}, host=host.name):
            asked = event.payload
            if (
                isinstance(asked, ApprovalRequested)
                and asked.approval_id in given
                and asked.digest != approval_digest(command, host, self.config)
                and (asked.command, asked.argv) == (command.name, command.argv())
                and asked.victims == command.victims()
            ):
                reason = f"{answer.reason}; the yes to {asked.approval_id} is stale: {CHANGED}"
                return replace(answer, reason=reason)
        return answer

    async def execute(self, state: PolicyState) -> Executed:
        """Through the one door to the world."""
        wish = self.wish
        return await self.executor.execute(
            wish.command, wish.host, state=state, reason=wish.reason, incident=wish.incident
        )

    async def deny(self, answer: Authorization) -> Executed:
        """Record that nothing was done, and why."""
        command = self.wish.command
        denial = CommandDenied(
            command=command.name,
            arguments=command.arguments(),
            victims=command.victims(),
            decision_id=None,
            rule=answer.rule,
            reason=answer.reason,
        )
        (denied,) = await self.append(denial)
        return Executed(answer, (denied,), denied, None)

    async def append(self, *payloads: Payload) -> tuple[Event, ...]:
        """Make events about this wish durable."""
        host = self.wish.host
        drafts = [
            NewEvent(
                payload,
                incident=self.wish.incident,
                host=HostRef(host.name, host.fingerprint or host.transport),
                actor=self.wish.actor,
            )
            for payload in payloads
        ]
        return await asyncio.to_thread(self.journal.append, *drafts)


def _unanswered(
    state: PolicyState, asked_anew: ApprovalRequested, now_us: int
) -> tuple[ApprovalExpired, ...]:
    """The end of earlier questions about the very same command that nobody answered in time."""
    return tuple(
        ApprovalExpired(approval_id=known.approval_id, reason="nobody answered in time")
        for known in state.approvals
        if known.digest == asked_anew.digest
        and known.answer == "open"
        and known.expires_at_us < now_us
    )
