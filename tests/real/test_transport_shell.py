"""Trap C16: a persistent shell that cannot be hung, swallowed or lost, and falls back by itself."""

import asyncio

import pytest

from agentops.box import Box
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.transport import Ended, Lost, SshTransport
from tests.support.boxes import Ran, host_of, observe, run_argv

pytestmark = pytest.mark.needs("sshd", "root-namespaces")


async def probe(transport: SshTransport, *argv: str, deadline_ms: int = 5000) -> Ran:
    return await run_argv(transport, *argv, deadline_ms=deadline_ms, repeatable=True)


@pytest.mark.parametrize("layers", [(), ("pct:200",)], ids=["host", "container"])
async def test_c16_no_command_can_hang_or_swallow_the_shell(
    box: Box, layers: tuple[str, ...]
) -> None:
    transport = SshTransport(host_of(box, *layers))
    cases: tuple[tuple[tuple[str, ...], int, bytes], ...] = (
        (("printf", "abc"), 0, b"abc"),
        (("cat",), 0, b""),
        (("sh", "-c", "echo 'oops"), 2, b""),
        (("sh", "-c", "exit 3"), 3, b""),
        (("printf", 'it\'s $HOME `id` "x"\n\\'), 0, b'it\'s $HOME `id` "x"\n\\'),
        (("sh", "-c", "printf e >&2; read x; echo $?"), 0, b"1\n"),
        (("sh", "-c", "sleep 60 & echo left"), 0, b"left\n"),
        (("nosuchtool",), 127, b""),
    )
    shells = set()
    for argv, status, out in cases * 2:
        ran = await probe(transport, *argv)
        assert (ran.completed.exit_status, ran.out) == (status, out), argv
        shells.add(transport.shell_id)
    assert len(shells) == 1
    assert None not in shells
    await transport.close()


async def test_each_request_has_a_session_of_its_own(ssh: SshTransport) -> None:
    ask = ("sh", "-c", "cut -d' ' -f6 /proc/$$/stat")
    first, second = [(await probe(ssh, *ask)).out for _ in range(2)]
    assert first != second


async def test_the_probe_in_the_shell_does_not_see_itself(ssh: SshTransport) -> None:
    for _ in range(2):
        table = await observe(ssh, ListProcesses(), ProcessTable)
        words = [word for row in table.processes for word in row.cmdline]
        assert not [word for word in words if ":agentops" in word]


async def test_a_deadline_stops_the_request_and_the_next_one_is_served(
    box: Box,
) -> None:
    transport = SshTransport(host_of(box, "pct:200"))
    await probe(transport, "true")
    ran = await probe(transport, "sleep", "58", deadline_ms=400)
    assert isinstance(ran.answer, Lost)
    assert ran.answer.reason == "deadline_stopped"
    table = await observe(transport, ListProcesses(), ProcessTable)
    assert not [row for row in table.processes if row.cmdline == ("sleep", "58")]
    assert isinstance((await probe(transport, "true")).answer, Ended)
    await transport.close()


async def test_a_shell_that_dies_loses_its_request_and_no_other(ssh: SshTransport) -> None:
    await probe(ssh, "true")
    # The request's parent in this session is the persistent shell.
    kill = "kill -9 $(cut -d' ' -f4 /proc/$(cut -d' ' -f4 /proc/$$/stat)/stat); sleep 9"
    ran = await probe(ssh, "sh", "-c", kill, deadline_ms=3000)
    assert isinstance(ran.answer, Lost | Ended)
    assert isinstance((await probe(ssh, "true")).answer, Ended)


async def test_requests_at_once_go_beside_the_busy_shell(ssh: SshTransport) -> None:
    ran = await asyncio.gather(*(probe(ssh, "printf", str(n)) for n in range(12)))
    assert [each.completed.stdout for each in ran] == [str(n).encode() for n in range(12)]


async def test_what_changes_something_never_goes_through_the_shell(ssh: SshTransport) -> None:
    assert isinstance((await run_argv(ssh, "true")).answer, Ended)
    assert ssh.shell_id is None
    await probe(ssh, "true")
    assert ssh.shell_id is not None
