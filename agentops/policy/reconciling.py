"""Settling what an unknown outcome left open: by a look, never by a repeat.

Here: for each kind of act, the look that tells whether it took effect, and the verdict on
``command_took_effect``: confirmed is recorded as done, refuted as not_done, inconclusive as
unknown. Not here: the acts themselves.
"""

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from agentops.policy import moves
from agentops.policy.decision import Close, Judge, Pause, RuleHit, Run, Step
from agentops.policy.hypotheses import Interrupted, interrupt_in_log
from agentops.policy.learning import (
    BEAT,
    SHARED_MEMORY,
    beat_value,
    file_subject,
    lock_subject,
)
from agentops.policy.ledger import Act, deployed_paths
from agentops.policy.process import Process
from agentops.policy.processes import ProcessTable
from agentops.policy.view import SECOND_US, View
from journal.events import JsonObject, Verdict

TOOK_EFFECT = "command_took_effect"
# A frame that was cut off may still be on its way; a launch that is late must not be doubled.
SETTLES_US = 5 * SECOND_US
ATTEMPTS_MAX = 3


def reconciling(view: View) -> Step | None:
    """The next look or verdict for the oldest act whose end is not known; None when all are."""
    for act in view.state.acts:
        if act.open:
            if view.probing("list_processes").failed_in_row >= ATTEMPTS_MAX:
                return _blind(act)
            return _SETTLERS.get(act.command, _signal)(view, act)
    return None


def _blind(act: Act) -> Step:
    reason = f"whether {act.command} took effect cannot be seen: the host does not answer"
    hit = RuleHit("G14", reason, act.events)
    return Step(Close("HANDED_OVER", reason, act.events), (hit,))


def _settle(act: Act, verdict: Verdict, reason: str, *events: str) -> Step:
    condition: JsonObject = {
        "kind": TOOK_EFFECT,
        "command_id": act.command_id,
        "command": act.command,
        "status": act.status,
    }
    evidence = (*act.events, *events)
    return Step(Judge(condition, verdict, reason, evidence), (RuleHit("G14", reason, evidence),))


def _signal(view: View, act: Act) -> Step:
    hit = RuleHit("G14", "a signal's outcome is unknown", act.events)
    table = view.table
    if table is None or not view.seen_after(act.last_order):
        return Step(moves.list_processes("reconcile"), (hit,))
    if not act.victims:
        return _settle(act, "inconclusive", "nothing names what it acted on")
    victim = act.victims[0]
    process = table.find(victim)
    if process is None or process.zombie:
        return _settle(act, "confirmed", "its victim has ended", table.event)
    return _interrupt(view, act, process, table.event)


def _interrupt(view: View, act: Act, process: Process, listed: str) -> Step:
    """The victim lives on: only the log of a Python program can still show the interrupt."""
    hit = RuleHit("G14", "an interrupt's outcome is unknown", act.events)
    if act.signal != "INT" or view.job.progress.log is None:
        reason = "its victim lives on, which tells nothing about delivery"
        return _settle(act, "inconclusive", reason, listed)
    if not view.tails_after(act.last_order) and view.probing("tail_log").failed_in_row == 0:
        return Step(moves.tail_log(view), (hit,))
    if interrupt_in_log(Interrupted(view, process, act)):
        tail = view.tails_after(act.last_order)[-1]
        return _settle(act, "confirmed", "the log shows the interrupt", tail.event)
    reason = "its victim lives on and the log shows no interrupt"
    return _settle(act, "inconclusive", reason, listed)


def _deploy(view: View, act: Act) -> Step:
    hit = RuleHit("G14", "a deployment's outcome is unknown", act.events)
    wanted = _digests(act)
    seen: list[str] = []
    same = True
    for path in sorted(deployed_paths(act)):
        fact = view.fact(file_subject(path), "sha256")
        if fact is None or fact.order <= act.last_order:
            if view.probing("file_digest").failed_in_row >= ATTEMPTS_MAX:
                return _blind(act)
            return Step(moves.file_digest(path, "reconcile"), (hit,))
        seen.append(fact.event)
        same = same and fact.value == wanted.get(path)
    if same:
        return _settle(act, "confirmed", "each file shows the wanted digest", *seen)
    return _settle(act, "refuted", "a file does not show the wanted digest", *seen)


def _digests(act: Act) -> dict[str, object]:
    files = act.arguments.get("files")
    listed = files if isinstance(files, list) else []
    return {str(f.get("path")): f.get("sha256") for f in listed if isinstance(f, dict)}


def _moved(view: View, act: Act) -> Step:
    """Whether the lock still stands, and says the same."""
    seen = view.fact(lock_subject(str(act.arguments.get("path"))), "seen")
    if seen is None or seen.order <= act.last_order:
        return _looked(view, act, moves.locks(view, "reconcile"))
    said = seen.value if isinstance(seen.value, dict) else {}
    if said.get("exists") is True and said.get("text") == act.arguments.get("text"):
        return _settle(act, "refuted", "the lock stands as it stood", seen.event)
    return _settle(act, "confirmed", "the lock does not stand there any more", seen.event)


def _removed(view: View, act: Act) -> Step:
    """Whether any of the segments is left; a part of them is not the whole."""
    seen = view.fact(*SHARED_MEMORY)
    if seen is None or seen.order <= act.last_order:
        return _looked(view, act, moves.shared_memory("reconcile"))
    said = seen.value if isinstance(seen.value, dict) else {}
    sent, left = act.arguments.get("segments"), said.get("segments")
    there = {(row.get("name"), row.get("inode")) for row in _objects(left)}
    if any((row.get("name"), row.get("inode")) in there for row in _objects(sent)):
        return _settle(act, "refuted", "a segment lies where it lay", seen.event)
    return _settle(act, "confirmed", "none of the segments is left", seen.event)


def _looked(view: View, act: Act, look: Run) -> Step:
    """The look that settles *act*, unless it fails again and again."""
    if view.probing(look.command).failed_in_row >= ATTEMPTS_MAX:
        return _blind(act)
    return Step(look, (RuleHit("G14", f"whether {act.command} took effect", act.events),))


def _objects(value: JsonValue) -> list[JsonObject]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _launch(view: View, act: Act) -> Step:
    hit = RuleHit("G14", "a launch's outcome is unknown", act.events)
    launch_id = act.arguments.get("launch_id")
    table = view.table
    if not view.seen_after(act.last_order) or table is None:
        return Step(moves.list_processes("reconcile"), (hit,))
    carrier = next((process for process in table if process.launch_id == launch_id), None)
    if carrier is not None:
        return _settle(act, "confirmed", "a process carries the launch id", table.event)
    look = view.fact(*BEAT)
    if look is None or look.order <= act.last_order:
        return Step(moves.read_heartbeat(view, "reconcile"), (hit,))
    if beat_value(view.state.facts, "launch_id") == launch_id:
        return _settle(act, "confirmed", "the heartbeat states the launch id", look.event)
    return _launch_missing(view, act, table)


def _launch_missing(view: View, act: Act, table: ProcessTable) -> Step:
    """Nothing shows it yet: a late frame gets its time, then it counts as not done."""
    hit = RuleHit("G14", "a launch's outcome is unknown", act.events)
    due = act.done_us + SETTLES_US
    if view.now_us < due:
        return Step(Pause(due, "a launch that is on its way would show by then"), (hit,))
    if table.at_us < due:
        return Step(moves.list_processes("reconcile"), (hit,))
    return _settle(act, "refuted", "no process carries the launch id", table.event)


_SETTLERS: Mapping[str, Callable[[View, Act], Step]] = {
    "deploy_files": _deploy,
    "launch": _launch,
    "move_aside": _moved,
    "remove_segments": _removed,
}
