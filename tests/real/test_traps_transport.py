"""Traps C: connections, shells, layers. Each test is named by the trap's id."""

import asyncio
import resource
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentops.box import Box, ServerOptions
from agentops.commands import COMMANDS
from agentops.commands.base import Completed, Malformed
from agentops.commands.host_probe import HostProbed, ProbeHost
from agentops.commands.launch import Launch, Launched
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.script import ScriptCommand
from agentops.commands.waiting import ProcessAbsent, WaitUntil
from agentops.hosts import Layer
from agentops.transport import Ended, Lost, NotSent, Request, SshTransport
from agentops.transport.ssh_connection import KEEPALIVE_MISSED_MAX, KEEPALIVE_S
from tests.support.boxes import Counting, Kept, host_of, observe, run_argv
from tests.support.fakes import put_program
from tests.support.goldens import any_command

pytestmark = pytest.mark.needs("sshd", "root-namespaces")


async def test_c01_bytes_that_are_no_text_lose_nothing(ssh: SshTransport) -> None:
    raw, other = await asyncio.gather(
        run_argv(ssh, "printf", r"ok\377\376bad\n"), run_argv(ssh, "printf", "sibling")
    )
    assert raw.completed.stdout == b"ok\xff\xfebad\n"
    assert other.completed.stdout == b"sibling"
    assert (await run_argv(ssh, "true")).completed.exit_status == 0


async def test_c02_a_launch_answers_while_the_job_runs_on(box: Box, inside: SshTransport) -> None:
    log = str(box.directory / "c02.log")
    job = Launch(argv=("sleep", "60"), cwd="/", log=log, launch_id="c02")
    async with asyncio.timeout(5):
        launched = await observe(inside, job, Launched)
        # And a command that leaves a child behind on its own streams does not wait for it.
        ran = await run_argv(inside, "sh", "-c", "sleep 60 & echo said")
    assert launched.started
    assert ran.completed.stdout == b"said\n"


@pytest.mark.parametrize("layers", [(), ("pct:200",)], ids=["host", "container"])
async def test_c03_a_deadline_stops_the_command_and_says_so(
    box: Box, layers: tuple[str, ...]
) -> None:
    transport = SshTransport(host_of(box, *layers))
    late = box.directory / "late"
    ran = await run_argv(transport, "sh", "-c", f"sleep 2; touch {late}", deadline_ms=400)
    assert isinstance(ran.answer, Lost)
    assert ran.answer.reason == "deadline_stopped"
    table = await observe(transport, ListProcesses(), ProcessTable)
    assert not [row for row in table.processes if row.cmdline == ("sleep", "2")]
    assert not late.exists()
    await transport.close()


async def test_c03_a_command_that_escapes_the_signals_is_reported_as_still_running(
    box: Box,
) -> None:
    # Its own session hides it from the frame's group, and it holds the frame's streams open.
    transport = SshTransport(host_of(box))
    escape = "trap '' TERM; kill -9 $PPID; exec setsid -w sleep 31"
    ran = await run_argv(transport, "sh", "-c", escape, deadline_ms=500)
    assert isinstance(ran.answer, Lost)
    assert ran.answer.reason == "deadline_still_running"
    table = await observe(transport, ListProcesses(), ProcessTable)
    assert [row for row in table.processes if row.cmdline == ("sleep", "31")]
    await transport.close()


@asynccontextmanager
async def wire(box: Box) -> AsyncIterator[tuple[int, asyncio.Event, list[asyncio.StreamWriter]]]:
    """A TCP relay to the box's server that can be cut, or made to swallow everything."""
    swallow = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not swallow.is_set():
                writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", box.address.port)
        writers.extend((writer, back))
        await asyncio.gather(pour(reader, back), pour(there, writer), return_exceptions=True)

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], swallow, writers
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def test_c04_a_dead_connection_costs_one_deadline_and_is_not_used_again(box: Box) -> None:
    async with wire(box) as (port, swallow, _):
        transport = SshTransport(host_of(box).model_copy(update={"port": port}))
        assert isinstance((await run_argv(transport, "true")).answer, Ended)
        swallow.set()
        ran = await run_argv(transport, "true", deadline_ms=400)
        assert isinstance(ran.answer, NotSent | Lost)
        swallow.clear()
        ran = await run_argv(transport, "true", deadline_ms=5000)
        assert isinstance(ran.answer, Ended)
        await transport.close()


def test_c05_a_wait_that_would_be_cut_is_refused_and_not_shortened() -> None:
    condition = ProcessAbsent.model_construct(identities=())
    with pytest.raises(ValidationError, match="less than or equal to 45000"):
        WaitUntil.model_validate({"condition": condition, "timeout_ms": 240_000})
    wait = any_command("wait_until")
    assert isinstance(wait, WaitUntil)
    assert wait.deadline() > wait.timeout_ms


async def test_c06_what_ssh_calls_255_is_six_different_things(box: Box, tmp_path: Path) -> None:
    host = host_of(box)
    other_key = asyncio.to_thread(_new_key, tmp_path)
    cases = {
        "unreachable": host.model_copy(update={"port": _closed_port()}),
        "auth": host.model_copy(update={"key": await other_key}),
        "host_key_changed": host.model_copy(update={"host_key": _other_host_key()}),
    }
    for reason, changed in cases.items():
        ran = await run_argv(SshTransport(changed), "true")
        assert isinstance(ran.answer, NotSent), reason
        assert ran.answer.reason == reason
    name = host.model_copy(update={"address": "no-such-host.invalid"})
    ran = await run_argv(SshTransport(name), "true")
    assert isinstance(ran.answer, NotSent)
    transport = SshTransport(host)
    assert (await run_argv(transport, "sh", "-c", "exit 255")).completed.exit_status == 255
    killed = await run_argv(transport, "sh", "-c", "kill -9 0")
    assert isinstance(killed.answer, Lost)
    assert killed.answer.reason == "frame_killed"
    await transport.close()


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _new_key(folder: Path) -> Path:
    with Box(containers=()) as other:
        return Path(shutil.copy(other.address.key, folder / "other_key"))


def _other_host_key() -> str:
    with Box(containers=()) as other:
        return other.address.host_key


async def test_c07_requests_beyond_max_sessions_wait_and_none_fails() -> None:
    with Box(options=ServerOptions(max_sessions=4)) as box:
        transport = SshTransport(host_of(box), sessions_max=14)
        ran = await asyncio.gather(*(run_argv(transport, "sleep", "0.05") for _ in range(14)))
        assert [type(each.answer) for each in ran] == [Ended] * 14
        assert transport.sessions_max <= 4
        await transport.close()


async def test_c08_connections_that_the_server_drops_early_are_made_again() -> None:
    with Box(options=ServerOptions(max_startups="2:100:2")) as box:
        transports = [SshTransport(host_of(box)) for _ in range(8)]
        ran = await asyncio.gather(*(run_argv(each, "true") for each in transports))
        assert [type(each.answer) for each in ran] == [Ended] * 8
        await asyncio.gather(*(each.close() for each in transports))


@pytest.mark.parametrize("layers", [(), ("pct:200",)], ids=["host", "container"])
async def test_c09_a_command_that_reads_finds_its_input_closed(
    box: Box, layers: tuple[str, ...]
) -> None:
    transport = SshTransport(host_of(box, *layers))
    for argv in (
        ("cat",),
        ("sh", "-c", "read x; echo $?"),
        ("sh", "-c", "while read l; do :; done"),
    ):
        ran = await run_argv(transport, *argv, deadline_ms=4000)
        assert isinstance(ran.answer, Ended), argv
    await transport.close()


async def test_c10_what_start_up_files_print_is_preamble_and_not_data(box: Box) -> None:
    (box.directory / "home" / ".bashrc").write_text("echo 'Welcome to gpu1!'; echo noise >&2\n")
    transport = SshTransport(host_of(box))
    ran = await run_argv(transport, "nproc")
    assert ran.completed.stdout.strip().isdigit()
    assert isinstance(ran.answer, Ended)
    # Whether a login shell reads .bashrc depends on the shell; data must be clean either way.
    assert ran.answer.preamble in {b"", b"Welcome to gpu1!\nnoise\n"}
    await transport.close()


async def test_c11_the_start_up_files_tax_is_measured(box: Box, ssh: SshTransport) -> None:
    (box.directory / "home" / ".bashrc").write_text("sleep 0.15\n")
    plain = await observe(ssh, ProbeHost(), HostProbed)
    assert plain.shell_tax_us is None
    seen = await observe(ssh, ProbeHost(measure_shell=True), HostProbed)
    assert seen.shell_tax_us is not None
    if seen.login_shell == "/bin/bash":
        assert seen.shell_tax_us > 100_000


async def test_c12_there_is_no_terminal_to_cut_or_merge_anything() -> None:
    with Box(environment={"COLUMNS": "80"}) as box:
        long = "x" * 1400
        box.start_inside(("sh", "-c", "sleep 61; :", long))
        transport = SshTransport(host_of(box))
        table = await observe(transport, ListProcesses(), ProcessTable)
        assert [row for row in table.processes if long in row.cmdline]
        ran = await run_argv(transport, "sh", "-c", "tty; printf 'a\\n'; printf e >&2")
        assert (ran.out, ran.err) == (b"not a tty\na\n", b"e")
        await transport.close()


async def test_c13_a_banner_is_not_data() -> None:
    options = ServerOptions(banner="AUTHORIZED USERS ONLY\n0 processes found\n")
    with Box(options=options) as box:
        transport = SshTransport(host_of(box))
        ran = await run_argv(transport, "printf", "data")
        assert (ran.out, ran.err) == (b"data", b"")
        await transport.close()


async def test_c14_variables_are_expanded_by_nobody_on_the_way(inside: SshTransport) -> None:
    ran = await run_argv(inside, "printf", "%s\n", "$HOME", "`id`", "it's", '"q"', "$(id)")
    assert ran.out == b'$HOME\n`id`\nit\'s\n"q"\n$(id)\n'


@pytest.mark.parametrize(
    "name", sorted(n for n, c in COMMANDS.items() if c.effect != "observes" and n != "run_argv")
)
def test_c15_no_argument_stands_in_shell_text(name: str) -> None:
    command = any_command(name)
    assert isinstance(command, ScriptCommand)
    argv = command.argv()
    text = [argv[2], argv[4], argv[5]]
    for argument in command.script_arguments():
        # A verb of the script's own stands there; whatever a caller chose must not.
        assert argument.isalpha() or all(argument not in part for part in text if argument[1:])


SUDO = """
#!/bin/sh
# As sudo 1.9 says it without a terminal and without a cached password.
echo 'sudo: a password is required' >&2
exit 1
"""


async def test_c17_a_refused_sudo_is_a_layer_down_and_not_a_status_of_the_command(
    box: Box,
) -> None:
    put_program(box.directory / "bin", "sudo", SUDO)
    transport = SshTransport(host_of(box, "sudo:root"))
    ran = await run_argv(transport, "true")
    assert isinstance(ran.answer, NotSent)
    assert ran.answer.reason == "layer_down"
    assert "a password is required" in ran.answer.detail
    await transport.close()


async def test_c18_a_changed_host_key_names_both_fingerprints_and_changes_no_pin(
    box: Box,
) -> None:
    pinned = host_of(box).model_copy(update={"host_key": await asyncio.to_thread(_other_host_key)})
    transport = SshTransport(pinned)
    for _ in range(2):
        ran = await run_argv(transport, "true")
        assert isinstance(ran.answer, NotSent)
        assert ran.answer.reason == "host_key_changed"
        for fingerprint in (pinned.fingerprint, host_of(box).fingerprint):
            assert fingerprint is not None
            assert fingerprint in ran.answer.detail


async def test_c19_small_packets_are_not_delayed(ssh: SshTransport) -> None:
    connection = await ssh.connection()
    assert not isinstance(connection, NotSent)
    sock = connection.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_c20_two_hundred_megabytes_pass_in_bounded_memory(ssh: SshTransport) -> None:
    await run_argv(ssh, "true")
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sink = Counting()
    request = Request(("head", "-c", "200000000", "/dev/zero"), b"", 60_000, "c20")
    assert isinstance(await ssh.run(request, sink), Ended)
    assert sink.length == 200_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib <= 32 * 1024


async def test_c22_a_connection_cut_in_the_middle_is_lost_and_never_repeated(box: Box) -> None:
    assert KEEPALIVE_S * KEEPALIVE_MISSED_MAX <= 60
    count = box.directory / "count"
    async with wire(box) as (port, _, writers):
        transport = SshTransport(host_of(box).model_copy(update={"port": port}))
        sink = Kept()
        script = f"echo x >>{count}; echo started; sleep 20"
        request = Request(("sh", "-c", script), b"", 15_000, "c22")
        running = asyncio.create_task(transport.run(request, sink))
        async with asyncio.timeout(5):
            await sink.arrived.wait()
        for writer in writers:
            writer.transport.abort()
        answer = await running
        assert isinstance(answer, Lost)
        assert answer.reason == "connection_lost"
        await transport.close()
    assert count.read_text() == "x\n"


async def test_c23_a_command_that_cuts_its_own_connection_is_verified_over_a_new_one(
    ssh: SshTransport,
) -> None:
    # The parent of the frame is the sshd process that serves this connection.
    cut = "kill -9 $(cut -d' ' -f4 /proc/$(cut -d' ' -f6 /proc/$$/stat)/stat); sleep 9"
    ran = await run_argv(ssh, "sh", "-c", cut, deadline_ms=5000)
    assert isinstance(ran.answer, Lost)
    assert (await run_argv(ssh, "true")).completed.exit_status == 0


def test_c24_noise_on_stderr_makes_no_failure() -> None:
    command = any_command("list_processes")
    noise = b"perl: warning: Setting locale failed.\nperl: warning: Falling back to ...\n"
    answer = b'{"done": 0}'
    clean = command.parse(Completed(0, answer, b""))
    noisy = command.parse(Completed(0, answer, noise))
    assert isinstance(clean, Malformed)
    assert noisy == clean


async def test_c24_no_locale_of_ours_is_sent(ssh: SshTransport) -> None:
    ran = await run_argv(ssh, "sh", "-c", "env | grep -E '^(LC_|LANG)' | sort")
    assert ran.out == b"LC_ALL=C\n"


async def test_c25_each_layers_path_is_recorded_as_it_is(
    ssh: SshTransport, inside: SshTransport
) -> None:
    outside = await observe(ssh, ProbeHost(), HostProbed)
    within = await observe(inside, ProbeHost(), HostProbed)
    assert "/usr/local/bin" in outside.path
    assert "/usr/local/bin" not in within.path
    assert within.path[1:] == ("/sbin", "/bin", "/usr/sbin", "/usr/bin")
    ran = await run_argv(inside, "nosuchtool")
    assert ran.completed.exit_status == 127


async def test_c26_a_stopped_container_is_a_layer_down_before_anything_ran(box: Box) -> None:
    transport = SshTransport(host_of(box, "pct:200"))
    assert isinstance((await run_argv(transport, "true")).answer, Ended)
    box.stop_container("200")
    ran = await run_argv(transport, "true")
    assert isinstance(ran.answer, NotSent)
    assert (ran.answer.reason, "not running" in ran.answer.detail) == ("layer_down", True)
    missing = SshTransport(
        host_of(box).model_copy(update={"layers": (Layer.from_text("pct:999"),)})
    )
    ran = await run_argv(missing, "true")
    assert isinstance(ran.answer, NotSent)
    assert "does not exist" in ran.answer.detail
    await asyncio.gather(transport.close(), missing.close())
