"""What was done in an incident, as a sequence that two runs of the same story share.

Here: (kind, command, host, arguments, verdict, rule) of each event, with what differs between two
runs of one story (folders, pids, ticks, ids, instants) put as words.
"""

import json
import re
from collections.abc import Sequence

from journal import Event
from journal.events import (
    CommandDenied,
    CommandIntended,
    IncidentClosed,
    ObservationParsed,
    VerdictReached,
)

_VARIES = (
    (re.compile(r'"(boot_id|launch_id|command_id)": "[^"]*"'), r'"\1": "…"'),
    (re.compile(r'"(\w*ticks|pid|pid_namespace|at_least_step|step)": \d+'), r'"\1": 0'),
    (re.compile(r"job-\d+-[\w-]+"), "job"),
)
Line = tuple[str, str, str, str, str, str]


def sequence(events: Sequence[Event]) -> list[Line]:
    """One line for each act and verdict, in order, and before it each look that led there, once.

    How often a look is repeated depends on how fast the job is, so it is not told.
    """
    lines: list[Line] = []
    looks: set[Line] = set()
    for event in events:
        line = _line(event)
        if line is None:
            continue
        if event.kind == "observation_parsed" or line[5] == "observes":
            looks.add(line)
            continue
        lines += [*sorted(looks), line]
        looks.clear()
    return [*lines, *sorted(looks)]


def _line(event: Event) -> Line | None:
    payload = event.payload
    host = "" if event.host is None else event.host.name
    match payload:
        case CommandIntended():
            arguments = _plain(payload.arguments)
            return (event.kind, payload.command, host, arguments, "", payload.authority)
        case CommandDenied():
            return (event.kind, payload.command, host, _plain(payload.arguments), "", payload.rule)
        case ObservationParsed():
            return (event.kind, payload.command, host, "", "", "")
        case VerdictReached():
            return (event.kind, "", host, _plain(payload.condition), payload.verdict, "")
        case IncidentClosed():
            return (event.kind, "", host, "", payload.resolution, "")
        case _:
            return None


def _plain(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return text
