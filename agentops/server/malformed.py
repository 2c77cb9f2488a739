"""What a client is told about a line that is no message.

Here: the JSON-RPC error for it, with the request's id wherever that can be known, since a client
waits for an answer to its id. Not here: reading lines (``agentops.server.incoming``).
"""

import re

import mcp_types as wire
from pydantic import TypeAdapter, ValidationError

ID_WITHIN_BYTES = 1_024
_ID = rb'(-?\d{1,18}|"[^"\\]{1,128}")'
_FLAT = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"'
# Quotes within a string are escaped, and only flat members lie between the id and the line's
# border, so what matches is the request's own id and no argument that is called so.
_FIRST = re.compile(rb"\s*\{\s*(?:" + _FLAT + rb'\s*,\s*)*"id"\s*:\s*' + _ID + rb"\s*[,}]")
_LAST = re.compile(rb',\s*"id"\s*:\s*' + _ID + rb"\s*(?:,\s*" + _FLAT + rb"\s*)*\}\s*\Z")
_REQUEST_ID: TypeAdapter[int | str] = TypeAdapter(int | str)
_VALUE: TypeAdapter[object] = TypeAdapter(object)


def refusal_of(line: str) -> wire.JSONRPCError | None:
    """The error that answers *line*; None where it is a message."""
    try:
        wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    else:
        return None
    try:
        value = _VALUE.validate_json(line)
    except ValidationError as error:
        why = error.errors(include_url=False)[0]["msg"]
        return _error(wire.PARSE_ERROR, f"the line is not JSON ({why}); send one message a line")
    asked = value.get("id") if isinstance(value, dict) and "method" in value else None
    known = asked if isinstance(asked, int | str) and not isinstance(asked, bool) else None
    text = "the line is JSON but no JSON-RPC 2.0 message; see jsonrpc, id, method, params"
    return _error(wire.INVALID_REQUEST, text, known)


def too_long(head: bytes, tail: bytes, length: int, longest: int) -> wire.JSONRPCError:
    """The error for a line of *length* bytes, of which its first and last bytes are known."""
    found = _FIRST.match(head) or _LAST.search(tail)
    known = None if found is None else _REQUEST_ID.validate_json(found[1])
    text = (
        f"BAD_ARGS: the message has {length} bytes, and at most {longest} are read;"
        " nothing was done; send less in one call"
    )
    return _error(wire.INVALID_REQUEST, text, known)


def _error(code: int, text: str, known: int | str | None = None) -> wire.JSONRPCError:
    return wire.JSONRPCError(jsonrpc="2.0", id=known, error=wire.ErrorData(code=code, message=text))
