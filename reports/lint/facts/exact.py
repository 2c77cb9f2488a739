"""What is bound by the words right beside it: a loss at a step, signals by name and pid, a limit.

Each of these is a quantity of which the record holds all there is, named together with its value,
so that the rest of the clause cannot turn it. Here also: readings that are said to go from one
number to another, and a process that is told in the present though it is gone. Not here: clauses
that have to be understood as a whole (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator
from fractions import Fraction

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import World
from reports.lint.facts.mentions import named
from reports.lint.facts.vocabulary import pids_in
from reports.lint.words import NUMBER_WORDS

_WORDS = "|".join(NUMBER_WORDS)
_UP = "higher|greater|larger|bigger"
_DOWN = "lower|smaller|less"
_AT = r"(?:at|of|for|in) (?:step )?(\d+)"
_LOSS_AT = re.compile(
    rf"\bloss(?: \w+){{0,3}}? {_AT} (?:is|was)(?: \w+)? (?P<way>{_UP}|{_DOWN}) than"
    rf"(?: it (?:was|had been)| that| the (?:one|loss))? {_AT}"
    rf"|\bloss (?:is|was)(?: \w+)? (?P<way2>{_UP}|{_DOWN}) {_AT} than"
    rf"(?: it (?:was|had been)| that)? {_AT}",
    re.IGNORECASE,
)
_LINE = re.compile(r"\bstep=(\d+) loss=(-?\d+\.\d+)")
_FROM_TO = re.compile(
    r"\b(?:(?P<up>rose|grew|increased|climbed|went up|is up)|(?P<down>fell|dropped|shrank|decreased"
    r"|sank|went down|is down)) from (?:step )?(\d[\d,]*(?:\.\d+)?) to (?:step )?"
    r"(\d[\d,]*(?:\.\d+)?)(?![\d:])",
    re.IGNORECASE,
)
_SO_MANY = re.compile(
    rf"(?<!pid )(?<!PID )(?<![\w.:])(?P<number>\d+|{_WORDS})"
    r" (?:(?:plain|single|separate|further|more|successive) )?"
    r"SIG(?P<name>INT|TERM|KILL|HUP|QUIT)s?\b"
)
_NOT_FINITE = re.compile(
    r"\bloss(?:es)? (?:had |has |was |were |is |are |became |become |gone |turned |went )+"
    r"(?:infinite|NaN|nan|non-finite|inf)\b"
)
_ARROW = re.compile(
    r"(?<![\w.,])(\d[\d,]*)(?: bytes)? ?(?:→|->|to|down to|up to) ?(\d[\d,]*) bytes\b"
)
_NEW_SIZE = re.compile(
    r"\b(?:new|repaired|corrected|replacement)(?: (?:file|script|launcher|version|one|copy))?"
    r" (?:is|was|came out|turned out|has become)(?: \w+)? (larger|bigger|longer|smaller|shorter)\b",
    re.IGNORECASE,
)
_SAME_SIZE = re.compile(
    r"\bnew\b[^.;]*\bold\b[^.;]*\b(?:same size|equally (?:long|large))\b"
    r"|\bsame size as (?:the (?:old|previous|original)|before)\b",
    re.IGNORECASE,
)
_HAD_APPROVAL = re.compile(
    r"\bhad to (?:wait for|be|get|have)\b[^.;,]{0,24}\bapprov(?:al|ed)\b"
    r"|\bwaited for\b[^.;,]{0,16}\bapproval\b|\bapproval (?:was|had been) (?:given|granted|asked)\b"
    r"|\bapproved (?:it|the \w+) (?:first|before)\b",
    re.IGNORECASE,
)
_TO_PID = re.compile(
    r"\b(?:went|sent|delivered|addressed|ordered|was|were) (?:to|for) (?:the (?:same )?)?"
    r"(?:process |trainer )?\(?pid (\d+)\b",
    re.IGNORECASE,
)
_SIGNAL = re.compile(r"\bsignals?\b|\bSIG[A-Z]+|\b(?:INT|TERM|KILL|Both)\b|\binterrupts?\b")
_LIMITS = (
    ("stall", re.compile(r"\bstall(?:ed|ing)?\b", re.IGNORECASE)),
    ("respawn", re.compile(r"\brespawn\w*\b", re.IGNORECASE)),
    ("grace", re.compile(r"\bgrace\b", re.IGNORECASE)),
)
_LIMIT = re.compile(
    r"\b(?:limit|period|threshold|grace|time-?out)\b(?: (?:for|after|before|of|in) [\w' -]{1,24}?)?"
    r" (?:is|was|of|at)(?: (?:set to|only|just|about))? $",
    re.IGNORECASE,
)
_STILL = re.compile(
    r"\b(?:is|are) (?:still|currently|now) (?:alive|running|up|there|listed|going|training|stepping"
    r"|hanging|hung|stuck|stalled|shutting down|ending|a zombie|ignoring|holding|using|busy|writing"
    r"|waiting|stopping)\b|\bto this day\b.*\b(?:is|are) \w+ing\b",
    re.IGNORECASE,
)
_DOWN_NOW = re.compile(
    r"\b(?:job|training|run|trainer)\b(?: \w+)? (?:is|are|stays|remains) (?:still )?"
    r"(?:down|hanging|hung|stalled|off)\b"
    r"|\bhas (?:still )?to (?:be )?restart(?:ed)?\b",
    re.IGNORECASE,
)
# A time or a reading at which it was so, or a tale told in the present.
_ANCHOR = re.compile(
    r"\d:\d|^\W*\d|\b(?:at|by|when|while|then|until|as of|listings?|heartbeats?|readings?|first"
    r"|second|look|says?|said|shows?|if|whether|so|after|before)\b",
    re.IGNORECASE,
)
_OLD = re.compile(r"\b(?:old|first|original|previous)\b", re.IGNORECASE)
_NEW = re.compile(r"\b(?:new|relaunched|restarted|repaired|second)\b", re.IGNORECASE)
Answer = tuple[str, str]


def exact(world: World, clause: Clause) -> Iterator[Answer]:
    """C12, C16, C18, C23: what is bound by the words beside it is as recorded."""
    if clause.supposed or clause.negated:
        return
    yield from _loss_at(world, clause)
    yield from _from_to(clause)
    yield from _infinite(world, clause)
    yield from _sizes(world, clause)
    yield from _approved(world, clause)
    yield from _so_many(world, clause)
    yield from _to_pid(world, clause)
    yield from _limits(world, clause)
    yield from _present(world, clause)


def _losses(world: World) -> dict[int, set[Fraction]]:
    """Losses by step, out of heartbeats and log lines."""
    found: dict[int, set[Fraction]] = {}
    for beat in world.of("heartbeat"):
        step, loss = beat.get("step"), beat.get("loss")
        if isinstance(step, int) and isinstance(loss, str):
            try:
                found.setdefault(step, set()).add(Fraction(loss))
            except ValueError:
                continue  # a loss that is no number
    for line in world.of("line"):
        for step, loss in _LINE.findall(str(line.get("text"))):
            found.setdefault(int(step), set()).add(Fraction(loss))
    return found


def _loss_at(world: World, clause: Clause) -> Iterator[Answer]:
    """*The loss at step 9 is higher than at step 111*."""
    for found in _LOSS_AT.finditer(clause.text):
        steps = [int(n) for n in found.groups() if n and n.isdigit()]
        way = (found["way"] or found["way2"]).lower()
        losses = _losses(world)
        ones, others = losses.get(steps[0], set()), losses.get(steps[1], set())
        higher = way in _UP.split("|")
        pairs = [(one > other) if higher else (one < other) for one in ones for other in others]
        if pairs and not any(pairs):
            yield ("C12", f"the loss at step {steps[0]} is not {way} than at step {steps[1]}")


def _from_to(clause: Clause) -> Iterator[Answer]:
    """*It rose from 12 to 9*."""
    for found in _FROM_TO.finditer(clause.text):
        one, other = (Fraction(n.replace(",", "")) for n in found.groups()[2:])
        if one != other and (one < other) != (found["up"] is not None):
            yield ("C23", f"from {found[3]} to {found[4]} goes the other way")


def _infinite(world: World, clause: Clause) -> Iterator[Answer]:
    """*The loss had become infinite*: every loss on record is finite."""
    losses = [str(h.get("loss")) for h in world.of("heartbeat") if h.get("loss") is not None]
    told = " ".join([*losses, *(str(h.get("text")) for h in world.of("line"))]).lower()
    if losses and _NOT_FINITE.search(clause.text) and not re.search(r"\b(?:nan|inf)", told):
        yield ("C12", "every recorded loss is finite")


def _sizes(world: World, clause: Clause) -> Iterator[Answer]:
    """*115 → 210 bytes*, *the new file is larger*: of the one file that was replaced."""
    read = [h for h in world.of("file") if h.inside and isinstance(h.get("size"), int)]
    written = [h for h in read if h.get("written")]
    if len(written) != 1:
        return
    (new,) = written
    before = {
        h.get("size")
        for h in read
        if h.get("name") == new.get("name") and h.start_us < new.start_us
    }
    if len(before) != 1:
        return
    (old,) = before
    size = new.get("size")
    for found in _ARROW.finditer(clause.text):
        one, other = (int(n.replace(",", "")) for n in found.groups())
        if (one, other) == (size, old) and one != other:
            yield ("C12", f"{old} bytes before, {size} after")
    if told := _NEW_SIZE.search(clause.text):
        larger = told[1].lower() in {"larger", "bigger", "longer"}
        if isinstance(old, int) and isinstance(size, int) and larger != (size > old):
            yield ("C12", f"{old} bytes before, {size} after")
    elif _SAME_SIZE.search(clause.text) and old != size:
        yield ("C12", f"{old} bytes before, {size} after")


def _approved(world: World, clause: Clause) -> Iterator[Answer]:
    """*It had to be approved first*: an approval is on record."""
    asked = any(event.kind.startswith("approval_") for event in world.events)
    if not asked and _HAD_APPROVAL.search(clause.text):
        yield ("C12", "no approval was asked for or given on record")


def _so_many(world: World, clause: Clause) -> Iterator[Answer]:
    """*Two SIGINTs*: no more of a name than are on record."""
    for found in _SO_MANY.finditer(clause.text):
        number = NUMBER_WORDS.get(found["number"].lower()) or int(found["number"])
        sent = sum(s.get("signal") == found["name"] for s in world.of("signal"))
        if number > sent and not clause.future:
            yield ("C18", f"SIG{found['name']} on record: {sent}")


def _to_pid(world: World, clause: Clause) -> Iterator[Answer]:
    """*Both went to pid 67*: a signal of that process is on record."""
    if _SIGNAL.search(clause.text) is None or clause.future:
        return
    signalled = {s.get("pid") for s in world.of("signal")}
    for found in _TO_PID.finditer(clause.text):
        if signalled and int(found[1]) not in signalled:
            yield ("C12", f"no signal to pid {found[1]} is on record")


def _limits(world: World, clause: Clause) -> Iterator[Answer]:
    """*The stall limit is 5 minutes*: the configuration has such a limit."""
    for duration in clause.durations:
        if _LIMIT.search(clause.text[: duration.start]) is None:
            continue
        for name, words in _LIMITS:
            known = {int(us) for us in world.numbers.get(f"limit:{name}", ())}
            if words.search(clause.text) and known and not _among(duration.us, known):
                yield ("C23", f"no configured {name} limit is {duration.text}")


def _among(us: Fraction, known: set[int]) -> bool:
    return any(abs(us - each) <= us / 10 for each in known)


def _present(world: World, clause: Clause) -> Iterator[Answer]:
    """*Pid 16 is still alive*: told in the present, of a process that the last listing lacks."""
    if world.closed is None or _ANCHOR.search(clause.sentence.bare):
        return
    ended = world.closed.get("resolution")
    if ended == "RECOVERED" and _DOWN_NOW.search(clause.text):
        yield ("C16", f"the incident ended as {ended}")
    elif found := _STILL.search(clause.text):
        before = clause.text[: found.start()] or found[0]
        pids = set(pids_in(before)) or set(named(world, before).roles)
        meant = [p for p in world.of("process") if p.get("pid") in pids]
        if _OLD.search(before):
            meant = [p for p in meant if p.get("signalled")]
        if _NEW.search(before) is None and meant and all(p.get("gone") is True for p in meant):
            yield ("C16", f"gone on record, and told as it were there: {found[0]}")
