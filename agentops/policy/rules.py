"""Configured rules: is an act permitted, is it forbidden?

Here: matching the closed vocabulary of ``when``. Not here: the guards. Forbid beats permit, and
what no rule permits is not done.
"""

from dataclasses import dataclass

from agentops.policy.config import Forbid, Permit, PolicyConfig, RuleWhen
from agentops.policy.decision import Run
from agentops.policy.hypotheses import Interrupted, advance
from agentops.policy.needs import needed
from agentops.policy.view import View
from journal.events import Effect

EFFECT_OF: dict[str, Effect] = {
    "signal_process": "destroys",
    "deploy_files": "changes",
    "move_aside": "changes",
    "remove_segments": "destroys",
    "launch": "changes",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """What a rule may ask about one act. facts holds those of its words that are shown true."""

    command: str
    purpose: str
    effect: str
    signal: str
    rung: str
    lead: str
    need: str
    tier: str
    facts: frozenset[str]


def situation(view: View, run: Run, rung: str, lead: str) -> Situation:
    """The situation of *run* under *view*."""
    signal = run.arguments.get("signal")
    facts = set()
    beat = view.beat
    if beat is not None and beat.checkpoint_writing:
        facts.add("checkpoint.writing")
    if view.fact("gpu", "status") is None:
        facts.add("gpu.unknown")
    trainers = view.roles.trainers
    if (
        trainers
        and view.signals
        and (advance(Interrupted(view, trainers[0], view.signals[-1])) or 0) > 0
    ):
        facts.add("steps.advance")
    return Situation(
        command=run.command,
        purpose=run.purpose,
        effect=EFFECT_OF.get(run.command, "observes"),
        signal=signal if isinstance(signal, str) else "",
        rung=rung,
        lead=lead,
        need=needed(view) or "",
        tier=view.state.terms.tier,
        facts=frozenset(facts),
    )


def applies(when: RuleWhen, now: Situation) -> bool:
    """Whether all that *when* names holds in *now*; an empty table holds always."""
    pairs = (
        (when.command, now.command),
        (when.purpose, now.purpose),
        (when.effect, now.effect),
        (when.signal, now.signal),
        (when.rung, now.rung),
        (when.lead, now.lead),
        (when.need, now.need),
        (when.tier, now.tier),
    )
    named = all(wanted is None or wanted == seen for wanted, seen in pairs)
    return named and (when.fact is None or when.fact in now.facts)


def forbidden(config: PolicyConfig, now: Situation, *, approved: bool = False) -> Forbid | None:
    """The first rule that forbids; an approval lifts only rules that say so."""
    for rule in config.forbid:
        lifted = approved and rule.unless == "approved"
        if not lifted and applies(rule.when, now):
            return rule
    return None


def permitted(config: PolicyConfig, now: Situation) -> Permit | None:
    """The first rule that permits, or None: then it is not done."""
    return next((rule for rule in config.permit if applies(rule.when, now)), None)
