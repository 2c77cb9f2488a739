"""The entry point: builds the parser, runs one command, turns errors into one line and a status."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from agentops.cli import (
    auditing,
    bench,
    configuring,
    demo,
    doctor,
    doing,
    hosts,
    incidents,
    init,
    journals,
    reading,
    recover,
    reporting,
)
from agentops.cli.status import Status
from agentops.errors import AgentopsError
from journal import JournalError

_GROUPS = (
    demo,
    bench,
    recover,
    init,
    hosts,
    doing,
    incidents,
    reading,
    auditing,
    reporting,
    journals,
    configuring,
    doctor,
)


class _OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the argument, its value and the remedy."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with the status of a usage error."""
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        sys.exit(Status.USAGE)


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command; each module adds its own."""
    parser = _OneLineParser(
        prog="agentops",
        description="Typed remote operations for LLM agents, with a journal that can be audited.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_OneLineParser)
    for group in _GROUPS:
        group.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Tracebacks are for bugs; what a user can mend is one line and status 2."""
    _settle_streams()
    arguments = build_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except (AgentopsError, JournalError) as error:
        sys.stderr.write(f"agentops: {error}\n")
        return Status.USAGE
    except BrokenPipeError:
        # The reader of our output left: point stdout at nothing, so that the exit flush is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.YES
    except OSError as error:
        if error.filename is None:
            raise
        # A disk or a permission, not a bug: what failed and where is all that a user can use.
        sys.stderr.write(f"agentops: {error.filename}: {error.strerror}\n")
        return Status.USAGE
    except KeyboardInterrupt:
        sys.stderr.write("agentops: interrupted; the journal holds what was done\n")
        return Status.INTERRUPTED
    return status


def _settle_streams() -> None:
    """Make both streams usable: a closed one goes nowhere, a narrow encoding escapes."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
