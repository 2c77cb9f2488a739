"""How the command line prints: one JSON object on stdout, or tables and lines for people.

All that is not the answer goes to stderr, so that ``--json`` output can be piped.
"""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from rich.console import Console


def emit(value: Mapping[str, object]) -> None:
    """Print exactly one JSON object on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")


def say(text: str) -> None:
    """Print one line for people on stderr."""
    sys.stderr.write(text + "\n")


class _Console(Console):
    """Leaves a reader that went away to the entry point, which ends quietly."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process with status 1."""
        raise BrokenPipeError


def console(*, to_stderr: bool = False) -> Console:
    """A console that neither guesses markup in remote text nor highlights numbers."""
    return _Console(stderr=to_stderr, markup=False, highlight=False, soft_wrap=False)


def local_time(ts_us: int) -> str:
    """A stored instant in the local zone, with its offset.

    >>> local_time(0).startswith(("1970", "1969"))
    True
    """
    moment = datetime.fromtimestamp(ts_us / 1_000_000, tz=UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + moment.strftime("%z")


def is_text(text: str) -> bool:
    r"""Whether it can be written as UTF-8; an argument in other bytes has lone surrogates.

    >>> is_text("caf\udce9")
    False
    """
    return not any("\ud800" <= char <= "\udfff" for char in text)


def one_line(text: str, limit: int = 600) -> str:
    r"""The text as one line that no value in it can break, forge or flood; both ends stay.

    >>> one_line("no journal is at a\nb")
    'no journal is at a\\nb'
    """
    safe = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    half = limit // 2
    return safe if len(safe) <= limit else f"{safe[:half]} … {safe[-half:]}"


def shown(data: bytes, limit: int = 4_000) -> str:
    r"""Bytes of a host as text that cannot move a cursor or forge a line.

    >>> shown(b"ok\x1b[2Kforged\xff")
    'ok\\x1b[2Kforged\\xff'
    """
    text = data[:limit].decode("utf-8", "backslashreplace")
    safe = "".join(
        char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text
    )
    return safe if len(data) <= limit else f"{safe}\n… {len(data) - limit} bytes more"
