"""The safety predicates that no file can switch off.

Here: G1-G11, G14-G17, each a named pure predicate over a view and an intended run; every one is
asked for every act and every answer is kept with the decision. Not here: approvals (G12) and freeze
(G13), which ``agentops.policy.authorize`` asks at the door, nor configured rules.

A predicate answers True only on positive proof: what is not known does not pass.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from agentops.policy.decision import GuardResult, Run
from agentops.policy.dumping import DUMP_SIGNALS
from agentops.policy.ladder import grace_us, heard, rung_of
from agentops.policy.ledger import WITHOUT_FORCE
from agentops.policy.leftovers import left_segments, stale_locks
from agentops.policy.moves import WAIT_MAX_MS
from agentops.policy.process import Process
from agentops.policy.roles import is_protected
from agentops.policy.stopping import told
from agentops.policy.view import View
from journal.events import Identity

ACTING = ("signal", "deploy", "clear", "relaunch")


@dataclass(frozen=True, slots=True)
class Intended:
    """An act under test: the view, the run, and for a signal its victim and the victim's row."""

    view: View
    run: Run
    victim: Identity | None
    process: Process | None

    @property
    def signal(self) -> str:
        """The signal's name, or the empty string."""
        name = self.run.arguments.get("signal")
        return name if self.run.command == "signal_process" and isinstance(name, str) else ""


def intended(view: View, run: Run) -> Intended:
    """*run* with its victim looked up in the newest table."""
    try:
        victim = Identity.model_validate(run.arguments.get("victim"))
    except ValidationError:
        return Intended(view, run, None, None)
    process = None if view.table is None else view.table.find(victim)
    return Intended(view, run, victim, process)


def g1_identity(act: Intended) -> bool:
    """The victim stands in the newest table with the same boot, namespace, pid and start ticks."""
    return not act.signal or act.process is not None


def g2_freshness(act: Intended) -> bool:
    """The table is fresh: nothing older than the limit says who lives."""
    limits = act.view.config.limits
    within = limits.fresh_kill_s if act.signal == "KILL" else limits.fresh_s
    return act.run.purpose == "deploy" or act.view.table_fresh(within)


def g3_escalation(act: Intended) -> bool:
    """The last rung's grace is over and the victim was seen alive after it.

    KILL is nobody's first: a gentler one surely arrived.
    """
    if not act.signal or act.victim is None or act.signal in WITHOUT_FORCE:
        return True
    before = [a for a in act.view.signals_to(act.victim) if a.signal not in WITHOUT_FORCE]
    if not before or (act.signal == "KILL" and not heard(tuple(before))):
        return act.signal != "KILL"
    last = before[-1]
    over_at = last.done_us + grace_us(act.view, rung_of(act.view, last))
    table = act.view.table
    return table is not None and table.at_us >= over_at and table.order > last.last_order


def g4_no_patterns(act: Intended) -> bool:
    """One identity with a pid above 1: never a name, a group or everybody."""
    return not act.signal or (act.victim is not None and act.victim.pid > 1)


def g5_role(act: Intended) -> bool:
    """The victim is proven to be of the job and is not one of the host's own processes."""
    if not act.signal:
        return True
    process = act.process
    return (
        process is not None
        and process in act.view.roles.members
        and not is_protected(process, act.view.config)
    )


def g6_blast_radius(act: Intended) -> bool:
    """Few processes are signalled in one incident."""
    if act.victim is None:
        return True
    victims = {victim for a in act.view.signals for victim in a.victims} | {act.victim}
    return len(victims) <= act.view.config.budget.victims


def g7_verified(act: Intended) -> bool:
    """What the last act did was looked at before the next act."""
    view = act.view
    if act.run.purpose == "deploy":
        return True
    return view.seen_after(view.acted_order)


def g8_supervisor_first(act: Intended) -> bool:
    """Nobody who would start the victim again lives, unless the victim is that one."""
    if not act.signal or act.process is None or act.view.table is None:
        return True
    above = act.view.table.ancestors(act.process)
    return not any(
        supervisor in above and not told(act.view, supervisor, act.view.table.identity(supervisor))
        for supervisor in act.view.roles.supervisors
    )


def g9_checkpoint(act: Intended) -> bool:
    """No checkpoint is being written when a process is to be killed."""
    beat = act.view.beat
    return act.signal != "KILL" or beat is None or not beat.checkpoint_writing


def g10_can_answer(act: Intended) -> bool:
    """The victim can be woken, has not ended, and catches what it is asked for a dump with."""
    if not act.signal:
        return True
    process = act.process
    if process is None or process.state in {"D", "Z", "X"}:
        return False
    number = DUMP_SIGNALS.get(act.signal)
    return number is None or number in process.signals_caught


def g11_budget(act: Intended) -> bool:
    """The incident's budget has room."""
    budget = act.view.config.budget
    if act.signal:
        return len(act.view.signals) < budget.signals
    return act.run.purpose != "relaunch" or len(act.view.launches) < budget.relaunches


def g14_connection(act: Intended) -> bool:
    """No earlier act's outcome is open."""
    return not any(known.open for known in act.view.state.acts)


def g15_paths(act: Intended) -> bool:
    """Only absolute paths without a step upwards are written."""
    files = act.run.arguments.get("files")
    listed = files if isinstance(files, list) else []
    paths = [str(item.get("path")) for item in listed if isinstance(item, dict)]
    return all(path.startswith("/") and ".." not in path.split("/") for path in paths)


def g17_left_behind(act: Intended) -> bool:
    """What is cleared away belonged to ended processes of the job, and nobody holds it."""
    match act.run.command:
        case "move_aside":
            return any(act.run.arguments == found.arguments() for found in stale_locks(act.view))
        case "remove_segments":
            listed = act.run.arguments.get("segments")
            known = [segment.arguments() for segment in left_segments(act.view)]
            return isinstance(listed, list) and all(row in known for row in listed)
        case _:
            return act.run.purpose != "clear"


def g16_bounded(act: Intended) -> bool:
    """A wait has a limit."""
    timeout = act.run.arguments.get("timeout_ms")
    return act.run.purpose != "wait" or (isinstance(timeout, int) and timeout <= WAIT_MAX_MS)


GUARDS: tuple[tuple[str, Callable[[Intended], bool], str], ...] = (
    ("G1", g1_identity, "the victim's identity stands in the newest listing"),
    ("G2", g2_freshness, "the listing is fresh"),
    ("G3", g3_escalation, "the rung before had its grace, and the victim lives on"),
    ("G4", g4_no_patterns, "one identity, no pattern"),
    ("G5", g5_role, "the victim's role is proven, and it is not protected"),
    ("G6", g6_blast_radius, "few victims"),
    ("G7", g7_verified, "the last act was looked at"),
    ("G8", g8_supervisor_first, "no living supervisor above the victim"),
    ("G9", g9_checkpoint, "no checkpoint is being written"),
    ("G10", g10_can_answer, "the victim can be woken"),
    ("G11", g11_budget, "the budget has room"),
    ("G14", g14_connection, "no outcome is open"),
    ("G15", g15_paths, "paths are absolute and plain"),
    ("G16", g16_bounded, "waits are bounded"),
    ("G17", g17_left_behind, "what is cleared was left by ended processes, and nobody holds it"),
)
# A look can make these pass; the others need another decision or a person.
CURED_BY_LOOKING = frozenset({"G1", "G2", "G7"})
CURED_BY_WAITING = frozenset({"G9"})


def ask_all(view: View, run: Run) -> tuple[GuardResult, ...]:
    """Every guard's answer to *run*."""
    act = intended(view, run)
    return tuple(GuardResult(name, predicate(act), note) for name, predicate, note in GUARDS)
