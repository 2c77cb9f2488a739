"""From what an agent names to typed commands and to identities beyond doubt.

An agent says pid and start ticks as it saw them; boot, namespace and its init come from the
journal, never from the agent. Here: this look-up, and commands held to their own models. Not here:
whether they may be sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from agentops.commands import Command
from agentops.server.arguments import Victim
from agentops.server.desk import Refused
from journal import Reader, Shredded
from journal.errors import EventNotFound
from journal.events import Identity, ObservationParsed

_Command = TypeVar("_Command", bound=Command)
_SHARED = ("boot_id", "pid_namespace", "namespace_init_start_ticks")


def typed(model: type[_Command], fields: Mapping[str, object]) -> _Command:
    """The command with these arguments.

    Raises:
        Refused: the command's own model takes no such argument; names it.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or model.name
        raise Refused("BAD_ARGS", f"{model.name}: {place}: {first['msg']}") from error


def identities(
    reader: Reader, seen: str, victims: Sequence[Victim], host: str
) -> tuple[Identity, ...]:
    """The identities of *victims*, as the observation *seen* on *host* shows them.

    Raises:
        Refused: there is no such observation of this host, or a victim does not stand in it.
    """
    try:
        event = reader.event(seen)
    except EventNotFound as error:
        raise Refused("NOT_FOUND", f"seen={seen!r}: {error}") from error
    if not isinstance(event.payload, ObservationParsed):
        raise Refused("BAD_ARGS", f"seen={seen!r} is {event.kind}, not an observation")
    if event.host is None or event.host.name != host:
        raise Refused("BAD_ARGS", f"seen={seen!r} is an observation of another host than {host}")
    value = reader.observation(event)
    known = {} if isinstance(value, Shredded) else dict(_pairs(value))
    named = []
    for victim in victims:
        identity = known.get((victim.pid, victim.start))
        if identity is None:
            raise Refused(
                "BAD_ARGS",
                f"pid {victim.pid} with start {victim.start} does not stand in observation {seen}",
            )
        named.append(identity)
    return tuple(named)


def _pairs(value: JsonValue) -> Iterator[tuple[tuple[int, int], Identity]]:
    """Every process of a table, wherever the table stands in the observation."""
    if not isinstance(value, dict):
        return
    rows = value.get("processes")
    if isinstance(rows, list) and all(key in value for key in _SHARED):
        shared = {key: value[key] for key in _SHARED}
        for row in rows:
            if isinstance(row, dict):
                place = {"pid": row.get("pid"), "start_ticks": row.get("start_ticks")}
                identity = Identity.model_validate({**shared, **place})
                yield (identity.pid, identity.start_ticks), identity
    for part in value.values():
        yield from _pairs(part)
