"""Traps B of whole trees: workers, children and supervisors of one job. Each is named by its id."""

import asyncio

import pytest

from agentops.box import Box
from agentops.box.waiting import wait_for
from agentops.commands.closure import Closure, closure
from agentops.commands.inspecting import InspectProcess, ProcessInspected
from agentops.commands.launch import Launch, Launched
from agentops.commands.stopping import ProcessesStopped, StopProcesses
from agentops.transport import SshTransport
from journal.events import Identity
from tests.support.boxes import observe
from tests.support.victims import LADDER, absent, python, signal, table_of

pytestmark = pytest.mark.needs("sshd", "root-namespaces")


RETITLED_WORKERS = """
import os, signal, subprocess, sys
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
code = "import signal; signal.pause()"
subprocess.Popen(["VLLM::EngineCore", "-I", "-S", "-c", code], executable=sys.executable, **quiet)
subprocess.Popen([sys.executable, "-I", "-S", "-c", code + "#multiprocessing.spawn"],
                 start_new_session=True, **quiet)
os.write(1, b"ready\\n")
signal.pause()
"""


async def start_workers(box: Box, inside: SshTransport, launch_id: str) -> Identity:
    log = box.directory / "workers.log"
    launch = Launch(
        argv=(*python(RETITLED_WORKERS), "serve_x.py"),
        cwd=str(box.directory),
        log=str(log),
        launch_id=launch_id,
    )
    launched = await observe(inside, launch, Launched)
    assert launched.identity is not None
    await asyncio.to_thread(
        wait_for, lambda: "ready" in log.read_text() or None, 5, "workers' ready line"
    )
    return launched.identity


async def test_b05_retitled_and_spawned_workers_are_found_after_their_parent_died(
    box: Box, inside: SshTransport
) -> None:
    parent = await start_workers(box, inside, "launch-b05")
    await signal(inside, parent, "KILL")
    assert (await absent(inside, parent)).met
    table = await table_of(inside)
    rows = [row for row in table.processes if row.launch_id == "launch-b05"]
    assert len(rows) == 2
    assert not [row for row in rows if "serve_x.py" in row.cmdline]
    found = closure(table, [table.identity(rows[0])])
    assert {member.bond for member in found.members} == {"seed", "launch_id"}
    assert len(found.members) == 2


async def stop_whole(inside: SshTransport, found: Closure) -> ProcessesStopped:
    who = tuple(member.identity for member in found.members)
    return await observe(inside, StopProcesses(victims=who, ladder=LADDER), ProcessesStopped)


async def test_b06_a_grandchild_goes_with_its_tree(box: Box, inside: SshTransport) -> None:
    job = box.start_inside(("sh", "-c", "sh -c 'sleep 93; :'; :"), container="200")
    found = await wait_for_members(inside, job.identity, 3)
    assert (await stop_whole(inside, found)).all_gone
    await absent_all(inside, found)


async def test_b07_children_in_sessions_of_their_own_are_stopped_too(
    box: Box, inside: SshTransport
) -> None:
    script = "setsid sleep 92 & setsid sh -c 'sleep 91; :' & sleep 90; :"
    job = box.start_inside(("sh", "-c", script), container="200")
    found = await wait_for_members(inside, job.identity, 5)
    table = await table_of(inside)
    members = {member.identity.pid for member in found.members}
    sessions = {row.sid for row in table.processes if row.pid in members}
    assert len(sessions) == 3
    assert (await stop_whole(inside, found)).all_gone
    await absent_all(inside, found)


async def wait_for_members(inside: SshTransport, seed: Identity, count: int) -> Closure:
    async with asyncio.timeout(5):
        while True:
            found = closure(await table_of(inside), [seed])
            if len(found.members) == count:
                return found


async def absent_all(inside: SshTransport, found: Closure) -> None:
    who = [member.identity for member in found.members]
    assert (await absent(inside, *who)).met


async def test_b08_the_supervisor_is_named_and_stopped_first(
    box: Box, inside: SshTransport
) -> None:
    loop = "while :; do sleep 89; done"
    job = box.start_inside(("sh", "-c", loop, "run.sh"), container="200")
    found = await wait_for_members(inside, job.identity, 2)
    worker = next(m for m in found.members if m.comm == "sleep")
    inspected = await observe(inside, InspectProcess(pid=worker.identity.pid), ProcessInspected)
    assert inspected.supervisor is not None
    assert inspected.supervisor.kind == "shell"
    assert inspected.supervisor.identity == job.identity
    # The naive order first: the worker is gone, and another one is there.
    await signal(inside, worker.identity, "TERM")
    assert (await absent(inside, worker.identity)).met
    found = await wait_for_members(inside, job.identity, 2)
    victims = sorted((m.identity for m in found.members), key=lambda who: who != job.identity)
    stopped = await observe(
        inside, StopProcesses(victims=tuple(victims), ladder=LADDER), ProcessesStopped
    )
    assert stopped.all_gone
    assert [truth for truth in box.processes("200") if truth.cmdline[:1] == ("sleep",)] == []
