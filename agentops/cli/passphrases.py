"""Passphrases, asked for on the terminal and nowhere else: an agent's pipe cannot answer."""

import os
from getpass import getpass
from pathlib import Path

from agentops.errors import UsageError

_TERMINAL = "/dev/tty"


def ask_passphrase(place: Path) -> bytes:
    """The passphrase that opens *place*.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    return _asked(f"passphrase of {place}: ").encode()


def new_passphrase() -> bytes:
    """A new passphrase, typed twice.

    Raises:
        UsageError: there is no terminal, it is empty, or the two differ.
    """
    first = _asked("new passphrase: ")
    if not first:
        raise UsageError("an empty passphrase seals nothing; --no-passphrase says so on purpose")
    if _asked("once more: ") != first:
        raise UsageError("the two passphrases differ; nothing was written")
    return first.encode()


def _asked(prompt: str) -> str:
    # getpass would read standard input where there is no terminal.
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise UsageError("a passphrase is typed on a terminal, and there is none here") from None
    return getpass(prompt)
