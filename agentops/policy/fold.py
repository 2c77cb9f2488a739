"""How events become state, one after the other.

Here: ``fold``, pure and total: an event that says nothing to policy leaves the state as it was, but
for its place in the order. Not here: the state's shape (``agentops.policy.state``) or what an
observation teaches (``agentops.policy.learning``).
"""

import hashlib
from collections.abc import Mapping

from pydantic import JsonValue, TypeAdapter, ValidationError

from agentops.policy.changing import changed
from agentops.policy.learning import Source, learn
from agentops.policy.ledger import (
    Act,
    Decided,
    Incident,
    Judged,
    Member,
    Sample,
    Settled,
    Status,
    Terms,
)
from agentops.policy.state import APPROVAL, EVERYWHERE, Approval, PolicyState, Probing
from journal.envelope import Event
from journal.events import (
    ActingFrozen,
    ActingThawed,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRequested,
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    CommandReconciled,
    ConfigurationLoaded,
    DecisionMade,
    IncidentClosed,
    IncidentOpened,
    JsonObject,
    ObservationParsed,
    Verdict,
    VerdictReached,
)

SAMPLES_MAX = 64
TAILS_MAX = 8
DECISIONS_MAX = 256
_MEMBER = TypeAdapter(Member)
# Outcomes that the journal itself holds open until a ``command_reconciled``.
RECONCILED = frozenset({"unknown", "in_doubt"})
SETTLED: Mapping[Verdict, Settled] = {
    "confirmed": "done",
    "refuted": "not_done",
    "inconclusive": "unknown",
}
_STATUS: Mapping[str, Status] = {
    "command_not_sent": "not_sent",
    "command_completed": "completed",
    "command_failed": "failed",
    "command_outcome_unknown": "unknown",
}


def fold(state: PolicyState, event: Event, observation: JsonValue | None = None) -> PolicyState:
    """The state after *event*.

    *observation* is the recorded value of an ``observation_parsed`` event (inline or attached);
    None where it was removed from the journal, and then it teaches nothing.
    """
    heads = dict(state.basis)
    heads[event.stream] = event.seq
    trail = hashlib.sha256(f"{state.trail}{event.leaf or event.id}".encode()).hexdigest()
    order = state.order + 1
    clocks = (event.ts_us, event.mono_ns // 1_000, event.boot)
    state = changed(
        state,
        order=order,
        basis=tuple(sorted(heads.items())),
        trail=trail,
        reckoning=state.reckoning.after(*clocks, order),
    )
    match event.payload:
        case IncidentOpened() | IncidentClosed() | ConfigurationLoaded():
            return _frame(state, event)
        case ActingFrozen() | ActingThawed():
            return _freeze(state, event)
        case ApprovalRequested() | ApprovalGranted() | ApprovalRefused() | ApprovalExpired():
            return _approval(state, event)
        case DecisionMade() as made:
            return _decided(state, made)
        case VerdictReached() as reached:
            return _judged(state, event, reached)
        case _:
            return _command(state, event, observation)


def _command(state: PolicyState, event: Event, observation: JsonValue | None) -> PolicyState:
    """What an event tells about one command."""
    match event.payload:
        case CommandIntended() as intent:
            return _intended(state, event, intent)
        case (
            CommandNotSent() | CommandCompleted() | CommandFailed() | CommandOutcomeUnknown()
        ) as outcome:
            return _ended(state, event, outcome)
        case ObservationParsed() as observed:
            return _observed(state, event, observed, observation)
        case CommandReconciled() as known:
            return _each_act(state, known.command_id, settled=known.settled, event=event.id)
        case CommandDenied() as denial:
            return changed(state, denials=state.denials + 1, denied=_named(denial))
        case _:
            return state


def _freeze(state: PolicyState, event: Event) -> PolicyState:
    """Acting is frozen or thawed, on one host or everywhere; thawing everywhere thaws each."""
    place = EVERYWHERE if event.host is None else event.host.name
    if isinstance(event.payload, ActingFrozen):
        return changed(state, frozen_hosts=tuple(sorted({*state.frozen_hosts, place})))
    kept = () if place == EVERYWHERE else tuple(h for h in state.frozen_hosts if h != place)
    return changed(state, frozen_hosts=kept)


def _frame(state: PolicyState, event: Event) -> PolicyState:
    """What the incident is and under what terms it is handled."""
    payload = event.payload
    match payload:
        case IncidentOpened():
            opened = Incident(event.incident or "", payload.job, state.at_us)
            return changed(state, incident=opened)
        case IncidentClosed() if state.incident is not None:
            return changed(state, incident=changed(state.incident, resolution=payload.resolution))
        case ConfigurationLoaded():
            return changed(
                state, configuration=payload.digest, terms=read_terms(payload.body, state.terms)
            )
        case _:
            return state


def read_terms(body: JsonObject, before: Terms) -> Terms:
    """The terms in a configuration's body; what it does not say stays as it was."""
    said = body.get("terms")
    if not isinstance(said, dict):
        return before
    goal, tier, shadow = said.get("goal"), said.get("tier"), said.get("shadow")
    return Terms(
        goal="stop" if goal == "stop" else "recover",
        tier="dev" if tier == "dev" else "prod" if tier == "prod" else "unknown",
        shadow=shadow is True,
        host=_text(said, "host"),
        stays_down=said.get("stays_down") is True,
        learned_grace_s=max(0, _number(said, "learned_grace_s")),
        learned_grace_of=max(0, _number(said, "learned_grace_of")),
        learned_release_s=max(0, _number(said, "learned_release_s")),
        learned_release_of=max(0, _number(said, "learned_release_of")),
    )


def _named(denial: CommandDenied) -> str:
    """An act in a few words of its own: the command, and what it was aimed at."""
    signal, *paths = (denial.arguments.get(key) for key in ("signal", "path", "launch_id"))
    words = [str(word) for word in (signal, *paths) if isinstance(word, str)]
    words += [f"to process {victim.pid}" for victim in denial.victims[:1]]
    return " ".join((denial.command, *words))


def _intended(state: PolicyState, event: Event, intent: CommandIntended) -> PolicyState:
    state = changed(
        state,
        decisions=tuple(
            changed(made, used=True) if made.decision_id == intent.decision_id else made
            for made in state.decisions
        ),
        running=(*state.running, (intent.command_id, intent.command, intent.arguments)),
    )
    if intent.authority.startswith(APPROVAL):
        state = _answered(state, intent.authority.removeprefix(APPROVAL), "used")
    if intent.effect == "observes":
        return _probing(state, intent.command, ran=1)
    act = Act(
        command_id=intent.command_id,
        command=intent.command,
        effect=intent.effect,
        arguments=intent.arguments,
        victims=intent.victims,
        decision_id=intent.decision_id,
        at_us=state.at_us,
        order=state.order,
        events=(event.id,),
    )
    return changed(state, acts=(*state.acts, act))


def _ended(
    state: PolicyState,
    event: Event,
    payload: CommandNotSent | CommandCompleted | CommandFailed | CommandOutcomeUnknown,
) -> PolicyState:
    status = _STATUS[payload.kind]
    command_id = payload.command_id
    command = next((name for key, name, _ in state.running if key == command_id), "")
    state = _each_act(state, command_id, ended=(status, state.at_us), event=event.id)
    if status == "completed":
        return state
    state = changed(state, running=tuple(row for row in state.running if row[0] != command_id))
    return _probing(state, command, failed_at_us=state.at_us)


def _observed(
    state: PolicyState, event: Event, observed: ObservationParsed, observation: JsonValue | None
) -> PolicyState:
    known = {key: arguments for key, _, arguments in state.running}
    arguments = known.get(observed.command_id, {})
    source = Source(event.id, state.at_us, state.order, arguments)
    learned = learn(state.facts, observed.command, observation, source)
    state = changed(
        state,
        facts=learned.facts,
        running=tuple(row for row in state.running if row[0] != observed.command_id),
    )
    state = _each_act(state, observed.command_id, observation=observation, event=event.id)
    if learned.sample is not None:
        state = changed(state, samples=_samples((*state.samples, learned.sample)))
    if learned.waited is not None:
        others = tuple(w for w in state.waits if w.kind != learned.waited.kind)
        state = changed(state, waits=(*others, learned.waited))
    if learned.tail is not None:
        state = changed(state, tails=(*state.tails, learned.tail)[-TAILS_MAX:])
    return _probing(state, observed.command, succeeded=True)


def _samples(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The first sample and the newest ones: where progress began, and how it goes."""
    return samples if len(samples) <= SAMPLES_MAX else (samples[0], *samples[-SAMPLES_MAX + 1 :])


def _probing(
    state: PolicyState,
    command: str,
    *,
    ran: int = 0,
    failed_at_us: int | None = None,
    succeeded: bool = False,
) -> PolicyState:
    rows = {row.command: row for row in state.probing}
    row = rows.get(command, Probing(command))
    rows[command] = Probing(
        command,
        row.ran + ran,
        0 if succeeded else row.failed_in_row + (failed_at_us is not None),
        state.order if succeeded else row.last_order,
        row.failed_at_us if failed_at_us is None else failed_at_us,
    )
    return changed(state, probing=tuple(row for _, row in sorted(rows.items())))


def _judged(state: PolicyState, event: Event, reached: VerdictReached) -> PolicyState:
    """A verdict; one on whether a command took effect settles that command.

    Where the journal itself waits for ``command_reconciled``, only that event settles: a writer
    that died between the two left the journal waiting, so the verdict is reached once more.
    """
    judged = Judged(reached.condition, reached.verdict, state.at_us, state.order, event.id)
    state = changed(state, verdicts=(*state.verdicts, judged))
    command_id = reached.condition.get("command_id")
    if not isinstance(command_id, str):
        return state
    waits = reached.condition.get("status") in RECONCILED
    settled = None if waits else SETTLED[reached.verdict]
    return _each_act(state, command_id, settled=settled, event=event.id)


def _each_act(
    state: PolicyState,
    command_id: str,
    *,
    event: str | None = None,
    ended: tuple[Status, int] | None = None,
    observation: JsonValue = None,
    settled: Settled | None = None,
) -> PolicyState:
    """The state in which the act of *command_id* knows more; other acts stay as they are."""
    if all(act.command_id != command_id for act in state.acts):
        return state
    acts = []
    for act in state.acts:
        known = act
        if act.command_id == command_id:
            if event is not None:
                known = changed(known, events=(*known.events, event))
            if ended is not None:
                status, at_us = ended
                known = changed(known, status=status, ended_at_us=at_us, ended_order=state.order)
            if observation is not None:
                known = changed(known, observation=observation)
            if settled is not None:
                known = changed(known, settled=settled)
        acts.append(known)
    return changed(state, acts=tuple(acts))


def _decided(state: PolicyState, made: DecisionMade) -> PolicyState:
    decision = made.decision
    listed = decision.get("members")
    members = listed if isinstance(listed, list) else []
    decided = Decided(
        decision_id=made.decision_id,
        action=_text(decision, "action", "kind"),
        purpose=_text(decision, "action", "purpose"),
        rung=_text(decision, "rung"),
        phase=_text(decision, "phase"),
        lead=_text(decision, "lead"),
        at_us=state.at_us,
        order=state.order,
        expires_at_us=_number(decision, "expires_at_us"),
        bound_to=_text(decision, "bound_to"),
        alive=len(members),
    )
    known = {member.identity: member for member in state.members}
    for item in members:
        member = _member(item)
        if member is not None:
            known.setdefault(member.identity, member)
    return changed(
        state,
        decisions=(*state.decisions, decided)[-DECISIONS_MAX:],
        members=tuple(known.values()),
    )


def _member(item: JsonValue) -> Member | None:
    try:
        return _MEMBER.validate_python(item)
    except ValidationError:
        return None


def _text(value: JsonValue, *path: str) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _number(value: JsonValue, *path: str) -> int:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) else 0


def _approval(state: PolicyState, event: Event) -> PolicyState:
    payload = event.payload
    match payload:
        case ApprovalRequested():
            asked = Approval(
                payload.approval_id, payload.digest, payload.expires_at_us, asked=event.id
            )
            return changed(state, approvals=(*state.approvals, asked))
        case ApprovalGranted():
            signed = (payload.operator, payload.signature)
            return _answered(state, payload.approval_id, "granted", *signed)
        case ApprovalRefused() | ApprovalExpired():
            return _answered(state, payload.approval_id, payload.kind.removeprefix("approval_"))
        case _:
            return state


def _answered(
    state: PolicyState,
    approval_id: str,
    answer: str,
    operator: str | None = None,
    signature: str | None = None,
) -> PolicyState:
    """The state in which one question has this answer; a used one is never open again."""
    return changed(
        state,
        approvals=tuple(
            changed(known, answer=answer, operator=operator, signature=signature)
            if known.approval_id == approval_id and known.answer != "used"
            else known
            for known in state.approvals
        ),
    )
