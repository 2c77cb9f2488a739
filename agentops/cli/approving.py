"""``agentops approvals|approve|deny``, ``freeze|thaw``, ``operator``: a person's word over all."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from agentops.approvals import by_layer, card_lines, this_party
from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_journal,
    open_reader,
    settings_for,
)
from agentops.cli.passphrases import ask_passphrase, new_passphrase
from agentops.cli.policies import policy_for
from agentops.cli.printing import console, emit, local_time, say
from agentops.cli.status import Status
from agentops.config import Settings
from agentops.errors import ConfigError, UsageError
from agentops.policy import PolicyConfig
from agentops.policy.cards import Card
from agentops.recover import read_sources
from agentops.recover.approving import approve, open_questions, question, refuse
from agentops.recover.freezing import Freeze, freeze, freezes, thaw
from agentops.recover.operator import make_key, read_key
from journal import Event, HostRef, SystemClock


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    listing = commands.add_parser("approvals", help="questions that wait for a person")
    listing.set_defaults(run=_list)
    granting = commands.add_parser("approve", help="say yes to one question, once")
    granting.add_argument("approval", metavar="ID", help="or an unambiguous prefix")
    granting.add_argument(
        "--operator-key",
        type=Path,
        metavar="FILE",
        help="sign with this key (default: $AGENTOPS_OPERATOR_KEY, operator.pem of your"
        " configuration)",
    )
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
    operators = commands.add_parser("operator", help="the key that a person says yes with")
    making = operators.add_subparsers(metavar="WHAT", required=True).add_parser(
        "init", help="draw a key, seal it with a passphrase, name it in policy.toml"
    )
    making.add_argument("--key", type=Path, metavar="FILE", help="where the key goes")
    making.add_argument(
        "--no-passphrase", action="store_true", help="whoever can read the file can say yes"
    )
    making.set_defaults(run=_operator_init)
    for parser in (listing, granting, denying, freezing, thawing, making):
        add_json_option(parser)
        add_journal_option(parser)


def _list(arguments: argparse.Namespace) -> Status:
    reader = open_reader(settings_for(arguments))
    cards = open_questions(reader, SystemClock().wall_us())
    frozen = freezes(reader)
    if arguments.json:
        emit({"approvals": [card_fields(card) for card in cards], "frozen": frozen_fields(frozen)})
    else:
        for card in cards:
            show_card(card)
        for standing in frozen:
            say(
                f"acting is frozen {standing.where} since {local_time(standing.since_us)} by"
                f" {standing.by}: «{standing.reason}»; {standing.lifted_by}"
            )
        if not cards:
            say("nothing waits for an answer")
    return Status.YES


def card_fields(card: Card) -> dict[str, object]:
    """The card as JSON."""
    return {
        "approval": card.approval_id,
        "host": card.host,
        "tier": card.tier,
        "effect": card.effect,
        "layers": [{"layer": name, "argv": list(argv)} for name, argv in by_layer(card)],
        "command": card.command,
        "arguments": card.arguments,
        "victims": [victim.model_dump(mode="json") for victim in card.victims],
        "reversible": card.reversible,
        "rule": card.rule,
        "digest": card.digest,
        "incident": card.incident,
        "expires_at_us": card.expires_at_us,
    }


def frozen_fields(frozen: Sequence[Freeze]) -> list[dict[str, object]]:
    """The freezes that stand, as JSON; host is null where one is everywhere."""
    return [
        {"host": one.host, "since_us": one.since_us, "by": one.by, "reason": one.reason}
        for one in frozen
    ]


def show_card(card: Card) -> None:
    """The card on standard output."""
    for line in (*card_lines(card), f"  expires     {local_time(card.expires_at_us)}"):
        console().print(line, soft_wrap=True, markup=False, highlight=False)


def _answered(arguments: argparse.Namespace, card: Card, answer: str) -> Status:
    if arguments.json:
        emit({"approval": card.approval_id, "answer": answer, "incident": card.incident})
    else:
        again = "agentops do" if card.incident is None else "agentops recover"
        say(f"{answer}: {card.command} on {card.host}; run the same `{again}` again to go on")
    return Status.YES


def _approve(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    config, _ = policy_for(settings)
    place = _key_place(arguments.operator_key, settings)
    asked_for = arguments.operator_key is not None or config.approvals.operators
    key = read_key(place, lambda: ask_passphrase(place)) if asked_for else None
    with open_journal(settings) as journal:
        asked = question(journal.reader(), arguments.approval)
        card = approve(
            journal,
            SystemClock(),
            arguments.approval,
            config=config,
            by=this_party(),
            key=key,
            host=None if asked is None else settings.inventory.hosts.get(asked.host),
            bound_by=(config, *_with_files(config, settings)),
        )
    return _answered(arguments, card, "granted")


def _with_files(config: PolicyConfig, settings: Settings) -> tuple[PolicyConfig, ...]:
    """The policy as a recovery reads it, with its files' digests; none where one is missing."""
    folder = Path.cwd() if settings.policy is None else settings.policy.parent
    try:
        return (read_sources(config, folder)[0],)
    except ConfigError:
        return ()


def _key_place(given: Path | None, settings: Settings) -> Path:
    named = os.environ.get("AGENTOPS_OPERATOR_KEY")
    return given or (Path(named) if named else settings.places.config / "operator.pem")


def _operator_init(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    config, source = policy_for(settings)
    if settings.policy is None:
        raise UsageError(f"the policy in force is {source}; make one of your own: agentops init")
    if config.approvals.operators:
        raise UsageError(f"{source} names operators already; add a line there to name another")
    place = _key_place(arguments.key, settings)
    public = make_key(place, b"" if arguments.no_passphrase else new_passphrase())
    table = f'\n# Only a yes signed with this key counts.\n[approvals]\noperators = ["{public}"]\n'
    with settings.policy.open("a", encoding="utf-8") as file:
        file.write(table)
    if arguments.json:
        emit({"key": str(place), "operator": public, "policy": str(settings.policy)})
    else:
        say(f"wrote {place}; keep it where no agent can read it")
        say(f"named in {settings.policy}: {public}")
    return Status.YES


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
        left = freezes(journal.reader())
    return _placed(arguments, place, event, left)


def _thaw(arguments: argparse.Namespace) -> Status:
    place = _place(arguments)
    with open_journal(settings_for(arguments)) as journal:
        event = thaw(journal, place, arguments.reason)
        left = freezes(journal.reader())
    return _placed(arguments, place, event, left)


def _placed(
    arguments: argparse.Namespace,
    place: HostRef | None,
    event: Event | None,
    left: tuple[Freeze, ...],
) -> Status:
    """Say what was done, and which freezes stand after it."""
    done = "frozen" if arguments.run is _freeze else "thawed"
    where = "everywhere" if place is None else place.name
    if arguments.json:
        name = None if event is None else event.id
        emit({"acting": done, "where": where, "event": name, "frozen": frozen_fields(left)})
        return Status.YES
    say(f"acting is {done}: {where}" if event is not None else f"acting was not frozen: {where}")
    if done == "thawed":
        for standing in left:
            say(f"acting is still frozen {standing.where}; {standing.lifted_by}")
    return Status.YES
