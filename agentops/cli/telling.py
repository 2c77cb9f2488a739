"""``agentops lint|digest|compliance``: is a report true, what happened lately, what auditors ask.

All three read the journal and nothing else of the world but the file that is given to them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agentops.cli.context import (
    add_json_option,
    add_reading_options,
    open_reader,
    record_reading,
    resolve_incident,
    settings_for,
)
from agentops.cli.printing import emit, say
from agentops.cli.reporting import overrides, template_folders
from agentops.cli.status import Status
from agentops.cli.trusting import how_far, verified
from agentops.cli.values import age_us, day_us
from agentops.errors import UsageError
from journal import Reader, SystemClock
from journal.errors import Corrupt
from reports import build_report, render_markdown
from reports.compliance import Surroundings, comply, render_compliance, unexplained
from reports.compliance.history import unread
from reports.digest import digest, render_digest
from reports.lint import Finding, lint
from reports.render.overrides import FILES, faults

_EXCERPT_CHARS = 160


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    linting = commands.add_parser(
        "lint", help="hold a report, also a hand-written one, to the journal"
    )
    linting.add_argument("report", metavar="REPORT", type=Path, help="Markdown, HTML or plain text")
    linting.add_argument("--incident", metavar="ID", help="hold it to this incident alone")
    linting.add_argument(
        "--earlier", action="append", type=Path, metavar="FILE", help="earlier reports on the same"
    )
    linting.set_defaults(run=_lint)

    digesting = commands.add_parser("digest", help="many incidents on one page")
    digesting.add_argument(
        "--since",
        metavar="WHEN",
        help="an age before the last event (12h, 7d), or a date (2026-11-30), today or yesterday,"
        " in UTC; default: all",
    )
    digesting.set_defaults(run=_digest)

    complying = commands.add_parser("compliance", help="what an auditor samples, item by item")
    complying.add_argument("path", metavar="PATH", nargs="?", type=Path, help="a journal's folder")
    complying.set_defaults(run=_compliance)
    templates = commands.add_parser("templates", help="a project's or user's own words and pages")
    actions = templates.add_subparsers(metavar="ACTION", required=True)
    checking = actions.add_parser("lint", help="what is wrong with them")
    checking.add_argument(
        "folder", metavar="FOLDER", nargs="*", type=Path, help="default: those in use"
    )
    checking.set_defaults(run=_templates)
    for parser in (linting, digesting, complying):
        add_json_option(parser)
        add_reading_options(parser)


def _lint(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    earlier = [_read(path, "--earlier") for path in arguments.earlier or ()]
    text = _read(arguments.report, "REPORT")
    if not text.strip():
        raise UsageError(f"REPORT {arguments.report}: is empty; there is nothing to hold")
    reader = open_reader(settings)
    given = arguments.incident
    found = lint(
        text,
        reader,
        incident=None if given is None else resolve_incident(reader, given),
        earlier=earlier,
        overrides=overrides(settings),
    )
    record_reading(settings, "lint", str(arguments.report))
    if arguments.json:
        emit({"findings": [_finding(finding) for finding in found]})
    else:
        for finding in found:
            excerpt = " ".join(finding.excerpt.split())[:_EXCERPT_CHARS]
            place = f"{arguments.report}:{finding.line}"
            print(f"{place}: {finding.rule} {finding.message}\n    {excerpt}")  # noqa: T201
        say(_counted(found))
    return Status.NO if found else Status.YES


def _counted(found: Sequence[object]) -> str:
    """How many findings, in words."""
    if not found:
        return "no finding"
    return "1 finding" if len(found) == 1 else f"{len(found)} findings"


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "line": finding.line,
        "rule": finding.rule,
        "message": finding.message,
        "excerpt": finding.excerpt,
    }


def _read(path: Path, name: str) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no UTF-8 text"
        raise UsageError(f"{name} {path}: {reason}") from error
    if text.lstrip().startswith("{"):
        raise UsageError(f"{name} {path}: is JSON; give a report of --format md or html")
    return text


def _templates(arguments: argparse.Namespace) -> Status:
    folders = tuple(arguments.folder) or template_folders(settings_for(arguments))
    for folder in arguments.folder:
        if not folder.is_dir():
            raise UsageError(f"templates lint {folder}: no such folder")
    found = faults(folders)
    for fault in found:
        print(fault)  # noqa: T201
    looked = [str(f / name) for f in folders for name in FILES if (f / name).is_file()]
    say(
        f"looked at {', '.join(looked)}" if looked else f"no file in {', '.join(map(str, folders))}"
    )
    say(_counted(found))
    return Status.NO if found else Status.YES


def _digest(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    found = digest(reader, since_us=_since_us(arguments.since, reader))
    record_reading(settings, "digest", arguments.since or "all")
    if arguments.json:
        emit(
            {
                "incidents": len(found.lines),
                "resolutions": found.resolutions,
                "signals": found.rungs,
                "themes": found.themes,
                "median_ms": found.median_ms,
                "unverified": [line.incident for line in found.unverified],
            }
        )
    else:
        sys.stdout.write(render_digest(found))
    return Status.YES


def _since_us(given: str | None, reader: Reader) -> int:
    """The beginning of the span: an age is counted back from the journal's last event."""
    if given is None:
        return 0
    age = age_us(given)
    if age is not None:
        return max((event.ts_us for event in reader.events()), default=0) - age
    day = day_us(given, SystemClock().wall_us(), utc=True)
    if day is not None:
        return day
    try:
        moment = datetime.fromisoformat(given)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since {given!r}: give an age (12h, 7d), a date (2026-11-30), today or yesterday"
        ) from None
    since_us = int((moment.replace(tzinfo=moment.tzinfo or UTC)).timestamp() * 1_000_000)
    if since_us > SystemClock().wall_us():
        raise UsageError(f"--since {given!r}: that is still to come; nothing was written since")
    return since_us


def _findings(reader: Reader) -> int | None:
    """How many findings the report on the latest incident has; None where there is no incident."""
    reports = [build_report(reader, incident.id) for incident in reader.incidents()[-1:]]
    found = [len(lint(render_markdown(report), reader)) for report in reports]
    return sum(found) if found else None


def _compliance(arguments: argparse.Namespace) -> Status:
    if arguments.path is not None:
        arguments.journal = arguments.path
    settings = settings_for(arguments)
    reader = open_reader(settings)
    verification = verified(settings, settings.journal)
    surroundings = Surroundings(
        verification=verification.status,
        mode=settings.journal.stat().st_mode,
        ranges=verification.ranges,
        finding="" if verification.finding is None else str(verification.finding),
    )
    try:
        surroundings = replace(surroundings, findings=_findings(reader))
    except Corrupt as error:
        surroundings = replace(surroundings, unmade=str(error))
    answers = comply(reader, surroundings)
    foreign = unexplained(reader)
    record_reading(settings, "compliance", "")
    if arguments.json:
        emit(
            {
                "verified": how_far(verification),
                "items": [
                    {
                        "item": item.id,
                        "title": item.title,
                        "standards": list(item.standards),
                        "status": answer.status,
                        "words": answer.words,
                        "events": list(answer.refs),
                    }
                    for item, answer in answers
                ],
                "not_ours": [
                    {"what": one.what, "host": one.host, "events": list(one.refs)}
                    for one in foreign
                ],
                "logs_not_read": list(unread(reader)),
            }
        )
    else:
        told = how_far(verification)
        sys.stdout.write(render_compliance(answers, foreign, unread(reader), told))
    return Status.NO if any(answer.status == "fail" for _, answer in answers) else Status.YES
