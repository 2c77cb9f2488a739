"""Questions to a person, their answers, and the freeze, around a real process."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentops.approvals import this_party
from agentops.box.box import Box
from agentops.box.waiting import wait_for
from agentops.errors import UsageError
from agentops.policy.config import Approvals
from agentops.recover.approving import approve, open_questions, refuse
from agentops.recover.freezing import freeze, thaw
from agentops.recover.operator import make_key, read_key
from journal import Actor, HostRef, Journal, KeyStore, Reader, SystemClock
from tests.support.persons import yes
from tests.support.recovering import Stage, signals, stage

pytestmark = [
    pytest.mark.needs("sshd"),
    pytest.mark.needs("root-namespaces"),
]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box for all of these."""
    with Box() as opened:
        yield opened


@pytest.fixture
def place(box: Box, tmp_path: Path) -> Stage:
    """A job that needs a repair, on a host of tier prod."""
    set_stage = stage(box, tmp_path, tier="prod")
    set_stage.start()
    beat = set_stage.folder / "heartbeat.json"
    wait_for(lambda: beat.exists() or None, 20, "the first heartbeat")
    return set_stage


def opened(place: Stage, kind: str = "human") -> Journal:
    """The stage's journal, opened by somebody of this kind."""
    keys = KeyStore(place.journal.parent / "keys")
    actor = (
        Actor("human", "operator")
        if kind == "human"
        else Actor("agent", "helper", on_behalf_of="operator")
    )
    return Journal.open(place.journal, clock=SystemClock(), actor=actor, keys=keys, anchor=None)


async def test_each_act_on_a_prod_host_waits_for_its_own_yes(place: Stage) -> None:
    """Signal, deployment and launch are three questions; each yes is good for one of them."""
    answered: list[str] = []
    ended, _ = await place.recover()
    while ended.resolution is None:
        assert len(answered) < 3
        clock = SystemClock()
        with opened(place) as journal:
            (card,) = open_questions(journal.reader(), clock.wall_us())
            assert card.approval_id == ended.waits_for[0]
            answered.append(yes(journal, place.config, card.approval_id).command)
        ended, _ = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert answered == ["signal_process", "deploy_files", "launch"]
    events = list(Reader.open(place.journal).events())
    assert [name for name, _ in signals(events)] == ["INT"]
    assert len({event.incident for event in events if event.incident}) == 1


async def test_a_no_hands_over_and_nothing_is_sent(place: Stage) -> None:
    """The question is not asked again."""
    waiting, _ = await place.recover()
    with opened(place) as journal:
        card = refuse(journal, SystemClock(), waiting.waits_for[0], "not now")
    assert card.victims
    assert "pid" in "\n".join(card.lines())
    ended, events = await place.recover()
    assert ended.resolution == "HANDED_OVER"
    assert signals(events) == []
    assert len(place.living()) == 1


async def test_the_same_question_is_asked_once(place: Stage) -> None:
    """Running the loop again while it waits does not pile questions up."""
    first, _ = await place.recover()
    second, _ = await place.recover()
    assert first.waits_for == second.waits_for
    assert len(open_questions(Reader.open(place.journal), SystemClock().wall_us())) == 1


async def test_an_agent_cannot_approve_and_an_expired_question_cannot_be_answered(
    place: Stage,
) -> None:
    """Only a person, only in time, only what was asked."""
    waiting, _ = await place.recover()
    with opened(place, "agent") as journal:
        with pytest.raises(UsageError, match="a person must"):
            yes(journal, place.config, waiting.waits_for[0])
        with pytest.raises(UsageError, match="no open question"):
            yes(journal, place.config, "nothing")
    late = SystemClock().wall_us() + 3_600 * 1_000_000
    assert open_questions(Reader.open(place.journal), late) == ()


async def test_a_freeze_stops_all_acting_until_a_person_thaws(box: Box, tmp_path: Path) -> None:
    """Also where standing approvals would let it pass."""
    place = stage(box, tmp_path)
    place.start()
    beat = place.folder / "heartbeat.json"
    wait_for(lambda: beat.exists() or None, 20, "the first heartbeat")
    host = HostRef(place.host.name, place.host.fingerprint or "")
    await place.recover()  # makes the journal, and recovers the job once
    (place.folder / "code.py").write_text("VERSION = 1\n")
    with opened(place) as journal:
        freeze(journal, host, "maintenance")
    frozen, events = await place.recover()
    assert frozen.resolution == "HANDED_OVER"
    assert "froze" in frozen.reason
    assert signals(events) == []
    with opened(place, "agent") as journal, pytest.raises(UsageError, match="cannot thaw"):
        thaw(journal, None, "go on")
    with opened(place) as journal:
        thaw(journal, None, "done")
    ended, events = await place.recover()
    assert ended.resolution == "RECOVERED"
    assert [name for name, _ in signals(events)] == ["INT"]


async def test_the_loop_takes_only_a_named_operators_signature_where_policy_names_one(
    place: Stage, tmp_path: Path
) -> None:
    """A bare yes leaves the question open; the signed one lets that act pass, and no other."""
    named = make_key(tmp_path / "operator.pem", b"")
    strict = place.config.model_copy(update={"approvals": Approvals(operators=(named,))})
    guarded = replace(place, config=strict)
    waiting, _ = await guarded.recover()
    with opened(place) as journal:
        yes(journal, place.config, waiting.waits_for[0])
    still, events = await guarded.recover()
    assert still.resolution is None
    assert signals(events) == []
    with opened(place) as journal:
        key = read_key(tmp_path / "operator.pem", bytes)
        name = still.waits_for[0]
        approve(journal, SystemClock(), name, config=strict, by=this_party(), key=key)
    after, events = await guarded.recover()
    assert [sent for sent, _ in signals(events)] == ["INT"]
    assert after.resolution is None
    assert len(after.waits_for) == 1
