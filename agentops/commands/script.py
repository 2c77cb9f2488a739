"""Commands whose work is a script on the host: how it is chosen, and how its answer is read.

A script comes in Python (used where ``python3`` is 3.9 or newer) and, where that is possible, in
POSIX sh. Both answer in the same form: JSON, one object a line, and a last line
``{"done": ROWS}``. Without that line nothing was proved. Foreign bytes travel as text and not in
hex, so that what takes secrets out of outputs sees them.

Here: bundling and reading. Not here: the scripts (``remote/``), which run on hosts and are data to
this program; nothing in this package imports them.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import ClassVar

from pydantic import ValidationError

from agentops.commands.base import Command, Completed, Malformed, Observation

_FUTURE = "from __future__ import annotations\n"
_RUN = '\n\nif __name__ == "__main__":\n    main()\n'
_LOCAL_IMPORT = re.compile(r"^from agentops\.\S+ import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE)
_NEEDS_PYTHON = 'echo "python3 3.9 or newer was not found on PATH=$PATH" >&2; exit 69'
NO_PYTHON_STATUS = 69
NO_PYTHON = "the host has no python3 3.9 or newer, and this command needs it"
_TOO_OLD_STATUS = 177
# The interpreter that would run the script looks at its own version first: a start more, only to
# ask, would cost as much as the answer.
_BOOT = (
    f"import sys\nif sys.version_info < (3, 9): sys.exit({_TOO_OLD_STATUS})\n"
    'exec(compile(sys.argv.pop(1), "agentops", "exec"))'
)
_CHOOSE = (
    "p=$1 s=$2; shift 2; if command -v python3 >/dev/null 2>&1; then "
    f'python3 -I -S -c \'{_BOOT}\' "$p" "$@"; r=$?; [ $r -eq {_TOO_OLD_STATUS} ] || exit $r; fi; '
    'exec sh -c "$s" agentops "$@"'
)
_CHOSEN = ("sh", "-c", _CHOOSE, "agentops")


@cache
def python_source(*names: str) -> str:
    """The named scripts joined into one program, of which only the last one runs.

    Imports of one from another are left out: in one program they need none.
    """
    return _FUTURE + "".join(python_part(name).replace(_FUTURE, "") for name in names) + _RUN


@cache
def python_part(name: str) -> str:
    """One script without its imports of others and without running."""
    text = (files("agentops.commands") / "remote" / f"{name}.py").read_text("utf-8")
    return _LOCAL_IMPORT.sub("", text.replace(_RUN, ""))


@cache
def shell_source(name: str) -> str:
    """The named POSIX sh script."""
    return (files("agentops.commands") / "remote" / f"{name}.sh").read_text("utf-8")


def chosen_argv(program: str, fallback: str = _NEEDS_PYTHON, *arguments: str) -> tuple[str, ...]:
    """Run *program* by a new enough Python, else *fallback* by sh."""
    return (*_CHOSEN, program, fallback, *arguments)


def chosen_program(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """The Python program in an argv of a script, and its arguments; None for any other argv.

    Where a new enough Python runs, running this program is what the argv comes to.
    """
    if argv[:4] != _CHOSEN:
        return None
    return argv[4], argv[6:]


class ScriptCommand(Command):
    """A command that runs a script and reads its JSON lines."""

    python: ClassVar[tuple[str, ...]]
    """Scripts to join; the last one has the program."""
    shell: ClassVar[str | None] = None
    """The same in POSIX sh; None where Python is needed."""

    def script_arguments(self) -> tuple[str, ...]:
        """What the script is given."""
        return ()

    def argv(self) -> tuple[str, ...]:
        """Python's script or the shell's, whichever the host can run."""
        fallback = _NEEDS_PYTHON if self.shell is None else shell_source(self.shell)
        program = python_source(*self.python)
        return chosen_argv(program, fallback, *self.script_arguments())

    def parse(self, completed: Completed) -> Observation | Malformed:
        """Require status 0 and the last line, then read the rows."""
        whole = whole_answer(completed)
        return whole if isinstance(whole, Malformed) else self.parse_lines(whole)

    def parse_lines(self, lines: bytes) -> Observation | Malformed:
        """Require the last line, then read the rows."""
        rows = parse_rows(lines)
        if isinstance(rows, Malformed):
            return rows
        try:
            return self.read(rows)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            return Malformed(f"the answer's {place or 'row'} is wrong: {first['msg']}")

    @abstractmethod
    def read(self, rows: Sequence[dict[str, object]]) -> Observation | Malformed:
        """Turn the rows into the observation.

        Raises:
            pydantic.ValidationError: a row is not what the script prints; nothing else is raised.
        """


def whole_answer(completed: Completed) -> bytes | Malformed:
    """All that a script printed, if it ended with status 0 and nothing was cut off."""
    if completed.exit_status == NO_PYTHON_STATUS:
        return Malformed(NO_PYTHON)
    if completed.exit_status != 0:
        said = completed.stderr[-300:].decode("utf-8", "backslashreplace").strip()
        return Malformed(f"the script ended with status {completed.exit_status}: {said}")
    if completed.stdout_truncated:
        return Malformed("the answer is longer than the capture limit")
    return completed.stdout


def only(rows: Sequence[dict[str, object]]) -> dict[str, object]:
    """The single row of a script that answers with one; {} (which no model accepts) otherwise."""
    return rows[0] if len(rows) == 1 else {}


def parse_rows(stdout: bytes) -> list[dict[str, object]] | Malformed:
    """The rows of an answer whose last line is there and counts them right.

    Bytes that are no UTF-8 show as backslash escapes in all strings.
    """
    rows: list[dict[str, object]] = []
    for number, line in enumerate(stdout.split(b"\n"), 1):
        if not line:
            continue
        try:
            # Not strict: the sh scripts let control characters stand in strings.
            row = json.loads(line.decode("utf-8", "surrogateescape"), strict=False)
        except (ValueError, RecursionError):
            return Malformed("a line of the answer is not JSON", number)
        if not isinstance(row, dict):
            return Malformed("a line of the answer is no JSON object", number)
        if "done" in row:
            if row["done"] != len(rows):
                return Malformed(f"{len(rows)} rows arrived, {row['done']!r} were sent", number)
            return rows
        rows.append({_shown(key): _clean(value) for key, value in row.items()})
    return Malformed("the last line of the answer is missing")


def _clean(value: object) -> object:
    """The value with every lone surrogate in its strings shown as an escape."""
    if isinstance(value, str):
        return _shown(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_shown(key): _clean(item) for key, item in value.items()}
    return value


def _shown(text: str) -> str:
    if text.isascii():
        return text
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
    return raw.decode("utf-8", "backslashreplace")
