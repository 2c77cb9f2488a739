"""Items about acts: recorded before, by whom, what, with which outcome, on whose authority."""

from collections import Counter

from journal import Actor
from journal.events import (
    CommandCompleted,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    DecisionMade,
    VerdictReached,
)
from reports.compliance.answers import Answer, Item, Records, every, labels

_ENDED = (CommandCompleted, CommandFailed, CommandNotSent, CommandOutcomeUnknown)
_SHARED = frozenset({"", "root", "admin", "administrator", "user", "ubuntu", "agent", "default"})
_CLASS_ASKING = 4


def intent_first(records: Records) -> Answer:
    """L01: no outcome without an intent durable before it."""
    place = {p.command_id: (e.stream, e.seq) for e, p in records.intents}
    outcomes = [e for e in records.events if isinstance(e.payload, _ENDED)]
    wrong = [
        e
        for e in outcomes
        if isinstance(e.payload, _ENDED)
        and (
            e.payload.command_id not in place
            or (
                place[e.payload.command_id][0] == e.stream
                and place[e.payload.command_id][1] > e.seq
            )
        )
    ]
    return every(
        "outcomes with an earlier intent", "outcomes without one", outcomes, wrong, "no command"
    )


def who(records: Records) -> Answer:
    """L02: every event names one person, agent or engine; agents name their model."""
    wrong = [e for e in records.events if _unnamed(e.actor)]
    who_not = ", ".join(dict.fromkeys(_unnamed(e.actor) for e in wrong))
    return every(
        "events with a named actor",
        f"events by a shared or unnamed actor ({who_not})",
        records.events,
        wrong,
        "no event",
    )


def _unnamed(actor: Actor) -> str:
    """What a person's or an agent's name lacks; empty where it lacks nothing."""
    if actor.kind not in {"human", "agent"}:
        return ""
    if actor.id.lower() in _SHARED:
        return f"{actor.kind} {actor.id!r}: a shared name"
    return f"agent {actor.id!r}: no model" if actor.kind == "agent" and not actor.model else ""


def what(records: Records) -> Answer:
    """L03: every intent holds command, arguments, argv and a recorded definition."""
    wrong = [e for e, p in records.intents if not p.argv or p.definition not in records.definitions]
    return every(
        "intents with argv and definition",
        "intents without",
        [e for e, _ in records.intents],
        wrong,
        "no command",
    )


def outcome(records: Records) -> Answer:
    """L05: every intent has its one outcome."""
    ended = Counter(e.payload.command_id for e in records.events if isinstance(e.payload, _ENDED))
    wrong = [e for e, p in records.intents if ended[p.command_id] != 1]
    return every(
        "intents with one outcome",
        "intents in doubt",
        [e for e, _ in records.intents],
        wrong,
        "no command",
    )


def where(records: Records) -> Answer:
    """L06: every intent names its host and the fingerprint of that host's key."""
    wrong = [e for e, _ in records.intents if e.host is None or not e.host.name]
    return every(
        "intents with a host",
        "intents without a host",
        [e for e, _ in records.intents],
        wrong,
        "no command",
    )


def authorised(records: Records) -> Answer:
    """L07: every acting command names the authority on which it ran."""
    wrong = [e for e, p in records.acting if not p.authority]
    return every(
        "acting commands with an authority",
        "acting commands without",
        [e for e, _ in records.acting],
        wrong,
        "nothing was changed or destroyed",
    )


def denied(records: Records) -> Answer:
    """L08: denied attempts are recorded with the rule that denied them."""
    seen = records.of("command_denied", "approval_refused", "approval_expired")
    if not seen:
        return Answer("not applicable", "nothing was denied")
    return Answer("pass", f"denials on record: {len(seen)}", labels(seen))


def versions(records: Records) -> Answer:
    """L11: every decision names a configuration that is in the journal whole."""
    known = {getattr(e.payload, "digest", "") for e in records.of("configuration_loaded")}
    made = [e for e in records.events if isinstance(e.payload, DecisionMade)]
    wrong = [
        e
        for e in made
        if isinstance(e.payload, DecisionMade) and e.payload.configuration not in known
    ]
    return every(
        "decisions bound to a recorded configuration",
        "decisions without",
        made,
        wrong,
        "no decision",
    )


def oversight(records: Records) -> Answer:
    """L20: commands of the two deepest classes rest on an approval, once or standing."""
    deep = [(e, p) for e, p in records.acting if p.intrusiveness >= _CLASS_ASKING]
    wrong = [e for e, p in deep if not _approved(p)]
    return every(
        "deep commands approved by a person",
        "deep commands without approval",
        [e for e, _ in deep],
        wrong,
        "no command of class four or five",
    )


def _approved(intent: CommandIntended) -> bool:
    words = intent.authority.lower()
    return any(word in words for word in ("approval", "standing", "operator", "human"))


def traceable(records: Records) -> Answer:
    """L21: what a verdict or decision rests on is in the journal."""
    ids = {e.id for e in records.events}
    judged = [e for e in records.events if isinstance(e.payload, VerdictReached | DecisionMade)]
    wrong = [
        e
        for e in judged
        if (isinstance(e.payload, VerdictReached) and not set(e.payload.evidence) <= ids)
        or (isinstance(e.payload, DecisionMade) and not e.payload.inputs_sha256)
    ]
    return every(
        "decisions and verdicts whose inputs resolve",
        "with inputs missing",
        judged,
        wrong,
        "none was made",
    )


ITEMS = (
    Item(
        "L01",
        "an effect is recorded before it happens",
        ("AI Act 12(1)", "PCI DSS 10.2.1"),
        intent_first,
    ),
    Item(
        "L02",
        "who did it, without shared names",
        ("PCI DSS 10.2.2", "ISO 27001 A.8.15", "SOC 2 CC6.1"),
        who,
    ),
    Item("L03", "what was done, with its parameters", ("PCI DSS 10.2.2", "ISO 27001 A.8.15"), what),
    Item("L05", "how it ended", ("PCI DSS 10.2.2",), outcome),
    Item("L06", "where it was done", ("PCI DSS 10.2.2", "ISO 27001 A.8.15"), where),
    Item(
        "L07",
        "privileged actions, agents' included",
        ("PCI DSS 10.2.1.2", "ISO 27001 A.8.2"),
        authorised,
    ),
    Item("L08", "denied and failed attempts", ("PCI DSS 10.2.1.4", "ISO 27001 A.8.15"), denied),
    Item("L11", "versions bound to each decision", ("SOC 2 CC8.1", "AI Act 12(2)(a)"), versions),
    Item("L20", "human oversight", ("AI Act 14", "AI Act 12"), oversight),
    Item("L21", "from an output back to its inputs", ("AI Act 12(2)",), traceable),
)
