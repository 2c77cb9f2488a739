"""A server killed during an act, and the client's call made again: one effect, told as it is."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from agentops.box.box import Box
from agentops.box.waiting import wait_for
from journal import Event, Reader
from journal.events import CommandIntended, ObservationParsed, SessionStarted
from tests.support.agents import over_streams
from tests.support.projects import HOST, JOB, Project, agents_may_act, project

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


def intends(command: str) -> Callable[[Event], bool]:
    """Whether an event is the intent of *command*."""
    return lambda e: isinstance(e.payload, CommandIntended) and e.payload.command == command


def has_seen(command: str) -> Callable[[Event], bool]:
    """Whether an event is the observation of *command*."""
    return lambda e: isinstance(e.payload, ObservationParsed) and e.payload.command == command


def kill_when(place: Project, moment: Callable[[Event], bool]) -> None:
    """Kill the server, by the pid of its session, as soon as the journal shows the moment."""

    def server() -> int | None:
        if not place.journal.exists():
            return None
        events = list(Reader.open(place.journal).events())
        pids = [e.payload.pid for e in events if isinstance(e.payload, SessionStarted)]
        return pids[-1] if any(map(moment, events)) else None

    os.kill(wait_for(server, 60, "the moment"), signal.SIGKILL)


async def call_and_kill(
    place: Project, moment: Callable[[Event], bool], tool: str, **arguments: Any
) -> None:
    """Call a tool of a server that dies at the moment; the client is told of no outcome."""

    async def calling() -> None:
        async with over_streams(place.user) as agent:
            killing = asyncio.create_task(asyncio.to_thread(kill_when, place, moment))
            try:
                await agent.call(tool, **arguments)
            finally:
                await killing

    with pytest.raises((MCPError, BaseExceptionGroup)):
        await calling()


@pytest.mark.parametrize(
    ("container", "moment"),
    [
        ("410", intends("signal_process")),
        ("411", has_seen("signal_process")),
        ("412", intends("launch")),
    ],
    ids=["signal intended", "signal observed", "launch intended"],
)
async def test_a_killed_server_leaves_a_job_that_the_same_call_brings_to_its_end_once(
    box: Box, tmp_path: Path, container: str, moment: Callable[[Event], bool]
) -> None:
    place = project(box, tmp_path, container)
    place.start()
    asked = {"host": HOST, "job": JOB, "reason": "the code differs"}
    await call_and_kill(place, moment, "launch", **asked)
    incident = Reader.open(place.journal).incidents()[-1].id
    async with over_streams(place.user) as agent:
        said = await agent.toward("launch", **asked)
    assert said["incident"] == incident
    assert said["data"]["resolution"] == "RECOVERED", said
    world = [line.partition(" ")[0] for line in place.world()]
    # An interrupt that was intended and never sent is found out, and the ladder goes on.
    assert world in (["start", "INT", "start"], ["start", "TERM", "start"]), world
    assert len(place.living()) == 1
    assert place.user.run("verify", "--json").json["finding"] is None


async def test_what_a_closed_incident_left_unknown_is_settled_before_the_next_act(
    box: Box, tmp_path: Path
) -> None:
    """A journal lets nobody act on a host whose last act nobody has looked at."""
    place = project(box, tmp_path, "416")
    agents_may_act(place)
    place.start("deaf")
    await call_and_kill(
        place, intends("signal_process"), "stop", host=HOST, job=JOB, reason="enough"
    )
    incident = Reader.open(place.journal).incidents()[-1].id
    asked = {"host": HOST, "reason": "a note"}
    file = {"path": str(place.job / "note"), "content": "x", "expects": "absent"}
    async with over_streams(place.user) as agent:
        busy = await agent.call("deploy", files=[file], **asked)
        assert (busy["error"]["code"], busy["changed"]) == ("BUSY", "no")
        assert incident in busy["error"]["detail"]
    closed = place.user.run("incident", "close", incident, "--reason", "I take over")
    assert closed.status == 0, closed.err
    async with over_streams(place.user) as agent:
        done = await agent.call("deploy", files=[file], **asked)
    assert (done["verdict"], done["changed"]) == ("confirmed", "yes"), done
    assert "command_reconciled" in {e.kind for e in Reader.open(place.journal).events()}
    assert len(place.living()) == 1


@pytest.mark.parametrize(
    ("container", "moment"),
    [("414", intends("launch")), ("415", has_seen("launch"))],
    ids=["intended", "observed"],
)
async def test_an_argv_is_started_once_for_an_attempt_whatever_dies(
    box: Box, tmp_path: Path, container: str, moment: Callable[[Event], bool]
) -> None:
    place = project(box, tmp_path, container)
    agents_may_act(place)
    trace = place.job / "trace"
    asked: dict[str, Any] = {
        "host": HOST,
        "reason": "try it",
        "argv": ["sh", "-c", f"echo started >> {trace}; until [ -e end ]; do sleep 0.1; done"],
        "cwd": str(place.job),
        "log": str(place.job / "argv.log"),
    }
    await call_and_kill(place, moment, "launch", **asked)
    async with over_streams(place.user) as agent:
        said = await agent.call("launch", **asked)
        if not said["ok"]:
            # It cannot be told from never begun: said so, and only the next call acts anew.
            assert (said["error"]["code"], said["changed"]) == ("UNKNOWN", "unknown")
            assert said["error"]["may_have_run"] is True
            said = await agent.call("launch", **asked)
        assert said["verdict"] == "confirmed", said
        wait_for(lambda: trace.exists() or None, 20, "the trace")
        again = await agent.call("launch", **asked)
        assert (again["ok"], again["changed"]) == (True, "no")
        (place.job / "end").touch()
        wait_for(lambda: not place.living() or None, 20, "its end")
        ended = await agent.call("launch", **asked)
        assert (ended["ok"], ended["changed"]) == (True, "no"), ended
    assert trace.read_text() == "started\n"
