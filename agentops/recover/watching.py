"""The loop unattended: look at a job again and again, mend it within budgets, tell somebody.

Here: rounds, budgets, and what is worth telling. Not here: one round (``agentops.recover.loop``),
or how somebody is told.

A watch ends where only a person can go on. A host that does not answer, a freeze, somebody else who
acts there, and in shadow an act that would have been due are none of these: they are told once, and
the next round looks again.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from agentops.leases import HostBusy
from agentops.recover.loop import Recovery
from journal import Clock

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
Kind = Literal["resolution", "waits", "unanswered", "frozen", "busy", "digest"]


@dataclass(frozen=True, slots=True)
class Rounds:
    """Bounds of a watch: seconds between looks, and how often it may mend within an hour.

    rounds ends the watch after so many looks; None: it goes on until it must hand over. shadow
    says that nothing is changed, so that a handover asks nobody to go on.
    """

    every_s: int = 300
    mends_per_hour: int = 3
    rounds: int | None = None
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling: how a round ended, or the day's digest."""

    kind: Kind
    text: str
    incident: str | None = None


@dataclass(slots=True)
class Watched:
    """How a watch ended, and what its rounds came to."""

    reason: str = ""
    rounds: int = 0
    resolutions: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Round:
    """How one round ended: its word, why, and whether the next one looks again all the same."""

    word: str
    text: str
    incident: str | None
    kind: Kind
    goes_on: bool

    @property
    def steady(self) -> bool:
        """Whether the job was found to need nothing."""
        return self.word == "NOTHING_TO_DO"

    @property
    def trouble(self) -> bool:
        """Whether the next round may find the same again."""
        return self.goes_on and self.word not in {"NOTHING_TO_DO", "RECOVERED", "STOPPED"}


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
    before: _Round | None = None
    while not seen.reason:
        ended = await _round(once, bounds)
        now_us = clock.wall_us()
        seen.rounds += 1
        seen.resolutions[ended.word] += 1
        since_digest[ended.word] += 1
        if ended.word in {"RECOVERED", "STOPPED"}:
            mended_at.append(now_us)
        mended_at = [at for at in mended_at if now_us - at < 3_600 * SECOND_US]
        if _is_news(ended, before):
            tell(Notice(ended.kind, f"{ended.word}: {ended.text}", ended.incident))
        seen.reason = _over(ended, seen.rounds, len(mended_at), bounds)
        if now_us >= digest_due or (seen.reason and since_digest):
            tell(Notice("digest", digest_line(since_digest)))
            since_digest.clear()
            digest_due = (now_us // DAY_US + 1) * DAY_US
        before = ended
        if not seen.reason:
            await pause(bounds.every_s * SECOND_US)
    return seen


def digest_line(counts: Counter[str]) -> str:
    """The rounds since the last digest, in one line.

    >>> digest_line(Counter({"NOTHING_TO_DO": 287, "RECOVERED": 1}))
    '288 looks: NOTHING_TO_DO 287, RECOVERED 1'
    """
    parts = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
    return f"{looks(sum(counts.values()))}: {parts}"


def looks(count: int) -> str:
    """So many looks, in words.

    >>> looks(1), looks(2)
    ('1 look', '2 looks')
    """
    return f"{count} look{'' if count == 1 else 's'}"


async def _round(once: Callable[[], Awaitable[Recovery]], bounds: Rounds) -> _Round:
    """One round, and what its end asks for."""
    try:
        recovery = await once()
    except HostBusy as busy:
        return _Round("BUSY", str(busy), None, "busy", goes_on=True)
    word, why, incident = recovery.resolution, recovery.reason, recovery.incident
    if word is None:
        waits = f"{why}: agentops approve {' '.join(recovery.waits_for)}"
        return _Round("WAITS", waits, incident, "waits", goes_on=False)
    if word == "HANDED_OVER" and recovery.unanswered:
        return _Round("UNANSWERED", why, incident, "unanswered", goes_on=True)
    if word == "HANDED_OVER" and recovery.frozen:
        return _Round("FROZEN", why, incident, "frozen", goes_on=True)
    goes_on = word != "HANDED_OVER" or bounds.shadow
    return _Round(word, why, incident, "resolution", goes_on)


def _is_news(ended: _Round, before: _Round | None) -> bool:
    """Trouble that passes is told once and when it is over; whatever else is no steady look."""
    if ended.steady:
        return before is not None and before.trouble
    if not ended.trouble:
        return True
    return before is None or (before.word, before.text) != (ended.word, ended.text)


def _over(ended: _Round, rounds: int, mended: int, bounds: Rounds) -> str:
    """Why the watch ends, or the empty string."""
    if ended.word == "WAITS":
        return "a person must say yes first"
    if not ended.goes_on:
        return "handed over to a person"
    if mended >= bounds.mends_per_hour:
        return f"mended {mended} times within an hour"
    if bounds.rounds is not None and rounds >= bounds.rounds:
        return f"{rounds} rounds are over"
    return ""
