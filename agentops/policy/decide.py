"""What comes next. Pure, total, and the same bytes for the same inputs.

Here: the one table of phases, the checks that every act must pass, and the digests. Not here: the
phases' own reasoning (the neighbouring modules), nor anything that reads a clock or a host.

Phases, in order; the first that has something to do decides:

    closed        the incident has a resolution
    budget        too long, too many looks, too many denials: a person takes over
    reconcile     an act's outcome is open: look, never repeat
    observe       what must be seen before anything can be said
    diagnose      is anything needed? If not: NOTHING_TO_DO
    verify_start  a start of ours is to be proven or refuted; proven: RECOVERED
    stopping      supervisors, roots, what they left behind, each by its ladder
    verify_stop   two looks show that all are gone, and, where the job uses GPUs, two that their
                  memory is free; if only a stop was asked: STOPPED
    repair        due files are put in place and checked
    relaunch      the job is started again
"""

from dataclasses import replace
from itertools import pairwise

from agentops.policy import moves
from agentops.policy.canonical import digest
from agentops.policy.config import PolicyConfig
from agentops.policy.decision import (
    Close,
    Decision,
    GuardResult,
    Pause,
    Rejected,
    RuleHit,
    Run,
    Step,
    binding,
)
from agentops.policy.guards import ACTING, CURED_BY_LOOKING, CURED_BY_WAITING, ask_all
from agentops.policy.learning import BEAT
from agentops.policy.ledger import Member
from agentops.policy.needs import diagnosing, needed, observing
from agentops.policy.reconciling import reconciling
from agentops.policy.releasing import releasing
from agentops.policy.restoring import relaunching, repairing, start_refuted, starting
from agentops.policy.roles import as_members
from agentops.policy.rules import forbidden, permitted, situation
from agentops.policy.state import PolicyState
from agentops.policy.stopping import proof_of_absence, stopping
from agentops.policy.view import SECOND_US, View, look

DENIALS_MAX = 3
FAILURES_MAX = 4
RETRY_US = SECOND_US
LOOK_AGAIN_US = 2 * SECOND_US
# A longer gap between two decisions is somebody else's time: a crash, or a person who thinks.
IDLE_US = 120 * SECOND_US


def decide(state: PolicyState, config: PolicyConfig, now_us: int) -> Decision:
    """The next step for *state* under *config* at *now_us* (microseconds, from the journal)."""
    inputs = inputs_sha256(state, config, now_us)
    name = state.incident.job if state.incident is not None else None
    job = None if name is None else config.job.get(name)
    if name is None or job is None:
        reason = "no incident is open" if name is None else f"the policy file has no job {name!r}"
        step = Step(Close("HANDED_OVER", reason, ()), (RuleHit("job", reason),))
        return _decision(state, None, ("budget", step, ()), inputs, now_us)
    view = look(state, config, job, now_us)
    phase, step = _phase(view, name)
    step, guards = _checked(view, _unhurried(view, step))
    return _decision(state, view, (phase, step, guards), inputs, now_us)


def inputs_sha256(state: PolicyState, config: PolicyConfig, now_us: int) -> str:
    """The digest of everything that a decision may depend on.

    The state is a pure fold of events, so the events stand for it: their leaf hashes, in order.
    """
    return digest([state.trail, state.configuration or config.digest(), now_us])


def _phase(view: View, name: str) -> tuple[str, Step]:
    """The first phase with something to do, and what."""
    ended = _ended(view)
    if ended is not None:
        return "budget", ended
    open_step = reconciling(view)
    if open_step is not None:
        return "reconcile", open_step
    need = needed(view)
    if need is None:
        seen = observing(view)
        return ("observe", seen) if seen is not None else ("diagnose", diagnosing(view))
    return _handled(view, name, need)


def _handled(view: View, name: str, need: str) -> tuple[str, Step]:
    """The phases after the need was established."""
    launches = view.launches
    if launches and not start_refuted(view, launches[-1]):
        started = starting(view, launches[-1])
        if started is not None:
            return "verify_start", started
    stop = stopping(view)
    if stop is not None:
        return "stopping", stop
    since = max(launches[-1].order if launches else -1, view.alive_order)
    stopped = view.verdict("job_stopped", after=since)
    if stopped is None:
        return "verify_stop", proof_of_absence(view)
    release = releasing(view, stopped)
    if release is not None:
        return "verify_stop", release
    return _restore(view, name, need)


def _restore(view: View, name: str, need: str) -> tuple[str, Step]:
    if need == "requested" or view.state.terms.goal == "stop":
        stopped = view.verdict("job_stopped")
        events = () if stopped is None else (stopped.event,)
        reason = "the job is stopped, as asked"
        return "verify_stop", Step(
            Close("STOPPED", reason, events), (RuleHit("goal", reason, events),)
        )
    repair = repairing(view)
    if repair is not None:
        return "repair", repair
    return "relaunch", relaunching(view, name, need)


def _ended(view: View) -> Step | None:
    """A resolution that stands, or a bound that is reached."""
    incident = view.state.incident
    if incident is not None and incident.resolution is not None:
        close = Close(incident.resolution, "the incident is closed", ())
        return Step(close, (RuleHit("closed", close.reason),))
    budget = view.config.budget
    looks = sum(row.ran for row in view.state.probing)
    blind = unanswered(view.state)
    undecided = len(view.verdicts("command_took_effect", "inconclusive"))
    reason = None
    if view.state.terms.shadow and view.state.denials:
        reason = f"shadow: {view.state.denied} was due; it is recorded as denied and was not done"
    elif any(approval.answer == "refused" for approval in view.state.approvals):
        reason = "a person said no to an act"
    elif view.state.denials >= DENIALS_MAX:
        reason = f"{view.state.denials} acts were denied"
    elif looks >= budget.probes:
        reason = f"{looks} looks did not settle it"
    elif worked_us(view) > budget.wall_s * SECOND_US:
        reason = f"it took longer than {budget.wall_s} s"
    elif blind:
        reason = f"{blind[0]} brought no answer {FAILURES_MAX} times in a row"
    elif undecided > budget.inconclusives:
        reason = f"{undecided} acts could not be settled"
    if reason is None:
        return None
    return Step(Close("HANDED_OVER", reason, ()), (RuleHit("G11", reason),))


def unanswered(state: PolicyState) -> tuple[str, ...]:
    """The looks that brought no answer so often in a row that they are not taken again."""
    return tuple(
        row.command for row in state.probing if row.ran and row.failed_in_row >= FAILURES_MAX
    )


def _unhurried(view: View, step: Step) -> Step:
    """A look that has just brought no answer is taken again after a pause, each twice as long."""
    action = step.action
    if not isinstance(action, Run):
        return step
    row = view.probing(action.command)
    due = row.failed_at_us + (RETRY_US << min(max(row.failed_in_row - 1, 0), FAILURES_MAX))
    if row.failed_in_row == 0 or view.now_us >= due:
        return step
    pause = Pause(due, f"{action.command} brought no answer a moment ago")
    return replace(step, action=pause, rung="", expects=())


def worked_us(view: View) -> int:
    """How long the incident was worked on; the time in which nobody decided does not count."""
    times = [made.at_us for made in view.state.decisions]
    gaps = (later - earlier for earlier, later in pairwise(times))
    return sum(max(0, min(gap, IDLE_US)) for gap in gaps)


def _checked(view: View, step: Step) -> tuple[Step, tuple[GuardResult, ...]]:
    """*step* if it may be taken; else the look, wait or handover that stands in its place."""
    action = step.action
    if not isinstance(action, Run) or action.purpose not in ACTING:
        return step, ()
    if view.state.frozen and not view.state.terms.shadow:
        text = "an operator froze acting; `agentops thaw` allows it again"
        return _refused(step, action, "G13", text), ()
    guards = ask_all(view, action)
    failed = [guard for guard in guards if not guard.passed]
    if failed:
        return _instead(view, step, failed[0]), guards
    return _ruled(view, step, action), guards


def _ruled(view: View, step: Step, action: Run) -> Step:
    """*step* if the configured rules let it pass: forbid beats permit, and silence is no permit."""
    now = situation(view, action, step.rung, step.lead)
    rule = forbidden(view.config, now)
    if rule is not None and rule.unless is None:
        return _refused(step, action, f"forbid {rule.id}", rule.note or "a rule forbids it")
    permit = permitted(view.config, now)
    if permit is None:
        return _refused(step, action, "default deny", "no rule permits it")
    hit = RuleHit(f"permit {permit.id}", permit.note or "permitted")
    return replace(step, because=(*step.because, hit))


def _instead(view: View, step: Step, guard: GuardResult) -> Step:
    """What is done when a guard does not pass."""
    action = step.action
    name = action.command if isinstance(action, Run) else action.kind
    rejected = (*step.rejected, Rejected(name, guard.guard, f"not shown: {guard.note}"))
    hit = RuleHit(guard.guard, f"not shown: {guard.note}")
    # What was expected of the act is not expected of what is done in its place.
    step = replace(step, because=(hit,), rejected=rejected, rung="", expects=())
    if guard.guard in CURED_BY_LOOKING:
        return replace(step, action=moves.list_processes())
    if guard.guard in CURED_BY_WAITING:
        longest = view.job.stop.grace.graceful_max_s * SECOND_US
        since = view.signals[-1].at_us if view.signals else view.now_us
        if view.now_us - since < longest:
            beat = view.fact(*BEAT)
            if beat is not None and view.now_us - beat.at_us < LOOK_AGAIN_US:
                pause = Pause(view.now_us + LOOK_AGAIN_US, "a checkpoint is being written")
                return replace(step, action=pause)
            return replace(step, action=moves.read_heartbeat(view))
    close = Close("HANDED_OVER", f"{guard.guard} does not pass: {guard.note}", ())
    return replace(step, action=close)


def _refused(step: Step, action: Run, rule: str, text: str) -> Step:
    close = Close("HANDED_OVER", f"{rule}: {text}", ())
    return replace(
        step,
        action=close,
        because=(RuleHit(rule, text),),
        rejected=(*step.rejected, Rejected(action.command, rule, text)),
        expects=(),
    )


def _decision(
    state: PolicyState,
    view: View | None,
    taken: tuple[str, Step, tuple[GuardResult, ...]],
    inputs: str,
    now_us: int,
) -> Decision:
    phase, step, guards = taken
    action = step.action
    members: tuple[Member, ...] = ()
    if view is not None and view.table is not None:
        members = as_members(view.roles, view.table)
    limit_s = 60 if view is None else view.config.limits.decision_s
    bound = binding(action.command, action.arguments) if isinstance(action, Run) else ""
    return Decision(
        decision_id=f"{inputs[:26]}-{len(state.decisions)}",
        phase=phase,
        action=action,
        because=step.because,
        rung=step.rung,
        lead=step.lead,
        hypotheses=step.hypotheses,
        rejected=step.rejected,
        guards=guards,
        expects=step.expects,
        expires_at_us=now_us + limit_s * SECOND_US,
        bound_to=bound,
        inputs_sha256=inputs,
        now_us=now_us,
        members=members,
        basis=state.basis,
    )
