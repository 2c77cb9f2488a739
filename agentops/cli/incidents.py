"""``agentops incident open|list|show|close|note``: troubles by hand."""

import argparse

from rich.table import Column, Table

from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_journal,
    open_reader,
    record_reading,
    resolve_incident,
    settings_for,
)
from agentops.cli.printing import console, emit, local_time, say
from agentops.cli.status import Status
from agentops.cli.summaries import summary
from agentops.cli.values import words
from agentops.errors import UsageError
from journal import NewEvent, SystemClock
from journal.events import IncidentClosed, IncidentNoted, IncidentOpened, Payload
from journal.machine import ulid


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    actions = commands.add_parser("incident", help="troubles: open, list, show, close, note")
    incident = actions.add_subparsers(metavar="ACTION", required=True)
    opening = incident.add_parser("open", help="open one; prints its id")
    opening.add_argument("title", metavar="TITLE", type=words, help="what is wrong, in a few words")
    opening.add_argument("--job", metavar="JOB", help="the job that it is about")
    opening.set_defaults(run=_open)
    listing = incident.add_parser("list", help="all, oldest first")
    listing.set_defaults(run=_list)
    showing = incident.add_parser("show", help="one, with its events")
    showing.add_argument("incident", metavar="ID", nargs="?", help="default: the latest")
    showing.set_defaults(run=_show)
    closing = incident.add_parser("close", help="close one by hand: it is handed over to you")
    closing.add_argument("incident", metavar="ID", help="or an unambiguous prefix")
    closing.add_argument(
        "--reason", required=True, type=words, metavar="TEXT", help="why; it is quoted"
    )
    closing.set_defaults(run=_close)
    noting = incident.add_parser("note", help="add a remark; it is quoted, never believed")
    noting.add_argument("incident", metavar="ID", help="or an unambiguous prefix")
    noting.add_argument("text", metavar="TEXT", type=words, help="the remark")
    noting.set_defaults(run=_note)
    for parser in (opening, listing, showing, closing, noting):
        add_json_option(parser)
        add_journal_option(parser)


def _open(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    with open_journal(settings) as journal:
        name = ulid(SystemClock().wall_us(), journal.settings.random)
        journal.append(
            NewEvent(IncidentOpened(title=arguments.title, job=arguments.job), incident=name)
        )
    if arguments.json:
        emit({"incident": name})
    else:
        print(name)  # noqa: T201 - the id is the answer
    return Status.YES


def _list(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    incidents = open_reader(settings).incidents()
    record_reading(settings, "incident list", "all")
    if arguments.json:
        emit(
            {
                "incidents": [
                    {
                        "incident": each.id,
                        "title": each.title,
                        "job": each.job,
                        "opened_us": each.opened_us,
                        "closed_us": each.closed_us,
                        "resolution": each.resolution,
                    }
                    for each in incidents
                ]
            }
        )
        return Status.YES
    # An id that is cut short cannot be typed back.
    table = Table(Column("incident", no_wrap=True), "opened", "job", "resolution", "title")
    for each in incidents:
        opened = local_time(each.opened_us)
        table.add_row(each.id, opened, each.job or "", each.resolution or "open", each.title)
    console().print(table)
    return Status.YES


def _show(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    name = resolve_incident(reader, arguments.incident)
    events = list(reader.events(incident=name))
    record_reading(settings, "incident show", name)
    if arguments.json:
        rows = [{"id": e.id, "kind": e.kind, "ts_us": e.ts_us, "says": summary(e)} for e in events]
        emit({"incident": name, "events": rows})
        return Status.YES
    for event in events:
        print(f"{local_time(event.ts_us)}  {event.id[-8:]}  {event.kind:<23}  {summary(event)}")  # noqa: T201
    return Status.YES


def _close(arguments: argparse.Namespace) -> Status:
    closed = IncidentClosed(resolution="HANDED_OVER", reason=arguments.reason, evidence=())
    return _append(arguments, closed, "closed")


def _note(arguments: argparse.Namespace) -> Status:
    return _append(arguments, IncidentNoted(text=arguments.text), "noted")


def _append(arguments: argparse.Namespace, payload: Payload, done: str) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    name = resolve_incident(reader, arguments.incident)
    state = next(each for each in reader.incidents() if each.id == name)
    if state.resolution is not None and isinstance(payload, IncidentClosed):
        raise UsageError(f"incident {name} was closed already: {state.resolution}")
    with open_journal(settings) as journal:
        (event,) = journal.append(NewEvent(payload, incident=name))
    if arguments.json:
        emit({"incident": name, "event": event.id})
    else:
        say(f"{done} {name} [{event.id}]")
    return Status.YES
