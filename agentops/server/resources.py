"""What can be read by address: ``agentops://event/ID``, ``blob/EVENT/NAME``, ``report/INCIDENT``.

Bounded like the tools. Not here: the tools that page through the same.
"""

import json
from urllib.parse import unquote

import mcp_types as wire
from mcp.shared.exceptions import MCPError

from agentops.server.answer import CHARS_PER_TOKEN, FULL_TOKENS, shown
from agentops.server.desk import Desk, Refused
from agentops.server.reading import incident_named, stored
from journal.errors import EventNotFound

_SCHEME = "agentops://"
_CHARS_MAX = FULL_TOKENS * CHARS_PER_TOKEN
TEMPLATES: tuple[tuple[str, str, str, str], ...] = (
    ("agentops://event/{id}", "event", "One event, whole", "application/json"),
    ("agentops://blob/{event}/{name}", "blob", "A recorded output: text of a host", "text/plain"),
    ("agentops://report/{incident}", "report", "An incident's report", "text/markdown"),
)


def read(desk: Desk, uri: str) -> tuple[str, str]:
    """Media type and text.

    Raises:
        MCPError: nothing has that address.
    """
    kind, _, rest = uri.removeprefix(_SCHEME).partition("/")
    parts = [unquote(part) for part in rest.split("/")]
    try:
        found = _read(desk, uri, kind, parts)
    except (Refused, EventNotFound) as error:
        raise MCPError(wire.INVALID_PARAMS, str(error)) from error
    desk.note_reading(kind, " ".join(parts))
    return found


def _read(desk: Desk, uri: str, kind: str, parts: list[str]) -> tuple[str, str]:
    match kind, parts:
        case "event", [name]:
            event = desk.reader.event(name)
            text = json.dumps(json.loads(event.line), indent=1, ensure_ascii=False)
            return "application/json", _bounded(text)
        case "blob", [name, output]:
            data = stored(desk.reader, desk.reader.event(name), output)
            return "text/plain", _bounded(shown(data.decode("utf-8", "backslashreplace")))
        case "report", [incident]:
            reader = desk.reader
            name = incident_named(reader, incident)
            return "text/markdown", _bounded(desk.ground.tells(reader, name, "incident"))
        case _:
            raise MCPError(wire.INVALID_PARAMS, f"{uri!r}: event/ID, blob/EVENT/NAME, report/ID")


def _bounded(text: str) -> str:
    if len(text) <= _CHARS_MAX:
        return text
    return f"{text[:_CHARS_MAX]}\n… {len(text) - _CHARS_MAX} characters more"
