"""Traps B: which process is meant, and what became of it. Each test is named by the trap's id."""

import asyncio
import secrets
import sys

import pytest

from agentops.box import Box, Oracle
from agentops.box.waiting import wait_for
from agentops.box.workloads import start_innocents
from agentops.commands.closure import closure
from agentops.commands.gpu import GpuProcesses, GpuProcessesSeen
from agentops.commands.inspecting import InspectProcess, ProcessInspected
from agentops.commands.launch import Launch, Launched
from agentops.commands.processes import ProcessTable
from agentops.commands.signals import SignalProcess, SignalSent
from agentops.commands.space import SharedMemory, SharedMemorySeen
from agentops.commands.stopping import ProcessesStopped, Step, StopProcesses
from agentops.transport import SshTransport
from journal.events import Identity
from tests.support.boxes import host_of, observe, run_argv
from tests.support.fakes import put_smi
from tests.support.twins import shell_twin_argv
from tests.support.victims import LADDER, absent, python, signal, table_of

pytestmark = pytest.mark.needs("sshd", "root-namespaces")


async def signal_by_shell(transport: SshTransport, victim: Identity, name: str) -> SignalSent:
    command = SignalProcess.model_validate({"victim": victim, "signal": name})
    ran = await run_argv(transport, *(shell_twin_argv(command) or ()))
    seen = command.parse(ran.completed)
    assert isinstance(seen, SignalSent), seen
    return seen


async def test_b01_a_reused_pid_is_another_process(box: Box, inside: SshTransport) -> None:
    # ns_last_pid makes the container's next process get the very pid again.
    reuse = (
        "import os,sys\n"
        "def spawn():\n"
        "    pid=os.fork()\n"
        "    if pid==0:\n"
        "        os.execvp('sleep',['sleep','96'])\n"
        "    return pid\n"
        "start=lambda p: open(f'/proc/{p}/stat').read().rsplit(')',1)[1].split()[19]\n"
        "a=spawn(); t=start(a); os.kill(a,9); os.waitpid(a,0)\n"
        "while True:\n"
        "    open('/proc/sys/kernel/ns_last_pid','w').write(str(a-1))\n"
        "    b=spawn()\n"
        "    if b==a and start(b)!=t: break\n"
        "    os.kill(b,9); os.waitpid(b,0)\n"
        "print(a,t,flush=True); os.wait()\n"
    )
    log = box.directory / "reuse.log"
    box.start_inside(python(reuse), container="200", log=log)
    text = wait_for(
        lambda: log.read_text() if log.read_text().endswith("\n") else None, 20, "reuse"
    )
    pid, ticks = map(int, text.split())
    table = await table_of(inside)
    stranger = next(row for row in table.processes if row.pid == pid)
    meant = table.identity(stranger).model_copy(update={"start_ticks": ticks})
    assert table.identity(stranger) != meant
    for send in (signal, signal_by_shell):
        sent = await send(inside, meant, "KILL")
        assert (sent.delivered, sent.refusal) == (False, "identity_changed")
    assert (await absent(inside, meant)).met
    assert not (await absent(inside, table.identity(stranger), timeout_ms=0)).met


async def test_b02_the_tmux_server_that_keeps_the_scripts_name_is_no_target(box: Box) -> None:
    folder = box.directory / "job"
    folder.mkdir()
    (folder / "run.sh").write_text("sleep 95\n")
    run = ("tmux", "new", "-d", "-s", "dflash", f"bash {folder}/run.sh")
    box.run_inside(run, env={"TMUX_TMPDIR": str(folder)})
    ssh = SshTransport(host_of(box))
    table = await table_of(ssh)
    naming = [row for row in table.processes if any("run.sh" in word for word in row.cmdline)]
    server = next(row for row in naming if row.comm.startswith("tmux"))
    script = next(row for row in naming if row.comm == "bash")
    sent = await signal(ssh, table.identity(server), "KILL")
    assert sent.refusal == "protected"
    found = closure(table, [table.identity(script)])
    assert server.pid not in [member.identity.pid for member in found.members]
    await ssh.close()


async def test_b03_only_what_is_bound_to_the_job_is_a_victim(
    box: Box, inside: SshTransport
) -> None:
    with Oracle() as oracle:
        start_innocents(box, oracle, container="200", python=sys.executable)
        job = box.start_inside(python("import signal; signal.pause()"), container="200")
        table = await table_of(inside)
        victims = [member.identity for member in closure(table, [job.identity]).members]
        assert victims == [job.identity]
        stopped = await observe(
            inside, StopProcesses(victims=tuple(victims), ladder=LADDER), ProcessesStopped
        )
        assert stopped.all_gone
        assert oracle.touched() == ()


async def test_b04_a_process_that_nothing_binds_is_no_member(
    box: Box, inside: SshTransport
) -> None:
    job = box.start_inside(("sleep", "94"), container="200")
    stranger = box.start_inside(("sleep", "94"), container="200")
    found = closure(await table_of(inside), [job.identity], gpu_holders=[stranger.identity.pid])
    assert [member.identity for member in found.members] == [job.identity]
    assert [(member.identity, member.bond) for member in found.uncertain] == [
        (stranger.identity, "gpu")
    ]


async def test_b09_a_zombie_is_dead_and_takes_no_signal(box: Box, inside: SshTransport) -> None:
    log = box.directory / "zombie.log"
    code = (
        "import os,signal\np=os.fork()\nif p==0: os._exit(0)\nprint(p,flush=True); signal.pause()"
    )
    box.start_inside(python(code), container="200", log=log)
    pid = int(wait_for(lambda: log.read_text().strip() or None, 5, "zombie's pid"))
    table = await table_of(inside)
    row = next(row for row in table.processes if row.pid == pid)
    assert row.state == "Z"
    for send in (signal, signal_by_shell):
        assert (await send(inside, table.identity(row), "KILL")).refusal == "zombie"
    ended = await absent(inside, table.identity(row))
    assert (ended.met, ended.unreaped) == (True, (pid,))


@pytest.mark.needs("loop-devices", "mkfs.ext4", "fsfreeze")
async def test_b10_a_process_in_d_is_reported_unstoppable_in_bounded_time(
    box: Box, inside: SshTransport
) -> None:
    image, mount = box.directory / "disk.img", box.directory / "mnt"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    freeze = f"mkfs.ext4 -q {image} && mount -o loop {image} {mount} && fsfreeze -f {mount}"
    thaw = f"fsfreeze -u {mount}; umount {mount}"
    assert box.run_inside(("sh", "-c", freeze), container="200").returncode == 0
    try:
        writer = box.start_inside(
            python(f"open({str(mount / 'x')!r}, 'w').write('a')"), container="200"
        )
        async with asyncio.timeout(5):
            while _state(await table_of(inside), writer.identity) != "D":
                pass
        for send in (signal, signal_by_shell):
            sent = await send(inside, writer.identity, "KILL")
            assert (sent.delivered, sent.refusal) == (False, "uninterruptible")
        stop = StopProcesses(
            victims=(writer.identity,), ladder=(Step(signal="KILL", grace_ms=200),)
        )
        stopped = await observe(inside, stop, ProcessesStopped)
        assert stopped.victims[0].verdict == "unstoppable"
        assert stopped.victims[0].wchan not in {"", "0"}
    finally:
        box.run_inside(("sh", "-c", thaw), container="200")


def _state(table: ProcessTable, who: Identity) -> str | None:
    return next((row.state for row in table.processes if table.identity(row) == who), None)


async def test_b11_a_pid_of_another_namespace_gets_no_identity(
    box: Box, inside: SshTransport
) -> None:
    put_smi(box, processes="GPU-0, 999999, python3, 4614\n")
    seen = await observe(inside, GpuProcesses(), GpuProcessesSeen)
    assert seen.processes[0].pid.value == 999999
    assert seen.processes[0].identity is None
    # An empty table with memory in use attributes nothing either.
    put_smi(box, processes="")
    seen = await observe(inside, GpuProcesses(), GpuProcessesSeen)
    assert (seen.state, seen.processes, seen.holders) == ("ok", (), ())


async def test_b11_from_the_host_a_process_leads_to_its_pid_inside(box: Box) -> None:
    job = box.start_inside(("sleep", "88"), container="200")
    host_view = box.processes()
    del host_view
    ssh = SshTransport(host_of(box))
    table = await table_of(ssh)
    rows = [row for row in table.processes if row.cmdline == ("sleep", "88")]
    inspected = await observe(ssh, InspectProcess(pid=rows[0].pid), ProcessInspected)
    assert inspected.found
    put_program_pid = f"GPU-0, {rows[0].pid}, sleep, 10\n"
    folder = box.directory / "bin"
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '%s' '{put_program_pid}'\n")
    (folder / "nvidia-smi").chmod(0o755)
    seen = await observe(ssh, GpuProcesses(), GpuProcessesSeen)
    assert seen.processes[0].namespace_pids == (rows[0].pid, job.identity.pid)
    await ssh.close()


async def test_b12_leftovers_in_shared_memory_are_told_from_what_is_held(
    box: Box, inside: SshTransport
) -> None:
    mark = secrets.token_hex(4)
    names = orphan, held = f"psm_{mark}_orphan", f"psm_{mark}_held"
    box.run_inside(("sh", "-c", f"head -c 8192 /dev/zero >/dev/shm/{orphan}"))
    box.run_inside(("sh", "-c", f"head -c 4096 /dev/zero >/dev/shm/{held}"))
    try:
        code = f"import mmap,signal;f=open('/dev/shm/{held}','r+b');m=mmap.mmap(f.fileno(),0)"
        code += ";signal.pause()"
        box.start_inside(python(code), container="200")
        async with asyncio.timeout(5):
            while True:
                seen = await observe(inside, SharedMemory(), SharedMemorySeen)
                found = {s.name: s for s in seen.segments if mark in s.name}
                if found[held].held_by:
                    break
        assert found[orphan].orphaned
        assert found[orphan].used_bytes == 8192
        assert not found[held].orphaned
        assert 0 < seen.free_bytes <= seen.total_bytes
    finally:
        box.run_inside(("rm", *(f"/dev/shm/{name}" for name in names)))


async def test_b13_a_foreign_locale_changes_no_verdict() -> None:
    with Box(environment={"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}) as box:
        ssh = SshTransport(host_of(box))
        job = box.start_inside(("sleep", "87"))
        assert (await signal(ssh, job.identity, "KILL")).delivered
        assert (await absent(ssh, job.identity)).met
        for send in (signal, signal_by_shell):
            assert (await send(ssh, job.identity, "KILL")).refusal == "gone"
        ran = await run_argv(ssh, "sh", "-c", 'echo "$LC_ALL$LANG"')
        assert ran.out == b"C\n"
        await ssh.close()


async def test_b14_init_shells_and_sshd_are_refused(box: Box, ssh: SshTransport) -> None:
    table = await table_of(ssh)
    init = next(row for row in table.processes if row.pid == 1)
    session = max((row for row in table.processes if row.comm == "sshd"), key=lambda row: row.pid)
    container = box.containers["200"].pid_within(1)
    inner_init = next(row for row in table.processes if row.pid == container)
    for row in (init, session, inner_init):
        for send in (signal, signal_by_shell):
            assert (await send(ssh, table.identity(row), "KILL")).refusal == "protected"
    for pid in (0, -1):
        victim = table.identity(init).model_copy(update={"pid": pid})
        assert (await signal(ssh, victim, "KILL")).refusal == "protected"
        assert (await signal_by_shell(ssh, victim, "KILL")).refusal == "protected"


async def test_b15_a_launched_job_outlives_the_connection_in_a_session_of_its_own(
    box: Box, inside: SshTransport
) -> None:
    launch = Launch(
        argv=("sleep", "86"), cwd="/", log=str(box.directory / "b15.log"), launch_id="b15"
    )
    launched = await observe(inside, launch, Launched)
    await inside.close()
    again = SshTransport(host_of(box, "pct:200"))
    table = await table_of(again)
    row = next(r for r in table.processes if table.identity(r) == launched.identity)
    assert (row.sid, row.ppid, row.state) == (row.pid, 1, "S")
    assert 1 not in row.signals_ignored
    await again.close()


async def test_b17_a_second_launch_is_refused_even_if_nothing_is_recorded(
    box: Box, inside: SshTransport
) -> None:
    log = str(box.directory / "b17.log")

    async def launch(launch_id: str) -> Launched:
        job = Launch(argv=("sleep", "85"), cwd="/", log=log, launch_id=launch_id)
        return await observe(inside, job, Launched)

    first = await launch("one")
    assert first.started
    assert (await launch("two")).refusal == "log_in_use"
    repeated = await launch("one")
    assert (repeated.refusal, repeated.identity) == ("already_running", first.identity)


async def test_b17_ten_launches_at_once_start_one(box: Box, inside: SshTransport) -> None:
    job = Launch(argv=("sleep", "84"), cwd="/", log=str(box.directory / "ten.log"), launch_id="ten")
    launched = await asyncio.gather(*(observe(inside, job, Launched) for _ in range(8)))
    assert [each.started for each in launched].count(True) == 1
    table = await table_of(inside)
    assert len([row for row in table.processes if row.launch_id == "ten"]) == 1


def test_b18_an_identity_holds_ticks_and_no_wall_clock() -> None:
    assert set(Identity.model_fields) == {
        "boot_id",
        "pid_namespace",
        "namespace_init_start_ticks",
        "pid",
        "start_ticks",
    }


@pytest.mark.needs("cc")
async def test_b21_one_d_that_ends_by_sigkill_is_not_called_unstoppable(
    box: Box, inside: SshTransport
) -> None:
    source, program = box.directory / "vf.c", box.directory / "vf"
    source.write_text(
        "#include <unistd.h>\nint main(){if(vfork()==0){sleep(60);_exit(0);}return 0;}\n"
    )
    assert box.run_inside(("cc", "-w", "-o", str(program), str(source))).returncode == 0
    parent = box.start_inside((str(program),), container="200")
    async with asyncio.timeout(5):
        while _state(await table_of(inside), parent.identity) != "D":
            pass
    sent = await signal(inside, parent.identity, "KILL")
    assert (sent.delivered, sent.state_before) == (True, "D")
    assert (await absent(inside, parent.identity)).met


async def test_a_restarted_container_is_told_from_the_one_before(box: Box) -> None:
    """Its processes can have the same pids; the start of its init tells."""
    job = box.start_inside(("sleep", "83"), container="200")
    box.stop_container("200")
    box.start_container("200")
    again = box.start_inside(("sleep", "83"), container="200")
    assert again.identity.pid == job.identity.pid
    inside = SshTransport(host_of(box, "pct:200"))
    for inode in (job.identity.pid_namespace, again.identity.pid_namespace):
        old = job.identity.model_copy(update={"pid_namespace": inode})
        assert (await signal(inside, old, "KILL")).refusal == "identity_changed"
    assert (await signal(inside, again.identity, "KILL")).delivered
    await inside.close()
