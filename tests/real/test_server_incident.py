"""The SDK's client in another process handles whole incidents through tools alone."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentops.box.box import Box
from agentops.box.oracle import Oracle
from agentops.box.workloads import start_innocents, workload
from agentops.demo import CONTAINER, Stage
from agentops.demo import JOB as DEMO
from agentops.executor import Executor
from agentops.hosts import toml_entry
from agentops.policy import PolicyConfig
from agentops.transport import open_transport
from journal import Actor, Journal, KeyStore, Reader, SystemClock
from tests.support.agents import Agent, over_http, over_streams, served
from tests.support.command_line import user
from tests.support.projects import HOST, JOB, Project, project
from tests.support.recovering import SHIPPED, STUB
from tests.support.sequences import Line, sequence

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


async def mended(agent: Agent) -> dict[str, Any]:
    """Find the job stuck, bring it to train again, and see it gone on."""
    stuck = await agent.call("check", host=HOST, condition="job_advances", job=JOB)
    assert stuck["verdict"] == "refuted", stuck
    said = await agent.toward("launch", host=HOST, job=JOB, reason="it does not advance")
    assert (said["verdict"], said["changed"]) == ("confirmed", "yes"), said
    assert said["data"]["resolution"] == "RECOVERED"
    advances = await agent.call("check", host=HOST, condition="job_advances", job=JOB)
    assert advances["verdict"] == "confirmed", advances
    return said


def acts(place: Project) -> list[Line]:
    """The sequence of the last incident."""
    reader = Reader.open(place.journal)
    return sequence(list(reader.events(incident=reader.incidents()[-1].id)))


def hanging(box: Box, folder: Path, container: str) -> Project:
    """A job that trained up to a step and hangs there, with the trainer that does not deployed."""
    folder.mkdir()
    place = project(box, folder, container)
    place.start("hang", at_step=20)
    return place


async def test_an_incident_is_handled_alike_over_streams_over_http_and_by_command(
    box: Box, tmp_path: Path
) -> None:
    """The same sequence of kind, command, host, arguments, verdict and rule."""
    streams = hanging(box, tmp_path / "streams", "400")
    async with over_streams(streams.user) as agent:
        said = await mended(agent)
        told = await agent.call("report", incident=said["incident"], depth="line")
        assert "RECOVERED" in told["data"]["text"]
        again = await agent.toward("launch", host=HOST, job=JOB, reason="once more")
        assert (again["data"]["resolution"], again["changed"]) == ("NOTHING_TO_DO", "no")
    by_streams = sequence(list(Reader.open(streams.journal).events(incident=said["incident"])))
    web = hanging(box, tmp_path / "web", "401")
    with served(web.user) as server:
        async with over_http(server) as agent:
            await mended(agent)
    typed = hanging(box, tmp_path / "typed", "402")
    assert typed.user.run("recover", JOB, "--host", HOST).status == 0
    assert by_streams == acts(web) == acts(typed)
    for place in (streams, web, typed):
        assert [line.partition(" ")[0] for line in place.world()] == ["start", "INT", "start"]
    assert streams.user.run("verify").status == 0
    assert web.user.run("replay").status == 0


async def test_over_streams_an_agent_sees_stops_and_proves(box: Box, tmp_path: Path) -> None:
    place = project(box, tmp_path, "403")
    victim = place.start()
    async with over_streams(place.user) as agent:
        known = await agent.call("hosts")
        assert [row["name"] for row in known["data"]["rows"]] == [HOST]
        seen = await agent.call("observe", host=HOST, job=JOB)
        rows = seen["data"]["processes"]["rows"]
        assert [row["pid"] for row in rows] == [victim.identity.pid]
        assert seen["proof"]["marker"] is True
        # Somebody looks at the job's own script: that bears its name, and is not the job.
        box.start_inside(("tail", "-f", str(STUB)), container="403")
        there = await agent.call("check", host=HOST, condition="job_absent", job=JOB)
        assert there["verdict"] == "refuted"
        assert [row["pid"] for row in there["data"]["rows"]] == [victim.identity.pid]
        stopped = await agent.toward("stop", host=HOST, job=JOB, reason="the test asks for it")
        assert (stopped["verdict"], stopped["changed"]) == ("confirmed", "yes"), stopped
        assert stopped["data"]["resolution"] == "STOPPED"
        absent = await agent.call("check", host=HOST, condition="job_absent", job=JOB)
        assert absent["verdict"] == "confirmed"
        assert "1 others bear its name" in absent["summary"]
        step = await agent.call("next_step", host=HOST, job=JOB)
        assert "no incident is open" in step["summary"]
    assert place.living() == ()
    assert place.world() == ["start ", "INT"]


async def test_the_main_job_is_recovered_by_an_agent_and_no_innocent_is_touched(
    tmp_path: Path,
) -> None:
    """The real trainer, whose first interrupt leaves its threads alive, and its look-alikes."""
    who = user(tmp_path)
    with Box() as box, Oracle() as oracle:
        stage = Stage.of(workload("threads-survive-interrupt", python=sys.executable), box)
        config, _ = stage.policy(SHIPPED.read_text())
        settings = '[journal]\npath = "ops.journal"\n[policy]\nfile = "policy.toml"\n'
        (who.folder / "agentops.toml").write_text(settings + toml_entry(stage.host))
        (who.folder / "policy.toml").write_text(as_toml(config.body()))
        start_innocents(box, oracle, container=CONTAINER, python=sys.executable)
        await launched(stage, tmp_path / "before.journal", config)
        async with over_streams(who) as agent:
            seen = await agent.call("observe", host=stage.host.name, job=DEMO)
            assert seen["data"]["heartbeat"]["step"] >= 4
            asked = {"host": stage.host.name, "job": DEMO, "reason": "its launcher is wrong"}
            said = await agent.toward("launch", **asked)
        assert said["data"]["resolution"] == "RECOVERED", said
        signals = [act["signal"] for act in said["data"]["acts"] if "signal" in act]
        assert signals == ["INT", "INT"]
        assert oracle.touched() == ()
    assert who.run("replay").status == 0


async def launched(stage: Stage, journal: Path, config: PolicyConfig) -> None:
    """Ship the trainer and start it with its fault, as its owner would have."""
    clock = SystemClock()
    keys = KeyStore(journal.parent / "keys")
    owner = Actor("human", "owner")
    with Journal.create(journal, clock=clock, actor=owner, keys=keys, anchor=None) as opened:
        executor = Executor(opened, clock=clock, config=config, connect=open_transport)
        await stage.launch(executor)
        await executor.close()


def as_toml(value: object, *, top: bool = True) -> str:
    """Plain values as TOML: tables inline, below the top."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(as_toml(item, top=False) for item in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = [
        f"{json.dumps(k)} = {as_toml(v, top=False)}" for k, v in value.items() if v is not None
    ]
    return "\n".join(pairs) if top else "{" + ", ".join(pairs) + "}"
