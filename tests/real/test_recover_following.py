"""A loop that follows a journal folds what a replay folds, in the same order."""

from pathlib import Path

from agentops.policy.recompute import relevant
from agentops.recover.following import Following
from journal import NewEvent
from journal.events import IncidentNoted, JsonObject
from tests.support.journals import HOST, Place, intended, note


def quoting(command_id: str, arguments: JsonObject, incident: str) -> NewEvent:
    """An intent whose arguments hold keys of the envelope."""
    payload = intended(command_id).payload.model_copy(update={"arguments": arguments})
    return NewEvent(payload, incident=incident, host=HOST)


def test_keys_of_the_envelope_inside_a_payload_change_neither_order_nor_choice(
    tmp_path: Path,
) -> None:
    """A late time in arguments must not push a stream behind another one."""
    place = Place(tmp_path)
    with place.create() as first, place.open() as second:
        first.append(quoting("c1", {"ts_us": 2**52}, "I1"))
        second.append(note("second"))
        first.append(quoting("c2", {"incident": "I1"}, "another"))
        second.append(NewEvent(IncidentNoted(text="third"), incident="I1"))
        following = Following(first.reader(), "I1")
        followed = [event.id for event in following.refresh()]
        assert followed == [event.id for event in relevant(first.reader().events(), "I1")]
        assert len(followed) == 3


def test_what_is_added_is_given_once(tmp_path: Path) -> None:
    """Each look reads on from where the last one ended."""
    place = Place(tmp_path)
    with place.create() as journal:
        journal.append(note("one"))
        following = Following(journal.reader(), "I1")
        assert len(following.refresh()) == 1
        assert following.refresh() == ()
        journal.append(note("two"), note("three"))
        assert [event.seq for event in following.refresh()] == [2, 3]
