"""Is the GPUs' memory free where nothing of the job lives?

Here: looks at the cards after the job's absence was proven, the wait for a release that comes late,
and the verdicts on ``gpu_idle`` (one look) and ``gpu_released`` (two). Not here: the stop itself
(``agentops.policy.stopping``).

Memory falls some time after its process ended, so a full card calls for patience, never for
another signal. How much of it, the policy file says at the least and this job's history beyond;
while each look shows less than the one before, a release is under way and is waited for. A tool
that hangs or fails says nothing about the cards: asked twice in vain, a person looks.
"""

from typing import Final, Literal

from agentops.policy import moves
from agentops.policy.decision import Close, Judge, Pause, RuleHit, Step
from agentops.policy.devices import FELL, STATUS, used_mib
from agentops.policy.facts import Fact
from agentops.policy.learned import Patience
from agentops.policy.ledger import Judged
from agentops.policy.view import SECOND_US, View
from journal.events import JsonObject, Verdict

IDLE: Final = "gpu_idle"
RELEASED: Final = "gpu_released"
# Between the two looks that must agree; the driver frees a context's memory at one stroke.
BETWEEN_LOOKS_US = SECOND_US
SLICE_US = 10 * SECOND_US


def releasing(view: View, stopped: Judged) -> Step | None:
    """The next step until the release is proven; None when it is, or when the job uses no GPU."""
    if not view.job.gpu:
        return None
    judged = view.verdict(RELEASED, after=stopped.order)
    if judged is not None and judged.verdict == "confirmed":
        return None
    seen = view.fact(*STATUS)
    acted = max(view.acted_order, stopped.order)
    if seen is None or seen.order < max(acted, view.waited_order("gpu_memory_at_most")):
        return _look("what do the cards hold?", stopped.event)
    used = used_mib(seen.value)
    if used is None:
        return _unreadable(view, stopped, seen)
    if any(mib > view.job.gpu_idle_mib for mib in used):
        return _held(view, stopped, seen, used)
    return _idle(view, stopped, seen)


def _look(text: str, event: str) -> Step:
    return Step(moves.gpu_status(), (RuleHit("release", text, (event,)),))


def _judge(
    kind: Literal["gpu_idle", "gpu_released"], verdict: Verdict, reason: str, *on: str
) -> Step:
    condition: JsonObject = {"kind": kind}
    return Step(Judge(condition, verdict, reason, on), (RuleHit("proof", reason, on),))


def _unreadable(view: View, stopped: Judged, seen: Fact) -> Step:
    """The look told nothing: say so, look once more, then hand over."""
    asked = [v for v in view.verdicts(RELEASED, "inconclusive") if v.order > stopped.order]
    if not asked or asked[-1].order < seen.order:
        return _judge(
            RELEASED, "inconclusive", "nvidia-smi told nothing about the cards", seen.event
        )
    if len(asked) >= view.config.budget.inconclusives:
        reason = "the job's processes are gone; whether the GPUs are free cannot be said"
        events = (stopped.event, *(v.event for v in asked))
        return Step(Close("HANDED_OVER", reason, events), (RuleHit("release", reason, events),))
    return _look("asked once more", seen.event)


def _held(view: View, stopped: Judged, seen: Fact, used: tuple[int, ...]) -> Step:
    """Memory is in use: wait for its fall as long as a release may take, or as it goes on."""
    patience = release_patience(view)
    until = stopped.at_us + patience.seconds * SECOND_US
    fell = view.fact(*FELL)
    if view.now_us >= until and fell is not None and fell.order == seen.order:
        longest = stopped.at_us + view.job.stop.grace.graceful_max_s * SECOND_US
        until = max(until, min(longest, view.now_us + SLICE_US))
    if view.now_us < until:
        limits: JsonObject = {
            "kind": "gpu_memory_at_most",
            "limits_mib": [view.job.gpu_idle_mib] * len(used),
        }
        text = f"memory is freed some time after its process ended{patience.told}"
        hit = RuleHit("release", text, (seen.event,))
        return Step(moves.wait_for(limits, min(SLICE_US, until - view.now_us)), (hit,))
    refuted = view.verdict(RELEASED, after=seen.order)
    reason = f"cards hold {', '.join(str(mib) for mib in used)} MiB, and no member lives"
    if refuted is None:
        return _judge(RELEASED, "refuted", reason, seen.event)
    events = (stopped.event, refuted.event)
    return Step(Close("HANDED_OVER", reason, events), (RuleHit("release", reason, events),))


def release_patience(view: View) -> Patience:
    """How long the cards may take: the configured floor, or longer by this job's history."""
    terms = view.state.terms
    learned = Patience(terms.learned_release_s, terms.learned_release_of)
    return learned.at_least(view.job.stop.gpu_release_s)


def _idle(view: View, stopped: Judged, seen: Fact) -> Step:
    """The cards are idle in this look; a second one must say the same."""
    # An idle look from before memory was held again is none of the two.
    since = max(stopped.order, view.waited_order("gpu_memory_at_most"))
    first = view.verdict(IDLE, after=since)
    if first is None:
        return _judge(IDLE, "confirmed", "every card is at its idle level", seen.event)
    if seen.order > first.order:
        reason = "two looks show every card at its idle level"
        return _judge(RELEASED, "confirmed", reason, first.event, seen.event)
    due = first.at_us + BETWEEN_LOOKS_US
    if view.now_us < due:
        hit = RuleHit("release", "a second look comes a moment later", (first.event,))
        return Step(Pause(due, "one reading of a card may be a transient"), (hit,))
    return _look("the second look", first.event)
