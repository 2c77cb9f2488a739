"""What stages share: pages that are never used twice, and threads that end together."""

import threading
from collections.abc import Callable, Sequence

import pytest
import torch

from trainer.pipeline.arena import Arena
from trainer.pipeline.crew import Crew, EndedError, StageFailedError
from trainer.pipeline.stages import Permits


def _arena() -> Arena:
    return Arena(6, 4, 2, torch.float32, pinned=False)


def test_a_page_goes_through_its_states_in_order_and_is_never_used_twice() -> None:
    arena = _arena()
    lease = arena.lease(9)
    assert (arena.free, arena.used) == (3, 3)
    with pytest.raises(RuntimeError, match="is filling, not ready"):
        arena.taken(lease)
    arena.published(lease)
    with pytest.raises(RuntimeError, match="is ready, not filling"):
        arena.published(lease)
    arena.taken(lease)
    arena.released(lease)
    assert (arena.free, arena.used) == (6, 0)
    with pytest.raises(RuntimeError, match="given to somebody else"):
        list(arena.views(lease))
    with pytest.raises(RuntimeError, match="given to somebody else"):
        arena.published(lease)


def test_a_lease_of_scattered_pages_is_seen_in_runs_without_its_last_pages_tail() -> None:
    arena = _arena()
    first, second = arena.lease(4), arena.lease(4)
    arena.cancelled(first)
    lease = arena.lease(11)
    assert lease.pages == (0, 2, 3)
    runs = [(start, len(view)) for start, view in arena.views(lease)]
    assert runs == [(0, 4), (4, 7)]
    assert second.pages == (1,)


def test_an_abandoned_lease_keeps_its_memory_and_others_take_its_place() -> None:
    arena = _arena()
    lease = arena.lease(24)
    late = [view for _, view in arena.views(lease)]
    arena.abandoned(lease)
    other = arena.lease(24)
    for _, view in arena.views(other):
        view.zero_()
    for view in late:
        view.fill_(7.0)
    assert all(bool((view == 0).all()) for _, view in arena.views(other))
    assert (arena.lost, arena.free) == (6, 0)


def test_a_failure_wakes_everybody_and_is_told_with_its_stage() -> None:
    crew = Crew()
    permits = Permits(crew, 1)
    permits.acquire(0)
    ended: list[str] = []

    def wait(name: str) -> Callable[[], None]:
        def body() -> None:
            try:
                permits.acquire(1)
            except EndedError:
                ended.append(name)
                raise

        return body

    def fail() -> None:
        raise ValueError("two\nlines")

    names: Sequence[str] = ("a", "b", "c")
    for name in names:
        crew.start(name, wait(name))
    crew.start("the weak one", fail)
    assert crew.join(30) == ()
    assert sorted(ended) == list(names)
    with pytest.raises(StageFailedError, match=r"^pipeline, the weak one: ValueError: two lines$"):
        crew.check()
    assert not [each for each in threading.enumerate() if each.name.startswith("pipeline")]
