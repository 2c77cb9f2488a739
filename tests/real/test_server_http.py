"""The HTTP side refuses whom it does not know; the server ends in order however it is told to."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentops.errors import UsageError
from agentops.server.serving import token_in
from journal import Reader
from tests.support.agents import Served, over_http, served
from tests.support.command_line import User, user

CALL = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def somebody(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a project that knows this machine."""
    who = user(tmp_path_factory.mktemp("http"))
    settings = '[journal]\npath = "ops.journal"\n[hosts.here]\ntransport = "local"\ntier = "dev"\n'
    (who.folder / "agentops.toml").write_text(settings)
    return who


@pytest.fixture(scope="module")
def server(somebody: User) -> Iterator[Served]:
    """One server for all of these."""
    with served(somebody) as running:
        yield running


def posted(server: Served, body: bytes | None = None, **headers: str) -> int:
    """The status of one request."""
    sent = {"Authorization": f"Bearer {server.token}", **ACCEPT} | headers
    sent = {name.replace("_", "-"): value for name, value in sent.items() if value}
    content = json.dumps(CALL).encode() if body is None else body
    answer = httpx2.post(
        server.address, content=content, headers={"Content-Type": "application/json"} | sent,
        timeout=30,
    )  # fmt: skip
    return answer.status_code


def test_a_request_is_refused_without_the_token_or_from_a_foreign_origin_or_too_large(
    server: Served,
) -> None:
    assert posted(server, Authorization="") == 401
    assert posted(server, Authorization="Bearer wrong") == 401
    assert posted(server, Authorization=f"bearer{server.token}") == 401
    assert posted(server, Origin="https://evil.example") == 403
    assert posted(server, Host="evil.example") == 421
    assert posted(server, b'{"x": "' + b"y" * 1_100_000 + b'"}') == 413
    assert posted(server, b"not json") == 400
    assert posted(server, Origin=server.address.removesuffix("/mcp")) not in {401, 403, 421}


def test_it_listens_on_the_loopback_address_only(server: Served) -> None:
    port = int(server.address.rpartition(":")[2].partition("/")[0])
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    wanted = f":{port:04X}"
    addresses = {
        row.split()[1]
        for row in table
        if row.split()[1].endswith(wanted) and row.split()[3] == "0A"
    }
    assert addresses == {f"0100007F{wanted}"}
    assert wanted not in Path("/proc/net/tcp6").read_text()


async def test_clients_of_one_server_are_told_apart_in_the_journal(
    server: Served, somebody: User
) -> None:
    async with over_http(server) as one, over_http(server, mode="legacy") as two:
        for agent in (one, two):
            seen = await agent.call("observe", host="here", what=["host"])
            assert seen["proof"]["exit_status"] == 0
    intents = list(Reader.open(somebody.folder / "ops.journal").events(kinds={"command_intended"}))
    assert {(e.actor.kind, e.actor.id) for e in intents} == {("agent", "test-agent")}
    assert all(event.actor.on_behalf_of for event in intents)


def test_a_token_is_made_for_its_owner_alone_and_one_that_others_can_read_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state" / "token"
    token = token_in(path)
    assert token_in(path) == token
    assert len(token) >= 32
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        token_in(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(UsageError, match="fewer"):
        token_in(path)


def test_a_port_that_is_taken_is_told_in_one_line(somebody: User) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        token = somebody.folder / "token"
        said = somebody.run("mcp", "--http", "--port", str(port), "--token-file", token)
        said.refused(2, f"--port {port}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_whose_streams_are_open_and_the_session_is_closed(
    tmp_path: Path, number: signal.Signals
) -> None:
    who = user(tmp_path)
    (who.folder / "agentops.toml").write_text('[journal]\npath = "ops.journal"\n')
    hello: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with who.start("mcp", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(hello).encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline()
            process.send_signal(number)
            assert process.wait(timeout=60) == 128 + number
        finally:
            process.kill()
    journal = who.folder / "ops.journal"
    assert list(Reader.open(journal).events(kinds={"session_ended"}))


def test_a_client_that_leaves_ends_its_server(tmp_path: Path) -> None:
    who = user(tmp_path)
    (who.folder / "agentops.toml").write_text('[journal]\npath = "ops.journal"\n')
    process = who.start("mcp", stdin=subprocess.PIPE)
    long = b'{"x": "' + b"y" * 3_000_000 + b'"}\n'
    out, err = process.communicate(b"nonsense\n" + long + b"\n" + b"half a line", timeout=120)
    assert process.returncode == 0, err
    assert b"Traceback" not in err
    assert b"nonsense" not in out
    assert b"yyyy" not in out
