"""Process listings: whether those that a clause points at hold what it says that they hold.

Not here: whether a process is gone in the end (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import dated
from reports.lint.facts.vocabulary import pids_in

_POINTED = re.compile(
    r"\b(every|each|all|both|first|last|final)(?: (?:the|complete|of the|process|\d+|two|three))*"
    r" (?:listings?|process tables?|tables?)\b",
    re.IGNORECASE,
)
_FIRST_AND_LAST = re.compile(r"\bfirst (?:listing|table)\b.*\b(?:in|and) the last\b", re.IGNORECASE)
_LACKING = re.compile(r"\b(?:without|lack\w*)\b", re.IGNORECASE)
_CONTAINS = re.compile(
    r"\blist\w*\b[^.;,]*\b(?:contain|hold|held|show|includ)\w*\b[^.;,]*\b(?:it|pid|process)\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"\b(?:listing|table)\b[^.;,]*?\b(?:shows|showed|holds|held|lists|listed|had)\b")


def held(world: World, clause: Clause) -> Iterator[tuple[str, str] | None]:
    """C12: the processes named are in the listings that are pointed at, or are not."""
    yield from _at_a_time(world, clause)
    pids = pids_in(clause.text)
    found = _POINTED.search(clause.text)
    if (
        found is None
        or not pids
        or _LACKING.search(clause.sentence.bare)
        or _SIZE.search(clause.text[: found.start()])
    ):
        return
    chosen = _chosen(world, found[1].lower(), both=_FIRST_AND_LAST.search(clause.text) is not None)
    for pid in pids:
        rows = [pid in _pids(listing) for listing in chosen]
        if rows and all(rows) == (clause.negated or clause.no_longer):
            word = "holds" if all(rows) else "does not hold"
            yield ("C12", f"{found[0]} {word} pid {pid}")
        elif rows:
            yield None


def _at_a_time(world: World, clause: Clause) -> Iterator[tuple[str, str] | None]:
    """A listing of a time that a clause gives, and the process that it holds or does not."""
    if len(clause.times) != 1 or _CONTAINS.search(clause.text) is None:
        return
    victims = (p.get("pid") for p in world.of("process") if p.get("signalled"))
    pids = pids_in(clause.text) or tuple(pid for pid in victims if isinstance(pid, int))
    chosen = [h for h in world.of("listing") if dated(h, *clause.times[0])]
    for pid in pids:
        rows = {pid in _pids(listing) for listing in chosen}
        if rows == {True} and (clause.negated or clause.no_longer):
            yield ("C12", f"the listing of that time holds pid {pid}")
        elif rows == {False} and not (clause.negated or clause.no_longer):
            yield ("C12", f"the listing of that time does not hold pid {pid}")
        elif rows:
            yield None


def _chosen(world: World, which: str, *, both: bool) -> list[Happening]:
    whole = [h for h in world.of("listing") if h.inside]
    if not whole:
        return []
    if both:
        return [whole[0], whole[-1]]
    return {"first": whole[:1], "last": whole[-1:], "final": whole[-1:]}.get(which, whole)


def _pids(listing: Happening) -> frozenset[int]:
    """All rows, ended ones that nobody reaped too."""
    living, dead = listing.get("pids"), listing.get("zombies")
    assert isinstance(living, frozenset)  # noqa: S101  (as ``happened`` makes it)
    assert isinstance(dead, frozenset)  # noqa: S101
    return living | dead
