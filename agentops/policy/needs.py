"""Does the job need anything at all?

Here: from looks at processes, heartbeat and files to one answer: steady, or the need for which the
job must be stopped or started. Not here: doing it. The answer is recorded as a verdict on
``intervention_needed``, and later stages build on that verdict.
"""

from agentops.policy import moves
from agentops.policy.config import Need, Repair
from agentops.policy.decision import Close, Judge, Pause, RuleHit, Step
from agentops.policy.learning import BEAT, file_subject, finite
from agentops.policy.ledger import Sample
from agentops.policy.releasing import releasing
from agentops.policy.suspecting import suspected, what_proves
from agentops.policy.view import ENDED_STATES, SECOND_US, View
from journal.events import JsonObject

NEEDED = "intervention_needed"
PROGRESSING = "job_progressing"
NEEDS: tuple[Need, ...] = ("requested", "stalled", "diverged", "failed", "gone", "repair")


def needed(view: View) -> Need | None:
    """The need that was established in this incident."""
    for judged in view.verdicts(NEEDED, "confirmed"):
        for known in NEEDS:
            if judged.condition.get("need") == known:
                return known
    return None


def observing(view: View) -> Step | None:
    """The looks without which nothing can be said; None when all were taken."""
    if view.table is None or not view.table_fresh(view.config.limits.fresh_s):
        return _look(view, "list_processes")
    if view.heartbeat_exists is None:
        return _look(view, "read_heartbeat")
    for repair in view.job.repair:
        for file in repair.files if repair.when.differs else ():
            if view.fact(file_subject(file.path), "sha256") is None:
                hit = RuleHit("observe", "is the repair in place?")
                return Step(moves.file_digest(file.path), (hit,))
    if view.job.progress.log is not None and view.probing("tail_log").ran == 0:
        return _look(view, "tail_log")
    if view.job.shared_memory is not None and view.probing("shared_memory").ran == 0:
        hit = RuleHit("observe", "which segments do the job's processes hold?")
        return Step(moves.shared_memory(), (hit,))
    return None


def _look(view: View, command: str) -> Step:
    run = {
        "list_processes": moves.list_processes(),
        "read_heartbeat": moves.read_heartbeat(view),
        "tail_log": moves.tail_log(view),
    }[command]
    return Step(run, (RuleHit("observe", "this was not looked at yet, or is too old"),))


def diagnosing(view: View) -> Step:
    """Either a verdict on the need, a look that decides it, or the end: nothing to do."""
    if view.state.terms.goal == "stop":
        return _stop_requested(view)
    if not view.roles.members:
        return _nobody(view)
    due = due_repairs(view)
    if due:
        events = _digest_events(view, due)
        return _need("repair", f"{len(due)} repair(s) are not in place", events)
    if view.diverged and view.beat is not None:
        return _need("diverged", "the loss is not a finite number", (view.beat.event,))
    return _progress(view)


def due_repairs(view: View) -> tuple[Repair, ...]:
    """Repairs that the evidence calls for and that are not proven to be in place."""
    return tuple(
        repair
        for repair in view.job.repair
        if _called_for(view, repair) and not in_place(view, repair)
    )


def in_place(view: View, repair: Repair) -> bool:
    """Whether the newest look at each file showed the wanted digest."""
    return all(
        view.state.facts.value(file_subject(file.path), "sha256") == file.sha256
        for file in repair.files
    )


def _called_for(view: View, repair: Repair) -> bool:
    when = repair.when
    seen = when.differs and all(
        view.fact(file_subject(file.path), "sha256") is not None for file in repair.files
    )
    if when.differs and not seen:
        return False
    if when.need is not None and needed(view) != when.need:
        return False
    if when.lead is not None and not any(d.lead == when.lead for d in view.state.decisions):
        return False
    return when.signature is None or any(tail.count(when.signature) for tail in view.state.tails)


def _digest_events(view: View, repairs: tuple[Repair, ...]) -> tuple[str, ...]:
    facts = [
        view.fact(file_subject(file.path), "sha256") for repair in repairs for file in repair.files
    ]
    return tuple(dict.fromkeys(fact.event for fact in facts if fact is not None))


def _need(need: Need, reason: str, events: tuple[str, ...]) -> Step:
    condition: JsonObject = {"kind": NEEDED, "need": need}
    return Step(
        Judge(condition, "confirmed", reason, events), (RuleHit(f"need-{need}", reason, events),)
    )


def _stop_requested(view: View) -> Step:
    table = view.table
    events = () if table is None else (table.event,)
    if view.roles.members:
        return _need("requested", "the operator asked for a stop", events)
    if view.roles.candidates and view.heartbeat_exists is not True:
        return _ambiguous(view)
    unclear = suspected(view)
    if unclear is not None:
        return unclear
    if view.verdict("members_absent") is None:
        condition: JsonObject = {"kind": "members_absent", "identities": []}
        reason = "a whole listing shows no process with a proven role"
        judge = Judge(condition, "confirmed", reason, events)
        return Step(judge, (RuleHit("proof", reason, events),))
    absent = view.verdict("members_absent")
    held = None if absent is None else releasing(view, absent)
    if held is not None:
        return held
    reason = "nothing of the job runs"
    return Step(Close("NOTHING_TO_DO", reason, events), (RuleHit("steady", reason, events),))


def _ambiguous(view: View) -> Step:
    """Names match and nothing proves a role: a person must look."""
    events = view.listed
    reason = (
        f"{len(view.roles.candidates)} process(es) match the job's selector, but no heartbeat, "
        f"launch id, tree or cgroup proves that they are the job; {what_proves(view)}"
    )
    return Step(Close("HANDED_OVER", reason, events), (RuleHit("G5", reason, events),))


def _nobody(view: View) -> Step:
    """No member lives: has it finished, failed, vanished, or is it only starting?"""
    table = view.table
    events = () if table is None else (table.event,)
    beat = view.beat
    fresh = _starting(view)
    if fresh is not None:
        return fresh
    if beat is not None and beat.state == "finished":
        reason = "the job has finished"
        evidence = (*events, beat.event)
        return Step(
            Close("NOTHING_TO_DO", reason, evidence), (RuleHit("steady", reason, evidence),)
        )
    unclear = suspected(view)
    if unclear is None and beat is None and view.roles.candidates:
        unclear = _ambiguous(view) if view.heartbeat_exists is not True else None
    if unclear is not None:
        return unclear
    return _down(view, beat, events)


def _down(view: View, beat: Sample | None, events: tuple[str, ...]) -> Step:
    """The job has not finished and nobody is suspected to be it: is it to be started?"""
    if view.state.terms.stays_down:
        reason = "nothing of the job runs; it was stopped on request, and only a person starts it"
        return Step(Close("NOTHING_TO_DO", reason, events), (RuleHit("steady", reason, events),))
    if view.job.launch is None:
        reason = "nothing of the job runs, and the policy file does not say how to start it"
        return Step(Close("HANDED_OVER", reason, events), (RuleHit("need-gone", reason, events),))
    if beat is not None and beat.state == "failed":
        return _need(
            "failed", "the job says that it failed, and no member lives", (*events, beat.event)
        )
    return _need("gone", "no member lives, and the job has not finished", events)


def _starting(view: View) -> Step | None:
    """A young candidate may be the job before its first heartbeat: give it its start."""
    table = view.table
    if table is None:
        return None
    start_s = view.job.launch.start_s if view.job.launch is not None else view.job.progress.stall_s
    young = [
        process
        for process in view.roles.candidates
        if table.uptime_ticks - process.start_ticks < start_s * table.ticks_per_s
    ]
    if not young:
        return None
    events = view.listed
    hit = RuleHit(
        "starting", "a young process matches the selector and has no heartbeat yet", events
    )
    if view.probing("read_heartbeat").last_order < table.order:
        return Step(moves.read_heartbeat(view), (hit,))
    if view.now_us - table.at_us < SECOND_US:
        return Step(Pause(view.now_us + SECOND_US, "it may be starting"), (hit,))
    return Step(moves.list_processes(), (hit,))


def advanced(samples: tuple[Sample, ...]) -> bool:
    """Whether heartbeats of one process show a later step and a finite loss."""
    if not samples:
        return False
    last = samples[-1]
    same = [s for s in samples if (s.pid, s.start_ticks) == (last.pid, last.start_ticks)]
    return last.step > same[0].step and finite(last.loss) is not False


def _progress(view: View) -> Step:
    """Members live: do steps advance?"""
    beat = view.beat
    if beat is None:
        return _silent(view)
    if beat.state in ENDED_STATES:
        return _lingering(view, beat)
    if advanced(view.state.samples):
        return _steady(view, beat)
    stall_us = stall_limit_us(view, beat)
    since = view.still_since_us or beat.at_us
    if view.now_us - since >= stall_us and beat.at_us - since >= stall_us:
        reason = f"step {beat.step} stood for {(beat.at_us - since) // SECOND_US} s"
        return _need("stalled", reason, (view.state.samples[0].event, beat.event))
    hit = RuleHit("progress", "one heartbeat shows a place, not a movement", (beat.event,))
    if view.waited_order("heartbeat_step") > beat.order:
        return Step(moves.read_heartbeat(view), (hit,))
    left = max(
        SECOND_US, min(stall_us - (view.now_us - since), view.job.progress.watch_s * SECOND_US)
    )
    return Step(moves.wait_step(view, beat.step + 1, left), (hit,))


def stall_limit_us(view: View, beat: Sample) -> int:
    """How long a step may stand; a start or an evaluation may take as long as a start may."""
    start_s = 0 if view.job.launch is None else view.job.launch.start_s
    patient = beat.state in {"starting", "evaluating", "checkpointing"}
    return max(view.job.progress.stall_s, start_s if patient else 0) * SECOND_US


def _steady(view: View, beat: Sample) -> Step:
    evidence = (view.state.samples[0].event, beat.event)
    if view.verdict(PROGRESSING) is None:
        condition: JsonObject = {"kind": PROGRESSING, "step": beat.step}
        reason = "a later heartbeat of the same process shows a later step and a finite loss"
        return Step(
            Judge(condition, "confirmed", reason, evidence),
            (RuleHit("progress", reason, evidence),),
        )
    reason = "the job makes progress and no repair is due"
    return Step(Close("NOTHING_TO_DO", reason, evidence), (RuleHit("steady", reason, evidence),))


def _silent(view: View) -> Step:
    """Members without a heartbeat: wait for one as long as a stall may take."""
    oldest = min((p.start_ticks for p in view.roles.members), default=0)
    table = view.table
    age_us = 0
    if table is not None:
        age_us = (table.uptime_ticks - oldest) * SECOND_US // table.ticks_per_s
    fact = view.fact(*BEAT)
    events = () if fact is None else (fact.event,)
    if age_us >= view.job.progress.stall_s * SECOND_US:
        return _need("stalled", "members live and never wrote a heartbeat", events)
    hit = RuleHit("progress", "no heartbeat yet", events)
    if fact is not None and view.now_us - fact.at_us < SECOND_US:
        return Step(Pause(view.now_us + SECOND_US, "the first heartbeat may be near"), (hit,))
    return Step(moves.read_heartbeat(view), (hit,))


def _lingering(view: View, beat: Sample) -> Step:
    """The heartbeat says that it ended, yet members live: give them a grace, then see them off."""
    since = view.still_since_us or beat.at_us
    hit = RuleHit("lingering", f"it says {beat.state}, and members live", (beat.event,))
    if view.now_us - since < view.job.stop.grace.terminate_s * SECOND_US:
        table = view.table
        victims = () if table is None else tuple(table.identity(p) for p in view.roles.members)
        waited = view.waited_order("process_absent")
        if table is not None and waited > table.order:
            return Step(moves.list_processes(), (hit,))
        if waited > beat.order:
            return Step(moves.read_heartbeat(view), (hit,))
        return Step(moves.wait_absent(victims, 10 * SECOND_US), (hit,))
    return _need("stalled", "it says that it ended, yet members live on", (beat.event,))
