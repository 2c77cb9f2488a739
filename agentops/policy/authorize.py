"""May this command run, now, on this host?

Here: the last question before an intent is recorded; it is asked for every command, whoever wishes
for it, and answers deny where nothing else is shown. Not here: choosing commands
(``agentops.policy.decide``), or putting questions to people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentops.commands.base import Command
from agentops.hosts import Host
from agentops.policy.canonical import digest
from agentops.policy.config import PolicyConfig, Purpose, Standing
from agentops.policy.decision import Decision, Run, binding
from agentops.policy.guards import CURED_BY_LOOKING, ask_all
from agentops.policy.operators import is_signed
from agentops.policy.rules import forbidden, situation
from agentops.policy.state import APPROVAL, PolicyState
from agentops.policy.view import look
from journal.events import Identity

Answer = Literal["allow", "deny", "ask", "probe_first"]
# Commands that run whatever they are told: each needs a person, on every tier.
FREE = frozenset({"run_argv"})
_PURPOSE: Mapping[str, Purpose] = {
    "signal_process": "signal",
    "launch": "relaunch",
    "move_aside": "clear",
    "remove_segments": "clear",
}


@dataclass(frozen=True, slots=True)
class Authorization:
    """The answer, the rule that gave it, and one line for a person."""

    answer: Answer
    rule: str
    reason: str


def approval_digest(command: Command, host: Host, config: PolicyConfig) -> str:
    """What an approval is bound to: verb, argv, host key, identities, policy version."""
    return digest_of(command.name, command.argv(), command.victims(), host, config)


def digest_of(
    command: str,
    argv: Sequence[str],
    victims: Sequence[Identity],
    host: Host,
    config: PolicyConfig,
) -> str:
    """The same of a command that is known by what a question says of it."""
    return digest(
        [
            command,
            list(argv),
            host.name,
            host.fingerprint,
            [victim.model_dump(mode="json") for victim in victims],
            config.digest(),
        ]
    )


def authorize(
    command: Command,
    decision: Decision | None,
    state: PolicyState,
    config: PolicyConfig,
    host: Host,
    now_us: int,
) -> Authorization:
    """Whether *command* may run on *host* at *now_us*."""
    if command.effect == "observes" and command.name not in FREE:
        return Authorization("allow", "observes", "it only looks")
    if state.frozen:
        return Authorization("deny", "G13", "acting is frozen; `agentops thaw` allows it again")
    if state.terms.shadow or config.policy.shadow:
        return Authorization("deny", "shadow", "in shadow mode nothing is changed")
    granted = _granted(command, state, host, config, now_us)
    return (
        _decision_fits(command, decision, state, config, now_us)
        or _guarded(command, decision, state, config, now_us, approved=granted is not None)
        or _authority(command, state, config, host, granted=granted)
    )


def _authority(
    command: Command, state: PolicyState, config: PolicyConfig, host: Host, *, granted: str | None
) -> Authorization:
    """Who says yes: a standing approval of the tier, or a person's yes to this very command."""
    standing = _standing(command, config, host, agent_wish=state.terms.agent_wish)
    if standing is not None:
        return Authorization("allow", f"standing {standing.id}", f"stands for tier {host.tier}")
    if granted is not None:
        reason = "a person said yes to this very command"
        return Authorization("allow", f"{APPROVAL}{granted}", reason)
    reason = f"{command.name} {command.effect} on tier {host.tier}: a person must say yes"
    return Authorization("ask", "G12", reason)


def _decision_fits(
    command: Command,
    decision: Decision | None,
    state: PolicyState,
    config: PolicyConfig,
    now_us: int,
) -> Authorization | None:
    """A refusal where the decision is not one for this command, or no longer."""
    if decision is None:
        return None
    made = next((d for d in state.decisions if d.decision_id == decision.decision_id), None)
    if made is None:
        return Authorization("deny", "decision", "the decision is not in the journal")
    bound = binding(command.name, command.arguments()) == made.bound_to
    configured = command.name != "launch" or _as_configured(command, state, config)
    answer: Answer = "deny"
    reason = ""
    if made.used:
        reason = "the decision was used before; it holds once"
    elif not bound:
        reason = "the decision was made for another command"
    elif not configured:
        reason = "the launch is not the configured one"
    elif now_us > made.expires_at_us:
        answer, reason = "probe_first", "the decision has expired"
    return Authorization(answer, "decision", reason) if reason else None


def _as_configured(command: Command, state: PolicyState, config: PolicyConfig) -> bool:
    name = state.incident.job if state.incident is not None else None
    job = None if name is None else config.job.get(name)
    if job is None or job.launch is None:
        return False
    said = command.arguments()
    env = said.get("env")
    rest = dict(env) if isinstance(env, dict) else {}
    port = job.launch.port
    if port is not None and rest.pop(port.variable, None) not in {str(n) for n in port.choices}:
        return False
    told = (said.get("argv"), said.get("cwd"), said.get("log"), said.get("manner"), rest)
    want = job.launch
    return told == (list(want.argv), want.cwd, want.log, want.manner, dict(want.env))


def _guarded(
    command: Command,
    decision: Decision | None,
    state: PolicyState,
    config: PolicyConfig,
    now_us: int,
    *,
    approved: bool,
) -> Authorization | None:
    """A refusal by guard or rule; the guards are asked again, at the door."""
    name = state.incident.job if state.incident is not None else None
    job = None if name is None else config.job.get(name)
    if job is None:
        if command.effect == "destroys" and not approved:
            return Authorization("ask", "G5", "no incident with a known job proves a role")
        return None
    view = look(state, config, job, now_us)
    run = _as_run(command, decision)
    failed = [guard for guard in ask_all(view, run) if not guard.passed]
    if failed:
        answer: Answer = "probe_first" if failed[0].guard in CURED_BY_LOOKING else "deny"
        return Authorization(answer, failed[0].guard, f"not shown: {failed[0].note}")
    now = situation(
        view,
        run,
        "" if decision is None else decision.rung,
        "" if decision is None else decision.lead,
    )
    rule = forbidden(config, now, approved=approved)
    if rule is None:
        return None
    if rule.unless == "approved":
        return Authorization("ask", f"forbid {rule.id}", rule.note or "a rule asks for approval")
    return Authorization("deny", f"forbid {rule.id}", rule.note or "a rule forbids it")


def _as_run(command: Command, decision: Decision | None) -> Run:
    """The command as guards see it: the decision's own run, or one made of a direct wish."""
    if decision is not None and isinstance(decision.action, Run):
        return decision.action
    return Run(_PURPOSE.get(command.name, "deploy"), command.name, command.arguments())


def _standing(
    command: Command, config: PolicyConfig, host: Host, *, agent_wish: bool
) -> Standing | None:
    if command.name in FREE:
        return None
    return next(
        (
            s
            for s in config.standing
            if s.tier == host.tier and command.name in s.commands and (s.agents or not agent_wish)
        ),
        None,
    )


def _granted(
    command: Command, state: PolicyState, host: Host, config: PolicyConfig, now_us: int
) -> str | None:
    """The unexpired, unused yes that is bound to exactly this command."""
    given = [approval for approval in state.approvals if approval.answer == "granted"]
    if not given:  # most commands need none, and the digest is over the whole of what is sent
        return None
    bound = approval_digest(command, host, config)
    return next(
        (
            approval.approval_id
            for approval in given
            if approval.digest == bound
            and now_us + state.reckoning.ahead_us <= approval.expires_at_us
            and (not config.approvals.operators or is_signed(approval, config.approvals.operators))
        ),
        None,
    )
