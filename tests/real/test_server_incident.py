"""The SDK's client in another process handles whole incidents through tools alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentops.box.box import Box
from journal import Reader
from tests.support.agents import Agent, over_http, over_streams, served
from tests.support.projects import HOST, JOB, Project, project
from tests.support.recovering import STUB
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
        assert place.user.run("verify").status == 0
        assert place.user.run("replay").status == 0


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
