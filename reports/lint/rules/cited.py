"""Rules on a sentence and the events that it cites: they say the same.

Verdicts, outcomes, resolutions, deliveries and presence in a listing are compared with the event
behind the label, denials included. Not here: whether there is a label (``evidence``).
"""

import re
from collections.abc import Iterator

from journal import Event
from journal.events import IncidentClosed, ObservationParsed, VerdictReached
from reports.lint.document import Sentence
from reports.lint.findings import Context, Finding, at
from reports.lint.words import NUMBER_WORDS
from reports.observed import listing, member, signal_answer

_VERDICT = re.compile(r"\b(confirmed|refuted|inconclusive)\b", re.IGNORECASE)
_OUTCOME = re.compile(
    r"\b(?:ended|was|were|is)(?: not)? (completed|failed|unknown|denied|not sent)\b", re.IGNORECASE
)
_ENDED = frozenset({"command_completed", "command_failed"})
_DEEDS = {
    "closed": frozenset({"incident_closed"}),
    "opened": frozenset({"incident_opened"}),
    "denied": frozenset({"command_denied"}),
    "proposed": frozenset({"proposal_received"}),
    **dict.fromkeys(("deployed", "launched", "sent", "run", "answered"), _ENDED),
}
_UNDONE = re.compile(rf"\b(?:was|were|had) not (?:been )?({'|'.join(_DEEDS)})\b", re.IGNORECASE)
_NO_OUTCOME = frozenset({"command_intended", "command_reconciled"})
_RESOLUTION = re.compile(r"\b(RECOVERED|STOPPED|NOTHING_TO_DO|HANDED_OVER)\b")
_DELIVERED = re.compile(r"\bdelivered\b", re.IGNORECASE)
_PRESENT = re.compile(
    r"\b(?:shows?|holds?|lists?|lines? up|is in|are in|was in|were in|appears?|one of them)\b",
    re.IGNORECASE,
)
_PID = re.compile(r"\bpids? (\d+)\b", re.IGNORECASE)
_WHOLE = re.compile(r"\b(complete|whole|partial|incomplete)\b", re.IGNORECASE)
_HOLDS = re.compile(
    rf"\b(?:holds|lists|shows) (\d+|{'|'.join(NUMBER_WORDS)}) process(?:es)?\b", re.IGNORECASE
)
_DENIED = re.compile(r"\b(?:not|no longer|never|nor|without|neither)\b", re.IGNORECASE)
_AHEAD = re.compile(
    r"\b(?:will|shall|is going to|are going to)\b(?! be (?:tried|settled))", re.IGNORECASE
)


def agree(context: Context) -> Iterator[Finding]:
    """C13, C12: what a part of a sentence says is what the events say whose labels it ends in."""
    for sentence in context.claims:
        for part in sentence.parts():
            named = context.record.named(part.labels)
            if not named:
                continue
            for check in (_verdict, _outcome, _resolution, _deed):
                yield from (_whole(sentence, found) for found in check(part, named))
            for look in (_delivery, _presence, _tables):
                yield from (_whole(sentence, found) for found in look(context, part, named))


def _whole(sentence: Sentence, found: Finding) -> Finding:
    """The finding, at the whole sentence."""
    return at(sentence, found.rule, found.message)


def _denied(sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether the clause up to a word denies it."""
    clause = re.split(r"[,;:]| and | but ", sentence.bare[: found.start()])[-1]
    return _DENIED.search(clause) is not None


def _verdict(sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    reached = {e.payload.verdict for e in named if isinstance(e.payload, VerdictReached)}
    words = list(_VERDICT.finditer(sentence.plain))
    if not reached or len(words) != 1:
        return
    if (words[0][1].lower() in reached) == _denied(sentence, words[0]):
        yield at(sentence, "C13", f"the cited verdict is {', '.join(sorted(reached))}")


def _outcome(sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    ended = {
        e.kind.removeprefix("command_").removeprefix("outcome_").replace("_", " ")
        for e in named
        if e.kind.startswith("command_") and e.kind not in _NO_OUTCOME
    }
    words = list(_OUTCOME.finditer(sentence.plain))
    if not ended or len(words) != 1:
        return
    denied = _denied(sentence, words[0]) or " not " in words[0][0].replace("not sent", "")
    if (words[0][1].lower() in ended) == denied:
        yield at(sentence, "C12", f"the cited outcome is {', '.join(sorted(ended))}")


def _resolution(sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    closed = {e.payload.resolution for e in named if isinstance(e.payload, IncidentClosed)}
    found = _RESOLUTION.search(sentence.bare)
    if closed and found and (found[1] in closed) == _denied(sentence, found):
        yield at(sentence, "C13", f"the cited resolution is {', '.join(sorted(closed))}")


def _deed(sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    """Something is said not to have been done, and the cited event is its being done."""
    found = _UNDONE.search(sentence.plain)
    kinds = _DEEDS.get(found[1].lower(), frozenset()) if found else frozenset()
    if found and any(event.kind in kinds for event in named):
        yield at(sentence, "C12", f"the cited event says that it was {found[1].lower()}")


def _delivery(context: Context, sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    answers = [signal_answer(context.record.observation(e)) for e in named]
    said = {answer["delivered"] for answer in answers if answer}
    found = _DELIVERED.search(sentence.plain)
    if said and found and (True in said) == _denied(sentence, found):
        yield at(sentence, "C12", f"the cited answer says delivered: {sorted(map(str, said))}")


def _presence(context: Context, sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    """A pid that a cited listing is said to hold, or not to hold."""
    tables = [t for e in named if (t := listing(context.record.observation(e))) is not None]
    pids = [int(pid) for pid in _PID.findall(sentence.bare)]
    found = _PRESENT.search(sentence.plain)
    if not tables or not pids or found is None or len(named) != len(tables):
        return
    held = [{key.pid for key in table.rows} for table in tables]
    whole = re.split(r"[,;] ", sentence.bare)[0]
    if _DENIED.search(whole):
        if all(pid in pids_held for pid in pids for pids_held in held):
            yield at(sentence, "C12", f"the cited listing holds pid {pids[0]}")
    elif not all(any(pid in pids_held for pids_held in held) for pid in pids):
        yield at(sentence, "C12", f"no cited listing holds pid {pids[0]}")


def _tables(context: Context, sentence: Sentence, named: tuple[Event, ...]) -> Iterator[Finding]:
    """Whether a cited listing is whole, and how many processes it holds."""
    tables = [t for e in named if (t := listing(context.record.observation(e))) is not None]
    if not tables or len(tables) != len(named):
        return
    whole = _WHOLE.search(sentence.plain)
    if whole is not None:
        said = (whole[1].lower() in {"complete", "whole"}) != _denied(sentence, whole)
        if said != all(table.complete for table in tables):
            yield at(sentence, "C07", "the cited listing says otherwise of its being whole")
    counted = _HOLDS.search(sentence.plain)
    if counted is not None and len(tables) == 1:
        number = NUMBER_WORDS.get(counted[1].lower()) or int(counted[1])
        if number != len(tables[0].rows):
            yield at(sentence, "C18", f"the cited listing holds {len(tables[0].rows)}")


def values(context: Context) -> Iterator[Finding]:
    """C23: a heartbeat's step is said as the cited event gives it."""
    pattern = re.compile(r"\bstep (\d+)\b")
    for sentence in context.claims:
        steps = {
            str(step)
            for e in context.record.named(sentence.labels)
            if isinstance(e.payload, ObservationParsed)
            for name in ("step", "resumed_from_step", "steps")
            if (step := member(context.record.observation(e), "heartbeat", name)) is not None
        }
        for said in pattern.findall(sentence.plain):
            if steps and said not in steps:
                yield at(sentence, "C23", f"no cited heartbeat is at step {said}")


def ahead(context: Context) -> Iterator[Finding]:
    """C16: what is recorded is past; a sentence that cites it does not foretell."""
    for sentence in context.claims:
        found = _AHEAD.search(sentence.plain)
        if found is not None and context.record.named(sentence.labels):
            yield at(sentence, "C16", f"foretells what the record has behind it: {found[0]!r}")


RULES = (agree, values, ahead)
