"""Putting an open question to the person behind a client, where the operator allowed that.

The question is in the journal before anybody is asked, and bound to the very command; the answer is
recorded and the call is made again, so policy asks its own questions anew. Where policy names
operators, a client's word is not enough, and nobody is asked this way. Here: the form, and
recording what came back. Not here: how a protocol carries it (``agentops.server.protocol``).
"""

import asyncio
from typing import Literal

import mcp_types as wire

from agentops.approvals import card_lines
from agentops.policy.cards import Card
from agentops.recover.approving import open_questions
from agentops.server.answer import Answer, Fault
from agentops.server.desk import Caller, Desk
from journal import Actor, HostRef, NewEvent
from journal.events import ApprovalGranted, ApprovalRefused, Payload

FIELD = "approve"
_FORM: wire.ElicitRequestedSchema = {
    "type": "object",
    "properties": {
        FIELD: {"type": "boolean", "title": "Run exactly this, once?", "default": False}
    },
    "required": [FIELD],
}
Answered = Literal["granted", "refused", "open"]


def form(card: Card) -> wire.ElicitRequestFormParams:
    """The question as a form, rendered from the typed command: no word of an agent is on it."""
    text = "\n".join(("An agent asks to run this.", *card_lines(card)))
    return wire.ElicitRequestFormParams(message=text, requested_schema=_FORM)


def card_of_approval(desk: Desk, approval_id: str) -> Card | None:
    """The open question of that id."""
    cards = open_questions(desk.reader, desk.ground.clock.wall_us())
    return next((card for card in cards if card.approval_id == approval_id), None)


async def take(desk: Desk, caller: Caller, approval_id: str, answer: wire.ElicitResult) -> Answered:
    """Record what the person said; a dismissed or expired question stays without an answer."""
    card = await asyncio.to_thread(card_of_approval, desk, approval_id)
    if card is None or answer.action == "cancel":
        return "open"
    yes = answer.action == "accept" and (answer.content or {}).get(FIELD) is True
    said: Payload = ApprovalRefused(
        approval_id=approval_id, reason=f"refused by way of {caller.name}"
    )
    if yes:
        said = ApprovalGranted(
            approval_id=approval_id, digest=card.digest, operator=None, signature=None
        )
    host = desk.host(card.host)
    draft = NewEvent(
        said,
        incident=card.incident,
        host=HostRef(host.name, host.fingerprint or host.transport),
        actor=Actor("human", f"{desk.ground.person} by way of {caller.name}"),
    )
    await asyncio.to_thread(desk.ground.journal.append, draft)
    return "granted" if yes else "refused"


def refused(tool: str) -> Answer:
    """The answer after a person said no to a single command."""
    fault = Fault(code="DENIED", detail=f"a person said no to {tool}; nothing was sent", rule="G12")
    return Answer(
        ok=False, summary=fault.detail, error=fault, next=("do not ask for it in another way",)
    )
