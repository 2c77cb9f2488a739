"""The theme of an incident: a rule table over the pattern of decisions and signals.

Here: the patterns and their names. Not here: the title's form on the page.
"""

from collections.abc import Callable
from dataclasses import dataclass

from journal import Event
from journal.events import (
    CommandIntended,
    CommandOutcomeUnknown,
    Imported,
    IncidentClosed,
    VerdictReached,
)
from reports.evidence import Evidence
from reports.observed import ProcessKey
from reports.predicates.signals import signals


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the rules look at: rungs in order, who was signalled, the end, what stayed open."""

    rungs: tuple[str, ...]
    victims: tuple[ProcessKey, ...]
    resolution: str | None
    verdicts: tuple[str, ...]
    unknown_outcomes: int
    relaunched: bool
    imported: bool


Rule = tuple[str, Callable[[Pattern], bool]]

# The first rule that holds names the incident; the most telling patterns stand first.
RULES: tuple[Rule, ...] = (
    ("A Record Taken Over From Elsewhere", lambda p: p.imported and not p.rungs),
    ("A Command Without an Answer", lambda p: p.unknown_outcomes > 0 and p.resolution is None),
    ("Handed to a Person", lambda p: p.resolution == "HANDED_OVER"),
    ("Nothing to Do", lambda p: p.resolution == "NOTHING_TO_DO" and not p.rungs),
    ("The Ladder to Its Last Rung", lambda p: "KILL" in p.rungs and p.rungs[0] != "KILL"),
    ("Killed at First", lambda p: bool(p.rungs) and p.rungs[0] == "KILL"),
    ("The Interrupt That Did Not Stop It", lambda p: _escalated(p) and p.rungs[0] == "INT"),
    ("The Supervisor First", lambda p: len(set(p.victims)) > 1),
    ("The Second Interrupt", lambda p: p.rungs.count("INT") > 1),
    ("The Interrupt That Would Not Have Been Heard", lambda p: p.rungs[:1] == ("TERM",)),
    ("One Interrupt Was Enough", lambda p: p.rungs == ("INT",) and p.resolution is not None),
    ("A Command Without an Answer", lambda p: p.unknown_outcomes > 0),
    ("A Relaunch", lambda p: p.relaunched),
    ("A Look That Left Questions", lambda p: "inconclusive" in p.verdicts),
)
DEFAULT = "An Incident on Record"


def theme(evidence: Evidence) -> tuple[str, tuple[Event, ...]]:
    """The theme's name, and the events that it rests on (at least one)."""
    sent = signals(evidence)
    closed = evidence.of(IncidentClosed)
    pattern = Pattern(
        rungs=tuple(s.signal for s in sent if s.delivered is not False),
        victims=tuple(s.victim for s in sent if s.delivered is not False),
        resolution=closed[-1][1].resolution if closed else None,
        verdicts=tuple(p.verdict for _, p in evidence.of(VerdictReached)),
        unknown_outcomes=len(evidence.of(CommandOutcomeUnknown)),
        relaunched=any(p.command == "launch" for _, p in evidence.of(CommandIntended)),
        imported=bool(evidence.of(Imported)),
    )
    name = next((name for name, holds in RULES if holds(pattern)), DEFAULT)
    rests = [s.intent for s in sent] + [event for event, _ in closed[-1:]]
    return name, tuple(rests) or (evidence.first,)


def _escalated(pattern: Pattern) -> bool:
    """Whether a stronger rung followed the first."""
    return len(pattern.rungs) > 1 and any(rung != pattern.rungs[0] for rung in pattern.rungs[1:])
