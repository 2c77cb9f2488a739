"""A coding agent's side: the SDK's client in this process, ``agentops mcp`` in another.

Here: starting the server as a client's configuration would, over both transports, and calling
tools. What an agent does with them stands in the tests.
"""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as wire
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from agentops.box.waiting import wait_for
from tests.support.command_line import User

CLIENT = wire.Implementation(name="test-agent", version="1")


@dataclass(frozen=True, slots=True)
class Agent:
    """A connected client."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; what it says, with text and structure holding the same facts."""
        result = await self.client.call_tool(tool, arguments)
        return facts(result)

    async def toward(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool again and again, as it says, until it is no longer under way."""
        for _ in range(20):
            said = await self.call(tool, **arguments)
            if "still being worked on" not in said["summary"]:
                return said
        raise AssertionError(f"{tool} with {arguments} never came to an end")


def facts(result: wire.CallToolResult) -> dict[str, Any]:
    """The structured content; fails the test if the text does not hold the same."""
    (block,) = result.content
    assert isinstance(block, wire.TextContent)
    first, _, rest = block.text.partition("\n")
    said = result.structured_content
    assert isinstance(said, dict)
    assert json.loads(rest) == said
    assert first.endswith(said["summary"])
    assert result.is_error == ("error" in said)
    return said


@asynccontextmanager
async def over_streams(user: User, *options: str, **client: Any) -> AsyncIterator[Agent]:
    """An agent that started the server itself and talks over its streams."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentops", "mcp", *options],
        env=user.environ,
        cwd=user.folder,
    )
    with (user.folder / "mcp.log").open("a") as log:
        transport = stdio_client(parameters, errlog=log)
        settings: dict[str, Any] = {"client_info": CLIENT, "read_timeout_seconds": 120.0}
        async with Client(transport, **(settings | client)) as connected:
            yield Agent(connected)


@dataclass(frozen=True, slots=True)
class Served:
    """A server over HTTP: its process, address and token."""

    process: subprocess.Popen[bytes]
    address: str
    token: str


@contextmanager
def served(user: User, *options: str) -> Iterator[Served]:
    """``agentops mcp --http`` on a free port, ended in order."""
    token = user.folder / "token"
    log = user.folder / "http.log"
    with log.open("wb") as said:
        process = user.start(
            "mcp", "--http", "--port", "0", "--token-file", token, *options, stderr=said,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def address() -> str | None:
        assert process.poll() is None, log.read_text()
        found = re.search(r"serving (http://[^\s;]+)", log.read_text())
        return None if found is None else found[1]

    try:
        yield Served(process, wait_for(address, 60, "the server's address"), _read(token))
    finally:
        process.terminate()
        process.wait(timeout=60)


def _read(path: Path) -> str:
    return path.read_text().strip()


@asynccontextmanager
async def over_http(served_: Served, **client: Any) -> AsyncIterator[Agent]:
    """An agent of a server that runs already."""
    headers = {"Authorization": f"Bearer {served_.token}"}
    timeout = httpx2.Timeout(120.0)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        transport = streamable_http_client(served_.address, http_client=http)
        settings: dict[str, Any] = {"client_info": CLIENT, "read_timeout_seconds": 120.0}
        async with Client(transport, **(settings | client)) as connected:
            yield Agent(connected)
