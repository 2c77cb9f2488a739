"""What an exit status means, the same for every command.

====== ==================================================================================
0      yes, done: intact and anchored, identical, completed, confirmed, resolved
1      no: tampered, differs, findings, failed, refuted
2      usage, configuration, unreadable or busy input; nothing was changed
3      cannot say: unanchored or unsealed, history ends, inconclusive, unknown
4      denied, or handed over to a person
5      waits for approval (its id is printed)
6      not sent
128+n  ended by signal n: Ctrl-C, SIGHUP or SIGTERM; the journal holds what was done
141    the reader of the output left before the command had an answer
====== ==================================================================================
"""

from enum import IntEnum
from typing import Final

from journal.events import Resolution


class Status(IntEnum):
    """Exit statuses of ``agentops``."""

    YES = 0
    NO = 1
    USAGE = 2
    CANNOT_SAY = 3
    DENIED = 4
    WAITS = 5
    NOT_SENT = 6
    # Convention of shells for a process that SIGINT ended: 128 + 2.
    INTERRUPTED = 130
    # Likewise 128 + 13 (SIGPIPE): the reader of our output left before there was a status.
    NO_READER = 141


_OUTCOMES: Final[dict[str, Status]] = {
    "command_completed": Status.YES,
    "command_failed": Status.NO,
    "command_outcome_unknown": Status.CANNOT_SAY,
    "command_denied": Status.DENIED,
    "command_not_sent": Status.NOT_SENT,
}


def of_outcome(kind: str, *, holds: bool | None = True) -> Status:
    """The exit status of ``do`` for an outcome event's kind, and for what the answer says.

    >>> of_outcome("command_completed", holds=False).name
    'NO'
    """
    if kind == "command_completed" and holds is not True:
        return Status.CANNOT_SAY if holds is None else Status.NO
    return _OUTCOMES[kind]


def of_resolution(resolution: Resolution) -> Status:
    """The exit status of ``recover`` and ``demo``."""
    return Status.DENIED if resolution == "HANDED_OVER" else Status.YES
