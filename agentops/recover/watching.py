"""The loop unattended: look at a job again and again, mend it within budgets, tell somebody.

Here: rounds, budgets, and what is worth telling. Not here: one round (``agentops.recover.loop``),
or how somebody is told.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from agentops.recover.loop import Recovery
from journal import Clock

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


@dataclass(frozen=True, slots=True)
class Rounds:
    """Bounds of a watch: seconds between looks, and how often it may mend within an hour.

    rounds ends the watch after so many looks; None: it goes on until it must hand over.
    """

    every_s: int = 300
    mends_per_hour: int = 3
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling: one resolution that is no news-less one, or the day's digest."""

    kind: Literal["resolution", "waits", "digest"]
    text: str
    incident: str | None = None


@dataclass(slots=True)
class Watched:
    """How a watch ended, and what its rounds came to."""

    reason: str = ""
    rounds: int = 0
    resolutions: Counter[str] = field(default_factory=Counter)


async def watch(
    once: Callable[[], Awaitable[Recovery]],
    bounds: Rounds,
    *,
    clock: Clock,
    pause: Callable[[int], Awaitable[None]],
    tell: Callable[[Notice], None],
) -> Watched:
    """Run *once* in rounds until a person is needed, the budget is spent, or the rounds are over.

    A digest is told whenever a day (UTC) has passed since the last one.
    """
    seen = Watched()
    mended_at: list[int] = []
    digest_due = (clock.wall_us() // DAY_US + 1) * DAY_US
    since_digest: Counter[str] = Counter()
    while not seen.reason:
        recovery = await once()
        now_us = clock.wall_us()
        seen.rounds += 1
        word = recovery.resolution or "WAITS"
        seen.resolutions[word] += 1
        since_digest[word] += 1
        if recovery.resolution in {"RECOVERED", "STOPPED"}:
            mended_at.append(now_us)
        mended_at = [at for at in mended_at if now_us - at < 3_600 * SECOND_US]
        if word != "NOTHING_TO_DO":
            kind: Literal["resolution", "waits"] = "waits" if word == "WAITS" else "resolution"
            tell(Notice(kind, f"{word}: {recovery.reason}", recovery.incident))
        seen.reason = _over(recovery, seen.rounds, len(mended_at), bounds)
        if now_us >= digest_due or (seen.reason and since_digest):
            tell(Notice("digest", digest_line(since_digest)))
            since_digest.clear()
            digest_due = (now_us // DAY_US + 1) * DAY_US
        if not seen.reason:
            await pause(bounds.every_s * SECOND_US)
    return seen


def digest_line(counts: Counter[str]) -> str:
    """The rounds since the last digest, in one line.

    >>> digest_line(Counter({"NOTHING_TO_DO": 287, "RECOVERED": 1}))
    '288 looks: NOTHING_TO_DO 287, RECOVERED 1'
    """
    parts = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
    return f"{sum(counts.values())} looks: {parts}"


def _over(recovery: Recovery, rounds: int, mended: int, bounds: Rounds) -> str:
    """Why the watch ends, or the empty string."""
    if recovery.resolution == "HANDED_OVER":
        return "handed over to a person"
    if recovery.resolution is None:
        return "a person must say yes first"
    if mended >= bounds.mends_per_hour:
        return f"mended {mended} times within an hour"
    if bounds.rounds is not None and rounds >= bounds.rounds:
        return f"{rounds} rounds are over"
    return ""
