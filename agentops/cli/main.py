"""The entry point: builds the parser, runs one command, turns errors into one line and a status."""

import argparse
import getpass
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import NoReturn

from agentops.cli.printing import is_text, one_line
from agentops.cli.status import Status
from agentops.cli.values import nearest
from agentops.errors import AgentopsError, UsageError
from journal import JournalError
from journal.errors import SealContradicted

# Which module of this package adds which commands. Only the module of the command that was typed
# is imported: SSH, DuckDB and templates take longer to load than most commands take to run.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "demo": ("demo",),
    "bench": ("bench",),
    "recover": ("recover",),
    "watching": ("watch",),
    "init": ("init",),
    "hosts": ("hosts",),
    "doing": ("do", "commands"),
    "adopting": ("adopt",),
    "incidents": ("incident",),
    "reading": ("log", "show", "query"),
    "auditing": ("verify", "replay"),
    "reporting": ("report",),
    "telling": ("lint", "digest", "compliance", "templates"),
    "evidence": ("export",),
    "journals": ("journal",),
    "configuring": ("config",),
    "doctor": ("doctor",),
    "policy": ("policy",),
    "diagnosing": ("diagnose",),
    "serving": ("mcp", "tools"),
    "approving": ("approvals", "approve", "deny", "freeze", "thaw", "operator"),
    "hooking": ("hook",),
}


# Actions of `agentops journal` that people type as commands.
_OF_JOURNAL = frozenset({"anchor", "key", "prove", "redact", "reindex", "seal", "size", "snapshot"})
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)", re.DOTALL)


class _OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the argument, its value and the remedy."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with the status of a usage error."""
        choice = _CHOICE.search(message)
        if choice and choice[1] in _OF_JOURNAL and "COMMAND" in message:
            message = f"{choice[1]!r} is an action of another command: agentops journal {choice[1]}"
        elif choice and (meant := nearest(choice[1], re.findall(r"[\w-]+", choice[2]))):
            message = message[: choice.start(2)].removesuffix(" (choose from ") + meant
        sys.stderr.write(f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")
        sys.exit(Status.USAGE)


class _Version(argparse.Action):
    """Prints the version of the distribution, which is looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it and end."""
        try:
            number = version("agentops-journal")
        except PackageNotFoundError:
            number = "(not installed as a distribution; see agentops doctor)"
        sys.stdout.write(f"agentops {number}\n")
        parser.exit()


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser with *command* alone, or with every command if that is none of ours."""
    parser = _OneLineParser(
        prog="agentops",
        description="Typed remote operations for LLM agents, with a journal that can be audited.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_OneLineParser)
    wanted = [module for module, names in GROUPS.items() if command in names]
    for module in wanted or GROUPS:
        import_module(f"agentops.cli.{module}").register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Tracebacks are for bugs; what a user can mend is one line and status 2."""
    _settle_streams()
    _settle_name()
    ended_by = _end_in_order()
    words = sys.argv[1:] if argv is None else argv
    arguments = build_parser(next(iter(words), None)).parse_args(words)
    status: int = Status.NO_READER  # until the command has said its own
    try:
        _require_text(arguments)
        status = arguments.run(arguments)
        sys.stdout.flush()
    except SealContradicted as error:
        sys.stderr.write(f"agentops: {one_line(str(error))}\n")
        return Status.NO
    except (AgentopsError, JournalError) as error:
        sys.stderr.write(f"agentops: {one_line(str(error))}\n")
        return Status.USAGE
    except BrokenPipeError:
        # The reader of our output left: point stdout at nothing, so that the exit flush is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.filename is None:
            raise
        # A disk or a permission, not a bug: what failed and where is all that a user can use.
        sys.stderr.write(f"agentops: {one_line(f'{error.filename}: {error.strerror}')}\n")
        return Status.USAGE
    except KeyboardInterrupt:
        sys.stderr.write("agentops: interrupted; the journal holds what was done\n")
        return 128 + ended_by[0] if ended_by else Status.INTERRUPTED
    return status


def _require_text(arguments: argparse.Namespace) -> None:
    """Refuse words that are not UTF-8: no event could hold them. A path may be any bytes."""
    for name, value in vars(arguments).items():
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str) and not is_text(each):
                raise UsageError(f"{name} {each!r} is not UTF-8; write it so")


def _end_in_order() -> list[int]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: outcomes and seals are written first.

    Gives a list that holds the signal's number once one came. A signal that is ignored stays so.
    """
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        # asyncio puts a handler of its own there while it runs, which cancels instead.
        current = signal.getsignal(signal.SIGINT)
        if callable(current):
            current(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, interrupt)
    return came


def _settle_name() -> None:
    """Give a user whom the system does not know, as in containers, a name: SSH must send one."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"uid-{os.getuid()}"


def _settle_streams() -> None:
    """Make both streams usable: a closed one goes nowhere, a narrow encoding escapes."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
