"""``agentops log``, ``show``, ``query``: the journal as people read it."""

import argparse
import json
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.table import Table

from agentops.cli.context import (
    add_json_option,
    add_reading_options,
    open_reader,
    record_reading,
    resolve_incident,
    settings_for,
)
from agentops.cli.printing import console, emit, local_time, say, shown
from agentops.cli.status import Status
from agentops.cli.summaries import summary
from agentops.cli.values import age_us, day_us, nearest, positive
from agentops.config import Settings
from agentops.errors import UsageError
from journal import Event, Reader, Shredded, SystemClock
from journal.kinds import PAYLOADS
from journal.ledger import host_name
from journal.querying import FORMATS, Format, query, query_to
from journal.tailing import Tail
from reports.standing import covering_event, seals_of

_FOLLOW_POLL_S = 0.25


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    log = commands.add_parser("log", help="the events, one line each")
    log.add_argument("--incident", metavar="ID", help="only this incident (any unambiguous prefix)")
    log.add_argument("--host", metavar="NAME", help="only this host")
    log.add_argument("--kind", metavar="KIND", action="append", help="only this kind; may repeat")
    log.add_argument(
        "--since",
        metavar="WHEN",
        help="an instant (ISO 8601), an age (90s, 15m, 2h, 3d, 1w), today or yesterday",
    )
    log.add_argument("--limit", type=positive, metavar="N", help="only the last N")
    log.add_argument("--follow", action="store_true", help="go on as events come, until Ctrl-C")
    add_json_option(log)
    add_reading_options(log)
    log.set_defaults(run=_log)

    show = commands.add_parser("show", help="one event whole, with its outputs")
    show.add_argument(
        "event",
        metavar="EVENT",
        help="id or prefix, its last 8 characters, STREAM:SEQ, or a report's label",
    )
    add_json_option(show)
    add_reading_options(show)
    show.set_defaults(run=_show)

    asking = commands.add_parser("query", help="SQL over the index (tables: docs/journal.md)")
    asking.add_argument("sql", metavar="SQL", help="one statement; it reads only")
    asking.add_argument("--to", type=Path, metavar="FILE", help="write the answer to a new file")
    asking.add_argument(
        "--format",
        choices=FORMATS,
        help="of the answer: to FILE (default: by its ending), or to stdout; json has a row a line",
    )
    add_json_option(asking)
    add_reading_options(asking)
    asking.set_defaults(run=_query)


def _log(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    kinds = _kinds(arguments.kind)
    since = None if arguments.since is None else _instant(arguments.since)
    incident = None if arguments.incident is None else resolve_incident(reader, arguments.incident)
    tail = Tail(reader.layout)
    if arguments.host is not None and not arguments.follow:
        _require_host(reader, settings, arguments.host)
    if arguments.follow:
        tail.skip()  # before the events are read: what comes meanwhile is in both, and shown once
    events = list(reader.events(incident=incident, kinds=kinds, host=arguments.host, since=since))
    record_reading(settings, "log", " ".join(filter(None, [incident, arguments.host])) or "all")
    if arguments.limit is not None:
        events = events[-arguments.limit :]
    if arguments.json and not arguments.follow:
        emit({"events": [json.loads(event.line) for event in events]})
        return Status.YES
    _print_events(events, as_json=arguments.json)
    if not events and not arguments.follow:
        say("no event fits")  # nothing on stdout could as well be a reader that failed
    seen = {event.id for event in events}
    while arguments.follow:
        sys.stdout.flush()
        time.sleep(_FOLLOW_POLL_S)  # noqa: TID251 - a poll of files that others write
        fresh = [
            event
            for event in tail.new()
            if event.id not in seen
            and (incident is None or event.incident == incident)
            and (kinds is None or event.kind in kinds)
            and (arguments.host is None or host_name(event.host) == arguments.host)
        ]
        _print_events(fresh, as_json=arguments.json)
    return Status.YES


def _print_events(events: list[Event], *, as_json: bool) -> None:
    for event in events:
        if as_json:
            sys.stdout.write(event.line.decode() + "\n")
            continue
        host = "" if event.host is None else event.host.name
        sys.stdout.write(
            f"{local_time(event.ts_us)}  {event.id[-8:]}  {host:<10}  {event.kind:<23}"
            f"  {summary(event)}\n"
        )


def _show(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    event = reader.event(arguments.event.strip("[]") or arguments.event)
    outputs = {name: reader.attachment(event, name) for name in sorted(event.out)}
    record_reading(settings, "show", event.id)
    if arguments.json:
        emit(
            {
                "event": json.loads(event.line),
                "leaf": event.leaf,
                "seal": _seal_value(reader, event),
                "outputs": {
                    name: _output_value(event, name, data) for name, data in outputs.items()
                },
            }
        )
        return Status.YES
    out = sys.stdout
    out.write(f"{event.kind}  {event.id}  at {event.place}\n{summary(event)}\n\n")
    out.write(json.dumps(json.loads(event.line), indent=2, ensure_ascii=False) + "\n")
    out.write(f"leaf hash: {event.leaf}\n{_sealed(reader, event)}\n")
    for name, data in outputs.items():
        reference = event.out[name]
        cut = ", truncated" if reference.truncated else ""
        out.write(f"\n{name} ({reference.length_bytes} bytes{cut}):\n")
        out.write(
            f"redacted: {data.reason}\n"
            if isinstance(data, Shredded)
            else shown(data, 8_000) + "\n"
        )
    return Status.YES


def _sealed(reader: Reader, event: Event) -> str:
    """Which seal covers an event, and that its signature was not looked at here."""
    seal = covering_event(seals_of(reader), event)
    if seal is None:
        return "sealed: not yet"
    when = "" if seal.ts_us is None else f", {local_time(seal.ts_us)}"
    said = f"seal {seal.number} (line of seals.jsonl) over {seal.size} events{when}"
    return f"sealed: by {said}; its signature is checked by agentops verify"


def _seal_value(reader: Reader, event: Event) -> dict[str, object] | None:
    seal = covering_event(seals_of(reader), event)
    if seal is None:
        return None
    return {"number": seal.number, "size": seal.size, "ts_us": seal.ts_us}


def _output_value(event: Event, name: str, data: bytes | Shredded) -> dict[str, object]:
    reference = event.out[name]
    value: dict[str, object] = {
        "length_bytes": reference.length_bytes,
        "truncated": reference.truncated,
        "commitment": reference.commitment,
    }
    if isinstance(data, Shredded):
        return value | {"redacted": data.reason}
    return value | {"text": data.decode("utf-8", "backslashreplace")}


def _query(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    form = _form(arguments)
    if form is not None:
        return _answer_as_file(arguments, reader, form)
    rows = query(reader.layout, arguments.sql, in_memory=settings.read_only)
    record_reading(settings, "query", arguments.sql, from_log=False)
    if arguments.json:
        emit({"columns": list(rows.columns), "rows": [list(row) for row in rows.rows]})
    else:
        table = Table(*rows.columns)
        for row in rows.rows:
            table.add_row(*(shown(str(cell).encode(), 200) for cell in row))
        console().print(table)
    return Status.YES


def _form(arguments: argparse.Namespace) -> Format | None:
    """In which form a file is asked for; None asks for a table or one JSON object."""
    given: Format | None = arguments.format
    if arguments.to is None and given is not None and arguments.json:
        raise UsageError("--json and --format: give one of them")
    if arguments.to is None or given is not None:
        return given
    ending = arguments.to.suffix.removeprefix(".")
    for form in FORMATS:
        if ending == form:
            return form
    raise UsageError(f"--to {arguments.to}: give --format, one of {', '.join(FORMATS)}")


def _answer_as_file(arguments: argparse.Namespace, reader: Reader, form: Format) -> Status:
    settings = settings_for(arguments)
    if arguments.to is not None:
        rows = query_to(
            reader.layout, arguments.sql, arguments.to, form, in_memory=settings.read_only
        )
        record_reading(settings, "query", arguments.sql, from_log=False)
        if arguments.json:
            emit({"file": str(arguments.to), "format": form, "rows": rows})
        else:
            say(f"wrote {arguments.to}: {rows} rows")
        return Status.YES
    if form in {"arrow", "parquet"} and sys.stdout.isatty():
        raise UsageError(f"--format {form} is not for a terminal; give --to FILE")
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        query_to(reader.layout, arguments.sql, answer, form, in_memory=settings.read_only)
        record_reading(settings, "query", arguments.sql, from_log=False)
        with answer.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return Status.YES


def _kinds(given: list[str] | None) -> list[str] | None:
    for kind in given or ():
        if kind not in PAYLOADS:
            meant = nearest(kind, PAYLOADS) or f"; one of {', '.join(sorted(PAYLOADS))}"
            raise UsageError(f"--kind {kind!r}: not a kind of event{meant}")
    return given


def _require_host(reader: Reader, settings: Settings, name: str) -> None:
    """A host that neither inventory nor journal knows is a slip; one of which nothing fits is not.

    Raises:
        UsageError: it is a slip; names what is near.
    """
    if name in settings.inventory.hosts:
        return
    seen = {event.host.name for event in reader.events() if event.host is not None}
    known = sorted(seen | set(settings.inventory.hosts))
    if name not in seen:
        meant = nearest(name, known) or f"; known: {', '.join(known) or 'none'}"
        raise UsageError(f"--host {name!r} is neither in the inventory nor in the journal{meant}")


def _instant(text: str) -> int:
    """Microseconds since 1970 of an ISO instant, of an age before now, or of a day's beginning."""
    age = age_us(text)
    if age is not None:
        return SystemClock().wall_us() - age
    day = day_us(text, SystemClock().wall_us(), utc=False)
    if day is not None:
        return day
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since {text!r}: write an instant (2026-05-01T10:00+02:00), an age (2h), today"
            " or yesterday"
        ) from None
    instant = int(aware.astimezone(UTC).timestamp() * 1_000_000)
    if instant > SystemClock().wall_us():
        raise UsageError(f"--since {text!r}: that is still to come; nothing was written since")
    return instant
