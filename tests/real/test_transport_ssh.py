"""The SSH transport against a real sshd: what it proves, and what it refuses to claim."""

import asyncio
import secrets
import shutil
from pathlib import Path

import pytest

from agentops.box import ServerOptions
from agentops.transport import (
    Ended,
    Lost,
    NotSent,
    OfferedKey,
    Request,
    SshTransport,
)
from agentops.transport.ssh_connection import offered_key
from tests.support.boxes import Box, Kept, host_of, run_argv

pytestmark = pytest.mark.needs("sshd")


async def test_status_and_streams_arrive_apart(ssh: SshTransport) -> None:
    ran = await run_argv(ssh, "sh", "-c", "printf out; printf err >&2; exit 3")
    assert (ran.completed.exit_status, ran.out, ran.err) == (3, b"out", b"err")


async def test_a_signal_is_the_shells_status(ssh: SshTransport) -> None:
    ran = await run_argv(ssh, "sh", "-c", "kill -TERM $$")
    assert ran.completed.exit_status == 143


async def test_input_arrives_whole_and_then_ends(inside: SshTransport) -> None:
    content = secrets.token_bytes(3_000_000)
    ran = await run_argv(inside, "cat", stdin=content)
    assert ran.out == content


async def test_the_offered_key_is_the_servers(box: Box) -> None:
    host = host_of(box)
    offered = await offered_key(host.model_copy(update={"host_key": None}))
    assert offered == OfferedKey(line=box.address.host_key, fingerprint=host.fingerprint or "")


async def test_without_a_pinned_key_nothing_is_sent(box: Box) -> None:
    transport = SshTransport(host_of(box).model_copy(update={"host_key": None}))
    ran = await run_argv(transport, "true")
    assert isinstance(ran.answer, NotSent)
    assert ran.answer.reason == "host_key_unknown"


async def test_an_unreachable_port_is_not_sent(box: Box, tmp_path: Path) -> None:
    host = host_of(box).model_copy(update={"key": shutil.copy(box.address.key, tmp_path)})
    box.close()
    ran = await run_argv(SshTransport(host), "true")
    assert isinstance(ran.answer, NotSent)
    assert ran.answer.reason == "unreachable"
    assert "Connect call failed" in ran.answer.detail or "refused" in ran.answer.detail


async def test_a_missing_key_file_is_named(box: Box, tmp_path: Path) -> None:
    host = host_of(box).model_copy(update={"key": tmp_path / "id_none"})
    ran = await run_argv(SshTransport(host), "true")
    assert isinstance(ran.answer, NotSent)
    assert ran.answer.reason == "auth"
    assert "id_none" in ran.answer.detail


async def test_a_silent_server_costs_no_more_than_the_deadline(box: Box) -> None:
    released = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        await released.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    host = host_of(box).model_copy(update={"port": port})
    loop = asyncio.get_running_loop()
    start = loop.time()
    ran = await run_argv(SshTransport(host), "true", deadline_ms=400)
    elapsed_s = loop.time() - start
    released.set()
    server.close()
    await server.wait_closed()
    assert isinstance(ran.answer, NotSent)
    assert ran.answer.reason == "deadline"
    assert elapsed_s < 2


async def test_a_connection_is_made_again_after_the_server_closed_it(box: Box) -> None:
    transport = SshTransport(host_of(box))
    await run_argv(transport, "true")
    # The command ends the sshd process that serves this connection, not the listener.
    killed = await run_argv(
        transport,
        "sh",
        "-c",
        'read -r _ _ _ p _ </proc/$(cut -d" " -f4 /proc/$$/stat)/stat; kill -9 $p',
    )
    assert not isinstance(killed.answer, NotSent)
    ran = await run_argv(transport, "true")
    assert isinstance(ran.answer, Ended)
    await transport.close()


async def test_forty_requests_at_once_each_get_their_own_answer(box: Box) -> None:
    transport = SshTransport(host_of(box))

    async def one(number: int) -> bytes:
        ran = await run_argv(transport, "printf", "%s", str(number))
        return ran.completed.stdout

    answers = await asyncio.gather(*(one(number) for number in range(40)))
    assert answers == [str(number).encode() for number in range(40)]
    await transport.close()


async def test_a_server_with_fewer_sessions_teaches_the_limit_and_loses_nothing() -> None:
    with Box(options=ServerOptions(max_sessions=3)) as box:
        transport = SshTransport(host_of(box))
        ran = await asyncio.gather(
            *(run_argv(transport, "sh", "-c", "sleep 0.1") for _ in range(12))
        )
        assert all(isinstance(each.answer, Ended) for each in ran)
        assert transport.sessions_max <= 3
        await transport.close()


async def test_a_request_in_flight_is_lost_when_the_server_dies(box: Box) -> None:
    transport = SshTransport(host_of(box))
    sink = Kept()
    request = Request(("sh", "-c", "echo started; sleep 30"), b"", 20_000, secrets.token_hex(8))
    running = asyncio.create_task(transport.run(request, sink))
    async with asyncio.timeout(5):
        await sink.arrived.wait()
    await asyncio.to_thread(box.close)
    answer = await running
    assert isinstance(answer, Lost)
    assert answer.reason in {"connection_lost", "frame_killed"}
    await transport.close()
