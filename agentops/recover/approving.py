"""A person's answer to a question.

Here: open questions as cards, yes and no, each recorded with who said it. The one
who acts may not approve: a yes needs the signature of an operator whom policy names, or, where it
names none, another user of the machine outside the tree of processes that asked. Not here: the
question (``agentops.policy.asking``), the key (``agentops.recover.operator``).
"""

from collections.abc import Collection, Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agentops.approvals import CHANGED
from agentops.errors import UsageError
from agentops.hosts import Host
from agentops.policy import PolicyConfig
from agentops.policy.asking import Party
from agentops.policy.authorize import digest_of
from agentops.policy.cards import Card, card_of
from agentops.policy.operators import statement
from agentops.policy.state import Approval
from agentops.recover.operator import public_of
from journal import Clock, Event, Journal, NewEvent, Reader
from journal.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
)

ASK_ANEW = "run the command again, it asks anew"
_ANSWERS = ApprovalGranted | ApprovalRefused | ApprovalExpired


def open_questions(reader: Reader, now_us: int) -> tuple[Card, ...]:
    """The questions that wait for an answer, oldest first; expired ones are left out."""
    return tuple(card for card, _ in _open(reader) if now_us <= card.expires_at_us)


def question(reader: Reader, approval_id: str) -> Card | None:
    """The open question of that id or prefix; None where there is none, or more than one."""
    found = [card for card, _ in _open(reader) if card.approval_id.startswith(approval_id)]
    return found[0] if len(found) == 1 else None


def approve(
    journal: Journal,
    clock: Clock,
    approval_id: str,
    *,
    config: PolicyConfig,
    by: Party,
    key: Ed25519PrivateKey | None = None,
    host: Host | None = None,
    bound_by: Collection[PolicyConfig] = (),
) -> Card:
    """Record a yes of *by*, signed with the operator's *key* if there is one; gives the card.

    A question that none of the policies *bound_by*, with the inventory's *host*, would put in these
    words can no longer be answered: the command that waits for it would ask anew.

    Raises:
        UsageError: no such open question, it has expired or is stale, or this party may not
            approve it.
    """
    card, event = _find(journal.reader(), clock.wall_us(), approval_id)
    if host is not None and not any(_is_bound(card, host, policy) for policy in bound_by):
        raise UsageError(
            f"approval {card.approval_id} is stale: {CHANGED}; {ASK_ANEW} (answer in the folder of"
            " its project: the policy in force here counts)"
        )
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
        how = _became(reader, approval_id) if not found else f"{len(found)} open questions"
        raise UsageError(f"approval {approval_id!r}: {how} of that id; see agentops approvals")
    card, event = found[0]
    if now_us > card.expires_at_us:
        raise UsageError(f"approval {card.approval_id} has expired; {ASK_ANEW}")
    return card, event


def _became(reader: Reader, approval_id: str) -> str:
    """What became of the question that is not open, if there was one."""
    kinds = {"approval_granted", "approval_refused", "approval_expired"}
    ends = [
        event.kind.removeprefix("approval_")
        for event in reader.events(kinds=kinds)
        if isinstance(event.payload, _ANSWERS) and event.payload.approval_id.startswith(approval_id)
    ]
    return f"no open question (it was {ends[-1]})" if ends else "no open question"


def _is_bound(card: Card, host: Host, policy: PolicyConfig) -> bool:
    """Whether *policy* and *host* are those that the question was put under."""
    return card.digest == digest_of(card.command, card.argv, card.victims, host, policy)


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
