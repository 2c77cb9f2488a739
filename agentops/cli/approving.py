"""``agentops approvals|approve|deny`` and ``freeze|thaw``: a person's word over the engine's."""

import argparse

from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_journal,
    open_reader,
    settings_for,
)
from agentops.cli.printing import console, emit, local_time, say
from agentops.cli.status import Status
from agentops.errors import UsageError
from agentops.policy.cards import Card
from agentops.recover.approving import approve, freeze, open_questions, refuse, thaw
from journal import HostRef, SystemClock


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    listing = commands.add_parser("approvals", help="questions that wait for a person")
    listing.set_defaults(run=_list)
    granting = commands.add_parser("approve", help="say yes to one question, once")
    granting.add_argument("approval", metavar="ID", help="or an unambiguous prefix")
    granting.set_defaults(run=_approve)
    denying = commands.add_parser("deny", help="say no to one question")
    denying.add_argument("approval", metavar="ID", help="or an unambiguous prefix")
    denying.add_argument(
        "--reason", default="no reason given", metavar="TEXT", help="why; it goes on record"
    )
    denying.set_defaults(run=_deny)
    freezing = commands.add_parser("freeze", help="stop all acting, on one host or everywhere")
    thawing = commands.add_parser("thaw", help="allow acting again")
    for parser, run in ((freezing, _freeze), (thawing, _thaw)):
        parser.add_argument("host", metavar="HOST", nargs="?", help="this one; or --all")
        parser.add_argument("--all", action="store_true", help="on every host")
        parser.add_argument(
            "--reason", default="no reason given", metavar="TEXT", help="why; it goes on record"
        )
        parser.set_defaults(run=run)
    for parser in (listing, granting, denying, freezing, thawing):
        add_json_option(parser)
        add_journal_option(parser)


def _list(arguments: argparse.Namespace) -> Status:
    cards = open_questions(open_reader(settings_for(arguments)), SystemClock().wall_us())
    if arguments.json:
        emit({"approvals": [_fields(card) for card in cards]})
    else:
        for card in cards:
            _show(card)
        if not cards:
            say("nothing waits for an answer")
    return Status.YES


def _fields(card: Card) -> dict[str, object]:
    return {
        "approval": card.approval_id,
        "host": card.host,
        "command": card.command,
        "arguments": card.arguments,
        "victims": [victim.model_dump(mode="json") for victim in card.victims],
        "reversible": card.reversible,
        "rule": card.rule,
        "digest": card.digest,
        "incident": card.incident,
        "expires_at_us": card.expires_at_us,
    }


def _show(card: Card) -> None:
    for line in card.lines():
        console().print(line, soft_wrap=True)
    console().print(f"  expires     {local_time(card.expires_at_us)}")


def _answered(arguments: argparse.Namespace, card: Card, answer: str) -> Status:
    if arguments.json:
        emit({"approval": card.approval_id, "answer": answer, "incident": card.incident})
    else:
        say(f"{answer}: {card.command} on {card.host}; run `agentops recover` again to go on")
    return Status.YES


def _approve(arguments: argparse.Namespace) -> Status:
    with open_journal(settings_for(arguments)) as journal:
        card = approve(journal, SystemClock(), arguments.approval)
    return _answered(arguments, card, "granted")


def _deny(arguments: argparse.Namespace) -> Status:
    with open_journal(settings_for(arguments)) as journal:
        card = refuse(journal, SystemClock(), arguments.approval, arguments.reason)
    return _answered(arguments, card, "refused")


def _place(arguments: argparse.Namespace) -> HostRef | None:
    if bool(arguments.host) == bool(arguments.all):
        raise UsageError("name one HOST, or say --all")
    if arguments.all:
        return None
    host = settings_for(arguments).inventory.get(arguments.host)
    return HostRef(host.name, host.fingerprint or host.transport)


def _freeze(arguments: argparse.Namespace) -> Status:
    place = _place(arguments)
    with open_journal(settings_for(arguments)) as journal:
        event = freeze(journal, place, arguments.reason)
    return _placed(arguments, place, "frozen", event.id)


def _thaw(arguments: argparse.Namespace) -> Status:
    place = _place(arguments)
    with open_journal(settings_for(arguments)) as journal:
        event = thaw(journal, place, arguments.reason)
    return _placed(arguments, place, "thawed", event.id)


def _placed(arguments: argparse.Namespace, place: HostRef | None, done: str, event: str) -> Status:
    where = "everywhere" if place is None else place.name
    if arguments.json:
        emit({"acting": done, "where": where, "event": event})
    else:
        say(f"acting is {done}: {where}")
    return Status.YES
