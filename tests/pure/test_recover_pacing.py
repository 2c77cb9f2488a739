"""A long wait is looked at less and less often, and never sooner than policy decided."""

import pytest

from agentops.policy import Pause, PolicyState
from agentops.policy.config import Budget
from agentops.policy.ledger import Decided
from agentops.recover.pacing import OVERSHOOT, rest_us

SECOND_US = 1_000_000
LOOK_US = 300_000


def decided(at_us: int, action: str, purpose: str = "") -> Decided:
    """One decision of the state's ledger."""
    return Decided("", action, purpose, "", "", "", at_us, 0, 0, "")


def pause(now_us: int) -> Pause:
    """A pause of a second, as policy decides on it."""
    return Pause(now_us + SECOND_US, "it may be starting")


@pytest.mark.parametrize("start_s", [120, 600, 3_500])
def test_a_wait_of_any_start_time_leaves_looks_in_the_budget(start_s: int) -> None:
    """Two looks and a pause, again and again; noticed at most a sixth late."""
    now_us, looks = 0, 0
    made: list[Decided] = []
    while now_us < start_s * SECOND_US:
        rest = rest_us(pause(now_us), PolicyState(decisions=tuple(made)), now_us)
        made.append(decided(now_us, "pause"))
        assert rest >= SECOND_US
        now_us += rest
        for _ in range(2):
            made.append(decided(now_us, "run", "probe"))
            now_us += LOOK_US
            looks += 1
    assert looks < Budget().probes
    assert now_us <= start_s * SECOND_US * (OVERSHOOT + 1) // OVERSHOOT + 2 * SECOND_US


@pytest.mark.parametrize("between", ["signal", "relaunch", ""])
def test_an_act_or_a_verdict_begins_the_wait_anew(between: str) -> None:
    now_us = 600 * SECOND_US
    first, last = decided(0, "pause"), decided(now_us, "run", between)
    assert rest_us(pause(now_us), PolicyState(decisions=(first,)), now_us) == 100 * SECOND_US
    assert rest_us(pause(now_us), PolicyState(decisions=(first, last)), now_us) == SECOND_US


def test_a_pause_that_is_over_is_no_rest() -> None:
    assert rest_us(pause(0), PolicyState(), 5 * SECOND_US) == 0
