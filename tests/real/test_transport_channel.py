"""Trap C16: a persistent channel that cannot be hung, swallowed or lost, and falls back by itself.

What holds for the Python at its far end has to hold for the sh, and the other way round.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest

from agentops.box import Box, ServerOptions
from agentops.box.waiting import wait_for
from agentops.commands.files import FileDigest, FileDigested
from agentops.commands.observing import Observe, Observed
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.transport import Ended, Lost, Request, SshTransport
from tests.support.boxes import Kept, Ran, host_of, observe, run_argv
from tests.support.fakes import put_program

pytestmark = pytest.mark.needs("sshd", "root-namespaces")
OLD_PYTHON = "#!/bin/sh\nexit 177\n"
Way = Callable[..., SshTransport]


async def probe(transport: SshTransport, *argv: str, deadline_ms: int = 8000) -> Ran:
    return await run_argv(transport, *argv, deadline_ms=deadline_ms, repeatable=True)


@pytest.fixture(params=["python", "sh"])
async def way(request: pytest.FixtureRequest, box: Box) -> AsyncIterator[Way]:
    """Ways into the box whose channel speaks Python, or sh because the host's Python is too old."""
    if request.param == "sh":
        for folder in (box.directory / "bin", box.directory / "containers" / "200" / "bin"):
            put_program(folder, "python3", OLD_PYTHON)
    made: list[SshTransport] = []

    def into(*layers: str) -> SshTransport:
        made.append(SshTransport(host_of(box, *layers), channel_after=0))
        return made[-1]

    yield into
    for transport in made:
        if transport.channel is not None:
            assert transport.channel[0] == request.param
        await transport.close()


@pytest.mark.parametrize("layers", [(), ("pct:200",)], ids=["host", "container"])
async def test_c16_no_command_can_hang_or_swallow_the_channel(
    way: Way, layers: tuple[str, ...]
) -> None:
    transport = way(*layers)
    cases: tuple[tuple[tuple[str, ...], int, bytes], ...] = (
        (("printf", "abc"), 0, b"abc"),
        (("cat",), 0, b""),
        (("sh", "-c", "echo 'oops"), 2, b""),
        (("sh", "-c", "exit 3"), 3, b""),
        (("sh", "-c", "kill -9 $$"), 137, b""),
        (("printf", "%s", 'it\'s $HOME `id` "x"\n\\'), 0, b'it\'s $HOME `id` "x"\n\\'),
        (("printf", "%s", "\udcff"), 0, b"\xff"),
        (("sh", "-c", "printf e >&2; read x; echo $?"), 0, b"1\n"),
        (("sh", "-c", "sleep 60 & echo left"), 0, b"left\n"),
        (("sh", "-c", "echo $LC_ALL $LANG $COLUMNS"), 0, b"C\n"),
        (("nosuchtool",), 127, b""),
        (("/etc/passwd",), 126, b""),
    )
    channels = set()
    for argv, status, out in cases * 2:
        ran = await probe(transport, *argv)
        assert (ran.completed.exit_status, ran.out) == (status, out), argv
        channels.add(transport.channel)
    assert len(channels) == 1
    assert None not in channels


async def test_each_request_has_a_session_of_its_own(way: Way) -> None:
    transport = way()
    ask = ("sh", "-c", "cut -d' ' -f6 /proc/$$/stat")
    first, second = [(await probe(transport, *ask)).out for _ in range(2)]
    assert first != second


async def test_a_script_says_the_same_by_every_way(way: Way, box: Box) -> None:
    """Forked from the channel's interpreter, started anew, on a channel of its own: one answer."""
    alone = SshTransport(host_of(box), channel_after=None)
    (box.directory / "still").write_text("still")
    for asked in (FileDigest(path=str(box.directory / "still")), FileDigest(path="/nope")):
        first = await observe(way(), asked, FileDigested)
        kept = way()
        again = [await observe(kept, asked, FileDigested) for _ in range(3)]
        other = await observe(alone, asked, FileDigested)
        assert again == [first] * 3
        assert other == first
    await alone.close()


async def test_the_probe_sees_neither_itself_nor_its_channel(box: Box, way: Way) -> None:
    for layers in ((), ("pct:200",)):
        transport = way(*layers)
        for _ in range(2):
            table = await observe(transport, ListProcesses(), ProcessTable)
            words = [word for row in table.processes for word in row.cmdline]
            assert not [word for word in words if ":agentops" in word or "sysconf" in word]
            if (transport.channel or ("", 0))[0] == "python":
                ours = [row for row in table.processes if "sys.version_info" in str(row.cmdline)]
                assert not ours
        box.start_inside(("sleep", "77"), container="200" if layers else None)
        table = await observe(transport, ListProcesses(), ProcessTable)
        assert [row for row in table.processes if row.cmdline == ("sleep", "77")]


@pytest.mark.parametrize("layers", [(), ("pct:200",)], ids=["host", "container"])
async def test_a_deadline_stops_the_request_and_the_next_one_is_served(
    way: Way, layers: tuple[str, ...]
) -> None:
    transport = way(*layers)
    await probe(transport, "true")
    ran = await probe(transport, "sh", "-c", "sleep 58 & sleep 58", deadline_ms=400)
    assert isinstance(ran.answer, Lost)
    assert ran.answer.reason == "deadline_stopped"
    table = await observe(transport, ListProcesses(), ProcessTable)
    assert not [row for row in table.processes if row.cmdline == ("sleep", "58")]
    assert isinstance((await probe(transport, "true")).answer, Ended)


async def test_a_request_that_ignores_the_terminate_signal_is_killed(way: Way) -> None:
    transport = way()
    await probe(transport, "true")
    ran = await probe(transport, "sh", "-c", "trap '' TERM; sleep 56; sleep 56", deadline_ms=400)
    assert isinstance(ran.answer, Lost)
    table = await observe(transport, ListProcesses(), ProcessTable)
    assert not [row for row in table.processes if row.cmdline == ("sleep", "56")]


async def test_a_far_end_that_dies_loses_its_request_and_no_other(way: Way) -> None:
    transport = way()
    await probe(transport, "true")
    # The first ancestor in another session is the far end: a Python, or the shell before timeout.
    kill = (
        "s=$(cut -d' ' -f6 /proc/$$/stat); p=$$; while [ $(cut -d' ' -f6 /proc/$p/stat) = $s ];"
        " do p=$(cut -d' ' -f4 /proc/$p/stat); done; kill -9 $p; sleep 9"
    )
    ran = await probe(transport, "sh", "-c", kill, deadline_ms=3000)
    assert isinstance(ran.answer, Lost)
    assert isinstance((await probe(transport, "true")).answer, Ended)


async def test_whoever_gives_up_ends_his_request_and_the_next_gets_a_new_channel(
    box: Box, way: Way
) -> None:
    transport = way()
    await probe(transport, "true")
    before = transport.channel
    sink = Kept()
    request = Request(
        ("sh", "-c", "echo on; exec sleep 59"), b"", 20_000, "n" * 32, repeatable=True
    )
    waiting = asyncio.create_task(transport.run(request, sink))
    await asyncio.wait_for(sink.arrived.wait(), 10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert isinstance((await probe(transport, "true")).answer, Ended)
    assert transport.channel != before
    if (transport.channel or ("", 0))[0] == "python":
        # It reads the end of its input even while a request runs.
        def gone() -> bool | None:
            return not [t for t in box.processes() if t.cmdline == ("sleep", "59")] or None

        await asyncio.to_thread(wait_for, gone, 10, "the end of the request")


async def test_requests_at_once_go_beside_the_busy_channel(way: Way) -> None:
    transport = way()
    ran = await asyncio.gather(*(probe(transport, "printf", str(n)) for n in range(12)))
    assert [each.completed.stdout for each in ran] == [str(n).encode() for n in range(12)]


async def test_what_changes_something_never_goes_through_the_channel(way: Way) -> None:
    transport = way()
    assert isinstance((await run_argv(transport, "true")).answer, Ended)
    assert transport.channel is None
    await probe(transport, "true")
    assert transport.channel is not None


@pytest.fixture
async def kept(box: Box) -> AsyncIterator[SshTransport]:
    """A way into the box that opens its channel at once."""
    transport = SshTransport(host_of(box), channel_after=0)
    yield transport
    await transport.close()


async def test_one_look_alone_opens_no_channel_and_the_second_does(ssh: SshTransport) -> None:
    assert isinstance((await probe(ssh, "true")).answer, Ended)
    first = ssh.channel
    assert isinstance((await probe(ssh, "true")).answer, Ended)
    second = ssh.channel
    assert first is None
    assert second is not None
    assert second[0] == "python"


async def test_input_reaches_a_request_in_a_python_channel(kept: SshTransport) -> None:
    data = bytes(range(256)) * 400
    ran = await run_argv(kept, "cat", stdin=data, repeatable=True)
    assert ran.out == data
    assert kept.channel is not None
    everything = Observe(what=("host", "processes", "disk"))
    first, second = [await observe(kept, everything, Observed) for _ in range(2)]
    assert first.host is not None
    assert second.processes is not None
    assert second.problems == first.problems


async def test_a_fault_in_a_script_is_told_as_the_interpreter_would(kept: SshTransport) -> None:
    for text, status, said in (
        ("raise ValueError('no such thing')", 1, b"ValueError: no such thing"),
        ("import sys; sys.exit('bad')", 1, b"bad"),
        ("import sys; sys.exit(7)", 7, b""),
        ("import sys; sys.stdout.write('x')", 0, b""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, b""),
        ("import sys; sys.exit(sys.stdin.read() == '')", 1, b""),
    ):
        ran = await probe(kept, *scripted(text))
        assert ran.completed.exit_status == status, text
        assert said in ran.err
    assert (kept.channel or ("", 0))[0] == "python"


def scripted(text: str) -> tuple[str, ...]:
    """An argv that runs this Python text as our own scripts are run."""
    return (*FileDigest(path="/").argv()[:4], text, "exit 9")


async def test_a_script_in_a_fork_leads_a_session_of_its_own(kept: SshTransport) -> None:
    text = "import os; print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid())"
    assert (await probe(kept, *scripted(text))).out == b"True True\n"
    assert (kept.channel or ("", 0))[0] == "python"


async def test_a_script_whose_far_end_is_killed_ends_by_its_own_alarm(
    box: Box, kept: SshTransport
) -> None:
    def ours() -> list[int]:
        mark = "sys.version_info"
        return [t.outer_pid for t in box.processes() if mark in str(t.cmdline)]

    await probe(kept, "true")
    (far_end,) = ours()
    asking = asyncio.create_task(
        probe(kept, *scripted("import time; time.sleep(300)"), deadline_ms=1000)
    )
    await asyncio.to_thread(wait_for, lambda: len(ours()) == 2 or None, 10, "the script's fork")
    os.kill(far_end, signal.SIGKILL)
    assert isinstance((await asking).answer, Lost)
    assert ours(), "the fork outlives its far end, or there is nothing to show"
    await asyncio.to_thread(wait_for, lambda: not ours() or None, 20, "the script's alarm")


async def test_a_stopped_far_end_is_left_and_its_request_is_lost(
    box: Box, kept: SshTransport
) -> None:
    await probe(kept, "true")
    far_end = next(t for t in box.processes() if "sys.version_info" in str(t.cmdline))
    os.kill(far_end.outer_pid, signal.SIGSTOP)
    ran = await probe(kept, "true", deadline_ms=500)
    assert isinstance(ran.answer, Lost)
    assert ran.answer.reason == "deadline_still_running"
    assert isinstance((await probe(kept, "true")).answer, Ended)
    os.kill(far_end.outer_pid, signal.SIGKILL)


async def test_a_server_with_one_session_serves_all_requests_in_turn() -> None:
    with Box(options=ServerOptions(max_sessions=1), containers=()) as box:
        transport = SshTransport(host_of(box), channel_after=0)
        ran = await asyncio.gather(*(probe(transport, "true") for _ in range(4)))
        assert [type(each.answer) for each in ran] == [Ended] * 4
        await transport.close()
