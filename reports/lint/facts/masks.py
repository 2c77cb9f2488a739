"""Signals that a process ignores or catches, as the masks in listings have them.

Not here: signals that were sent (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import named
from reports.lint.facts.vocabulary import signals_in

_MASKS = {
    "ignored": re.compile(r"\bignor\w*", re.IGNORECASE),
    "caught": re.compile(
        r"\b(?:catch\w*|caught|handles?|handled|handlers?|handling|installed)\b", re.IGNORECASE
    ),
}
_NEW = re.compile(r"\b(?:new|repaired|relaunched|restarted|replacement|corrected)\b", re.IGNORECASE)
_OLD = re.compile(r"\b(?:old|first|original|previous|stopped)\b", re.IGNORECASE)
_AND = re.compile(r"\b(?:and (?:has|had|does|did|is|was|it|ignores|catches)|but)\b", re.IGNORECASE)
_NEITHER = re.compile(r"\bneither\b.*\bnor\b", re.IGNORECASE)
Answer = tuple[str, str] | None


def masked(world: World, clause: Clause) -> Iterator[Answer]:
    """C12: a signal that a process is said to ignore or catch is in that mask, or not."""
    for name, words in _MASKS.items():
        said = _around(clause, words)
        if said is None:
            continue
        processes = [p for p in world.of("process") if p.get(name) is not None]
        given = named(world, clause.text)
        chosen = [p for p in processes if p.get("pid") in given.pids]
        chosen = chosen or _speaking_of(clause, processes, name)
        denied = said.negated or said.no_longer or _NEITHER.search(said.text) is not None
        for signal in sorted(signals_in(said.text)):
            holding = [p for p in chosen if signal in (p.get(name) or ())]  # type: ignore[operator]  # a frozenset
            if chosen and bool(holding) == denied:
                yield ("C12", f"the listing says otherwise of {signal} and being {name}")
            elif chosen:
                yield None


def _around(clause: Clause, words: re.Pattern[str]) -> Clause | None:
    """The part of a clause between conjunctions that the word stands in."""
    found = words.search(clause.text)
    if found is None or _NEITHER.search(clause.text):
        return clause if found else None
    cuts = [0, *(m.start() for m in _AND.finditer(clause.text)), len(clause.text)]
    start = max(cut for cut in cuts if cut <= found.start())
    end = min(cut for cut in cuts if cut >= found.end())
    part = clause.text[start:end]
    return replace(clause, text=part if signals_in(part) else clause.text)


def _speaking_of(clause: Clause, processes: list[Happening], name: str) -> list[Happening]:
    """Those that the words may mean: the victims, or what was launched after them."""
    victims = [p for p in processes if p.get("signalled")]
    later = [
        p
        for p in processes
        if not p.get("signalled")
        and (p.get("launched") or p.get("role"))
        and all(p.start_us > v.start_us for v in victims)
    ]
    new, old = _NEW.search(clause.text), _OLD.search(clause.text)
    if bool(new) != bool(old):
        return later if new else victims
    if name == "caught":
        return []
    if clause.still or clause.no_longer:
        return later or victims
    return victims if not (later and clause.negated) else []
