"""What may explain a job that does not stop, weighed in integer decibans.

Here: the hypotheses, the evidence table, scores under family caps, who leads, what is still live.
Not here: which rung follows (``agentops.policy.stopping``).

A weight is 10 * log10 of a likelihood ratio, so weights add; 10 stands for ten to one. Weights of
one family are capped, because lines that stem from one cause must not pile up. The numbers are
priors of judgement, not fitted ones; see ``docs/policy.md``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agentops.policy.config import HypothesisName
from agentops.policy.ledger import Act
from agentops.policy.process import INTERRUPT_BIT, Process
from agentops.policy.view import View

Weights = Mapping[HypothesisName, int]

TITLES: Mapping[HypothesisName, str] = MappingProxyType(
    {
        "H1": "the interrupt was not delivered",
        "H2": "a graceful stop is under way",
        "H3": "worker threads go on after the interrupt",
        "H4": "the process ignores the interrupt",
        "H5": "it was started again by a supervisor",
        "H6": "it is in uninterruptible sleep",
        "H7": "its main thread is blocked and no handler runs",
    }
)
PRIORS: Weights = MappingProxyType(
    {"H1": 0, "H2": 0, "H3": 3, "H4": -3, "H5": -3, "H6": -10, "H7": 0}
)
NAMES: tuple[HypothesisName, ...] = ("H1", "H2", "H3", "H4", "H5", "H6", "H7")


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What is asked about: a process, the newest interrupt that it may have got, and the view."""

    view: View
    process: Process
    act: Act | None

    @property
    def since(self) -> int:
        """The place in the fold from which evidence counts."""
        return -1 if self.act is None else self.act.order


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that can be seen: a test that answers True only on positive proof, and weights."""

    id: str
    family: str
    text: str
    seen: Callable[[Interrupted], bool]
    weights: Weights


@dataclass(frozen=True, slots=True)
class Score:
    """One hypothesis with its sum and what it is made of."""

    hypothesis: HypothesisName
    db: int
    because: tuple[tuple[str, int], ...]


def _ignores(about: Interrupted) -> bool:
    return INTERRUPT_BIT in about.process.signals_ignored


def _listens(about: Interrupted) -> bool:
    return INTERRUPT_BIT not in about.process.signals_ignored


def _stuck(about: Interrupted) -> bool:
    return about.process.state == "D"


def _not_stuck(about: Interrupted) -> bool:
    return about.process.state in {"R", "S", "T", "t", "I"}


def _took(about: Interrupted) -> bool:
    return about.act is not None and about.act.delivered == "yes"


def _pending(about: Interrupted) -> bool:
    return about.act is not None and INTERRUPT_BIT in about.process.signals_pending


def advance(about: Interrupted) -> int | None:
    """Steps made since the interrupt; None where two heartbeats do not yet tell."""
    if about.act is None:
        return None
    after = about.view.samples_after(about.act.last_order)
    if not after:
        return None
    before = about.view.sample_before(about.act.order) or after[0]
    if before is after[-1]:
        return None
    return after[-1].step - before.step


def _advances(about: Interrupted) -> bool:
    # One step may have been in flight when the interrupt came; two were begun after it.
    made = advance(about)
    return made is not None and made >= 2 and not _finalizing(about)  # noqa: PLR2004 - reason above


def _stands(about: Interrupted) -> bool:
    made = advance(about)
    beat = about.view.beat
    return made == 0 and beat is not None and beat.state not in {"stopping", "checkpointing"}


def interrupt_in_log(about: Interrupted) -> bool:
    """Whether the log shows an interrupt that it did not show before this one."""
    if about.act is None:
        return False
    after = about.view.tails_after(about.act.last_order)
    before = about.view.tail_before(about.act.order)
    if not after:
        return False
    marks = ("F73", "interrupt_taken")
    old = sum(before.count(mark) for mark in marks) if before is not None else 0
    return sum(after[-1].count(mark) for mark in marks) > old


def _finalizing(about: Interrupted) -> bool:
    """The log shows that the interpreter gave up waiting for threads, and one thread is left.

    The last heartbeat is then older than that: it says nothing of what goes on.
    """
    if about.act is None or about.process.threads != 1:
        return False
    after = about.view.tails_after(about.act.last_order)
    before = about.view.tail_before(about.act.order)
    old = before.count("F73") if before is not None else 0
    return bool(after) and after[-1].count("F73") > old


def _no_interrupt_in_log(about: Interrupted) -> bool:
    if about.act is None or not about.view.tails_after(about.act.last_order):
        return False
    return not interrupt_in_log(about)


def _taken_and_goes_on(about: Interrupted) -> bool:
    return interrupt_in_log(about) and _advances(about)


def _winding_down(about: Interrupted) -> bool:
    beat = about.view.beat
    return (
        about.act is not None
        and beat is not None
        and beat.order > about.act.last_order
        and (beat.state in {"stopping", "checkpointing"} or beat.checkpoint_writing)
        and beat.pid == about.process.pid
    )


def _trains_on(about: Interrupted) -> bool:
    beat = about.view.beat
    return (
        about.act is not None
        and beat is not None
        and beat.order > about.act.last_order
        and beat.state == "training"
        and not beat.checkpoint_writing
        and not _finalizing(about)
    )


def _younger(about: Interrupted) -> bool:
    """A member with a later start than the interrupted one stands in its place."""
    if about.act is None or not about.act.victims:
        return False
    return about.process.start_ticks > about.act.victims[0].start_ticks


def _same_process(about: Interrupted) -> bool:
    return about.act is not None and not _younger(about)


TABLE: tuple[Evidence, ...] = (
    Evidence(
        "sigint_ignored",
        "signal mask",
        "SIGINT is ignored",
        _ignores,
        {"H1": -10, "H2": -20, "H3": -20, "H4": 20, "H5": -3, "H7": -10},
    ),
    Evidence("sigint_not_ignored", "signal mask", "SIGINT is not ignored", _listens, {"H4": -20}),
    Evidence(
        "state_uninterruptible",
        "process state",
        "it is in uninterruptible sleep",
        _stuck,
        {"H1": -10, "H2": -3, "H3": -10, "H4": -10, "H5": -10, "H6": 20, "H7": -20},
    ),
    Evidence(
        "state_interruptible", "process state", "its state can be woken", _not_stuck, {"H6": -20}
    ),
    Evidence("delivered", "delivery", "the kernel took the signal", _took, {"H1": -20}),
    Evidence(
        "pending",
        "delivery",
        "the signal is still pending",
        _pending,
        {"H3": -10, "H7": 10, "H6": 5},
    ),
    Evidence(
        "taken_steps_advance",
        "log",
        "the log shows the interrupt and steps advance",
        _taken_and_goes_on,
        {"H1": -20, "H2": -5, "H3": 20, "H4": -20, "H5": -3, "H6": -10, "H7": -20},
    ),
    Evidence(
        "finalizing",
        "threads",
        "the interpreter no longer waits for threads, and one is left",
        _finalizing,
        {"H1": -20, "H2": 20, "H3": -20, "H4": -20, "H7": -10},
    ),
    Evidence(
        "no_interrupt_in_log",
        "log",
        "the log was read and shows no interrupt",
        _no_interrupt_in_log,
        {"H1": 5, "H3": -10, "H4": 3, "H7": 5},
    ),
    Evidence(
        "steps_advance", "progress", "steps advance", _advances, {"H2": -13, "H6": -20, "H7": -20}
    ),
    Evidence(
        "steps_stand",
        "progress",
        "no step was made since",
        _stands,
        {"H1": -3, "H3": -10, "H4": -3, "H7": 10},
    ),
    Evidence(
        "winding_down",
        "checkpoint",
        "it says that it stops or writes a checkpoint",
        _winding_down,
        {"H1": -10, "H2": 15, "H3": -10, "H4": -10, "H5": -10, "H6": -10, "H7": -10},
    ),
    Evidence("trains_on", "checkpoint", "it says that it trains", _trains_on, {"H2": -13}),
    Evidence(
        "younger",
        "identity",
        "a younger process stands in its place",
        _younger,
        {"H1": -20, "H2": -20, "H3": -20, "H4": -20, "H5": 20, "H6": -20, "H7": -20},
    ),
    Evidence("same_process", "identity", "it is the same process", _same_process, {"H5": -20}),
)


def weigh(about: Interrupted) -> tuple[Score, ...]:
    """All hypotheses, highest first; ties by name."""
    cap = about.view.config.limits.family_cap_db
    seen = tuple(evidence for evidence in TABLE if evidence.seen(about))
    scores = []
    for name in NAMES:
        spoke = [evidence for evidence in seen if name in evidence.weights]
        total = capped([(each.family, each.weights[name]) for each in spoke], cap)
        parts = (("prior", PRIORS[name]), *((each.id, each.weights[name]) for each in spoke))
        scores.append(Score(name, PRIORS[name] + total, parts))
    return tuple(sorted(scores, key=lambda score: (-score.db, score.hypothesis)))


def capped(weights: list[tuple[str, int]], cap_db: int) -> int:
    """The sum of (family, weight), in which no family counts for more than *cap_db* either way.

    >>> capped([("log", 15), ("log", 15), ("threads", -5)], 20)
    15
    """
    families: dict[str, int] = {}
    for family, weight in weights:
        families[family] = families.get(family, 0) + weight
    return sum(max(-cap_db, min(cap_db, weight)) for weight in families.values())


def leader(scores: tuple[Score, ...], lead_db: int) -> HypothesisName | None:
    """The first hypothesis if it leads the second by *lead_db* at least."""
    first, second = scores[:2]
    return first.hypothesis if first.db - second.db >= lead_db else None


def live(scores: tuple[Score, ...], lead_db: int) -> tuple[HypothesisName, ...]:
    """The hypotheses that the leader does not yet beat by *lead_db*."""
    return tuple(score.hypothesis for score in scores if scores[0].db - score.db < lead_db)
