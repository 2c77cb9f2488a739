"""A person's answer to a question, and the freeze of all acting.

Here: open questions as cards, yes, no, freeze and thaw, each recorded with who said it. The one
who acts may not approve: an agent's session is refused, and so is a process that runs below the
one that asked. Not here: the question (``agentops.policy.asking``).
"""

import os
from collections.abc import Iterator
from pathlib import Path

from agentops.errors import UsageError
from agentops.policy.cards import Card, card_of
from journal import Clock, Event, HostRef, Journal, NewEvent, Reader
from journal.events import (
    ActingFrozen,
    ActingThawed,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    SessionStarted,
)

_ANSWERS = ApprovalGranted | ApprovalRefused | ApprovalExpired


def open_questions(reader: Reader, now_us: int) -> tuple[Card, ...]:
    """The questions that wait for an answer, oldest first; expired ones are left out."""
    return tuple(card for card, _ in _open(reader) if now_us <= card.expires_at_us)


def approve(journal: Journal, clock: Clock, approval_id: str) -> Card:
    """Record a yes; gives the card that was approved.

    Raises:
        UsageError: no such open question, it has expired, or this session may not approve it.
    """
    card, event = _find(journal.reader(), clock.wall_us(), approval_id)
    _may_approve(journal, event)
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


def _may_approve(journal: Journal, asked: Event) -> None:
    """Refuse an agent, and whatever runs below the process that asked."""
    actor = journal.actor
    if actor.kind != "human":
        raise UsageError(f"{actor.kind} {actor.id} cannot approve: a person must")
    sessions = [
        event
        for event in journal.reader().events(kinds={"session_started"})
        if event.stream == asked.stream and event.seq < asked.seq
    ]
    started = sessions[-1].payload if sessions else None
    same_boot = bool(sessions) and sessions[-1].boot == _boot_id()
    if isinstance(started, SessionStarted) and same_boot and started.pid in _ancestors():
        raise UsageError(
            f"approval: this shell runs below process {started.pid}, which asked; approve from "
            "another terminal"
        )


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _ancestors() -> frozenset[int]:
    """This process's own ancestors; empty where /proc tells nothing."""
    found: set[int] = set()
    pid = os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        pid = int(stat.rsplit(")", 1)[1].split()[1])
    return frozenset(found)
