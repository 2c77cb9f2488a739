"""Traps A: evidence that is vacuous or false. Each test is named by the trap's id."""

import struct

import pytest

from agentops.box import Box
from agentops.commands import COMMANDS
from agentops.commands.base import Completed, Malformed
from agentops.commands.gpu import GpuStatus, GpuStatusSeen
from agentops.commands.model_check import CheckModel, ModelChecked
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.run_argv import RunArgv
from agentops.commands.waiting import GpuMemoryAtMost, WaitEnded, WaitUntil
from agentops.transport import Ended, Lost, SshTransport
from tests.support.boxes import host_of, observe, run_argv
from tests.support.fakes import put_program, put_smi
from tests.support.goldens import any_command
from tests.support.twins import shell_twin_argv

pytestmark = pytest.mark.needs("sshd", "root-namespaces")


async def test_a01_a_chain_that_kills_its_own_shell_proves_nothing(ssh: SshTransport) -> None:
    # In the box's PID namespace the pattern finds nobody but the chain itself.
    chain = "pkill -9 -f train_x.py || true; sleep 2; pgrep -af train_x.py || true"
    ran = await run_argv(ssh, "sh", "-c", chain)
    assert isinstance(ran.answer, Lost)
    assert ran.answer.reason == "frame_killed"
    assert ran.out == b""


async def test_a02_the_probe_never_sees_itself(box: Box) -> None:
    """In an empty container there is init, and nothing else to see."""
    transport = SshTransport(host_of(box, "pct:200"), channel_after=None)
    for argv in (ListProcesses().argv(), shell_twin_argv(ListProcesses()) or ()):
        ran = await run_argv(transport, *argv)
        table = ListProcesses().parse(ran.completed)
        assert isinstance(table, ProcessTable)
        assert [row.pid for row in table.processes] == [1]
    await transport.close()


async def test_a03_rows_with_identity_stand_where_others_count(box: Box, ssh: SshTransport) -> None:
    def named(table: ProcessTable) -> list[int]:
        return [row.pid for row in table.processes if "train_x.py" in row.cmdline]

    assert named(await observe(ssh, ListProcesses(), ProcessTable)) == []
    started = box.start_inside(("sh", "-c", "sleep 99; :", "train_x.py"))
    table = await observe(ssh, ListProcesses(), ProcessTable)
    assert named(table) == [started.identity.pid]
    assert started.identity in [table.identity(row) for row in table.processes]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"run_argv"}))
def test_a04_empty_output_is_no_answer_of_any_command(name: str) -> None:
    command = any_command(name)
    for status in (0, 1, 255):
        assert isinstance(command.parse(Completed(status, b"", b"")), Malformed)


async def test_a05_a_gpu_claim_rests_on_nvidia_smis_own_status(
    box: Box, inside: SshTransport
) -> None:
    said = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        " Make sure that the latest NVIDIA driver is installed and running.\n"
    )
    put_smi(box, devices=said, status=9)
    seen = await observe(inside, GpuStatus(), GpuStatusSeen)
    assert (seen.state, seen.exit_status, seen.devices) == ("no_driver", 9, ())


async def test_a06_a_config_proves_no_model(box: Box, inside: SshTransport) -> None:
    folder = box.directory / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    seen = await observe(inside, CheckModel(path=str(folder)), ModelChecked)
    assert (seen.intact, seen.config_problem) == (False, None)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 50) + b"{")
    seen = await observe(inside, CheckModel(path=str(folder)), ModelChecked)
    assert seen.shards[0].problem == "header_cut"


async def test_a07_a_broken_pipeline_does_not_read_as_none_found(
    box: Box, inside: SshTransport
) -> None:
    # Without ps, grep or pgrep the listing is the same, for it uses none of them.
    started = box.start_inside(("sleep", "98"), container="200")
    for tool in ("ps", "grep", "pgrep"):
        put_program(box.directory / "containers/200/bin", tool, "#!/bin/sh\nexit 127\n")
    table = await observe(inside, ListProcesses(), ProcessTable)
    assert started.identity in [table.identity(row) for row in table.processes]
    # And where a pipeline is run all the same, its status is the last part's: no evidence.
    ran = await run_argv(inside, *RunArgv(argv=("sh", "-c", "false | cat")).argv())
    assert ran.completed.exit_status == 0


async def test_a08_memory_that_is_released_later_is_waited_for_and_the_series_kept(
    box: Box, inside: SshTransport
) -> None:
    # The measured case: 102927 MiB with the process a zombie already, 0 some 20 ms later.
    folder = box.directory / "containers" / "200" / "bin"
    put_program(
        folder,
        "nvidia-smi",
        f"""
        #!/bin/sh
        echo x >>{folder}/asked
        [ "$(wc -l <{folder}/asked)" -gt 3 ] && echo 0 || echo 102927
        """,
    )
    wait = WaitUntil(condition=GpuMemoryAtMost(limits_mib=(512,)), timeout_ms=5000, poll_ms=20)
    ended = await observe(inside, wait, WaitEnded)
    assert ended.met
    assert [value for _, value in ended.series] == [[102927], [0]]
    assert ended.polls == 4


async def test_a09_each_card_is_measured_by_its_own_baseline(
    box: Box, inside: SshTransport
) -> None:
    put_smi(box, devices="0\n39\n149\n")

    async def met(*limits: int) -> bool:
        wait = WaitUntil(condition=GpuMemoryAtMost(limits_mib=limits), timeout_ms=0)
        return (await observe(inside, wait, WaitEnded)).met

    assert await met(512, 39 + 512, 149 + 512)
    assert not await met(0, 0, 0)
    assert not await met(512, 512, 148)


async def test_a09_a_missing_card_is_blindness_and_not_a_yes(
    box: Box, inside: SshTransport
) -> None:
    put_smi(box, devices="0\n")
    wait = WaitUntil(condition=GpuMemoryAtMost(limits_mib=(512, 512)), timeout_ms=0)
    ended = await observe(inside, wait, WaitEnded)
    assert (ended.met, ended.blind) == (False, "device_count")


async def test_a10_a_timeout_of_a_changing_command_is_lost_and_not_nothing(
    box: Box, inside: SshTransport
) -> None:
    mark = box.directory / "changed"
    ran = await run_argv(inside, "sh", "-c", f"echo done >{mark}; sleep 30", deadline_ms=500)
    assert isinstance(ran.answer, Lost)
    assert mark.exists()


async def test_a11_without_an_end_marker_there_is_no_status(ssh: SshTransport) -> None:
    ran = await run_argv(ssh, "sh", "-c", "kill -9 $PPID; sleep 9", deadline_ms=700)
    assert isinstance(ran.answer, Lost)
    assert not hasattr(ran.answer, "exit_status")
    ended = await run_argv(ssh, "sh", "-c", "exit 1")
    assert isinstance(ended.answer, Ended)
    assert ended.answer.exit_status == 1


async def test_a02_a_stranger_that_looks_like_the_probe_is_listed(
    box: Box, ssh: SshTransport
) -> None:
    """Excluding by text would hide it."""
    twin = box.start_inside(("sh", "-c", "sleep 97; :", "agentops", "list_processes"))
    table = await observe(ssh, ListProcesses(), ProcessTable)
    assert twin.identity in [table.identity(row) for row in table.processes]
