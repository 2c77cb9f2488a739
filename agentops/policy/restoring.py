"""After the stop: put repairs in place, start the job again, prove that it goes.

Here: deploy, launch, the proof of a start, and the ledgers that end a crash loop. Not here: the
stop (``agentops.policy.stopping``).
"""

from agentops.diagnosis.catalogue import BY_ID
from agentops.policy import moves
from agentops.policy.config import Launch
from agentops.policy.decision import Close, Expectation, Judge, Pause, RuleHit, Step
from agentops.policy.learning import file_subject, finite
from agentops.policy.ledger import Act, Sample, Tail, deployed_paths
from agentops.policy.leftovers import clearing
from agentops.policy.needs import due_repairs
from agentops.policy.preflight import model_whole, port_for, port_found, preflight
from agentops.policy.view import ENDED_STATES, SECOND_US, View
from journal.events import JsonObject

REPAIRED = "repair_in_place"
STARTED = "job_started"
STEP_SLICE_US = 5 * SECOND_US
LAUNCH_SETTLES_US = 3 * SECOND_US
ROOTS = frozenset(row.id for row in BY_ID.values() if row.role in {"root", "either"})
FINAL = frozenset(row.id for row in BY_ID.values() if row.role == "root" and row.relaunch == "R0")


def repairing(view: View) -> Step | None:
    """Deploy what is due; None when every due repair is proven to be in place."""
    stale = _unseen_files(view)
    if stale is not None:
        return stale
    due = due_repairs(view)
    if not due:
        return _repaired(view)
    repair = due[0]
    wanted = {file.path for file in repair.files}
    tried = [
        act
        for act in view.state.acts
        if act.command == "deploy_files" and deployed_paths(act) & wanted
    ]
    failed = [act for act in tried if act.status in {"completed", "failed"} or act.settled]
    if len(failed) >= view.config.budget.inconclusives:
        events = failed[-1].events
        reason = f"repair {repair.id} was deployed and is not in place"
        return Step(Close("HANDED_OVER", reason, events), (RuleHit("G7", reason, events),))
    hit = RuleHit(f"repair-{repair.id}", "the evidence calls for it, and the job is stopped")
    expected: JsonObject = {
        "kind": REPAIRED,
        "files": [{"path": file.path, "sha256": file.sha256} for file in repair.files],
    }
    limit = view.now_us + view.config.limits.decision_s * SECOND_US
    return Step(moves.deploy(view, repair), (hit,), expects=(Expectation(expected, limit),))


def repair_acts(view: View) -> list[Act]:
    """The deployments of repairs; a stop file is none."""
    paths = {file.path for repair in view.job.repair for file in repair.files}
    return [act for act in view.state.acts if deployed_paths(act) & paths]


def _unseen_files(view: View) -> Step | None:
    """A file that was deployed, or is to be, must be looked at after the last deploy."""
    deployed = max(
        (act.last_order for act in view.state.acts if act.command == "deploy_files"), default=-1
    )
    for repair in view.job.repair:
        for file in repair.files:
            fact = view.fact(file_subject(file.path), "sha256")
            if fact is None or fact.order < deployed:
                hit = RuleHit("observe", "is the repair in place?")
                return Step(moves.file_digest(file.path), (hit,))
    return None


def _repaired(view: View) -> Step | None:
    deploys = repair_acts(view)
    if not deploys or view.verdict(REPAIRED, after=deploys[-1].last_order) is not None:
        return None
    facts = [
        view.fact(file_subject(file.path), "sha256")
        for repair in view.job.repair
        for file in repair.files
    ]
    events = tuple(dict.fromkeys(fact.event for fact in facts if fact is not None))
    reason = "each deployed file shows the wanted digest"
    condition: JsonObject = {
        "kind": REPAIRED,
        "repairs": [repair.id for repair in view.job.repair],
    }
    return Step(Judge(condition, "confirmed", reason, events), (RuleHit("proof", reason, events),))


def relaunching(view: View, job_name: str, need: str) -> Step:
    """What comes before the next start of the job, and the start."""
    launch = view.job.launch
    if launch is None:
        reason = "the job is stopped, and the policy file does not say how to start it"
        hit = RuleHit("relaunch", reason, view.listed)
        return Step(Close("HANDED_OVER", reason, view.listed), (hit,))
    return (
        _would_fail_again(view, need)
        or _crash_loop(view)
        or preflight(view, not_before_us=_backoff_until(view))
        or clearing(view)
        or model_whole(view, launch)
        or port_found(view, launch)
        or _start(view, launch, job_name)
    )


def _start(view: View, launch: Launch, job_name: str) -> Step:
    number = len(view.launches) + 1
    hit = RuleHit("relaunch", "it is stopped, and every due repair is in place")
    expected: JsonObject = {"kind": STARTED, "advance_steps": launch.advance_steps}
    limit = view.now_us + launch.start_s * SECOND_US
    run = moves.launch(job_name, f"{view.incident_id}-{number}", port_for(view, launch))
    return Step(run, (hit,), expects=(Expectation(expected, limit),))


def _would_fail_again(view: View, need: str) -> Step | None:
    """A fault that comes back unchanged is not started again unless something was changed."""
    changed = any(act.delivered_files for act in repair_acts(view))
    if changed or view.launches:
        return None
    log = view.newest_tail
    roots = [name for name in tail_roots(log) if name in FINAL]
    events = () if log is None else (log.event,)
    if need == "diverged":
        reason = "the loss diverged and no repair is configured; it would diverge again"
    elif need in {"failed", "gone"} and roots:
        reason = f"root signature {', '.join(roots)}: it would fail again unchanged"
    else:
        return None
    return Step(Close("HANDED_OVER", reason, events), (RuleHit("R0", reason, events),))


def start_refuted(view: View, launch: Act) -> bool:
    """Whether *launch* was shown not to lead to progress."""
    judged = view.verdict(STARTED, after=launch.order)
    return launch.settled == "not_done" or (judged is not None and judged.verdict == "refuted")


def _crash_loop(view: View) -> Step | None:
    """Too many starts that failed, or the same root twice without a step."""
    refuted = view.verdicts(STARTED, "refuted")
    limits = view.config.limits
    recent = [r for r in refuted if view.now_us - r.at_us <= limits.crash_window_s * SECOND_US]
    spent = len(view.launches) >= view.config.budget.relaunches
    roots = [tail_roots(view.tail_before(judged.order)) for judged in refuted]
    same = len(roots) > 1 and roots[-1] == roots[-2] != ()
    final = bool(roots) and any(root in FINAL for root in roots[-1])
    if len(recent) < limits.crash_loop and not spent and not same and not final:
        return None
    events = tuple(judged.event for judged in refuted)
    reason = f"{len(view.launches)} start(s) did not lead to progress"
    if same or final:
        reason += f"; root signature {', '.join(roots[-1])}"
    return Step(Close("HANDED_OVER", reason, events), (RuleHit("crash-loop", reason, events),))


def tail_roots(tail: Tail | None) -> tuple[str, ...]:
    """Root signatures in a look at the log; none without one."""
    return () if tail is None else tuple(name for name, _ in tail.counts if name in ROOTS)


def _backoff_until(view: View) -> int:
    refuted = view.verdicts(STARTED, "refuted")
    if not refuted:
        return 0
    limits = view.config.limits
    wait_s = min(limits.backoff_max_s, limits.backoff_s << (len(refuted) - 1))
    return refuted[-1].at_us + wait_s * SECOND_US


def starting(view: View, launch: Act) -> Step | None:
    """Prove the start *launch*, or refute it; None where nothing says any more what would do so."""
    launch_table = view.job.launch
    if launch_table is None:
        return None
    judged = view.verdict(STARTED, after=launch.order)
    if judged is not None and judged.verdict == "confirmed":
        evidence = (*launch.events, judged.event)
        reason = "the job was started again and makes progress"
        return Step(Close("RECOVERED", reason, evidence), (RuleHit("steady", reason, evidence),))
    if not view.seen_after(launch.last_order):
        return Step(moves.list_processes(), (RuleHit("start", "does it live?", launch.events),))
    launch_id = str(launch.arguments.get("launch_id"))
    ours = tuple(s for s in view.samples_after(launch.last_order) if s.launch_id == launch_id)
    if _proven(launch, ours, launch_table):
        return _start_confirmed(view, launch, ours)
    failure = _start_failed(view, launch, ours, launch_table)
    if failure is not None:
        return failure
    return _settling(view, launch, ours, launch_table) or _keep_looking(view, launch, ours)


def _proven(act: Act, ours: tuple[Sample, ...], launch: Launch) -> bool:
    """Steps went on in one process past the settling time, by as many as asked; loss finite."""
    ours = _moving(ours)
    if not ours:
        return False
    first, last = ours[0], ours[-1]
    same = (first.pid, first.start_ticks) == (last.pid, last.start_ticks)
    settled = last.at_us - act.at_us >= launch.settle_s * SECOND_US
    moved = last.step - first.step >= launch.advance_steps and last.step > ours[-2].step
    return same and settled and moved and finite(last.loss) is True


def _settling(view: View, act: Act, ours: tuple[Sample, ...], launch: Launch) -> Step | None:
    """Steps advance already; what is left is to see them go on past the settling time."""
    ours = _moving(ours)
    until_us = act.at_us + launch.settle_s * SECOND_US
    if not ours or ours[-1].step - ours[0].step < launch.advance_steps or view.now_us >= until_us:
        return None
    reason = "steps must go on past the settling time"
    return Step(Pause(until_us, reason), (RuleHit("start", reason, act.events),))


def _moving(ours: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The heartbeats since the start was over: before, a step of 0 is no place to count from."""
    return tuple(sample for sample in ours if sample.state != "starting")


def _start_confirmed(view: View, launch: Act, ours: tuple[Sample, ...]) -> Step:
    ours = _moving(ours)
    last = ours[-1]
    hit_events = (launch.events[0], ours[0].event, last.event)
    table = view.table
    if table is None or not view.seen_after(last.order):
        return Step(moves.list_processes(), (RuleHit("start", "does it still live?", hit_events),))
    alive = table.by_pid.get(last.pid)
    if alive is None or alive.start_ticks != last.start_ticks or alive.zombie:
        return _refute(view, launch, "the process that made these steps has ended")
    condition: JsonObject = {
        "kind": STARTED,
        "launch_id": str(launch.arguments.get("launch_id")),
        "step": last.step,
    }
    reason = f"steps went from {ours[0].step} to {last.step} with a finite loss, in one process"
    judge = Judge(condition, "confirmed", reason, (*hit_events, table.event))
    return Step(judge, (RuleHit("proof", reason, judge.evidence),))


def _start_failed(view: View, launch: Act, ours: tuple[Sample, ...], table: Launch) -> Step | None:
    """A start that ended, diverged or takes too long."""
    if ours and ours[-1].state == "finished":
        return _start_finished(view, launch, ours[-1])
    gone = not view.roles.members and view.now_us - launch.at_us > LAUNCH_SETTLES_US
    over = view.now_us - launch.at_us > table.start_s * SECOND_US
    ended = bool(ours) and ours[-1].state in ENDED_STATES
    diverged = bool(ours) and finite(ours[-1].loss) is False
    if not (gone or over or ended or diverged):
        return None
    log_due = view.job.progress.log is not None and not view.tails_after(launch.last_order)
    if log_due and view.probing("tail_log").failed_in_row == 0:
        return Step(moves.tail_log(view), (RuleHit("start", "what does it say?", launch.events),))
    if diverged:
        return _refute(view, launch, "its loss is not a finite number")
    if gone or ended:
        return _refute(view, launch, "it ended before it made progress")
    return _refute(view, launch, f"no progress within {table.start_s} s")


def _start_finished(view: View, launch: Act, last: Sample) -> Step:
    condition: JsonObject = {
        "kind": STARTED,
        "launch_id": str(launch.arguments.get("launch_id")),
        "step": last.step,
    }
    if finite(last.loss) is not True:
        return _refute(view, launch, "it says that it finished, but states no finite loss")
    reason = f"it finished at step {last.step} with a finite loss"
    judge = Judge(condition, "confirmed", reason, (launch.events[0], last.event))
    return Step(judge, (RuleHit("proof", reason, judge.evidence),))


def _refute(view: View, launch: Act, reason: str) -> Step:
    condition: JsonObject = {
        "kind": STARTED,
        "launch_id": str(launch.arguments.get("launch_id")),
    }
    evidence = (launch.events[0], *view.listed)
    return Step(
        Judge(condition, "refuted", reason, evidence), (RuleHit("start", reason, evidence),)
    )


def _keep_looking(view: View, launch: Act, ours: tuple[Sample, ...]) -> Step:
    """Wait for a step in slices; between them look at heartbeat and processes."""
    waited_order = view.waited_order("heartbeat_step")
    hit = RuleHit("start", "steps must advance", launch.events)
    if view.probing("read_heartbeat").last_order < max(waited_order, launch.last_order):
        return Step(moves.read_heartbeat(view), (hit,))
    if not view.seen_after(waited_order):
        return Step(moves.list_processes(), (hit,))
    step = ours[-1].step + 1 if ours else 0
    launch_id = str(launch.arguments.get("launch_id"))
    return Step(moves.wait_step(view, step, STEP_SLICE_US, launch_id), (hit,))
