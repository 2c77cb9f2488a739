"""Rounds of a watch: when it tells, when it ends. No host, no time that passes by itself."""

from collections.abc import Sequence
from typing import Literal

import pytest

from agentops.leases import HostBusy
from agentops.recover.loop import Recovery
from agentops.recover.watching import DAY_US, Notice, Rounds, Watched, watch
from journal.events import Resolution

Trouble = Literal["UNANSWERED", "BUSY", "FROZEN"]


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
    resolutions: Sequence[Resolution | Trouble | None], bounds: Rounds
) -> tuple[Watched, list[Notice]]:
    """Watch over rounds that end so, the last one again and again."""
    clock, remaining = Hours(), list(resolutions)
    told: list[Notice] = []

    async def once() -> Recovery:
        word = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        if word == "BUSY":
            raise HostBusy("somebody else acts")
        if word == "UNANSWERED":
            return Recovery("incident", "HANDED_OVER", "silence", 1, unanswered=True)
        if word == "FROZEN":
            return Recovery("incident", "HANDED_OVER", "G13", 1, frozen=True)
        return Recovery("incident", word, "why", 1)

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


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [("UNANSWERED", "unanswered"), ("BUSY", "busy"), ("FROZEN", "frozen")],
)
async def test_trouble_that_passes_is_told_once_looked_at_again_and_told_when_it_is_over(
    trouble: Trouble, kind: str
) -> None:
    """Silence is no sign that the job needs a person; a freeze and other hands are none either."""
    steady: Resolution = "NOTHING_TO_DO"
    seen, told = await watched(
        [steady, trouble, trouble, trouble, steady, steady], Rounds(300, 3, 6)
    )
    assert seen.rounds == 6
    assert [notice.kind for notice in told] == [kind, "resolution", "digest"]
    assert told[1].text.startswith("NOTHING_TO_DO")
    assert f"{trouble} 3" in told[2].text


async def test_a_shadow_watch_goes_on_and_tells_each_due_act_once() -> None:
    """Nobody has to go on where nothing was done."""
    seen, told = await watched(["HANDED_OVER"], Rounds(300, 3, 4, shadow=True))
    assert (seen.rounds, seen.reason) == (4, "4 rounds are over")
    assert [notice.kind for notice in told] == ["resolution", "digest"]


async def test_every_mend_is_told_and_its_steady_round_after_it_is_not() -> None:
    """A mend is no trouble that would have to be called off."""
    rounds: list[Resolution | None] = ["RECOVERED", "RECOVERED", "NOTHING_TO_DO"]
    _, told = await watched(rounds, Rounds(300, 3, 3))
    assert [notice.text.partition(":")[0] for notice in told] == [
        "RECOVERED", "RECOVERED", "3 looks",
    ]  # fmt: skip
