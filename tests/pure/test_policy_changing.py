"""``changed`` gives what ``dataclasses.replace`` gives."""

from dataclasses import fields, replace

import pytest

from agentops.policy.changing import changed
from agentops.policy.reckoning import Reckoning
from agentops.policy.state import PolicyState, Probing


@pytest.mark.parametrize("name", [each.name for each in fields(PolicyState)])
def test_one_changed_field_is_all_that_differs(name: str) -> None:
    before = PolicyState(order=3, trail="ab", denied="signal_process", basis=(("s1", 2),))
    marker = object()
    after = changed(before, **{name: marker})
    assert getattr(after, name) is marker
    assert after == replace(before, **{name: marker})
    assert before == PolicyState(order=3, trail="ab", denied="signal_process", basis=(("s1", 2),))


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="fell"):
        changed(Probing("list_processes"), fell=1)


def test_records_of_two_kinds_do_not_share_their_fields() -> None:
    assert changed(Probing("locks"), ran=2) == Probing("locks", ran=2)
    assert changed(Reckoning(1, 2, "b"), jumped=4) == Reckoning(1, 2, "b", 0, 4)
