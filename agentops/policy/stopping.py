"""Stopping a job: whom first, and when it has been proven to have stopped.

Here: the order (supervisors, then roots, then what their trees left behind), successors, and the
proof of absence. Not here: one victim's ladder (``agentops.policy.ladder``).
"""

from agentops.policy import moves
from agentops.policy.decision import Close, Judge, Pause, RuleHit, Step
from agentops.policy.dumping import dumping
from agentops.policy.ladder import climb, grace_us
from agentops.policy.ledger import Judged
from agentops.policy.process import Process
from agentops.policy.processes import ProcessTable
from agentops.policy.suspecting import suspected
from agentops.policy.view import SECOND_US, View
from journal.events import Identity, JsonObject

TERMINATE = 15
RESPAWNS_MAX = 2


def stopping(view: View) -> Step | None:
    """The next step of stopping, or None when no member lives and no successor may be coming."""
    since = max(view.acted_order, view.waited_order("process_absent"))
    table, fresh = view.table, view.table_fresh(view.config.limits.fresh_s)
    if table is None or not view.seen_after(since) or not fresh:
        return Step(moves.list_processes(), (RuleHit("G14", "what lives now is not known"),))
    flapping = _flapping(view, table)
    if flapping is not None:
        return flapping
    for process in (*view.roles.supervisors, *view.roles.trainers):
        step = _one(view, table, process)
        if step is not None:
            return step
    return _left_behind(view, table)


def _flapping(view: View, table: ProcessTable) -> Step | None:
    """A job that comes back again and again, and nobody was found who starts it."""
    ended = [
        member
        for member in view.state.members
        if member.role == "trainer" and table.find(member.identity) is None
    ]
    if len(ended) <= RESPAWNS_MAX or not view.roles.trainers or view.roles.supervisors:
        return None
    newest = view.roles.trainers[-1]
    if newest.launch_id in {act.arguments.get("launch_id") for act in view.launches}:
        return None
    hit = RuleHit("flapping", "it was started again more than twice", view.listed)
    reason = f"process {newest.pid} was started again by something that no evidence names"
    return Step(Close("HANDED_OVER", reason, view.listed), (hit,), lead="H5")


def _one(view: View, table: ProcessTable, process: Process) -> Step | None:
    victim = table.identity(process)
    if process in view.roles.supervisors and told(view, process, victim):
        return _told_alone(view, table, process, victim)
    return dumping(view, process, victim) or climb(view, process, victim)


def told(view: View, process: Process, victim: Identity) -> bool:
    """A shell that catches TERM acts on it when its child has ended: it was told, go on.

    A supervisor that started another child after it was told is not one of these.
    """
    acts = [act for act in view.signals_to(victim) if act.signal == "TERM"]
    if not acts or TERMINATE not in process.signals_caught:
        return False
    told = acts[-1]
    over_at = told.done_us + grace_us(view, "interrupt")
    # A child often starts within its shell's own tick.
    starts = {
        member.identity
        for member in view.state.members
        if member.role == "trainer" and member.identity.start_ticks >= process.start_ticks
    }
    return view.now_us >= over_at and len(starts) <= 1


def _told_alone(view: View, table: ProcessTable, process: Process, victim: Identity) -> Step | None:
    """While what it waits for lives, None: that comes first. After that it has a grace to end."""
    below = (*view.roles.trainers, *view.roles.workers)
    if any(process in table.ancestors(member) for member in below):
        return None
    over_at = view.acted_us + grace_us(view, "interrupt")
    if view.now_us < over_at:
        hit = RuleHit("supervisor", "it was told, and what it waited for has ended", view.listed)
        return Step(moves.wait_absent((victim,), over_at - view.now_us), (hit,))
    return climb(view, process, victim)


def _left_behind(view: View, table: ProcessTable) -> Step | None:
    """Workers that outlive their root get one grace to see it, then a ladder of their own."""
    if not view.roles.workers:
        return None
    victims = tuple(table.identity(process) for process in view.roles.workers)
    over_at = view.acted_us + grace_us(view, "interrupt")
    untouched = not any(view.signals_to(victim) for victim in victims)
    if untouched and view.now_us < over_at:
        hit = RuleHit("workers", "workers often end by themselves after their root")
        return Step(moves.wait_absent(victims, over_at - view.now_us), (hit,))
    return climb(view, view.roles.workers[0], victims[0])


def proof_of_absence(view: View) -> Step:
    """Two whole listings, a respawn period apart and both after the last act, show no member.

    Between them the heartbeat is read: whom it names now is a member, known or not before.
    """
    table = view.table
    if table is None:
        return Step(moves.list_processes(), (RuleHit("proof", "nothing was listed yet"),))
    if view.roles.members:
        # Nothing above had a step for it; absence is not shown, and is never judged.
        reason = f"process {view.roles.members[0].pid} of the job lives on"
        hit = RuleHit("proof", reason, view.listed)
        return Step(Close("HANDED_OVER", reason, view.listed), (hit,))
    awaited = suspected(view)
    if awaited is not None:
        return awaited
    since = max(view.acted_order, view.alive_order)
    first = view.verdict("members_absent", after=since)
    victims: JsonObject = {
        "kind": "members_absent",
        "identities": [moves.identity(member.identity) for member in view.state.members],
    }
    gaps = [m for m in view.state.members if not table.covers(m.identity)]
    if first is None:
        return _judged(view, victims, "no member lives in a whole listing after the last act")
    again = _second_look(view, table, first)
    if again is not None:
        return again
    stopped: JsonObject = {**victims, "kind": "job_stopped", "looks": 2}
    reason = "two whole listings a respawn period apart show no member and no successor"
    if gaps:
        reason = "the host or its container was started again since; no member can have survived"
    judge = Judge(stopped, "confirmed", reason, (first.event, table.event))
    return Step(judge, (RuleHit("proof", "positive evidence is whole", judge.evidence),))


def _second_look(view: View, table: ProcessTable, first: Judged) -> Step | None:
    """After the respawn period, who writes the heartbeat, and then who lives; None when seen."""
    due = first.at_us + view.job.stop.respawn_s * SECOND_US
    if view.now_us < due:
        hit = RuleHit("proof", "a second look comes after the respawn period", (first.event,))
        return Step(Pause(due, "wait for a successor that does not come"), (hit,))
    # Before the listing, so that a process which still writes it is known when it is listed.
    beat_order = view.probing("read_heartbeat").last_order
    if beat_order <= first.order:
        hit = RuleHit("proof", "does anybody go on with the job's heartbeat?", (first.event,))
        return Step(moves.read_heartbeat(view), (hit,))
    if table.order <= beat_order or table.at_us < due:
        hit = RuleHit("proof", "the second look", (first.event,))
        return Step(moves.list_processes(), (hit,))
    return None


def _judged(view: View, condition: JsonObject, reason: str) -> Step:
    judge = Judge(condition, "confirmed", reason, view.listed)
    return Step(judge, (RuleHit("proof", "absence is shown by a whole listing", view.listed),))
