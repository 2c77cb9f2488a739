"""Jump hosts, the user's own SSH configuration, and many hosts at once."""

import asyncio
from pathlib import Path

import pytest

from agentops.box import Box
from agentops.errors import UsageError
from agentops.hosts import Host, Inventory
from agentops.transport import Ended, NotSent, SshTransport, connector, open_transport
from agentops.transport.fleet import over
from agentops.transport.ssh_config import import_host
from tests.support.boxes import host_of, run_argv

pytestmark = pytest.mark.needs("sshd")


async def test_a_host_behind_a_jump_host_is_reached_through_it(box: Box) -> None:
    with Box() as inner:
        hop = host_of(box, name="bastion")
        target = host_of(inner, "pct:200", name="gpu").model_copy(update={"jump": "bastion"})
        inventory = Inventory({"bastion": hop, "gpu": target})
        transport = connector(inventory)(target)
        ran = await run_argv(transport, "printf", "%s", "through")
        assert ran.completed.stdout == b"through"
        assert target.route()[0] == "jump:bastion"
        await transport.close()
        box.close()
        ran = await run_argv(connector(inventory)(target), "true")
        assert isinstance(ran.answer, NotSent)


async def test_a_host_with_a_jump_host_is_never_reached_without_it(box: Box) -> None:
    target = host_of(box).model_copy(update={"jump": "bastion"})
    with pytest.raises(UsageError, match="needs jump host 'bastion'"):
        open_transport(target)
    circle = Inventory(
        {"bastion": target.model_copy(update={"name": "bastion", "jump": "box"}), "box": target}
    )
    with pytest.raises(UsageError, match="in a circle: box → bastion → box"):
        open_transport(target, circle)


@pytest.mark.needs("ssh")
async def test_an_alias_of_the_ssh_configuration_becomes_a_host(box: Box, tmp_path: Path) -> None:
    at = box.address
    known = tmp_path / "known_hosts"
    known.write_text(f"[{at.address}]:{at.port} {at.host_key}\n")
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu\n  HostName {at.address}\n  Port {at.port}\n  User {at.user}\n"
        f"  IdentityFile {at.key}\n  UserKnownHostsFile {known}\n"
        "Host far\n  HostName 10.0.0.9\n  ProxyJump gpu\n"
    )
    host = await import_host("gpu", config=config)
    assert (host.host_key, host.key, host.tier) == (at.host_key, at.key, "unknown")
    transport = SshTransport(host)
    assert isinstance((await run_argv(transport, "true")).answer, Ended)
    await transport.close()
    far = await import_host("far", config=config)
    assert (far.jump, far.host_key) == ("gpu", None)
    with pytest.raises(UsageError, match="ssh does not accept"):
        await import_host("bad name", config=config)


def names(count: int) -> list[Host]:
    return [Host(name=f"h{n}", transport="local") for n in range(count)]


async def test_a_fleet_never_has_more_at_once_than_asked_and_ends_every_host() -> None:
    now, most = 0, 0
    gate = asyncio.Event()

    async def act(host: Host) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 4:
            gate.set()
        await gate.wait()
        now -= 1
        return host.name

    ends = [(host.name, end) async for host, end in over(names(11), act, at_once=4)]
    assert sorted(ends) == sorted((f"h{n}", f"h{n}") for n in range(11))
    assert most == 4


async def test_a_fleet_that_is_left_starts_no_further_host_and_waits_for_the_started() -> None:
    started: list[str] = []
    recorded: list[str] = []
    forever = asyncio.Event()

    async def act(host: Host) -> str:
        started.append(host.name)
        try:
            if host.name != "h0":
                await forever.wait()
        finally:
            recorded.append(host.name)
        return host.name

    fleet = over(names(9), act, at_once=3)
    assert (await anext(fleet))[1] == "h0"
    await fleet.aclose()
    assert len(started) <= 4
    assert sorted(recorded) == sorted(started)
