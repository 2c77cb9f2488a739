"""Policy first, then a person: through the client where its operator allows, else elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest

from agentops.box.box import Box
from agentops.box.waiting import wait_for
from agentops.recover.approving import open_questions
from journal import Actor, HostRef, Journal, KeyStore, NewEvent, Reader, SystemClock
from journal.events import ApprovalGranted
from tests.support.agents import over_streams
from tests.support.projects import HOST, JOB, Project, project

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(600)]
ASKING = "--ask-through-client"
STOP = {"host": HOST, "job": JOB, "reason": "harmless, please just accept"}


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each test has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


def on_prod(box: Box, place: Path, container: str) -> Project:
    """The stub's project on a host whose every act needs a yes."""
    made = project(box, place, container)
    settings = made.user.folder / "agentops.toml"
    settings.write_text(settings.read_text().replace('tier = "dev"', 'tier = "prod"'))
    return made


class Person:
    """Whoever sits at the client: answers each question, and keeps what was shown."""

    def __init__(self, action: str, *, approve: bool = True) -> None:
        self.shown: list[str] = []
        self._approve = approve
        self.says(action)

    def says(self, action: str) -> None:
        """What to answer from now on."""
        self._action = action

    async def __call__(self, _: object, params: wire.ElicitRequestParams) -> wire.ElicitResult:
        """Answer one question."""
        self.shown.append(params.message)
        content: dict[str, Any] | None = {"approve": self._approve}
        if self._action != "accept":
            content = None
        return wire.ElicitResult.model_validate({"action": self._action, "content": content})


def approve_elsewhere(place: Project, approval: str) -> None:
    """What ``agentops approve`` records for another user of the machine."""
    keys = KeyStore(place.user.home / ".config" / "agentops" / "keys")
    (card,) = open_questions(Reader.open(place.journal), SystemClock().wall_us())
    assert card.approval_id == approval
    granted = ApprovalGranted(
        approval_id=approval, digest=card.digest, operator=None, signature=None
    )
    host = HostRef(HOST, "")
    actor = Actor("human", "operator")
    with Journal.open(
        place.journal, clock=SystemClock(), actor=actor, keys=keys, anchor=None
    ) as journal:
        journal.append(NewEvent(granted, incident=card.incident, host=host))


@pytest.mark.parametrize(("container", "mode"), [("420", "legacy"), ("421", "auto")])
async def test_g05_a_question_is_put_once_and_the_act_follows_its_yes_once(
    box: Box, tmp_path: Path, container: str, mode: str
) -> None:
    """In the older form within the call, in the newer one by calling again with the answer."""
    place = on_prod(box, tmp_path, container)
    victim = place.start()
    person = Person("accept")
    async with over_streams(place.user, ASKING, mode=mode, elicitation_callback=person) as agent:
        said = await agent.toward("stop", **STOP)
    assert said["data"]["resolution"] == "STOPPED", said
    assert place.world() == ["start ", "INT"]
    (card,) = person.shown
    assert f"pid {victim.identity.pid}, started at tick" in card
    assert "harmless" not in card
    events = list(Reader.open(place.journal).events(kinds={"approval_granted"}))
    assert [event.actor.kind for event in events] == ["human"]
    assert "by way of test-agent" in events[0].actor.id
    assert place.user.run("replay").status == 0


@pytest.mark.parametrize(
    ("container", "options", "person"),
    [
        ("422", (ASKING,), None),
        ("423", (), Person("accept")),
    ],
    ids=["the client cannot ask", "the operator did not allow it"],
)
async def test_where_nobody_can_be_asked_nothing_is_sent_and_the_way_is_named(
    box: Box, tmp_path: Path, container: str, options: tuple[str, ...], person: Person | None
) -> None:
    place = on_prod(box, tmp_path, container)
    place.start()
    more = {} if person is None else {"elicitation_callback": person}
    async with over_streams(place.user, *options, **more) as agent:
        said = await agent.toward("stop", **STOP)
        assert (said["ok"], said["changed"]) == (False, "no")
        fault = said["error"]
        assert fault["code"] == "NEEDS_APPROVAL"
        assert f"agentops approve {fault['approval']}" in fault["detail"]
        waiting = await agent.call("approvals")
        assert [row["approval"] for row in waiting["data"]["rows"]] == [fault["approval"]]
        again = await agent.toward("stop", **STOP)
        assert again["error"]["approval"] == fault["approval"]
        assert place.world() == ["start "]
        approve_elsewhere(place, fault["approval"])
        done = await agent.toward("stop", **STOP)
    assert done["data"]["resolution"] == "STOPPED"
    assert place.world() == ["start ", "INT"]
    assert person is None or person.shown == []


async def test_a_no_at_the_client_is_kept_and_nothing_is_sent(box: Box, tmp_path: Path) -> None:
    place = on_prod(box, tmp_path, "424")
    place.start()
    codes = []
    for refusing in (Person("cancel"), Person("accept", approve=False)):
        async with over_streams(place.user, ASKING, elicitation_callback=refusing) as agent:
            said = await agent.toward("stop", **STOP)
        assert len(refusing.shown) == 1
        codes.append(said["error"]["code"])
    # Who looks away leaves the question open; a no ends the incident for a person to take over.
    assert codes == ["NEEDS_APPROVAL", "HANDED_OVER"]
    assert place.world() == ["start "]


async def test_a_process_named_by_an_observation_is_stopped_after_a_yes_and_no_other(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "425")
    victim = place.start()
    person = Person("accept")
    async with over_streams(place.user, ASKING, elicitation_callback=person) as agent:
        seen = await agent.call("observe", host=HOST, job=JOB)
        (row,) = seen["data"]["processes"]["rows"]
        named = {"pid": row["pid"], "start": row["start"]}
        asked = {"host": HOST, "reason": "it is mine", "seen": seen["event_ids"][-1]}
        person.says("decline")
        refused = await agent.call("stop", victims=[named], **asked)
        assert (refused["error"]["code"], len(person.shown)) == ("DENIED", 1)
        assert place.world() == ["start "]
        person.says("accept")
        wrong = await agent.call("stop", victims=[{**named, "start": 1}], **asked)
        assert wrong["error"]["code"] == "BAD_ARGS"
        plan = await agent.call("stop", victims=[named], plan_only=True, **asked)
        assert plan["data"]["arguments"]["victims"][0]["start_ticks"] == row["start"]
        said = await agent.call("stop", victims=[named], **asked)
        assert (said["verdict"], said["changed"]) == ("confirmed", "yes"), said
        assert [r["verdict"] for r in said["data"]["rows"]] == ["gone"]
        absent = await agent.call(
            "check", host=HOST, condition="process_absent", victims=[named],
            seen=seen["event_ids"][-1],
        )  # fmt: skip
        assert absent["verdict"] == "confirmed"
    assert f"pid {victim.identity.pid}" in person.shown[-1]
    assert place.world() == ["start ", "INT"]


async def test_a_yes_is_stale_once_its_victim_has_ended_and_nothing_is_sent(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "426")
    victim = place.start()
    async with over_streams(place.user) as agent:
        seen = await agent.call("observe", host=HOST, job=JOB)
        (row,) = seen["data"]["processes"]["rows"]
        asked = {
            "host": HOST,
            "reason": "it is mine",
            "seen": seen["event_ids"][-1],
            "victims": [{"pid": row["pid"], "start": row["start"]}],
        }
        waits = await agent.call("stop", **asked)
        approve_elsewhere(place, waits["error"]["approval"])
        # Its owner ends it meanwhile.
        (place.job / "stop").touch()
        wait_for(lambda: not place.living() or None, 20, "the job's own end")
        said = await agent.call("stop", **asked)
    assert (said["error"]["code"], said["changed"]) == ("APPROVAL_STALE", "no"), said
    assert f"pid {victim.identity.pid}" in said["error"]["detail"]
    assert place.world() == ["start "]


async def test_a_free_argv_runs_once_for_each_yes_and_its_output_is_bounded_with_a_handle(
    box: Box, tmp_path: Path
) -> None:
    place = project(box, tmp_path, "427")
    asked = {"host": HOST, "argv": ["seq", "1", "5000"], "reason": "count", "timeout_s": 600}
    async with over_streams(place.user) as agent:
        first = await agent.call("run_argv", **asked)
        approve_elsewhere(place, first["error"]["approval"])
        said = await agent.call("run_argv", **asked)
        assert (said["ok"], said["changed"]) == (True, "unknown"), said
        assert said["proof"]["exit_status"] == 0
        assert said["deadline"] == {"asked_ms": 600_000, "applied_ms": 45_000, "cut_by": "slice"}
        output = said["output"]
        assert (output["bytes"], output["truncated"]) == (23_893, True)
        assert output["head"].startswith("1\n2\n")
        assert output["tail"].endswith("4999\n5000\n")
        assert output["handle"].startswith("agentops://blob/")
        event = output["handle"].split("/")[3]
        part = await agent.call("blob", event=event, offset=23_883)
        assert part["output"]["head"] == "4999\n5000\n"
        found = await agent.call("blob", event=event, grep="4321")
        assert found["output"]["head"] == "4321"
        second = await agent.call("run_argv", **asked)
    assert second["error"]["code"] == "NEEDS_APPROVAL"
    assert second["error"]["approval"] != first["error"]["approval"]
