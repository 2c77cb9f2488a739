"""The two replay modes that look at outputs: ``reparse`` and ``play``.

Reparse reads every recorded answer with today's parsers; play shows a session as it was seen, by
keys where there is a terminal (``agentops.cli.player``), or writes it as an asciicast for any
player. Neither opens a socket nor writes into the journal.
"""

import argparse
import json
import sys
import threading

from pydantic import JsonValue, ValidationError

from agentops.cli.context import resolve_incident
from agentops.cli.player import Player, watch
from agentops.cli.printing import say
from agentops.cli.values import rate, seconds
from agentops.commands import COMMANDS, Completed
from agentops.commands.base import Malformed
from agentops.errors import UsageError
from journal import Reader
from reports.replay import GAP_MAX_S, Recorded, Reparsed, cast, frames, reparse


def add_play_options(parser: argparse.ArgumentParser) -> None:
    """Options of ``replay play``."""
    parser.add_argument("--incident", metavar="ID", help="play: this incident alone")
    parser.add_argument("--speed", type=rate, default=1.0, metavar="N", help="play: N times faster")
    parser.add_argument(
        "--from",
        dest="start",
        type=seconds,
        default=0.0,
        metavar="S",
        help="play: begin after S seconds",
    )
    parser.add_argument("--cast", metavar="FILE", help="play: write an asciicast v3 file instead")


def play_options(arguments: argparse.Namespace) -> str:
    """The options of ``play`` that were given, as typed; empty for none."""
    given = {
        "--incident": arguments.incident is not None,
        "--speed": arguments.speed != 1,
        "--from": arguments.start != 0,
        "--cast": arguments.cast is not None,
    }
    return ", ".join(name for name, there in given.items() if there)


def parse(recorded: Recorded) -> tuple[int, JsonValue] | None:
    """Today's reading of a recorded answer; None where the command cannot be made again."""
    kind = COMMANDS.get(recorded.command)
    if kind is None:
        return None
    try:
        command = kind.model_validate_json(json.dumps(recorded.arguments))
    except ValidationError:
        return None
    completed = Completed(
        recorded.exit_status,
        recorded.stdout,
        recorded.stderr,
        recorded.stdout_truncated,
        recorded.stderr_truncated,
    )
    seen = command.parse(completed)
    if isinstance(seen, Malformed):
        return kind.parser_version, {"malformed": seen.reason}
    return kind.parser_version, seen.model_dump(mode="json")


def reparse_all(reader: Reader) -> Reparsed:
    """Every recorded answer, read again."""
    return reparse(reader, parse)


def reparsed_value(found: Reparsed) -> dict[str, object]:
    """For ``--json``."""
    return {
        "compared": found.compared,
        "identical": not found.drifts,
        "drifts": [
            {
                "event": drift.event,
                "command": drift.command,
                "pointer": drift.pointer,
                "recorded": drift.recorded,
                "parsed": drift.parsed,
            }
            for drift in found.drifts
        ],
        "shredded": list(found.shredded),
        "not_rebuilt": list(found.not_rebuilt),
    }


def tell_reparsed(found: Reparsed) -> None:
    """For people: what reads otherwise, and what could not be read again."""
    word = "DIFFERS" if found.drifts else "IDENTICAL"
    if found.compared:
        print(f"{word}  {found.compared} answers read again")  # noqa: T201
    else:
        print("NOTHING TO READ AGAIN  no answer is recorded that can be")  # noqa: T201
    for drift in found.drifts:
        print(  # noqa: T201
            f"  {drift.command} [{drift.event}] {drift.pointer}:"
            f" recorded {json.dumps(drift.recorded)}, parser {drift.parsed_version} reads"
            f" {json.dumps(drift.parsed)}"
        )
    if found.not_rebuilt:
        say(f"not read again, for their arguments are not whole: {', '.join(found.not_rebuilt)}")
    if found.shredded:
        say(f"not read again, for their outputs were removed: {len(found.shredded)}")


def play(reader: Reader, arguments: argparse.Namespace) -> None:
    """Show the session in this terminal, or write it as an asciicast.

    Raises:
        UsageError: no such incident, or a file that cannot be written.
    """
    given = arguments.incident
    incident = None if given is None else resolve_incident(reader, given)
    if arguments.cast is not None:
        _write(arguments.cast, cast(reader, incident=incident))
        return
    if sys.stdin.isatty() and sys.stdout.isatty():
        player = Player(tuple(frames(reader, incident=incident)), arguments.speed)
        player.seek(arguments.start)
        watch(player)
        return
    pause = threading.Event()  # nothing sets it: waiting on it is a pause that Ctrl-C ends
    real = 0.0
    for frame in frames(reader, incident=incident):
        real += frame.real_s if frame.code == "o" else 0.0
        if frame.code != "o" or real < arguments.start:
            continue
        pause.wait(min(frame.interval_s, GAP_MAX_S) / arguments.speed)
        sys.stdout.write(frame.text.replace("\r\n", "\n"))
        sys.stdout.flush()


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  (a name, or /dev/stdout)
            file.write(text)
    except OSError as error:
        raise UsageError(f"--cast {path}: {error.strerror}") from error
