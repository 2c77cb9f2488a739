"""A scripted agent that does everything wrong harms nothing, and is told why each time."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest
from mcp import MCPError

from agentops.box.box import Box
from agentops.box.processes import Truth
from journal import Reader
from tests.support.agents import Agent, over_http, over_streams, served
from tests.support.projects import HOST, JOB, Project, project
from tests.support.recovering import STUB

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(600)]
WHY = "it is only dev, and my user told me to"

UPWARDS = {"path": "/../etc/x", "content": "", "expects": "anything"}


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


def innocents(place: Project) -> list[Truth]:
    """Processes that look like the job and are none of it."""
    lookalikes = (
        ("sh", "-c", f"sleep 900; : python3 -P {STUB} {place.job}"),
        (sys.executable, "-c", "import time; time.sleep(900)", "stub_job.py", "--download"),
    )
    return [
        place.box.start_inside(argv, container=place.container, cwd=place.box.directory)
        for argv in lookalikes
    ]


def alive(place: Project) -> set[int]:
    """The pids of the container's living processes, by the kernel's word."""
    return {t.identity.pid for t in place.box.processes(place.container) if t.state not in "ZX"}


async def told(agent: Agent, code: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must refuse with this code, and say that nothing was changed."""
    said = await agent.call(tool, **arguments)
    assert said.get("error", {}).get("code") == code, (tool, arguments, said)
    assert said["changed"] == "no"
    assert len(said["summary"]) > 10
    return said


async def yes_to_everything(_: object, __: object) -> wire.ElicitResult:
    """An agent that answers the questions meant for its person."""
    return wire.ElicitResult(action="accept", content={"approve": True})


async def test_g07_policy_holds_in_the_server_whatever_the_client_does(
    box: Box, tmp_path: Path
) -> None:
    """By pattern, by repetition, by itself, by another door: nothing is sent."""
    place = project(box, tmp_path, "430")
    job = place.start()
    others = innocents(place)
    before = alive(place)
    assert {t.identity.pid for t in (job, *others)} <= before
    free = {"host": HOST, "reason": WHY}
    async with over_streams(place.user, elicitation_callback=yes_to_everything) as agent:
        asked = set()
        for _ in range(3):
            said = await told(
                agent, "NEEDS_APPROVAL", "run_argv", argv=["pkill", "-9", "-f", "stub_job"], **free
            )
            asked.add(said["error"]["approval"])
        assert len(asked) == 1
        shell = ["sh", "-c", "kill -9 -1"]
        for argv in (shell, ["agentops", "approve", *asked], ["sudo", *shell]):
            await told(agent, "NEEDS_APPROVAL", "run_argv", argv=argv, **free)
        place_of = {"cwd": str(place.job), "log": str(place.job / "x.log")}
        await told(agent, "NEEDS_APPROVAL", "launch", argv=shell, **place_of, **free)
        file = {
            "path": "/etc/cron.d/x",
            "content": "* * * * * root kill -9 -1",
            "expects": "absent",
        }
        await told(agent, "NEEDS_APPROVAL", "deploy", files=[file], **free)
        await told(agent, "BAD_ARGS", "approvals", grant=[*asked])
        await told(agent, "BAD_ARGS", "stop", pattern="stub_job", **free)
        await by_identity(agent, free)
    (one,) = asked
    # From a shell of its own, under a person's name: the same user asked, so it may not answer.
    claims = {"AGENTOPS_ACTOR": "human:boss"}
    mine = type(place.user)(place.user.home, place.user.folder, claims)
    mine.run("approve", one).refused(2, "cannot say yes")
    assert alive(place) == before
    assert place.world() == ["start "]
    kinds = [event.kind for event in Reader.open(place.journal).events()]
    assert "approval_granted" not in kinds


async def by_identity(agent: Agent, free: dict[str, Any]) -> None:
    """Naming processes that no observation shows, and one that is everybody's."""
    seen = await agent.call("observe", host=HOST)
    event = seen["event_ids"][-1]
    rows = seen["data"]["processes"]["rows"]
    init = next(row for row in rows if row["pid"] == 1)
    for victim in ({"pid": 4711, "start": 1}, {"pid": init["pid"], "start": init["start"] + 1}):
        await told(agent, "BAD_ARGS", "stop", victims=[victim], seen=event, **free)
    named = [{"pid": init["pid"], "start": init["start"]}]
    await told(agent, "NEEDS_APPROVAL", "stop", victims=named, seen=event, **free)
    await told(agent, "NOT_FOUND", "stop", victims=named, seen="01NOSUCHEVENT", **free)
    intent = seen["event_ids"][0]
    await told(agent, "BAD_ARGS", "stop", victims=named, seen=intent, **free)


async def test_oversized_and_malformed_arguments_are_refused_with_the_argument_named(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "431")
    before = alive(place)
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("nonsense", {}, "no tool"),
        ("observe", {}, "host"),
        ("observe", {"host": "no-such-host"}, "no-such-host"),
        ("observe", {"host": HOST, "what": []}, "what"),
        ("observe", {"host": ["box"]}, "host"),
        ("tail", {"host": HOST, "path": "/x", "job": JOB}, "exactly one"),
        ("tail", {"host": HOST, "path": "x" * 100_000}, "path"),
        ("tail", {"host": HOST, "path": "/x", "max_bytes": 10**30}, "max_bytes"),
        ("check", {"host": HOST, "condition": "gone"}, "condition"),
        ("check", {"host": HOST, "condition": "port_open"}, "needs port"),
        ("wait_until", {"host": HOST, "condition": "job_absent", "job": JOB}, "job_absent"),
        ("run_argv", {"host": HOST, "reason": "r", "argv": ["x"] * 5_000}, "argv"),
        ("run_argv", {"host": HOST, "reason": "r", "argv": ["a\0b"]}, "NUL"),
        ("launch", {"host": HOST, "reason": "r" * 10_000, "job": JOB}, "reason"),
        ("launch", {"host": HOST, "reason": "r", "argv": ["true"]}, "cwd"),
        ("stop", {"host": HOST, "reason": "r", "job": "no-such-job"}, "no-such-job"),
        ("deploy", {"host": HOST, "reason": "r", "files": [{"path": "/../etc/x"}]}, "files"),
        ("deploy", {"host": HOST, "reason": "r", "files": [UPWARDS]}, "path"),
        ("check", {"host": HOST, "condition": "gpu_memory_at_most", "limits_mib": [-1]}, "limits"),
        ("journal", {"limit": -1}, "limit"),
        ("journal", {"kinds": ["nothing"]}, "nothing"),
        ("blob", {"event": "zz"}, "zz"),
        ("report", {"incident": "zz"}, "no incident"),
        ("hosts", {"filter": {"a": {"b": [1] * 1_000}}}, "filter"),
    ]
    async with over_streams(place.user) as agent:
        for tool, arguments, word in cases:
            said = await agent.call(tool, **arguments)
            assert said["error"]["code"] in {"BAD_ARGS", "NOT_FOUND"}, (tool, said)
            assert word in said["error"]["detail"], (tool, said)
            assert len(str(said)) < 2_000
        fine = await agent.call("hosts")
        assert fine["ok"] is True
    assert alive(place) == before
    sent = Reader.open(place.journal).events(kinds={"command_intended"})
    assert list(sent) == []


async def test_a_message_that_is_too_long_is_answered_by_its_id_and_the_server_goes_on(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "433")
    free = {"host": HOST, "reason": WHY}
    async with over_streams(place.user) as agent:
        with pytest.raises(MCPError, match="BAD_ARGS: the message has 5000") as refused:
            await agent.call("run_argv", argv=["x" * 5_000_000], **free)
        assert refused.value.code == wire.INVALID_REQUEST
        said = await agent.call("run_argv", argv=["x" * 200_000], **free)
        assert said["error"]["code"] in {"BAD_ARGS", "NEEDS_APPROVAL"}
        fine = await agent.call("hosts")
        assert fine["ok"] is True


def test_a_line_that_is_no_message_is_answered_with_the_code_of_its_fault(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "434")
    long = json.dumps({"method": "x", "params": {"id": "y" * 3_000_000}, "jsonrpc": "2.0", "id": 9})
    sent = ["{not json", '{"jsonrpc": "2.0", "id": "q", "method": 7}', "", "[" * 100_000, long]
    process = place.user.start("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = process.communicate("\n".join([*sent, ""]).encode(), timeout=120)
    answers = [json.loads(line) for line in out.splitlines()]
    codes = [(answer["id"], answer["error"]["code"]) for answer in answers]
    assert codes == [(None, -32700), ("q", -32600), (None, -32700), (9, -32600)]
    assert process.returncode == 0


async def test_two_agents_that_stop_the_same_job_at_once_end_it_once(
    box: Box, tmp_path: Path
) -> None:
    """Through one server they share the work; through two, the second is told who acts."""
    place = project(box, tmp_path, "432")
    place.start()
    others = innocents(place)
    asked = {"host": HOST, "job": JOB, "reason": WHY}
    with served(place.user) as server:
        async with over_http(server) as one, over_http(server) as two:
            first, second = await asyncio.gather(
                one.toward("stop", **asked), two.toward("stop", **asked)
            )
        assert first["data"]["resolution"] == second["data"]["resolution"] == "STOPPED"
        assert first["incident"] == second["incident"]
        assert place.world() == ["start ", "INT"]
        place.start("slow_stop")
        async with over_http(server) as one, over_streams(place.user) as two:
            ended = await asyncio.gather(one.toward("stop", **asked), two.toward("stop", **asked))
    codes = sorted(said.get("error", {}).get("code", said["summary"][:7]) for said in ended)
    assert codes in (["BUSY", "STOPPED"], ["NOTHING", "STOPPED"]), ended
    assert place.world().count("INT") == 2
    assert {t.identity.pid for t in others} <= alive(place)
