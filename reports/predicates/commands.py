"""Predicates about one command: what was sent, how it ended, what came back, why it was run.

Every one takes ``command_id`` (for a denial its event id). Not here: signals and processes
(``reports.predicates.processes``), decisions (``reports.predicates.decisions``).
"""

import hashlib
import posixpath

from pydantic import JsonValue

from journal import Event
from journal.events import (
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    CommandReconciled,
    DefinitionRecorded,
    ObservationParsed,
)
from reports.claims import Found, JsonObject, Predicate, ref
from reports.evidence import CommandThread, Evidence, elapsed_ms
from reports.observed import briefly, scalars

_SCALARS_MAX = 12


def thread_of(evidence: Evidence, args: JsonObject) -> CommandThread:
    """The command that the arguments name."""
    return evidence.threads[str(args["command_id"])]


def definition_of(evidence: Evidence, thread: CommandThread) -> Event | None:
    """The recorded definition of a command, or None when the journal has none."""
    payload = thread.first.payload
    if not isinstance(payload, CommandIntended):
        return None
    return evidence.definitions.get(payload.definition)


def sent(evidence: Evidence, args: JsonObject) -> Found:
    """The command as it was to be sent: name, arguments, argv, host, route, effect."""
    event = thread_of(evidence, args).first
    payload = event.payload
    host = event.host.name if event.host else None
    if not isinstance(payload, CommandIntended):
        assert isinstance(payload, CommandDenied)  # noqa: S101
        return Found({"command": payload.command, "host": host, "argv": None}, (ref(event),))
    return Found(
        {
            "command": payload.command,
            "host": host,
            "argv": list(payload.argv),
            "route": list(payload.route),
            "arguments": payload.arguments,
            "effect": payload.effect,
            "intrusiveness": payload.intrusiveness,
            "retry": payload.retry,
            "deadline_ms": payload.deadline_ms,
            "victims": [victim.pid for victim in payload.victims],
        },
        (ref(event, "/data/argv"),),
    )


def typed(evidence: Evidence, args: JsonObject) -> Found:
    """The typed arguments, as recorded with the intent."""
    event = thread_of(evidence, args).first
    payload = event.payload
    assert isinstance(payload, CommandIntended | CommandDenied)  # noqa: S101
    return Found(payload.arguments, (ref(event, "/data/arguments"),))


def line(evidence: Evidence, args: JsonObject) -> Found:
    """How many words the command line has, and the digest of them all."""
    event = thread_of(evidence, args).first
    argv = getattr(event.payload, "argv", ())
    whole = hashlib.sha256("\0".join(argv).encode("utf-8", "surrogateescape")).hexdigest()
    return Found({"words": len(argv), "sha256": whole}, (ref(event, "/data/argv"),))


def outcome(evidence: Evidence, args: JsonObject) -> Found:
    """How the command ended."""
    thread = thread_of(evidence, args)
    event = thread.outcome
    value: JsonObject = {
        "command": thread.name,
        "outcome": thread.outcome_word,
        "exit_status": None,
        "duration_ms": None,
        "detail": None,
        "why": None,
    }
    if event is None:
        return Found(value, (ref(thread.first),), unknown=True)
    match event.payload:
        case CommandCompleted() as ended:
            value |= {"exit_status": ended.exit_status, "duration_ms": ended.duration_ms}
        case CommandFailed() as ended:
            value |= {"exit_status": ended.exit_status, "duration_ms": ended.duration_ms}
            value["detail"] = ended.fault
        case CommandNotSent() as ended:
            value |= {"why": ended.reason, "detail": ended.detail}
        case CommandOutcomeUnknown() as ended:
            value |= {"duration_ms": ended.duration_ms, "why": ended.reason, "detail": ended.detail}
        case CommandDenied() as ended:
            value |= {"why": ended.rule, "detail": ended.reason}
        case _:
            pass
    return Found(value, (ref(event),))


def account(evidence: Evidence, args: JsonObject) -> Found:
    """One row on a command: when, what, with which arguments, and how it ended."""
    thread = thread_of(evidence, args)
    begun, ended = sent(evidence, args), outcome(evidence, args)
    value: JsonObject = {"after_ms": elapsed_ms(evidence.first, thread.first)}
    for found in (begun, ended):
        value |= found.value if isinstance(found.value, dict) else {}
    payload = thread.first.payload
    if isinstance(payload, CommandIntended | CommandDenied):
        value["given"] = briefly(payload.arguments)
    for name in (
        "arguments",
        "argv",
        "route",
        "retry",
        "intrusiveness",
        "deadline_ms",
        "victims",
        "detail",
        "why",
    ):
        value.pop(name, None)
    refs = tuple(ref(event) for event in (thread.first, thread.outcome) if event)
    return Found(value, tuple(dict.fromkeys(refs)))


def output(evidence: Evidence, args: JsonObject) -> Found:
    """How many bytes came back on each stream, and whether anything was cut off."""
    event = thread_of(evidence, args).outcome
    stored = {
        name: o for (owner, name), o in evidence.outputs.items() if event and owner == event.id
    }
    streams: list[JsonValue] = [
        {
            "name": name,
            "bytes": found.length_bytes,
            "truncated": found.truncated,
            "shredded": found.shredded,
        }
        for name, found in sorted(stored.items())
        if name in {"stdout", "stderr"}
    ]
    end_marker = event is not None and isinstance(event.payload, CommandCompleted | CommandFailed)
    value: JsonValue = {"streams": streams, "end_marker": end_marker}
    refs = tuple(ref(event, f"/out/{name}") for name in sorted(stored)) if event else ()
    if event is not None and not refs:
        refs = (ref(event),)
    return Found(value, refs, unknown=event is None)


def excerpt(evidence: Evidence, args: JsonObject) -> Found:
    """The first bytes of one output, verbatim, with their span."""
    event = thread_of(evidence, args).outcome
    name = str(args["stream"])
    found = evidence.outputs.get((event.id, name)) if event else None
    if event is None or found is None or found.shredded:
        return Found(None, (), unknown=True)
    limit = args.get("limit")
    size = min(len(found.excerpt), limit if isinstance(limit, int) else len(found.excerpt))
    shown = found.excerpt[:size].decode("utf-8", "replace")
    return Found(
        {"text": shown, "bytes": size, "of": found.length_bytes, "stream": name},
        (ref(event, f"/out/{name}", (0, size)),),
    )


def observed(evidence: Evidence, args: JsonObject) -> Found:
    """The leading values of the typed observation, with their pointers."""
    event = thread_of(evidence, args).observed
    if event is None:
        return Found(None, (ref(thread_of(evidence, args).first),), unknown=True)
    value = evidence.observation(event)
    if value is None:
        return Found(None, (ref(event),), unknown=True)
    leaves = list(scalars(value))
    shown: list[JsonValue] = [
        {"name": posixpath.basename(pointer) or "value", "pointer": pointer, "value": leaf}
        for pointer, leaf in leaves[:_SCALARS_MAX]
    ]
    payload = event.payload
    version = payload.parser_version if isinstance(payload, ObservationParsed) else None
    return Found(
        {"fields": shown, "more": len(leaves) - len(shown), "parser_version": version},
        (ref(event, "/observation"),),
    )


def reason(evidence: Evidence, args: JsonObject) -> Found:
    """Why it was run, in the words recorded with the intent or the denial."""
    event = thread_of(evidence, args).first
    payload = event.payload
    assert isinstance(payload, CommandIntended | CommandDenied)  # noqa: S101
    words = payload.reason
    value: JsonValue = {
        "actor": event.actor.kind,
        "actor_id": event.actor.id,
        "command": payload.command,
        "words": words,
    }
    return Found(value, (ref(event, "/data/reason"),), unknown=not words)


def authority(evidence: Evidence, args: JsonObject) -> Found:
    """On whose yes it ran: the authority in the intent, and the decision it rests on."""
    event = thread_of(evidence, args).first
    payload = event.payload
    if not isinstance(payload, CommandIntended):
        return Found(None, (ref(event),), unknown=True)
    decision = evidence.decisions.get(payload.decision_id or "")
    refs = (ref(event, "/data/authority"), *((ref(decision),) if decision else ()))
    return Found({"authority": payload.authority, "decided": decision is not None}, refs)


def assumption(evidence: Evidence, args: JsonObject) -> Found:
    """One assumption that the command declares, and whether its run ended completed."""
    thread = thread_of(evidence, args)
    event = definition_of(evidence, thread)
    place = args["index"]
    if event is None or not isinstance(place, int):
        return Found(None, (ref(thread.first),), unknown=True)
    assert isinstance(event.payload, DefinitionRecorded)  # noqa: S101
    declared = event.payload.body.get("assumptions")
    words = declared[place] if isinstance(declared, list) else None
    ended = thread.outcome
    refs = (ref(event, f"/data/body/assumptions/{place}"), *((ref(ended),) if ended else ()))
    return Found({"words": words, "command": thread.name, "outcome": thread.outcome_word}, refs)


def silence(evidence: Evidence, args: JsonObject) -> Found:
    """What the command's definition says that silence means."""
    thread = thread_of(evidence, args)
    event = definition_of(evidence, thread)
    if event is None:
        return Found(None, (ref(thread.first),), unknown=True)
    assert isinstance(event.payload, DefinitionRecorded)  # noqa: S101
    words = event.payload.body.get("silence")
    return Found({"words": words, "command": thread.name}, (ref(event, "/data/body/silence"),))


def metric_card(evidence: Evidence, args: JsonObject) -> Found:
    """What one metric of the command means, from its recorded card."""
    thread = thread_of(evidence, args)
    event = definition_of(evidence, thread)
    name = str(args["metric"])
    cards = (
        event.payload.body.get("metric_cards")
        if event and isinstance(event.payload, DefinitionRecorded)
        else None
    )
    card = cards.get(name) if isinstance(cards, dict) else None
    if event is None or card is None:
        return Found(None, (ref(thread.first),), unknown=True)
    pointer = f"/data/body/metric_cards/{name}"
    return Found({"command": thread.name, "metric": name, "card": card}, (ref(event, pointer),))


def reconciled(evidence: Evidence, args: JsonObject) -> Found:
    """What a probe settled about an unknown outcome."""
    thread = thread_of(evidence, args)
    event = thread.reconciled
    if event is None or not isinstance(event.payload, CommandReconciled):
        return Found(None, (ref(thread.outcome or thread.first),), unknown=True)
    evident = tuple(ref(evidence.by_id[e]) for e in event.payload.evidence if e in evidence.by_id)
    return Found({"command": thread.name, "settled": event.payload.settled}, (ref(event), *evident))


PREDICATES = (
    Predicate("command.sent", "OBSERVED", "shown", sent),
    Predicate("command.typed", "OBSERVED", "shown", typed),
    Predicate("command.line", "OBSERVED", "shown", line),
    Predicate("command.outcome", "OBSERVED", "shown", outcome),
    Predicate("command.account", "OBSERVED", "shown", account),
    Predicate("command.output", "OBSERVED", "shown", output),
    Predicate("command.excerpt", "OBSERVED", "shown", excerpt),
    Predicate("command.observed", "OBSERVED", "shown", observed),
    Predicate("command.reason", "STATED", "shown", reason),
    Predicate("command.authority", "OBSERVED", "shown", authority),
    Predicate("command.assumption", "STATED", "shown", assumption),
    Predicate("command.silence", "BACKGROUND", "shown", silence),
    Predicate("command.metric_card", "BACKGROUND", "shown", metric_card),
    Predicate("command.reconciled", "OBSERVED", "shown", reconciled),
)
