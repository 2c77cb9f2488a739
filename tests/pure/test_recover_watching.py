"""Rounds of a watch: when it tells, when it ends. No host, no time that passes by itself."""

from collections.abc import Sequence

import pytest

from agentops.recover.loop import Recovery
from agentops.recover.watching import DAY_US, Notice, Rounds, Watched, watch
from journal.events import Resolution


class Hours:
    """A clock that goes on only when the watch pauses."""

    def __init__(self) -> None:
        self.now_us = 20_000 * DAY_US

    def wall_us(self) -> int:
        """Microseconds since 1970."""
        return self.now_us

    def mono_ns(self) -> int:
        """Nanoseconds."""
        return self.now_us * 1_000


async def watched(
    resolutions: Sequence[Resolution | None], bounds: Rounds
) -> tuple[Watched, list[Notice]]:
    """Watch over rounds that end so, the last one again and again."""
    clock, remaining = Hours(), list(resolutions)
    told: list[Notice] = []

    async def once() -> Recovery:
        resolution = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return Recovery("incident", resolution, "why", 1)

    async def pause(duration_us: int) -> None:
        clock.now_us += duration_us

    seen = await watch(once, bounds, clock=clock, pause=pause, tell=told.append)
    return seen, told


async def test_steady_rounds_are_told_once_a_day() -> None:
    """Nothing but the digest, and its counts add up."""
    seen, told = await watched(["NOTHING_TO_DO"], Rounds(3_600, 3, 50))
    assert [notice.kind for notice in told] == ["digest", "digest", "digest"]
    assert sum(int(notice.text.split(" ")[0]) for notice in told) == seen.rounds == 50


@pytest.mark.parametrize(
    ("resolutions", "reason"),
    [
        (["NOTHING_TO_DO", "HANDED_OVER"], "handed over"),
        ([None], "must say yes"),
        (["RECOVERED"], "mended 3 times within an hour"),
    ],
)
async def test_a_watch_ends_where_a_person_is_needed(
    resolutions: list[Resolution | None], reason: str
) -> None:
    """And says so before it ends."""
    seen, told = await watched(resolutions, Rounds(300, 3, 100))
    assert reason in seen.reason
    assert told[-1].kind == "digest"
    assert {notice.kind for notice in told[:-1]} <= {"resolution", "waits"}


async def test_mends_that_lie_apart_do_not_spend_the_budget() -> None:
    """Three within an hour do, three within four hours do not."""
    seen, _ = await watched(["RECOVERED"], Rounds(4_000, 3, 10))
    assert seen.rounds == 10
