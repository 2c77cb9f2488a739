"""What a journal's history teaches about a job's stops.

Here: how long this job took to end after a signal, over its earlier incidents. Not here: how it is
used (``agentops.policy.ladder`` never goes below the configured floor).
"""

from collections.abc import Iterable

from journal.envelope import Event
from journal.events import CommandIntended, IncidentOpened, VerdictReached

SECOND_US = 1_000_000
ENOUGH = 5
LONGEST_S = 3_600


def learned_grace_s(events: Iterable[Event], job: str, *, before: str) -> int:
    """The 95th percentile of this job's stops in seconds, rounded up; 0 below five of them.

    A stop runs from the last INT or TERM to the verdict that no member lives. A job that had to be
    killed did not stop in its own time and is not counted.
    """
    stops: list[int] = []
    jobs: dict[str, str | None] = {}
    signalled: dict[str, Event] = {}
    killed: set[str] = set()
    for event in events:
        name = event.incident
        if name is None or name == before:
            continue
        payload = event.payload
        match payload:
            case IncidentOpened():
                jobs[name] = payload.job
            case CommandIntended() if payload.command == "signal_process":
                signal = payload.arguments.get("signal")
                if signal == "KILL":
                    killed.add(name)
                if signal in {"INT", "TERM"}:
                    signalled[name] = event
            case VerdictReached() if payload.condition.get("kind") == "members_absent":
                began = signalled.pop(name, None)
                if began is not None and jobs.get(name) == job and name not in killed:
                    stops.append(_between_us(began, event))
            case _:
                pass
    return percentile_s(stops) if len(stops) >= ENOUGH else 0


def _between_us(one: Event, other: Event) -> int:
    """How long it took; within one boot no setting of a clock makes it longer."""
    if one.boot == other.boot:
        return (other.mono_ns - one.mono_ns) // 1_000
    return max(0, other.ts_us - one.ts_us)


def percentile_s(spans_us: list[int]) -> int:
    """The 95th percentile, nearest rank, in whole seconds rounded up and bounded.

    >>> percentile_s([1_000_000] * 19 + [9_500_000])
    1
    >>> percentile_s([2_000_001])
    3
    """
    ordered = sorted(spans_us)
    rank = -(-95 * len(ordered) // 100)
    return min(LONGEST_S, -(-ordered[rank - 1] // SECOND_US))
