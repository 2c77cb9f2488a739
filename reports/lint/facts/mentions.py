"""What a clause mentions: deeds and things with the happenings that its words pick out.

Here: names in a clause (signals, pids, steps, conditions, commands, ordinals) and the happenings
that fit them. Not here: whether the clause is right (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.vocabulary import (
    AGAIN,
    DEEDS,
    RESUMED_AT,
    STEPS,
    SUPERVISORS,
    TRAINERS,
    Deed,
    naming,
    pids_in,
    signals_in,
)
from reports.lint.words import family

# Words of conditions that other sentences use too.
_NOT_NAMES = {"needed", "place", "from", "that", "with", "least", "process", "members", "heartbeat"}
_WORD_MIN, _ROOT_MAX = 4, 7
_ORDINAL = re.compile(r"\b(first|second|third|last)\b(?=[^,;.]{0,24}$)", re.IGNORECASE)
_CLOSED = frozenset(
    {"signal", "launch", "deployment", "verdict", "command", "wait", "opening", "ending", "denial"}
)
_NOUNS = {
    "signal": family("signal|interrupt|kill"),
    "launch": family("relaunch|restart|launch"),
    "deployment": family("deployment|repair"),
    "listing": family("listing|listings|process table"),
    "verdict": family("verdict|check"),
    "ending": family("closing|closure"),
    "opening": family("opening"),
    "heartbeat": family("heartbeat"),
    "wait": family("wait"),
    "command": family("look|looks|probe"),
    "decision": family("decision|decided|chose|judge|judged"),
}
_NTH_LOOK = re.compile(r"\b(?:first|second|third|last) (?:heartbeat|reading|look)\b", re.IGNORECASE)
_NO_SIGNAL = re.compile(
    r"\b(?:no|not|without|neither|nor|never)(?: (?!grace|wait)\w+)?"
    r" (?:SIG)?(?:TERM|KILL|INT|HUP|QUIT)\b"
    r"|\b(?:no|without)(?: \w+)? interrupts?\b"
)
_NAME = re.compile(r"[a-z]{6,}")
_DAY_US = 86_400_000_000
_OTHERS = family("else|nobody|innocent|innocents|bystander*|neighbour*|other process*|others")
_MOMENT = re.compile(
    r"\b(?:then|yet|at that|directly|right after|afterwards|first|before|until|when|later)\b"
)
PRONOUNS = re.compile(
    r"\b(?:of (?:them|these|those|which)|they|them|it|both|neither)\b", re.IGNORECASE
)
MANY_OF = re.compile(r"\b(?:of (?:them|these|those|which)|they|them|both|neither)\b", re.IGNORECASE)
_NUMBER_WORD = {"first": 0, "second": 1, "third": 2, "last": -1}


@dataclass(frozen=True, slots=True)
class Named:
    """What a text names: signals, pids, steps, verdict conditions and commands."""

    signals: frozenset[str]
    pids: tuple[int, ...]
    steps: tuple[int, ...]
    conditions: frozenset[str]
    commands: frozenset[str]
    roles: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Mention:
    """A deed or thing in a clause, with the happenings that fit its names.

    ``holding`` pass the deed's test, ``failing`` do not, ``open`` cannot be told. ``closed``: the
    record would hold it, had it happened. ``ends``: the deed is an end, so *no longer* affirms it.
    """

    what: str
    kind: str
    verb: bool
    start: int
    holding: tuple[Happening, ...]
    failing: tuple[Happening, ...]
    open: tuple[Happening, ...]
    closed: bool
    decidable: bool = True
    ends: bool = False


def named(world: World, text: str) -> Named:
    """The names in a text."""
    low = text.lower()
    conditions = {str(v.get("condition")) for v in world.of("verdict")}
    conditions |= {str(w.get("condition")) for w in world.of("wait")}
    commands = {str(c.get("command")) for c in world.of("command")}
    return Named(
        signals=signals_in(text),
        pids=pids_in(text),
        steps=tuple(
            int(n.replace(",", ""))
            for pattern in (STEPS, RESUMED_AT)
            for found in pattern.finditer(text)
            for n in re.findall(r"\d[\d,]*", found[0])
        ),
        conditions=frozenset(c for c in conditions if _names(c, low)),
        commands=frozenset(c for c in commands if c in low or c.replace("_", " ") in low),
        roles=frozenset() if pids_in(text) else _roles(world, text) or _by_name(world, text),
    )


def _roles(world: World, text: str) -> frozenset[int]:
    """Pids of the processes whose role a text names; empty where no process has that role."""
    said = [
        role_pids(world, role)
        for role, words in (("supervisor", SUPERVISORS), ("trainer", TRAINERS))
        if words.search(text)
    ]
    return frozenset().union(*said) if all(said) else frozenset()


def _by_name(world: World, text: str) -> frozenset[int]:
    """Pids of the bystanders that a text names by a word that only their command line has."""
    if not isinstance(known := world.memo.get("names"), dict):
        bags = {
            (h.get("pid"), h.get("bystander")): set(_NAME.findall(str(h.get("names"))))
            for h in world.of("process")
        }
        known = {
            word: pid
            for (pid, bystander), bag in bags.items()
            for word in bag
            if bystander and sum(word in other for other in bags.values()) == 1
        }
        world.memo["names"] = known
    said = {known.get(word) for word in _NAME.findall(text.lower())}
    return frozenset(pid for pid in said if isinstance(pid, int))


def role_pids(world: World, role: str) -> frozenset[int]:
    """Pids of the processes of a role: trainer or supervisor."""
    pids = (p.get("pid") for p in world.of("process") if p.get("role") == role)
    return frozenset(pid for pid in pids if isinstance(pid, int))


def _names(condition: str, text: str) -> bool:
    """Whether a text names a condition: by all of its telling words, or by its own name."""
    if condition in text or condition.replace("_", " ") in text:
        return True
    words = [w for w in condition.split("_") if len(w) >= _WORD_MIN and w not in _NOT_NAMES]
    roots = [re.sub(r"(?:p?ed|ing|t|ion)$", "", word)[:_ROOT_MAX] for word in words]
    return any(re.search(rf"\b{re.escape(root)}", text) for root in roots)


def mentions(world: World, clause: Clause, *, ordered: bool = False) -> tuple[Mention, ...]:
    """The deeds that a clause says, and the things that it only names.

    *ordered*: heed *first* and *last*, of all things of the kind.
    """
    text = clause.text
    names = _given(world, clause)
    found = []
    for deed in DEEDS:
        place = deed.said_in(text)
        if place is not None:
            found.append(_mention(world, clause, deed, names, place.start(), ordered=ordered))
    judged = [m for m in found if m.kind == "verdict" and (m.holding or m.failing)]
    if judged and names.conditions:
        return tuple(judged)  # the other words are the condition's own
    looked = [m for m in found if m.what.startswith("looked at")]
    if looked:
        return tuple(looked)
    implied = not clause.negated or _NO_SIGNAL.search(text)
    if names.signals and implied and not any(m.kind == "signal" for m in found):
        sent = next(deed for deed in DEEDS if deed.name == "sent")
        if sent.unless is None or sent.unless.search(text) is None:
            start = naming(text)
            found.append(_mention(world, clause, sent, names, start, ordered=ordered))
    kinds = {mention.kind for mention in found}
    found += [m for m in _things(world, text, names, ordered=ordered) if m.kind not in kinds]
    return tuple(found)


def _given(world: World, clause: Clause) -> Named:
    """The names in a clause; what its pronouns stand for is named before it."""
    names = named(world, clause.text)
    if names.pids or names.roles or not PRONOUNS.search(clause.text):
        return names
    before = named(world, clause.given)
    pids = before.pids or tuple(sorted(before.roles))
    return replace(names, roles=frozenset(pids))


def _things(world: World, text: str, names: Named, *, ordered: bool) -> Iterator[Mention]:
    """Happenings that a clause names by a noun."""
    for kind, words in _NOUNS.items():
        place = words.search(text)
        if ordered and kind == "verdict" and names.conditions:
            place = place or re.search(r"\S", text)
        if place is None:
            continue
        fitting = selected(world.of(kind), names, kind)
        if kind == "launch" and AGAIN.search(place[0]):
            fitting = _again(world, fitting)
        fitting = ordinal(text[: place.end()], fitting) if ordered else fitting
        if kind == "signal":
            fitting = tuple(h for h in fitting if h.get("delivered") is not False)
        yield Mention(
            what=place[0],
            kind=kind,
            verb=False,
            start=place.start(),
            holding=fitting,
            failing=(),
            open=(),
            closed=False,
        )


def _again(world: World, launches: tuple[Happening, ...]) -> tuple[Happening, ...]:
    """Launches that start the job again: those after the first signal, or after the opening."""
    first = min((s.start_us for s in world.of("signal")), default=world.opened_us)
    return tuple(h for h in launches if h.start_us >= first)


def _mention(
    world: World, clause: Clause, deed: Deed, names: Named, start: int, *, ordered: bool
) -> Mention:
    text = clause.text
    chosen = world.of(deed.kind)
    if not deed.name.startswith("looked at"):
        chosen = selected(chosen, names, deed.kind)
    decidable = True
    if deed.name == "verified" and not names.conditions:
        chosen, decidable = (), False  # a proof of what, is not said
    if deed.kind == "launch" and AGAIN.search(text):
        chosen = _again(world, chosen)
    if deed.kind == "process":
        chosen, decidable = _processes(world, clause, deed, names, chosen)
    if deed.name == "resumed" and names.steps:
        chosen = tuple(h for h in chosen if h.get("resumed_from_step") in names.steps)
    if deed.kind == "listing" or (
        deed.kind == "verdict" and clause.negated and not names.conditions
    ):
        decidable = (
            deed.kind == "listing" and deed.name in {"complete", "partial"} and _at_one(text)
        )
    if deed.name == "writing" and (nth := _NTH_LOOK.search(text)):
        chosen = ordinal(nth[0], tuple(h for h in chosen if h.inside))
    verb = re.match(r"\w+ed\b", text[start:])
    chosen = ordinal(text[: start + 1], chosen) if ordered and not verb else chosen
    tested = [(h, _test(world, deed, clause, h)) for h in chosen]
    closed = deed.kind in _CLOSED or deed.name in {"resumed", "writing"}
    return Mention(
        what=_what(deed, names),
        kind=deed.kind,
        verb=True,
        start=start,
        holding=tuple(h for h, passed in tested if passed is True),
        failing=tuple(h for h, passed in tested if passed is False),
        open=tuple(h for h, passed in tested if passed is None),
        closed=closed and bool(world.of(deed.kind) or deed.kind in {"signal", "launch"}),
        decidable=decidable,
        ends=deed.name == "gone",
    )


def _at_one(text: str) -> bool:
    """Whether a clause speaks of listings as such and not of one that was pointed at before."""
    return re.search(r"\b(?:every|all|each|both|first|last)\b", text, re.IGNORECASE) is not None


def _test(world: World, deed: Deed, clause: Clause, happening: Happening) -> bool | None:
    if deed.kind == "process" and deed.name in {"gone", "there"} and len(clause.times) == 1:
        listed = _listed(world, clause, happening)
        return None if listed is None else listed == (deed.name == "there")
    if deed.name == "there" and not clause.present and not clause.negated:
        return None if happening.get("alive") is None else True  # it was there once
    return deed.test(happening)


def _listed(world: World, clause: Clause, process: Happening) -> bool | None:
    """Whether the complete listings of the time that a clause gives hold a process, alive."""
    (moment,) = clause.times
    seen = [h for h in world.of("listing") if h.get("complete") and dated(h, *moment)]
    held = {process.get("pid") in h.get("pids") for h in seen}  # type: ignore[operator]  # a frozenset
    return held.pop() if len(held) == 1 else None


def dated(happening: Happening, at: int, width: int) -> bool:
    """Whether a happening was at a time of day, given with the width of its last digit."""
    low, high = (happening.start_us % _DAY_US) - width, (happening.end_us % _DAY_US) + width
    return low < at < high


def _processes(
    world: World, clause: Clause, deed: Deed, names: Named, chosen: tuple[Happening, ...]
) -> tuple[tuple[Happening, ...], bool]:
    """The processes that a clause speaks of, and whether it can be held to them.

    A clause that points at a moment (a time, another listing) is not about the end of the story.
    """
    momentary = len(clause.times) > 1 or clause.still or _MOMENT.search(clause.text)
    if _OTHERS.search(clause.text) and not names.pids:
        return tuple(h for h in world.of("process") if h.get("bystander")), True
    if names.pids and not pids_in(text_before(clause.text, deed)):
        return (), False  # the pid is not the one that it is said of
    if names.pids or (names.roles and all(h.get("bystander") for h in chosen)):
        return chosen, not (momentary and not clause.present)
    if deed.name == "gone":
        return tuple(h for h in chosen if h.get("signalled")), not momentary
    if deed.name == "there":
        return tuple(h for h in chosen if h.get("signalled")), len(clause.times) == 1
    return (), False


def text_before(text: str, deed: Deed) -> str:
    """What stands before the words of a deed."""
    found = deed.words.search(text)
    return text[: found.start()] if found else ""


def _what(deed: Deed, names: Named) -> str:
    parts = [deed.name, *sorted(names.signals)]
    if deed.kind in {"signal", "process", "launch"}:
        parts += [f"pid {pid}" for pid in names.pids]
    if deed.kind == "verdict":
        parts += sorted(names.conditions)
    return ", ".join(parts)


def selected(chosen: tuple[Happening, ...], names: Named, kind: str) -> tuple[Happening, ...]:
    """The happenings that fit every name that is of their kind."""
    if kind == "signal" and names.signals:
        chosen = tuple(h for h in chosen if h.get("signal") in names.signals)
    if kind in {"signal", "process", "launch", "heartbeat"} and names.pids:
        chosen = tuple(h for h in chosen if h.get("pid") in names.pids)
    if kind in {"signal", "process"} and names.roles:
        chosen = tuple(h for h in chosen if h.get("pid") in names.roles)
    if kind in {"verdict", "wait"} and names.conditions:
        chosen = tuple(h for h in chosen if h.get("condition") in names.conditions)
    if kind == "command" and names.commands:
        chosen = tuple(h for h in chosen if h.get("command") in names.commands)
    return chosen


def ordinal(text: str, chosen: tuple[Happening, ...]) -> tuple[Happening, ...]:
    """One of the happenings, where an ordinal stands right before the word."""
    found = _ORDINAL.search(text)
    if found is None or not chosen:
        return chosen
    place = _NUMBER_WORD[found[1].lower()]
    return (chosen[place],) if place < len(chosen) else chosen
