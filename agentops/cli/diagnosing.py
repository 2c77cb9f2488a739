"""``agentops diagnose FILE|-``: what a log shows first, what follows, what not to conclude."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from agentops.cli.context import add_json_option
from agentops.cli.printing import console, emit, shown
from agentops.cli.status import Status
from agentops.diagnosis import Diagnosis, Finding, diagnose

_CHUNK_BYTES = 1 << 20


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("diagnose", help="find the first root in a training log")
    parser.add_argument("file", metavar="FILE", help="a log, or - for standard input")
    add_json_option(parser)
    parser.set_defaults(run=_diagnose)


def _diagnose(arguments: argparse.Namespace) -> Status:
    seen = diagnose(_chunks(arguments.file))
    if arguments.json:
        emit(
            {
                "first_root": None if seen.first_root is None else _fields(seen.first_root),
                "roots": [_fields(finding) for finding in seen.roots],
                "cascades": [_fields(finding) for finding in seen.cascades],
                "others": [_fields(finding) for finding in seen.others],
                "survived": [_fields(finding) for finding in seen.survived],
                "loop": seen.loop,
                "check_next": list(seen.checks()),
                "do_not_conclude": list(seen.not_concluded()),
                "lines": seen.lines,
                "last_step": seen.last_step,
                "progressed": seen.progressed,
            }
        )
    else:
        _tell(seen)
    if seen.failed:
        return Status.NO
    # A log that shows no step either (empty, or no log at all) is no sign of health.
    return Status.YES if seen.progressed else Status.CANNOT_SAY


def _chunks(name: str) -> Iterator[bytes]:
    if name == "-":
        while chunk := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
            yield chunk
        return
    with Path(name).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _fields(finding: Finding) -> dict[str, object]:
    return {
        "signature": finding.signature,
        "title": finding.title,
        "role": finding.role,
        "relaunch": finding.relaunch,
        "first_line": finding.first_line,
        "count": finding.count,
        "ranks": list(finding.ranks),
        "text": shown(finding.text.encode()),
    }


def _tell(seen: Diagnosis) -> None:
    out = console()
    if seen.first_root is None and not seen.cascades:
        out.print(f"{seen.lines} lines: no failure stands, {_progress(seen)}", soft_wrap=True)
    elif seen.first_root is None:
        out.print("only consequences stand in this log; the root is in another one", soft_wrap=True)
    else:
        out.print(f"first root: {_line(seen.first_root)}", soft_wrap=True)
        out.print(f"  {shown(seen.first_root.text.encode())}", soft_wrap=True)
    for title, findings in (
        ("other roots", seen.roots[1:]),
        ("cascades", seen.cascades),
        ("also seen", seen.others),
        ("the job went on after", seen.survived),
    ):
        if findings:
            out.print(f"{title}:", soft_wrap=True)
            for finding in findings:
                out.print(f"  {_line(finding)}", soft_wrap=True)
    if seen.loop is not None:
        out.print(
            f"{seen.loop} came back without a step between: it will come again unchanged",
            soft_wrap=True,
        )
    for title, lines in (("check next", seen.checks()), ("do not conclude", seen.not_concluded())):
        if lines:
            out.print(f"{title}:", soft_wrap=True)
            for line in lines:
                out.print(f"  {line}", soft_wrap=True)


def _progress(seen: Diagnosis) -> str:
    if not seen.progressed:
        return "and no step: nothing follows from it"
    return "and it counts on" if seen.last_step is None else f"and steps up to {seen.last_step}"


def _line(finding: Finding) -> str:
    ranks = f", ranks {', '.join(map(str, finding.ranks))}" if finding.ranks else ""
    return (
        f"{finding.signature} ({finding.relaunch}) {finding.title}; line {finding.first_line}, "
        f"{finding.count} times{ranks}"
    )
