"""What a journal's history teaches about a job's patience.

Here: how long this job took to end after a signal, and its cards to be free after it had ended,
over its earlier incidents. Not here: how it is used (``agentops.policy.ladder`` and ``releasing``
never go below the configured floor).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from journal.envelope import Event
from journal.events import CommandIntended, IncidentOpened, VerdictReached

SECOND_US = 1_000_000
ENOUGH = 5
LONGEST_S = 3_600
KINDS = frozenset({"incident_opened", "command_intended", "verdict_reached"})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a wait may take, in seconds, and by how many earlier ones that is known."""

    seconds: int = 0
    of: int = 0

    def at_least(self, floor_s: int) -> "Patience":
        """The same, but never below the configured floor, which needs no history."""
        return self if self.seconds > floor_s else Patience(floor_s)

    @property
    def told(self) -> str:
        """What history adds, for the words of a rule; the empty string where it adds nothing.

        >>> Patience(75, 6).told, Patience(60).told
        ('; up to 75 s, the 95th percentile of 6 earlier ones', '')
        """
        if not self.of:
            return ""
        return f"; up to {self.seconds} s, the 95th percentile of {self.of} earlier ones"


@dataclass(frozen=True, slots=True)
class History:
    """What was learned of one job: its stops, and the release of its cards' memory."""

    grace: Patience
    release: Patience


@dataclass(slots=True)
class _Incident:
    """One incident so far, as far as its waits are concerned."""

    job: str | None = None
    signalled: Event | None = None
    killed: bool = False
    stopped: Event | None = None
    idle: Event | None = None


def learn_patience(events: Iterable[Event], job: str, *, before: str) -> History:
    """What the incidents of *job* teach, leaving out the one named *before*.

    A stop runs from the last INT or TERM to the verdict that no member lives; a job that had to be
    killed did not stop in its own time and is not counted. A release runs from the proof of the
    stop to the look that showed every card idle, where a second one agreed.
    """
    stops: list[int] = []
    releases: list[int] = []
    incidents: dict[str, _Incident] = {}
    for event in events:
        if event.incident is None or event.incident == before:
            continue
        known = incidents.setdefault(event.incident, _Incident())
        match event.payload:
            case IncidentOpened() as opened:
                known.job = opened.job
            case CommandIntended() as intent if intent.command == "signal_process":
                _signalled(known, event, intent)
            case VerdictReached() as reached if known.job == job:
                stop, release = _judged(known, event, reached)
                stops += stop
                releases += release
            case _:
                pass
    return History(_patience(stops), _patience(releases))


def _signalled(known: _Incident, event: Event, intent: CommandIntended) -> None:
    signal = intent.arguments.get("signal")
    if signal == "KILL":
        known.killed = True
    if signal in {"INT", "TERM"}:
        known.signalled = event


def _judged(
    known: _Incident, event: Event, reached: VerdictReached
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How long a stop and how long a release took that this verdict ends, if it ends one."""
    if reached.verdict != "confirmed":
        return (), ()
    match reached.condition.get("kind"):
        case "members_absent":
            began, known.signalled = known.signalled, None
            if began is not None and not known.killed:
                return (_between_us(began, event),), ()
        case "job_stopped":
            known.stopped, known.idle = event, None
        case "gpu_idle":
            known.idle = event
        case "gpu_released" if known.stopped is not None and known.idle is not None:
            began, known.stopped = known.stopped, None
            return (), (_between_us(began, known.idle),)
        case _:
            pass
    return (), ()


def _between_us(one: Event, other: Event) -> int:
    """How long it took; within one boot no setting of a clock makes it longer."""
    if one.boot == other.boot:
        return (other.mono_ns - one.mono_ns) // 1_000
    return max(0, other.ts_us - one.ts_us)


def _patience(spans_us: list[int]) -> Patience:
    """What so many spans teach; nothing where they are too few."""
    if len(spans_us) < ENOUGH:
        return Patience(0, len(spans_us))
    return Patience(percentile_s(spans_us), len(spans_us))


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
