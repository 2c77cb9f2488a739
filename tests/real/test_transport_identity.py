"""Who proves what to whom: certificates of hosts and users, the agent; and the crowd at a door."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box import Box, ServerOptions
from agentops.box.waiting import wait_for
from agentops.hosts import Host
from agentops.transport import Ended, NotSent, SshTransport
from agentops.transport.doors import AT_ONCE_DEFAULT, Doors
from tests.support.boxes import host_of, run_argv
from tests.support.fakes import put_program

PHRASE = "correct horse"
pytestmark = pytest.mark.needs("sshd", "ssh-keygen", "root-namespaces")


def keygen(*words: str | Path) -> None:
    """Run ssh-keygen."""
    subprocess.run(["ssh-keygen", "-q", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


def new_key(path: Path, passphrase: str = "") -> Path:
    """A key pair; the passphrase is empty unless given."""
    keygen("-t", "ed25519", "-N", passphrase, "-C", path.name, "-f", path)
    return path


def public(path: Path) -> str:
    """Type and base64 of a public key's line."""
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def add(key: Path, **environment: str) -> None:
    """Give the agent a key."""
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env={**os.environ, **environment})


@pytest.fixture
def certified(tmp_path: Path) -> Iterator[Box]:
    """A server with a host certificate for 127.0.0.1, that lets in who has one of the user CA."""
    for name in ("host_ca", "user_ca", "server"):
        new_key(tmp_path / name)
    keygen(
        *("-s", tmp_path / "host_ca", "-I", "box", "-h", "-n", "127.0.0.1", "-V", "+1h"),
        tmp_path / "server.pub",
    )
    lines = (
        f"HostKey {tmp_path}/server",
        f"HostCertificate {tmp_path}/server-cert.pub",
        f"TrustedUserCAKeys {tmp_path}/user_ca.pub",
    )
    with Box(options=ServerOptions(config=lines), containers=()) as box:
        yield box


def by_certificate(box: Box, folder: Path, **more: object) -> Host:
    """The box as one knows it who has only the authority's key, and a certificate of its own."""
    at = box.address
    said = {
        "name": "box", "address": at.address, "port": at.port, "user": at.user,
        "host_ca": (public(folder / "host_ca"),), "key": folder / "mine",
    }  # fmt: skip
    return Host.model_validate({**said, **more})


async def end_of(host: Host) -> Ended | NotSent:
    """How `true` ends there."""
    transport = SshTransport(host)
    answer = (await run_argv(transport, "true")).answer
    await transport.close()
    assert isinstance(answer, Ended | NotSent)
    return answer


async def test_a_host_is_believed_by_its_certificate_and_a_user_let_in_by_his(
    certified: Box, tmp_path: Path
) -> None:
    new_key(tmp_path / "mine")
    stranger = await end_of(by_certificate(certified, tmp_path))
    assert isinstance(stranger, NotSent)
    assert stranger.reason == "auth"
    sign = ("-s", tmp_path / "user_ca", "-I", "me", "-n", certified.address.user, "-V", "+1h")
    keygen(*sign, tmp_path / "mine.pub")
    # The certificate lies beside the key, or where the inventory says.
    assert isinstance(await end_of(by_certificate(certified, tmp_path)), Ended)
    moved = (tmp_path / "mine-cert.pub").rename(tmp_path / "elsewhere")
    assert isinstance(await end_of(by_certificate(certified, tmp_path, certificate=moved)), Ended)
    gone = await end_of(by_certificate(certified, tmp_path, certificate=tmp_path / "nope"))
    assert isinstance(gone, NotSent)
    assert gone.detail.endswith(f"certificate {tmp_path}/nope is not there")


async def test_another_authority_or_another_name_is_a_changed_host(
    certified: Box, tmp_path: Path
) -> None:
    new_key(tmp_path / "mine")
    new_key(tmp_path / "other_ca")
    foreign = await end_of(
        by_certificate(certified, tmp_path, host_ca=(public(tmp_path / "other_ca"),))
    )
    assert isinstance(foreign, NotSent)
    assert foreign.reason == "host_key_changed"
    assert "offered a certificate by SHA256:" in foreign.detail
    other_name = await end_of(by_certificate(certified, tmp_path, address="localhost"))
    assert isinstance(other_name, NotSent)
    assert other_name.reason == "host_key_changed"
    assert "certificate does not hold" in other_name.detail


async def test_a_plain_key_does_not_pass_for_a_certificate(box: Box, tmp_path: Path) -> None:
    new_key(tmp_path / "host_ca")
    new_key(tmp_path / "mine")
    plain = await end_of(by_certificate(box, tmp_path))
    assert isinstance(plain, NotSent)
    assert plain.reason == "host_key_changed"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An SSH agent of this test's own, which holds nothing yet."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    wait_for(lambda: socket.exists() or None, 10, "the agent's socket")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    # Default key files of whoever runs this must not help.
    monkeypatch.setenv("HOME", str(tmp_path))
    yield socket
    process.terminate()
    process.wait()


@pytest.mark.needs("ssh-agent", "ssh-add")
async def test_without_a_key_the_agent_is_asked_and_may_be_forbidden(box: Box, agent: Path) -> None:
    keyless = host_of(box).model_copy(update={"key": None})
    empty = await end_of(keyless)
    assert isinstance(empty, NotSent)
    assert f"with the keys of the agent at {agent}" in empty.detail
    add(box.address.key)
    assert isinstance(await end_of(keyless), Ended)
    named = keyless.model_copy(update={"agent": str(agent)})
    assert isinstance(await end_of(named), Ended)
    alone = await end_of(keyless.model_copy(update={"agent": "none"}))
    assert isinstance(alone, NotSent)
    assert "there is no agent" in alone.detail


@pytest.mark.needs("ssh-agent", "ssh-add")
@pytest.mark.usefixtures("agent")
async def test_a_locked_key_file_is_used_through_the_agent_and_no_other_key_is_shown(
    tmp_path: Path,
) -> None:
    locked = new_key(tmp_path / "locked", passphrase=PHRASE)
    others = [new_key(tmp_path / f"other{n}") for n in range(6)]
    with Box(containers=(), options=ServerOptions(config=("MaxAuthTries 2",))) as box:
        (box.directory / "ssh" / "authorized_keys").write_text(public(locked) + "\n")
        host = host_of(box).model_copy(update={"key": locked})
        refused = await end_of(host.model_copy(update={"agent": "none"}))
        assert isinstance(refused, NotSent)
        assert "no agent is there to ask for it" in refused.detail
        askpass = put_program(tmp_path, "askpass", f"#!/bin/sh\necho {PHRASE}\n")
        for key in (*others, locked):
            add(key, SSH_ASKPASS=str(askpass), SSH_ASKPASS_REQUIRE="force")
        # Six keys before the right one would use up all tries.
        assert isinstance(await end_of(host), Ended)


async def test_all_names_of_an_address_share_one_door() -> None:
    doors = Doors()
    one = await doors.of(Host(name="a", address="127.0.0.1", port=22))
    assert await doors.of(Host(name="b", address="127.0.0.1", port=22)) is one
    named = await doors.of(Host(name="c", address="localhost", port=22))
    found = await asyncio.get_running_loop().getaddrinfo("localhost", 22)
    assert await doors.of(Host(name="d", address=str(found[0][4][0]), port=22)) is named
    assert await doors.of(Host(name="e", address="127.0.0.1", port=23)) is not one
    assert await doors.of(Host(name="f", address="127.0.0.1", jump="x")) is not one


async def test_no_more_wait_at_a_door_than_it_takes() -> None:
    waiting, most = 0, 0
    crowd = asyncio.Event()

    async def door(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        if waiting == AT_ONCE_DEFAULT:
            crowd.set()
        await reader.read()
        waiting -= 1
        writer.close()

    server = await asyncio.start_server(door, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    doors = Doors()
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk2TXEh4X/KsUJDxIgUIOJxVTtIllNE+sNV2f1w85mB"
    hosts = [
        Host(name=f"h{n}", address="127.0.0.1", port=port, host_key=key, agent="none")
        for n in range(24)
    ]
    transports = [SshTransport(host, doors=doors) for host in hosts]
    asking = [run_argv(each, "true", deadline_ms=2500) for each in transports]
    ran = await asyncio.gather(*asking)
    assert crowd.is_set()
    assert most == AT_ONCE_DEFAULT
    for each in ran:
        assert isinstance(each.answer, NotSent)
        assert each.answer.reason == "deadline"
    server.close()


async def test_what_one_host_learns_of_a_door_holds_for_all_hosts_behind_it() -> None:
    with Box(options=ServerOptions(max_startups="2:100:2"), containers=()) as box:
        doors = Doors()
        hosts = [host_of(box, name=f"h{n}") for n in range(12)]
        transports = [SshTransport(host, doors=doors) for host in hosts]
        ran = await asyncio.gather(*(run_argv(each, "true") for each in transports))
        assert [type(each.answer) for each in ran] == [Ended] * 12
        assert (await doors.of(hosts[0])).limit < AT_ONCE_DEFAULT
        await asyncio.gather(*(each.close() for each in transports))
