"""``agentops report``: the story of one incident, every sentence bound to events."""

import argparse
import sys
from pathlib import Path
from typing import get_args

from agentops.cli.context import (
    add_reading_options,
    open_reader,
    record_reading,
    resolve_incident,
    settings_for,
)
from agentops.cli.printing import one_line, say
from agentops.cli.status import Status
from agentops.cli.trusting import standing
from agentops.config import Settings
from agentops.errors import UsageError
from journal import Reader
from reports import Depth, build_report, render_json, render_line
from reports.render.overrides import Overrides, find
from reports.standing import Standing
from reports.wording.catalogue import WordingError, load

_FORMATS = ("md", "html", "json")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    report = commands.add_parser("report", help="the report on one incident (default: the latest)")
    report.add_argument("incident", metavar="INCIDENT", nargs="?", help="default: the latest")
    report.add_argument(
        "--depth", choices=get_args(Depth), default="incident", help="how much is told"
    )
    report.add_argument("--format", choices=_FORMATS, default="md", help="of the text")
    report.add_argument("--output", type=Path, metavar="FILE", help="write it there, not to stdout")
    add_reading_options(report)
    report.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    incident = resolve_incident(reader, arguments.incident)
    using = overrides(settings)
    stands = standing(settings, settings.journal)
    text = rendered(reader, incident, arguments.depth, arguments.format, using, stands)
    status = Status.YES
    if stands.finding:
        told = f"not verified, and this reading not recorded: {one_line(stands.finding)}"
        say(f"agentops: {told}; run: agentops verify")
        status = Status.NO
    else:
        asked = f"{incident} {arguments.depth} {arguments.format}"
        record_reading(settings, "report", asked)
    if arguments.output is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return status
    try:
        arguments.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {arguments.output}: {error.strerror}") from error
    say(f"wrote {arguments.output}")
    return status


def overrides(settings: Settings) -> Overrides:
    """The words and pages in force: the project's before the user's before the packaged ones.

    Raises:
        UsageError: a file among them breaks the rules; ``agentops templates lint`` lists all.
    """
    try:
        return find(template_folders(settings))
    except WordingError as error:
        raise UsageError(f"templates: {error}") from error


def template_folders(settings: Settings) -> tuple[Path, ...]:
    """Where a project's and a user's own words and pages lie."""
    return Path.cwd() / ".agentops" / "templates", settings.places.config / "templates"


def rendered(
    reader: Reader,
    incident: str,
    depth: Depth,
    form: str,
    using: Overrides | None = None,
    stands: Standing | None = None,
) -> str:
    """The report as text; the same journal, verified alike, gives the same bytes."""
    using = using or Overrides(load())
    report = build_report(reader, incident, depth, words=using.words, standing=stands)
    if form == "json":
        return render_json(report)
    if form == "html":
        return using.as_html(report)
    return render_line(report) if depth == "line" else using.as_markdown(report)
