"""The SDK's client in another process handles a whole incident through tools alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box.box import Box
from tests.support.agents import over_streams
from tests.support.projects import HOST, JOB, project

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


async def test_over_streams_an_agent_sees_stops_and_proves(box: Box, tmp_path: Path) -> None:
    place = project(box, tmp_path, "400")
    victim = place.start()
    async with over_streams(place.user) as agent:
        known = await agent.call("hosts")
        assert [row["name"] for row in known["data"]["rows"]] == [HOST]
        seen = await agent.call("observe", host=HOST, job=JOB)
        rows = seen["data"]["processes"]["rows"]
        assert [row["pid"] for row in rows] == [victim.identity.pid]
        assert seen["proof"]["marker"] is True
        advances = await agent.call("check", host=HOST, condition="job_advances", job=JOB)
        assert advances["verdict"] == "confirmed", advances
        stopped = await agent.toward("stop", host=HOST, job=JOB, reason="the test asks for it")
        assert (stopped["verdict"], stopped["changed"]) == ("confirmed", "yes"), stopped
        assert stopped["data"]["resolution"] == "STOPPED"
        absent = await agent.call("check", host=HOST, condition="job_absent", job=JOB)
        assert absent["verdict"] == "confirmed"
        step = await agent.call("next_step", host=HOST, job=JOB)
        assert "no incident is open" in step["summary"]
    assert place.living() == ()
    assert place.world() == ["start ", "INT"]
    assert place.user.run("verify").status == 0
    assert place.user.run("replay").status == 0
