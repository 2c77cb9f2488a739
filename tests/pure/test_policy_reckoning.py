"""The engine's time: no setting of a clock makes a grace look over, or an old look fresh."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentops.policy.reckoning import JUMP_US, Reckoning
from agentops.policy.view import SECOND_US
from tests.support.acting import failed, later_term, run_of

START_US = 1_700_000_000 * SECOND_US
STEPS = st.lists(st.integers(0, 10**10), min_size=1, max_size=30)


def run(steps: list[tuple[int, int, str]]) -> Reckoning:
    """The reckoning after events with these clocks."""
    reckoning = Reckoning()
    for order, (wall_us, mono_us, boot) in enumerate(steps, start=1):
        reckoning = reckoning.after(wall_us, mono_us, boot, order)
    return reckoning


@given(STEPS)
def test_where_no_clock_jumps_it_is_the_wall_clock_to_the_microsecond(steps: list[int]) -> None:
    """However long it takes from one event to the next."""
    wall, mono, reckoning = START_US, 5, Reckoning()
    for order, step in enumerate(steps, start=1):
        wall, mono = wall + step, mono + step
        reckoning = reckoning.after(wall, mono, "b", order)
        assert (reckoning.time_us, reckoning.jumped) == (wall, 0)
        assert reckoning.now_us(wall + 7, mono + 7, "b") == wall + 7


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(-(10**10), 10**10)), max_size=30))
def test_with_any_jumps_it_goes_on_as_the_monotonic_clock_does(
    steps: list[tuple[int, int]],
) -> None:
    """It differs from time passed by no more than one undetected step each."""
    wall, mono = START_US, 0
    reckoning = Reckoning().after(wall, mono, "b", 1)
    for order, (passed, jump) in enumerate(steps, start=2):
        before = reckoning.time_us
        wall, mono = wall + passed + jump, mono + passed
        now = reckoning.now_us(wall, mono, "b")
        reckoning = reckoning.after(wall, mono, "b", order)
        assert reckoning.time_us == now
        slip = jump if abs(jump) <= JUMP_US else 0
        assert now - before == passed + slip
        assert (reckoning.jumped == order) is (abs(jump) > JUMP_US)


def test_a_jump_is_more_than_half_a_second_in_either_direction() -> None:
    """At the bound it still counts as time, one past it no more."""
    assert JUMP_US == SECOND_US // 2
    begun = Reckoning().after(START_US, 0, "b", 1)
    for jump, ahead in ((JUMP_US, 0), (JUMP_US + 1, JUMP_US + 1), (-JUMP_US - 1, -JUMP_US - 1)):
        after = begun.after(START_US + 10 + jump, 10, "b", 2)
        assert after.ahead_us == ahead
        assert after.jumped == (2 if ahead else 0)


def test_after_a_new_boot_only_a_step_back_is_no_time() -> None:
    """The monotonic clock began anew and tells nothing about how long the machine was off."""
    begun = Reckoning().after(START_US, 900, "b", 1)
    later = begun.after(START_US + 3_600 * SECOND_US, 5, "c", 2)
    assert (later.ahead_us, later.time_us) == (0, START_US + 3_600 * SECOND_US)
    earlier = begun.after(START_US - 3_600 * SECOND_US, 5, "c", 2)
    assert (earlier.ahead_us, earlier.time_us) == (-3_600 * SECOND_US, START_US)
    assert earlier.jumped == 2


def test_what_was_seen_before_a_jump_is_looked_at_again_before_any_signal() -> None:
    """G2: a listing from before the jump is not fresh, whatever the clocks say of its age."""
    state, now_us, decision = later_term()
    assert state.facts
    assert failed(state, now_us, run_of(decision)) == set()
    jumped = replace(state, reckoning=replace(state.reckoning, jumped=state.order + 1))
    assert "G2" in failed(jumped, now_us, run_of(decision))
    since = replace(state, reckoning=replace(state.reckoning, jumped=1))
    assert failed(since, now_us, run_of(decision)) == set()


def test_time_is_told_from_a_sequence_of_events_across_boots() -> None:
    """Forward and back within a boot, then another boot."""
    s = SECOND_US
    told = run([(START_US, 0, "b"), (START_US + 600 * s, 5 * s, "b"), (START_US, 10 * s, "b")])
    assert told.time_us == START_US + 10 * s
    assert told.jumped == 3
