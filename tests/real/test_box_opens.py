"""The trap box: how fast it opens, what it hides, and that nothing of it stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentops.box import Box, Oracle
from agentops.box.oracle import alive_in, changes
from agentops.box.places import take_place
from agentops.box.processes import processes_in, read_truth
from agentops.box.waiting import wait_for
from agentops.box.workloads import FAULTS, install, start, start_innocents, workload
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.signals import SignalProcess, SignalSent
from agentops.commands.waiting import HeartbeatStep, ProcessAbsent, WaitEnded, WaitUntil
from agentops.transport import Ended, SshTransport
from tests.support.boxes import host_of, observe, run_argv


@pytest.mark.needs("sshd")
def test_it_opens_in_under_two_seconds() -> None:
    start_s = time.perf_counter()
    with Box():
        assert time.perf_counter() - start_s < 2


@pytest.mark.needs("root-namespaces", "sshd")
async def test_inside_only_the_boxs_own_processes_are_seen(
    box: Box, ssh: SshTransport, inside: SshTransport
) -> None:
    for transport, container in ((ssh, None), (inside, "200")):
        table = await observe(transport, ListProcesses(), ProcessTable)
        truth = {each.identity for each in box.processes(container)}
        seen = {table.identity(row) for row in table.processes}
        # A container's processes have pids of their own in the host's view.
        assert {who.pid_namespace for who in seen} == {table.pid_namespace}
        assert len(table.processes) < 12
        if container is not None:
            assert seen <= truth


@pytest.mark.needs("root-namespaces", "sshd")
def test_closing_ends_every_process_and_removes_the_directory() -> None:
    with Box() as box:
        box.start_inside(("sleep", "41"), container="200")
        box.start_inside(("sleep", "42"))
        directory = box.directory
        spaces = [each.inode for each in box.containers.values()]
        outer = [truth.outer_pid for truth in box.processes()]
    assert not directory.exists()
    assert [truth for space in spaces for truth in processes_in(space)] == []
    assert [pid for pid in outer if read_truth(pid) is not None] == []


@pytest.mark.needs("root-namespaces", "sshd")
def test_a_killed_owner_leaves_no_process_and_the_next_box_clears_its_folder_alone() -> None:
    code = (
        "import sys, time\nfrom agentops.box import Box\nbox = Box(); box.open()\n"
        "box.start_inside(('sleep', '43'), container='200')\n"
        "print(box.containers['200'].inode, box.directory, flush=True); sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    inode, directory = owner.stdout.readline().split()
    assert processes_in(int(inode))
    place = take_place()
    assert Path(directory).exists()  # its owner lives
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    wait_for(lambda: not processes_in(int(inode)) or None, 5, "end of the container's processes")
    owner.stdin.close()
    owner.stdout.close()
    take_place().give_up()
    assert not Path(directory).exists()
    assert place.directory.exists()
    place.give_up()
    assert not place.directory.exists()


@pytest.mark.needs("namespaces")
async def test_without_openssh_the_box_serves_by_itself() -> None:
    with Box(server="asyncssh") as box:
        transport = SshTransport(host_of(box, "pct:200"))
        ran = await run_argv(transport, "sh", "-c", "printf out; exit 5")
        assert (ran.completed.exit_status, ran.out) == (5, b"out")
        stopped = await run_argv(transport, "sleep", "44", deadline_ms=400)
        assert getattr(stopped.answer, "reason", None) == "deadline_stopped"
        assert "asyncssh's own server" in box.account
        await transport.close()


@pytest.mark.needs("root-namespaces", "sshd")
async def test_the_oracle_sees_an_end_and_a_signal_and_nothing_else(
    box: Box, inside: SshTransport
) -> None:
    with Oracle() as oracle:
        first, second = start_innocents(box, oracle, container="200", python=sys.executable)
        await observe(inside, ListProcesses(), ProcessTable)
        assert oracle.touched() == ()
        command = SignalProcess(victim=first.truth.identity, signal="TERM")
        await observe(inside, command, SignalSent)
        wait = WaitUntil(
            condition=ProcessAbsent(identities=(first.truth.identity,)), timeout_ms=3000
        )
        assert (await observe(inside, wait, WaitEnded)).met
        assert oracle.touched() == (first.name,)
        assert first.signals == ("SIGTERM",)
        assert not second.touched


@pytest.mark.needs("root-namespaces", "sshd")
def test_births_and_deaths_are_told_by_identity(box: Box) -> None:
    inode = box.containers["200"].inode
    old = box.start_inside(("sleep", "45"), container="200")
    before = alive_in(inode)
    os.kill(old.outer_pid, signal.SIGKILL)
    wait_for(lambda: old.identity not in alive_in(inode) or None, 5, "death")
    new = box.start_inside(("sleep", "46"), container="200")
    seen = changes(before, alive_in(inode))
    assert (seen.births, seen.deaths) == ((new.identity,), (old.identity,))


RUN = """{{"run_id": "box", "output_dir": "{out}", "steps": 100000, "threads": 1,
"checkpoint_every": 1000, "heartbeat_ms": 0, "row_tokens": 128,
"target": {{"kind": "random", "num_hidden_layers": 4, "hidden_size": 32, "vocab_size": 64}},
"drafter": {{"block_size": 4, "target_layer_ids": [0, 2], "num_hidden_layers": 1}},
"data": {{"kind": "synthetic", "documents": 32, "length": 40}},
"optimizer": {{"learning_rate": 0.003}}}}"""
# Which signals end the job's process, tried in this order; what is not named leaves it alive.
ENDS = {
    "threads-survive-interrupt": ("INT", "INT"),
    "ignores-interrupt": ("INT", "TERM"),
    "hang": ("INT",),
    "none": ("INT",),
}


@pytest.mark.needs("root-namespaces", "sshd")
@pytest.mark.parametrize("fault", sorted(ENDS))
async def test_each_fault_is_the_one_that_it_is_called_by(
    box: Box, inside: SshTransport, fault: str
) -> None:
    """The real trainer under its launcher, in the container."""
    job = workload(next(each for each in FAULTS if each == fault), python=sys.executable)
    folder = box.directory / "job"
    install(job, folder)
    (folder / "run.json").write_text(RUN.format(out=folder / "out"))
    checkout = str(Path(__file__).parents[2])
    env = {"PYTHONPATH": checkout, "OMP_NUM_THREADS": "1"}
    who = start(box, job, folder, container="200", env=env).identity
    beat = HeartbeatStep(path=str(folder / "out" / "heartbeat.json"), at_least_step=3)
    began = WaitUntil(condition=beat, timeout_ms=45_000, poll_ms=50)
    assert (await observe(inside, began, WaitEnded)).met, (folder / "train.log").read_text()
    gone = ProcessAbsent(identities=(who,))
    *in_vain, last = ENDS[fault]
    for name in in_vain:
        await observe(
            inside, SignalProcess.model_validate({"victim": who, "signal": name}), SignalSent
        )
        wait = WaitUntil(condition=gone, timeout_ms=1500, poll_ms=50)
        assert not (await observe(inside, wait, WaitEnded)).met
    await observe(inside, SignalProcess.model_validate({"victim": who, "signal": last}), SignalSent)
    wait = WaitUntil(condition=gone, timeout_ms=20_000, poll_ms=50)
    assert (await observe(inside, wait, WaitEnded)).met


@pytest.mark.needs("root-namespaces", "sshd")
async def test_a_stopped_transport_leaves_the_box_usable(box: Box) -> None:
    for _ in range(3):
        transport = SshTransport(host_of(box))
        assert isinstance((await run_argv(transport, "true")).answer, Ended)
        await transport.close()
