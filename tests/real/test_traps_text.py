"""Traps E and F, and the samples of text: captured words, listings, terminals."""

from pathlib import Path

import pytest

from agentops.box import Box
from agentops.commands.files import LogTail, TailLog
from agentops.commands.host_probe import HostProbed, ProbeHost
from agentops.commands.launch import Launch, Launched
from agentops.commands.processes import ListProcesses, ProcessRow, ProcessTable
from agentops.commands.run_argv import RunArgv
from agentops.commands.tmux import (
    InterruptSent,
    Pane,
    PaneCaptured,
    TmuxCapture,
    TmuxInterrupt,
    TmuxSeen,
    TmuxSessions,
    server_state,
)
from agentops.commands.waiting import ProcessAbsent, WaitEnded, WaitUntil
from agentops.transport import SshTransport
from tests.support.boxes import host_of, observe, run_argv
from tests.support.twins import shell_twin_argv

pytestmark = pytest.mark.needs("sshd", "root-namespaces")
SAMPLES = Path(__file__).parents[1] / "support" / "samples"
TERMINAL = {"TMUX_TMPDIR": "@box@"}


@pytest.mark.needs("busybox")
async def test_e01_a_host_with_nothing_but_busybox_lists_the_same_processes(box: Box) -> None:
    applets = box.directory / "applets"
    applets.mkdir()
    busybox = box.run_inside(("sh", "-c", "command -v busybox")).stdout.decode().strip()
    for name in box.run_inside((busybox, "--list")).stdout.decode().split():
        (applets / name).symlink_to(busybox)
    job = box.start_inside(("sleep", "70"), env={"AGENTOPS_LAUNCH_ID": "e01"})
    transport = SshTransport(host_of(box))
    command = ListProcesses()
    twin = shell_twin_argv(command)
    assert twin is not None
    script = f'PATH={applets}; export PATH; exec sh -c "$@"'
    ran = await run_argv(transport, "sh", "-c", script, "sh", *twin[2:])
    bare = command.parse(ran.completed)
    assert isinstance(bare, ProcessTable), bare
    full = await observe(transport, command, ProcessTable)

    def row_of(table: ProcessTable) -> ProcessRow:
        return next(row for row in table.processes if table.identity(row) == job.identity)

    same = {"rss_kib", "cpu_ticks"}
    assert row_of(bare).model_dump(exclude=same) == row_of(full).model_dump(exclude=same)
    await transport.close()


async def test_e02_a_long_command_line_is_not_cut_at_the_terminals_width(
    box: Box, ssh: SshTransport
) -> None:
    long = "y" * 1371
    job = box.start_inside(("sh", "-c", "sleep 71; :", long), env={"COLUMNS": "80"})
    table = await observe(ssh, ListProcesses(), ProcessTable)
    row = next(row for row in table.processes if table.identity(row) == job.identity)
    assert row.cmdline[-1] == long


def test_e03_rows_have_no_columns_to_run_into_each_other() -> None:
    row = ProcessRow.model_fields
    assert row["uid"].annotation is not str
    assert row["rss_kib"].annotation is not str
    assert "user" not in row


def test_e04_ages_are_ticks_of_one_clock_and_no_dates() -> None:
    assert "start_ticks" in ProcessRow.model_fields
    assert "uptime_ticks" in ProcessTable.model_fields


async def test_e05_memory_is_read_as_numbers_in_any_locale() -> None:
    with Box(environment={"LC_ALL": "de_DE.UTF-8"}) as box:
        transport = SshTransport(host_of(box))
        seen = await observe(transport, ProbeHost(), HostProbed)
        assert 0 < seen.memory_available_kib <= seen.memory_total_kib
        await transport.close()


async def test_e07_control_characters_arrive_as_data(box: Box, inside: SshTransport) -> None:
    log = box.directory / "forged.log"
    log.write_bytes(b"step=5\x1b]0;owned\x07\x1b[2K\rstep=9999 done\n\xff\n")
    seen = await observe(inside, TailLog(path=str(log)), LogTail)
    assert seen.lines == ("step=5\x1b]0;owned\x07\x1b[2K\rstep=9999 done", "\\xff")
    # As JSON, which is how it is journalled and handed on, no control byte stands raw.
    assert not [c for c in seen.model_dump_json() if ord(c) < 0x20]


@pytest.mark.needs("tmux")
async def test_f01_a_launch_is_known_by_a_new_process_and_not_by_keys(box: Box) -> None:
    transport = SshTransport(host_of(box))
    log = str(box.directory / "f01.log")
    job = Launch(argv=("sleep", "72"), cwd="/", log=log, launch_id="f01")
    launched = await observe(transport, job, Launched)
    table = await observe(transport, ListProcesses(), ProcessTable)
    assert launched.identity in [table.identity(row) for row in table.processes]
    await transport.close()


async def panes_of(transport: SshTransport) -> tuple[Pane, ...]:
    return (await observe(transport, TmuxSessions(), TmuxSeen)).panes


@pytest.mark.needs("tmux")
async def test_f01_an_interrupt_that_copy_mode_would_swallow_is_refused() -> None:
    with Box(environment=TERMINAL) as box:
        transport = SshTransport(host_of(box))
        await run_argv(transport, "tmux", "new-session", "-d", "-s", "train", "sleep 73")
        await run_argv(transport, "tmux", "copy-mode", "-t", "train")
        pane = (await panes_of(transport))[0]
        assert pane.foreground is not None
        interrupt = TmuxInterrupt(pane_id=pane.pane_id, foreground=pane.foreground)
        sent = await observe(transport, interrupt, InterruptSent)
        assert (sent.sent, sent.refusal) == (False, "pane_in_mode")
        keys = ("tmux", "send-keys", "-t", "train", "C-c")
        # tmux itself says 0, and the process lives.
        assert (await run_argv(transport, *RunArgv(argv=keys).argv())).completed.exit_status == 0
        wait = WaitUntil(condition=ProcessAbsent(identities=(pane.foreground,)), timeout_ms=200)
        assert not (await observe(transport, wait, WaitEnded)).met
        await transport.close()


def test_f02_every_way_to_say_that_there_is_no_server_is_one_state() -> None:
    texts = (SAMPLES / "tmux_errors_and_traps.txt").read_text().splitlines()
    for words in ("no server running", "error connecting to"):
        line = next(text for text in texts if text.startswith(words))
        assert server_state(1, line) == "no_server"
    lost = next(text for text in texts if text.startswith("can't find window"))
    assert server_state(1, lost) == "failed"
    assert server_state(0, "") == "running"


@pytest.mark.needs("tmux")
async def test_f03_an_interrupt_reaches_the_foreground_and_nobody_else() -> None:
    with Box(environment=TERMINAL) as box:
        transport = SshTransport(host_of(box))
        script = "set -m; sleep 74 & sleep 75; sleep 76"
        await run_argv(transport, "tmux", "new-session", "-d", "-s", "t", f"bash -c '{script}'")
        table = await observe(transport, ListProcesses(), ProcessTable)
        rows = {
            row.cmdline[-1]: table.identity(row) for row in table.processes if row.comm == "sleep"
        }
        pane = (await panes_of(transport))[0]
        assert pane.foreground == rows["75"]
        interrupt = TmuxInterrupt(pane_id=pane.pane_id, foreground=rows["75"])
        assert (await observe(transport, interrupt, InterruptSent)).sent
        wait = WaitUntil(condition=ProcessAbsent(identities=(rows["75"],)), timeout_ms=3000)
        assert (await observe(transport, wait, WaitEnded)).met
        wait = WaitUntil(condition=ProcessAbsent(identities=(rows["74"],)), timeout_ms=0)
        assert not (await observe(transport, wait, WaitEnded)).met
        await transport.close()


@pytest.mark.needs("tmux")
async def test_sample_tmux_errors_and_traps_a_pane_that_is_not_there_is_no_pane() -> None:
    with Box(environment=TERMINAL) as box:
        transport = SshTransport(host_of(box))
        seen = await observe(transport, TmuxCapture(pane_id="%0"), PaneCaptured)
        assert (seen.state, seen.lines) == ("no_server", ())
        await run_argv(
            transport, "tmux", "new-session", "-d", "-s", "train", "echo step=7; sleep 77"
        )
        seen = await observe(transport, TmuxCapture(pane_id="%9"), PaneCaptured)
        assert seen.state == "no_pane"
        await transport.close()


def test_sample_ps_forms_disagree_and_so_no_command_reads_ps() -> None:
    """Busybox and procps print different tables; the listing reads /proc instead."""
    busybox = (SAMPLES / "ps_busybox_forms_and_errors.txt").read_text()
    procps = (SAMPLES / "ps_procps_aux.txt").read_text()
    with_start = (SAMPLES / "ps_procps_eo_lstart.txt").read_text()
    assert "bad -o argument 'lstart'" in busybox
    assert "STARTED" in with_start
    assert "START" in procps
    for argv in (ListProcesses().argv(), shell_twin_argv(ListProcesses()) or ()):
        words = " ".join(argv).replace("list_processes", "").split()
        assert "ps" not in words
        assert "pgrep" not in words


def test_sample_pid_reuse_transcript_shows_two_identities() -> None:
    lines = (SAMPLES / "pid_reuse_transcript.txt").read_text().splitlines()
    before, after = (x.split("start=")[1].split()[0] for x in lines if "start=" in x)
    assert before != after
    assert "kill -0 2 -> rc 0" in lines[-1]


def test_sample_pgrep_pkill_transcripts_are_why_no_command_takes_a_pattern() -> None:
    text = (SAMPLES / "pgrep_pkill_self_match_transcripts.txt").read_text()
    assert "rc=255" in text
    assert "pattern" not in ListProcesses.model_fields


async def test_sample_locale_noise_and_translated_errors_never_reach_a_parser() -> None:
    text = (SAMPLES / "locale_noise_and_translated_errors.txt").read_text()
    assert "Kein passender Prozess gefunden" in text
    with Box(environment={"LC_ALL": "xx_YY.UTF-8"}) as box:
        transport = SshTransport(host_of(box))
        ran = await run_argv(transport, "bash", "-c", "kill -9 999999; nosuchcmd")
        assert b"No such process" in ran.err
        assert b"setlocale" not in ran.err
        await transport.close()


async def test_sample_ssh_cli_exit_codes_and_errors_are_never_one_number(
    ssh: SshTransport,
) -> None:
    text = (SAMPLES / "ssh_cli_exit_codes_and_errors.txt").read_text()
    assert text.count("rc=255") == 5
    ran = await run_argv(ssh, "sh", "-c", "exit 255")
    assert ran.completed.exit_status == 255
    ran = await run_argv(ssh, "nosuchcmd")
    assert ran.completed.exit_status == 127


async def test_sample_asyncssh_result_shapes_a_status_of_minus_one_is_never_handed_on(
    ssh: SshTransport,
) -> None:
    text = (SAMPLES / "asyncssh_result_shapes.txt").read_text()
    assert "exit_status=-1" in text
    ran = await run_argv(ssh, "sh", "-c", "kill -TERM $$")
    assert ran.completed.exit_status == 128 + 15


def test_sample_ssh_host_key_changed_asks_for_a_deletion_that_nothing_here_does() -> None:
    text = (SAMPLES / "ssh_host_key_changed.txt").read_text()
    assert "ssh-keygen -f" in text
    source = Path(__file__).parents[2] / "agentops" / "transport"
    assert not [p for p in source.glob("*.py") if "ssh-keygen" in p.read_text()]


async def test_sample_pct_outputs_and_errors_are_the_stand_ins_own_words(box: Box) -> None:
    text = (SAMPLES / "pct_outputs_and_errors.txt").read_text()
    transport = SshTransport(host_of(box))
    ran = await run_argv(transport, "pct", "status", "200")
    assert ran.out.decode().strip() in text
    box.stop_container("200")
    ran = await run_argv(transport, "pct", "exec", "200", "--", "true")
    assert ran.err.decode().strip().replace("200", "201") in text
    ran = await run_argv(transport, "pct", "exec", "200")
    assert ran.err.decode().strip() in text
    ran = await run_argv(transport, "pct", "list")
    assert ran.out.decode().splitlines()[0].split() == ["VMID", "Status", "Lock", "Name"]
    await transport.close()


async def test_a_host_says_its_limits_by_python_and_by_sh(box: Box) -> None:
    """A job that fails with "too many open files" is explained by a look before it starts."""
    transport = SshTransport(host_of(box))
    seen = [await observe(transport, ProbeHost(), HostProbed)]
    ran = await run_argv(transport, *(shell_twin_argv(ProbeHost()) or ()))
    parsed = ProbeHost().parse(ran.completed)
    assert isinstance(parsed, HostProbed)
    truth = box.run_inside(("sh", "-c", "ulimit -n; ulimit -c")).stdout.decode().split()
    for probed in (*seen, parsed):
        assert [probed.limits["open_files"], probed.limits["core_bytes"]] == truth
    assert seen[0].limits == parsed.limits
    await transport.close()
