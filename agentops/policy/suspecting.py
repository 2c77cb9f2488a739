"""A process that may be of the job, and nothing proves it: wait until it shows who it is.

Here: the patience with suspects, and its end. Not here: who is one (``agentops.policy.roles``).
Nobody is signalled on a suspicion, and no stop is called proven while there is one.
"""

from agentops.policy import moves
from agentops.policy.decision import Close, Pause, RuleHit, Step
from agentops.policy.view import SECOND_US, View


def what_proves(view: View) -> str:
    """What a person can add to a job that only its name gives away."""
    return (
        f"let the job write pid and start_ticks to {view.job.progress.heartbeat}, name its cgroup"
        " in policy.toml, or start it by agentops"
    )


def suspected(view: View) -> Step | None:
    """The next look at the oldest suspect, or the handover; None where nobody is suspected."""
    if not view.roles.suspects:
        return None
    suspect = view.roles.suspects[0]
    table = view.table
    age_us = 0
    if table is not None:
        age_us = (table.uptime_ticks - suspect.start_ticks) * SECOND_US // table.ticks_per_s
    hit = RuleHit("H5", "a process looks like the job, and is not proven to be", view.listed)
    launch = view.job.launch
    limit_us = (launch.start_s if launch is not None else view.job.progress.stall_s) * SECOND_US
    if age_us > limit_us:
        reason = (
            f"process {suspect.pid} looks like the job, and nothing proves that it is;"
            f" {what_proves(view)}"
        )
        return Step(Close("HANDED_OVER", reason, view.listed), (hit,), lead="H5")
    beat_due = view.probing("read_heartbeat").last_order < (table.order if table else 0)
    if beat_due:
        return Step(moves.read_heartbeat(view), (hit,))
    pause = view.now_us + SECOND_US
    if table is not None and view.now_us - table.at_us < SECOND_US:
        return Step(Pause(pause, "it has not shown yet who it is"), (hit,))
    return Step(moves.list_processes(), (hit,))
