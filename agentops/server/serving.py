"""Carrying the tools to clients: standard streams, or HTTP on this machine alone.

HTTP binds to the loopback address, wants a token with every request, and refuses foreign origins
and large bodies. Here: the two ways, nothing of what is carried.
"""

import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentops.errors import UsageError
from agentops.server.desk import Ground
from agentops.server.incoming import Lines, standard_input
from agentops.server.protocol import opened

LOOPBACK = "127.0.0.1"
PATH = "/mcp"
REQUEST_BYTES_MAX = 1_048_576
_TOKEN_CHARS_MIN = 32


async def serve_streams(ground: Ground) -> None:
    """Serve one client over standard input and output until it closes them."""
    async with opened(ground) as server, standard_input() as lines:
        # The SDK iterates over the lines and does nothing else with them.
        stream = None if lines is None else cast("anyio.AsyncFile[str]", lines)
        async with (
            stdio_server(stdin=stream) as (incoming, outgoing),
            anyio.create_task_group() as group,
        ):
            if lines is not None:
                group.start_soon(_refuse, lines, outgoing.send)
            await server.run(incoming, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()


async def _refuse(lines: Lines, send: Callable[[SessionMessage], Awaitable[None]]) -> None:
    """Answer what is no message, which the SDK passes over in silence."""
    while True:
        error = await lines.refused.get()
        await send(SessionMessage(error))
        lines.refused.task_done()


async def serve_http(
    ground: Ground, *, port: int, token: str, ready: Callable[[str], None]
) -> None:
    """Serve clients of this machine over streamable HTTP until a signal ends it.

    port 0 takes a free one; *ready* is called with the address once it can be reached.

    Raises:
        UsageError: the port cannot be had.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"--port {port}: {error.strerror}") from error
    taken = listening.getsockname()[1]
    own = [f"{LOOPBACK}:{taken}", f"localhost:{taken}"]
    async with opened(ground) as server:
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=REQUEST_BYTES_MAX,
            transport_security=TransportSecuritySettings(
                allowed_hosts=own, allowed_origins=[f"http://{name}" for name in own]
            ),
        )
        config = uvicorn.Config(
            WithToken(app, token), log_level="warning", access_log=False, ws="none"
        )
        running = _Announced(config, lambda: ready(f"http://{LOOPBACK}:{taken}{PATH}"))
        await running.serve(sockets=[listening])


class _Announced(uvicorn.Server):
    """Says when it can be reached."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        self._ready()


class WithToken:
    """Lets a request through that carries the token; compares in constant time."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 to a request without the token; what is no request passes."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                refused = Response("a bearer token is needed", status_code=401)
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)


def token_in(path: Path) -> str:
    """The token in a file that only its owner can read; made where there is none.

    Raises:
        UsageError: the file can be read by others, or holds too short a token.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(_TOKEN_CHARS_MIN) + "\n", encoding="ascii")
    if path.stat().st_mode & 0o077:
        raise UsageError(f"--token-file {path}: others can read it; chmod 600 {path}")
    token = path.read_text(encoding="ascii").strip()
    if len(token) < _TOKEN_CHARS_MIN:
        raise UsageError(f"--token-file {path}: fewer than {_TOKEN_CHARS_MIN} characters")
    return token
