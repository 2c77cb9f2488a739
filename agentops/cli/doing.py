"""``agentops do`` and ``agentops commands``: one typed command, by hand."""

import argparse
import asyncio
import json
from pathlib import Path

from rich.table import Table

from agentops.approvals import CHANGED, Waits, Wish, carry_out
from agentops.cli import fleet
from agentops.cli.approving import card_fields, show_card
from agentops.cli.command_arguments import argument_fields, build_command, model_named
from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_journal,
    resolve_incident,
    settings_for,
)
from agentops.cli.doors import open_door
from agentops.cli.fetching import fetch_whole
from agentops.cli.policies import policy_for
from agentops.cli.printing import console, emit, say, shown
from agentops.cli.status import Status, of_outcome
from agentops.cli.summaries import summary
from agentops.commands import COMMANDS, Command
from agentops.commands.pages import page
from agentops.errors import UsageError
from agentops.executor import Executed, Executor
from agentops.hosts import Host
from agentops.recover.approving import open_questions
from agentops.transport.fleet import AT_ONCE_DEFAULT
from journal import Journal, SystemClock

_WORD_SHOWN_MAX = 200


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    do = commands.add_parser("do", help="run one typed command on a host")
    do.add_argument("command", metavar="COMMAND", help="see agentops commands")
    where = do.add_mutually_exclusive_group(required=True)
    where.add_argument("--host", metavar="NAME", help="where")
    where.add_argument("--hosts", metavar="LABEL", help="on every host with this label")
    do.add_argument(
        "--at-once",
        type=int,
        default=AT_ONCE_DEFAULT,
        metavar="N",
        help=f"with --hosts: so many at a time (default {AT_ONCE_DEFAULT})",
    )
    do.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one argument; a list takes JSON or may be given again; KEY=@FILE takes a file's text",
    )
    do.add_argument(
        "--reason",
        default="asked for on the command line",
        metavar="TEXT",
        help="why; it goes on record",
    )
    do.add_argument(
        "--save", type=Path, metavar="FILE", help="with transfer: fetch the whole file into this"
    )
    do.add_argument("--incident", metavar="ID", help="the incident that it belongs to")
    do.add_argument("--plan", action="store_true", help="show what would be sent; send nothing")
    add_json_option(do)
    add_journal_option(do)
    do.set_defaults(run=_do)

    listing = commands.add_parser("commands", help="all typed commands, with effect and arguments")
    listing.add_argument("name", metavar="NAME", nargs="?", help="all about this one")
    add_json_option(listing)
    listing.set_defaults(run=_commands)


def _do(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    command = build_command(arguments.command, arguments.arg)
    if arguments.at_once < 1:
        raise UsageError(f"--at-once {arguments.at_once}: at least one host at a time")
    hosts = (
        fleet.fleet_of(settings, arguments.hosts)
        if arguments.hosts is not None
        else (settings.inventory.get(arguments.host),)
    )
    if arguments.save is not None and arguments.save.is_dir():
        raise UsageError(f"--save {arguments.save}: is a folder; name a file")
    host = hosts[0]
    if arguments.plan:
        if len(hosts) > 1:
            say(f"the plan for {host.name}; alike for {', '.join(h.name for h in hosts[1:])}")
        return _plan(command, host, as_json=arguments.json)
    config, _ = policy_for(settings)
    with open_journal(settings) as journal:
        incident = None
        if arguments.incident is not None:
            incident = resolve_incident(journal.reader(), arguments.incident)
        executor = open_door(settings, journal, config)
        wishes = [Wish(command, one, arguments.reason, incident) for one in hosts]

        async def act(wish: Wish) -> Executed | Waits:
            return await carry_out(
                wish, executor=executor, journal=journal, clock=SystemClock(), config=config
            )

        if arguments.save is not None and arguments.hosts is not None:
            raise UsageError("--save takes the file of one host: give --host")
        if arguments.hosts is not None:
            return fleet.run(
                executor, act, wishes, at_once=arguments.at_once, as_json=arguments.json
            )
        done = asyncio.run(_close_after(executor, act, wishes[0], arguments.save))
        if isinstance(done, Waits):
            return _tell_waiting(journal, done, as_json=arguments.json)
        outputs = _outputs(journal, done)
    saved: Path | None = arguments.save
    return _report(command, host, done, outputs, as_json=arguments.json, saved=saved)


async def _close_after(
    executor: Executor, act: fleet.Act, wish: Wish, save: Path | None
) -> Executed | Waits:
    try:
        return await (act(wish) if save is None else fetch_whole(wish, act, save))
    finally:
        await executor.close()


def _tell_waiting(journal: Journal, waits: Waits, *, as_json: bool) -> Status:
    """The card, and how a person answers it."""
    name = waits.question.approval_id
    cards = open_questions(journal.reader(), SystemClock().wall_us())
    card = next(card for card in cards if card.approval_id == name)
    if as_json:
        emit(
            {
                "outcome": "waits",
                "rule": waits.authorization.rule,
                "reason": waits.authorization.reason,
                "card": card_fields(card),
            }
        )
    else:
        show_card(card)
    if CHANGED in waits.authorization.reason:
        say(f"asked because: {waits.authorization.reason}")
    say(f"nothing was sent; a person says yes with: agentops approve {name}")
    say("then run the same command again; it acts once")
    return Status.WAITS


def _plan(command: Command, host: Host, *, as_json: bool) -> Status:
    plan = {
        "command": command.name,
        "host": host.name,
        "route": list(host.route()),
        "tier": host.tier,
        "effect": command.effect,
        "argv": list(_shortened(command.argv()) if not as_json else command.argv()),
        "arguments": command.arguments(),
        "victims": [victim.model_dump(mode="json") for victim in command.victims()],
        "deadline_ms": command.deadline(),
    }
    if as_json:
        emit({"plan": plan})
    else:
        for key, value in plan.items():
            print(f"{key:12} {shown(str(value).encode(), 2_000)}")  # noqa: T201
    return Status.YES


def _shortened(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The argv with every program text in it told by its length; --json has them whole."""
    return tuple(
        word if "\n" not in word and len(word) < _WORD_SHOWN_MAX else f"…{len(word)} characters…"
        for word in argv
    )


def _outputs(journal: Journal, executed: Executed) -> dict[str, str]:
    """Head of each output of the outcome, escaped: remote text never moves a cursor."""
    reader = journal.reader()
    kept: dict[str, str] = {}
    for name in ("stdout", "stderr"):
        if name in executed.outcome.out:
            stored = reader.attachment(executed.outcome, name)
            kept[name] = shown(stored) if isinstance(stored, bytes) else "redacted"
    return kept


def _report(
    command: Command,
    host: Host,
    executed: Executed,
    outputs: dict[str, str],
    *,
    as_json: bool,
    saved: Path | None,
) -> Status:
    outcome = executed.outcome
    seen = executed.observation
    status = of_outcome(outcome.kind, holds=True if seen is None else seen.holds())
    observation = None if seen is None else seen.model_dump(mode="json")
    if observation is not None and saved is not None and saved.exists():
        # The last part's bytes are in the file now.
        observation = {**observation, "content_base64": "", "saved": str(saved)}
    if as_json:
        emit(
            {
                "outcome": outcome.kind.removeprefix("command_").removeprefix("outcome_"),
                "command": command.name,
                "host": host.name,
                "authorization": executed.authorization.answer,
                "rule": executed.authorization.rule,
                "says": summary(outcome),
                "observation": observation,
                "events": [event.id for event in executed.events],
                "output": outputs,
            }
        )
        return status
    say(f"{command.name} on {host.name}: {summary(outcome)} [{outcome.id}]")
    if observation is not None:
        print(json.dumps(observation, indent=2))  # noqa: T201
    elif outputs.get("stderr"):
        say(outputs["stderr"])
    return status


def _commands(arguments: argparse.Namespace) -> Status:
    names = sorted(COMMANDS) if arguments.name is None else [arguments.name]
    for name in names:
        model_named(name)
    if arguments.json:
        emit(
            {
                "commands": [
                    COMMANDS[name].definition() | {"arguments": COMMANDS[name].model_json_schema()}
                    for name in names
                ]
            }
        )
        return Status.YES
    if arguments.name is not None:
        print(page(COMMANDS[arguments.name]), end="")  # noqa: T201 - the page is the answer
        return Status.YES
    table = Table("command", "effect", "arguments", "what it does")
    for name in names:
        model = COMMANDS[name]
        table.add_row(
            name,
            f"{model.effect} ({model.intrusiveness})",
            ", ".join(argument_fields(model)),
            str(model.definition()["summary"]),
        )
    console().print(table)
    return Status.YES
