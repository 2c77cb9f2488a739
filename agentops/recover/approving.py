"""A person's answer to a question, and the freeze of all acting.

Here: open questions as cards, yes, no, freeze and thaw, each recorded with who said it. The one
who acts may not approve: a yes needs the signature of an operator whom policy names, or, where it
names none, another user of the machine outside the tree of processes that asked. Not here: the
question (``agentops.policy.asking``), the key (``agentops.recover.operator``).
"""

from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agentops.errors import UsageError
from agentops.policy import PolicyConfig
from agentops.policy.asking import Party
from agentops.policy.cards import Card, card_of
from agentops.policy.operators import statement
from agentops.policy.state import Approval
from agentops.recover.operator import public_of
from journal import Clock, Event, HostRef, Journal, NewEvent, Reader
from journal.events import (
    ActingFrozen,
    ActingThawed,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
)

_ANSWERS = ApprovalGranted | ApprovalRefused | ApprovalExpired


def open_questions(reader: Reader, now_us: int) -> tuple[Card, ...]:
    """The questions that wait for an answer, oldest first; expired ones are left out."""
    return tuple(card for card, _ in _open(reader) if now_us <= card.expires_at_us)


def approve(
    journal: Journal,
    clock: Clock,
    approval_id: str,
    *,
    config: PolicyConfig,
    by: Party,
    key: Ed25519PrivateKey | None = None,
) -> Card:
    """Record a yes of *by*, signed with the operator's *key* if there is one; gives the card.

    Raises:
        UsageError: no such open question, it has expired, or this party may not approve it.
    """
    card, event = _find(journal.reader(), clock.wall_us(), approval_id)
    if journal.actor.kind != "human":
        actor = journal.actor
        raise UsageError(f"{actor.kind} {actor.id} cannot approve: a person must")
    if config.approvals.operators or key is not None:
        granted = _signed(card, event, config, key)
    else:
        _is_another(event, by, journal.settings.machine.boot_id)
        granted = ApprovalGranted(approval_id=card.approval_id, digest=card.digest)
    journal.append(NewEvent(granted, incident=event.incident, host=event.host, cause=event.id))
    return card


def refuse(journal: Journal, clock: Clock, approval_id: str, reason: str) -> Card:
    """Record a no; gives the card that was refused. Whoever may write may say no.

    Raises:
        UsageError: no such open question, or it has expired.
    """
    card, event = _find(journal.reader(), clock.wall_us(), approval_id)
    refused = ApprovalRefused(approval_id=card.approval_id, reason=reason)
    journal.append(NewEvent(refused, incident=event.incident, host=event.host, cause=event.id))
    return card


def freeze(journal: Journal, host: HostRef | None, reason: str) -> Event:
    """Stop all acting on *host*, or everywhere, from the next decision on."""
    (event,) = journal.append(NewEvent(ActingFrozen(reason=reason), host=host))
    return event


def thaw(journal: Journal, host: HostRef | None, reason: str) -> Event:
    """Allow acting again on *host*; without one, everywhere.

    Raises:
        UsageError: an agent asked for it.
    """
    if journal.actor.kind != "human":
        raise UsageError(f"{journal.actor.kind} {journal.actor.id} cannot thaw: a person must")
    (event,) = journal.append(NewEvent(ActingThawed(reason=reason), host=host))
    return event


def _open(reader: Reader) -> Iterator[tuple[Card, Event]]:
    kinds = {"approval_requested", "approval_granted", "approval_refused", "approval_expired"}
    asked: dict[str, tuple[Card, Event]] = {}
    for event in reader.events(kinds=kinds):
        card = card_of(event)
        if card is not None:
            asked[card.approval_id] = (card, event)
        elif isinstance(event.payload, _ANSWERS):
            asked.pop(event.payload.approval_id, None)
    yield from asked.values()


def _find(reader: Reader, now_us: int, approval_id: str) -> tuple[Card, Event]:
    found = [pair for pair in _open(reader) if pair[0].approval_id.startswith(approval_id)]
    if len(found) != 1:
        how = "no open question" if not found else f"{len(found)} open questions"
        raise UsageError(f"approval {approval_id!r}: {how} of that id; see agentops approvals")
    card, event = found[0]
    if now_us > card.expires_at_us:
        raise UsageError(
            f"approval {card.approval_id} has expired; run the command again, it asks anew"
        )
    return card, event


def _signed(
    card: Card, asked: Event, config: PolicyConfig, key: Ed25519PrivateKey | None
) -> ApprovalGranted:
    """A yes with the signature of one whom policy names."""
    if key is None:
        raise UsageError(
            "approval: policy names operators, so their signature is needed: give --operator-key"
        )
    name = public_of(key)
    if name not in config.approvals.operators:
        raise UsageError(f"approval: policy does not name the operator {name}; see policy.toml")
    question = Approval(card.approval_id, card.digest, card.expires_at_us, asked=asked.id)
    return ApprovalGranted(
        approval_id=card.approval_id,
        digest=card.digest,
        operator=name,
        signature=key.sign(statement(question)).hex(),
    )


def _is_another(asked: Event, by: Party, boot: str) -> None:
    """Refuse the user that asked, and whatever runs in the tree of processes that asked."""
    question = asked.payload
    assert isinstance(question, ApprovalRequested)  # noqa: S101 - what _find gives
    if question.asker_uid is None or question.asker_uid == by.uid:
        raise UsageError(
            f"approval: the user that asked (uid {question.asker_uid}) cannot say yes; approve as"
            " another user, or with an operator's key: agentops operator init"
        )
    shared = sorted(set(question.asker_processes) & set(by.processes))
    if shared and asked.boot == boot:
        raise UsageError(
            f"approval: this process and the one that asked both run below process {shared[0]};"
            " approve from another terminal"
        )
