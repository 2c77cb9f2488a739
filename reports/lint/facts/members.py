"""Which processes a counted subject means, and which of them are what is said of them.

*The processes* may be those at the opening, those of the job, or those that were signalled; a
statement is wrong when it is wrong of each. Here: these choices. Not here: single processes
(``reports.lint.facts.mentions``).
"""

import re

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import mentions, named
from reports.lint.facts.sets import Subject
from reports.lint.facts.vocabulary import Test

_ON_THE_BOX = re.compile(
    r"\b(?:on|of) the (?:box|host|machine|container|whole)\b|\bpython processes\b|\beverything\b",
    re.IGNORECASE,
)
_OF_THE_JOB = re.compile(r"\bof the (?:job|training)\b|\bjob's\b|\btraining process", re.IGNORECASE)
_SIGNALLED = re.compile(r"\b(?:signalled|(?:got|received) (?:a|the) signals?)\b", re.IGNORECASE)


def choices(world: World, clause: Clause, whole: Subject) -> tuple[tuple[Happening, ...], ...]:
    """The sets that the subject may be."""
    at_opening = tuple(h for h in world.of("process") if whole.thing.which(h))
    pids = named(world, clause.text).pids
    if len(pids) > 1 and not any(m.kind == "signal" for m in mentions(world, clause)):
        return (tuple(h for h in at_opening if h.get("pid") in pids),)
    if whole.thing.name == "innocent" or _ON_THE_BOX.search(clause.text):
        return (at_opening,)
    own = tuple(h for h in at_opening if h.get("role"))
    victims = tuple(h for h in at_opening if h.get("signalled"))
    sets = (own, victims) if _OF_THE_JOB.search(clause.text) else (at_opening, own, victims)
    fitting = [each for each in sets if len(each) == whole.number]
    if not fitting and whole.number is not None:
        fitting = [each for each in sets if len(each) >= whole.number] or [at_opening]
    return tuple(each for each in dict.fromkeys(fitting or sets) if each)


def predicate_of(world: World, clause: Clause) -> Test | None:
    """What the clause says of a process, as a test; None where that is not known."""
    deed = next((m for m in mentions(world, clause) if m.verb and m.kind == "process"), None)
    if deed is not None and not deed.open:
        holding = deed.holding
        return lambda happening: happening in holding
    if deed is None and _SIGNALLED.search(clause.text):
        return lambda happening: happening.get("signalled") is True
    return None
