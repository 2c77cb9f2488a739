"""Which look is worth its cost next.

Here: what each probe can settle, and the choice among them. Not here: what the answers mean
(``agentops.policy.hypotheses``).

The value of a probe is how far its possible answers part the hypotheses that are still live: for
each piece of evidence that it can bring, the spread of that evidence's weights over them. Integer
decibans per cost; ties go to the less intrusive, then the cheaper, then the name.
"""

from dataclasses import dataclass

from agentops.policy.config import HypothesisName
from agentops.policy.decision import Rejected, Run
from agentops.policy.hypotheses import TABLE
from agentops.policy.moves import list_processes, read_heartbeat, tail_log
from agentops.policy.view import View

FAILURES_MAX = 2


@dataclass(frozen=True, slots=True)
class Probe:
    """One way to learn: what it settles, how deep it reaches in (0-5), its cost (1 is cheap)."""

    command: str
    settles: tuple[str, ...]
    intrusiveness: int
    cost: int


PROBES = (
    Probe(
        "list_processes",
        (
            "sigint_ignored",
            "sigint_not_ignored",
            "state_uninterruptible",
            "state_interruptible",
            "pending",
            "younger",
            "same_process",
        ),
        0,
        2,
    ),
    Probe("read_heartbeat", ("steps_advance", "steps_stand", "winding_down", "trains_on"), 0, 1),
    Probe("tail_log", ("taken_steps_advance", "no_interrupt_in_log", "finalizing"), 0, 1),
)


def value(probe: Probe, hypotheses: tuple[HypothesisName, ...]) -> int:
    """How far *probe* can part *hypotheses*, in decibans per cost."""
    total = 0
    for evidence in TABLE:
        if evidence.id in probe.settles:
            weights = [evidence.weights.get(name, 0) for name in hypotheses]
            total += max(weights, default=0) - min(weights, default=0)
    return total // probe.cost


def useful(view: View, probe: Probe) -> bool:
    """Whether the job has what *probe* looks at, and it has not just failed twice."""
    if probe.command == "tail_log" and view.job.progress.log is None:
        return False
    return view.probing(probe.command).failed_in_row < FAILURES_MAX


def last_order(view: View, probe: Probe) -> int:
    """When *probe* last brought an answer that is still known, as a place in the fold."""
    if probe.command == "read_heartbeat" and view.heartbeat_exists is None:
        return -1
    return view.probing(probe.command).last_order


def next_probe(
    view: View, hypotheses: tuple[HypothesisName, ...], since: int
) -> tuple[Run, tuple[Rejected, ...]] | None:
    """The best look not yet taken after *since*, with those passed over; None when all were."""
    due = [
        probe
        for probe in PROBES
        if useful(view, probe) and last_order(view, probe) <= max(since, 0)
    ]
    if not due:
        return None
    ranked = sorted(
        due,
        key=lambda probe: (
            -value(probe, hypotheses),
            probe.intrusiveness,
            probe.cost,
            probe.command,
        ),
    )
    passed_over = tuple(
        Rejected(
            f"probe {probe.command}",
            "value of information",
            f"{value(probe, hypotheses)} dB per cost against {value(ranked[0], hypotheses)}",
        )
        for probe in ranked[1:]
    )
    return _run(view, ranked[0]), passed_over


def _run(view: View, probe: Probe) -> Run:
    if probe.command == "read_heartbeat":
        return read_heartbeat(view)
    return tail_log(view) if probe.command == "tail_log" else list_processes()
