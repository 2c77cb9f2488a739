"""What became of it: steps lost, processes that came back, how long one stayed, repairs in place.

Here: statements on a consequence that takes several readings to know. Not here: single deeds
(``reports.lint.facts.weighing``), spans between two named events (``reports.lint.facts.clocks``).
"""

import re
from collections.abc import Iterator

from reports.lint.facts.clauses import Clause
from reports.lint.facts.clocks import comparison
from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.vocabulary import signals_in
from reports.lint.words import NUMBER_WORDS, family

_WORDS = "|".join(NUMBER_WORDS)
_LOST = re.compile(
    r"\b(?:steps?|progress|work)\b[^.;,]{0,30}\b(?:lost|redone|repeated|done twice|done again"
    r"|thrown away)\b"
    r"|\b(?:lost|lose|losing|redid|repeated)\b[^.;,]{0,20}\b(?:steps?|progress|work)\b",
    re.IGNORECASE,
)
_NO_LOSS = re.compile(
    r"\b(?:no|not (?:a|one|any)(?: single)?|none of the|without|nothing|zero|never)\b",
    re.IGNORECASE,
)
_STEP_NUMBER = re.compile(r"\bsteps? (\d[\d,]*)(?: (?:to|and) (\d[\d,]*))?\b", re.IGNORECASE)
_HOW_MANY = re.compile(
    rf"\b(\d+|{_WORDS}|a single|a) (?:more |training |optimi[sz]er |whole )*steps?\b", re.IGNORECASE
)
_EVERY = re.compile(r"\b(?:all|every|each|entire|whole)\b", re.IGNORECASE)
_BACK = re.compile(
    r"\b(?:respawn(?:s|ed|ing)|reappear\w*|resurrect\w*"
    r"|came back (?:to life|by itself|on its own|uninvited)"
    r"|(?:brought|started) (?:it|the \w+) (?:back|again) (?:by itself|on its own)"
    r"|(?:wrapper|supervisor|parent|shell)\b[^.;,]{0,16}\b(?:re)?(?:start|spawn|launch)\w*"
    r" (?:it|the \w+|another|a new)(?: \w+)?)\b",
    re.IGNORECASE,
)
_REPAIR = family("repair|repairs|fix|correction|patch")
_IN_PLACE = re.compile(
    r"\b(?:already|was|were|is|had been)\b[^.;,]{0,12}\bin place\b", re.IGNORECASE
)
_AFTER_IT = re.compile(
    r"\b(?:afterwards|after|by then|then|confirmed|deployed|now|once|put)\b", re.IGNORECASE
)
_STAYED = re.compile(
    r"\b(?:still (?:there|present|alive|listed|running|up|around)|lived on|lingered|survived"
    r"|remained|stayed alive|held on)\b",
    re.IGNORECASE,
)
_AGO = re.compile(r"\s*(?:later|after|afterwards|more|longer|past)\b", re.IGNORECASE)
_ORDERLY = re.compile(
    r"\b(?:in an orderly|orderly (?:way|exit|end|stop|shutdown)|in good order|gracefully"
    r"|clean(?:ly)? (?:exit|shut ?down|stop|end)\w*|(?:exited|ended|stopped|finished) cleanly)\b",
    re.IGNORECASE,
)
_PROGRESS = re.compile(r"\b(?:making|made|makes|make) (?:any |no )?progress\b", re.IGNORECASE)
_UNCHANGED = re.compile(
    r"\b(?:left|stayed|remained|was|were)\b[^.;,]{0,12}"
    r"\b(?:unchanged|untouched|alone|unmodified|as (?:it|they) (?:was|were))\b",
    re.IGNORECASE,
)
_A_WHILE = re.compile(r"\b(?:until|before|while|when|then|by|at)\b", re.IGNORECASE)
_THE_FILE = re.compile(r"\bthe (?:[\w-]+ )?(?:script|file|launcher)\b", re.IGNORECASE)
_HELD = re.compile(
    r"\b(?:(?P<none>no|without(?: any)?|neither|nor|or)|an?|held|holds|had|one|some|several|open)"
    r" (?:file |open |network |listening |TCP )*(?P<what>lock|connection|port)s?\b",
    re.IGNORECASE,
)
_NOT_AGAIN = re.compile(
    r"\b(?:not|never)\b[^.;,]*\b(?:listed|looked|read|checked)\b[^.;,]*"
    r"\b(?:again|a second time|twice|once more)\b|\bno second (?:look|listing|check)\b",
    re.IGNORECASE,
)
_SUFFICED = re.compile(r"\b(?:enough|suffice[ds]?|sufficient|did it)\b", re.IGNORECASE)
_SEVERAL = re.compile(r"\binterrupts\b|\b(?:two|both|2) ", re.IGNORECASE)
_NUMBER_ROOM = 14  # "steps 1,234 to 1,240"
Answer = tuple[str, str] | None


def aftermath(world: World, clause: Clause) -> Iterator[Answer]:
    """C12, C18: consequences are told as the readings show them."""
    yield from _lost(world, clause)
    yield from _back(world, clause)
    yield from _repaired(world, clause)
    yield from _stayed(world, clause)
    yield from _orderly(world, clause)
    yield from _held(world, clause)
    yield from _enough(world, clause)
    yield from _again(world, clause)
    yield from _progress(world, clause)
    yield from _unchanged(world, clause)


def _span(world: World) -> tuple[int, int] | None:
    """The step that the last launch resumed from and the last that was read before it."""
    launches = [h for h in world.of("launch") if h.inside]
    if not launches:
        return None
    start = launches[-1].start_us
    before = [h for h in world.of("heartbeat") if h.start_us < start]
    after = [h for h in world.of("heartbeat") if h.start_us >= start]
    steps = [step for h in before if isinstance(step := h.get("step"), int)]
    resumed = [step for h in after if isinstance(step := h.get("resumed_from_step"), int)]
    return (resumed[-1], max(steps)) if steps and resumed else None


def _lost(world: World, clause: Clause) -> Iterator[Answer]:
    found = _LOST.search(clause.text)
    span = _span(world)
    if found is None or span is None or clause.not_yet:
        return
    low, high = span
    lost = max(0, high - low)
    said = found[0] if found[0].lower().startswith("lo") else clause.text[: found.end()]
    if named := _STEP_NUMBER.search(clause.text[found.start() : found.end() + _NUMBER_ROOM]):
        steps = [int(n.replace(",", "")) for n in named.groups() if n]
        if clause.negated != all(low < step <= high for step in steps):
            yield None
        else:
            yield ("C18", f"steps {low + 1} to {high} were lost" if lost else "no step was lost")
    elif _NO_LOSS.search(said):
        yield ("C18", f"steps {low + 1} to {high} were lost") if lost else None
    elif _EVERY.search(said):
        yield ("C18", f"it resumed from step {low} of {high}") if low > 0 else None
    elif counted := _HOW_MANY.search(clause.text):
        word = counted[1].lower()
        number = 1 if word in {"a", "a single"} else NUMBER_WORDS.get(word) or int(word)
        than = comparison(clause.text[: counted.start()])
        fits = {"=": lost == number, "<": lost <= number, ">": lost >= number}[than]
        yield None if fits != clause.negated else ("C18", f"steps lost on record: {lost}")
    elif not lost and not clause.negated:
        yield ("C18", "no step was lost")


def _back(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether something of the job appeared between the first signal and the launch after it."""
    if _BACK.search(clause.text) is None:
        return
    sent = [h for h in world.of("signal") if h.get("delivered") is True]
    if not sent:
        return
    launched = [h.start_us for h in world.of("launch") if h.start_us > sent[0].start_us]
    until = min(launched, default=world.happenings[-1].end_us + 1)
    came = [p for p in world.of("process") if p.get("role") and sent[0].end_us < p.start_us < until]
    if bool(came) == clause.negated:
        yield ("C12", "a successor is on record" if came else "no successor is on record")
    else:
        yield None


def _repaired(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether a repair was in place before the incident put one there."""
    if _REPAIR.search(clause.text) is None or _IN_PLACE.search(clause.text) is None:
        return
    needed = any(
        h.get("condition") == "intervention_needed" and h.get("verdict") == "confirmed"
        for h in world.of("verdict")
    )
    written = any(h.inside for h in world.of("deployment"))
    if needed and written and not clause.negated and _AFTER_IT.search(clause.text) is None:
        yield ("C12", "the incident put a repair in place that was not there")


def _stayed(world: World, clause: Clause) -> Iterator[Answer]:
    """How long after a signal a process is said to have been there still."""
    if _STAYED.search(clause.text) is None or clause.negated or not clause.durations:
        return
    duration = clause.durations[0]
    tail = clause.text[duration.start + len(duration.text) :]
    victims = [p for p in world.of("process") if p.get("signalled")]
    if not _AGO.match(tail) or not victims or duration.than == "<":
        return
    longest = [us for p in victims if (us := _outlasted(world, p)) is not None]
    if len(longest) == len(victims) and max(longest) < duration.us - duration.step_us:
        yield ("C23", f"gone {max(longest) / 1e6:.1f} s after the first signal at the latest")


def _orderly(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether the job ended as one that was asked to: its last heartbeat says so."""
    sent = [h.start_us for h in world.of("signal") if h.get("delivered") is not False]
    if _ORDERLY.search(clause.text) is None or not sent:
        return
    launches = [h.start_us for h in world.of("launch") if h.start_us > sent[0]]
    until = min(launches, default=world.happenings[-1].end_us + 1)
    states = {h.get("state") for h in world.of("heartbeat") if sent[0] < h.start_us < until}
    if not states:
        return
    orderly = bool(states & {"finished", "stopped"})
    if orderly == clause.negated:
        yield ("C13", f"its last heartbeat says {', '.join(sorted(map(str, states)))}")
    else:
        yield None


def _held(world: World, clause: Clause) -> Iterator[Answer]:
    """What an inspection found a process to hold: locks, connections, ports."""
    for found in _HELD.finditer(clause.text):
        seen = [h for h in world.of("held") if h.get("of") == found["what"].lower()]
        some = any(h.get("number") for h in seen)
        none = found["none"] is not None
        if seen and some == none:
            yield ("C12", f"{found['what']}s on record: {seen[-1].get('number')}")
        elif seen:
            yield None


def _enough(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether a signal sufficed: no other went to its process, which is gone."""
    names = signals_in(clause.text)
    if _SUFFICED.search(clause.text) is None or len(names) != 1:
        return
    sent = [h for h in world.of("signal") if h.get("delivered") is True]
    pids = {h.get("pid") for h in sent if h.get("signal") in names}
    ended = [p for p in world.of("process") if p.get("pid") in pids and p.get("gone") is True]
    others = any(h.get("pid") in pids and h.get("signal") not in names for h in sent)
    alone = not others and (
        _SEVERAL.search(clause.text) or all(p.get("signals") == 1 for p in ended)
    )
    if ended and bool(alone) == clause.negated:
        yield ("C12", "other signals followed" if not alone else "no other signal was needed")


def _again(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether it was looked again after the last signal, where that is denied."""
    if _NOT_AGAIN.search(clause.text) is None:
        return
    last = max((h.end_us for h in world.of("signal")), default=None)
    if last is not None and sum(h.start_us > last for h in world.of("listing")) > 1:
        yield ("C12", "several listings after the last signal are on record")


def _progress(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether the job is denied the progress that a verdict found."""
    if _PROGRESS.search(clause.text) is None or not clause.negated:
        return
    found = {
        h.get("verdict") for h in world.of("verdict") if h.get("condition") == "job_progressing"
    }
    if found == {"confirmed"}:
        yield ("C13", "the verdict on job_progressing is confirmed")


def _unchanged(world: World, clause: Clause) -> Iterator[Answer]:
    """Whether a file that is said to be as it was, was written."""
    if _UNCHANGED.search(clause.text) is None or clause.negated or _A_WHILE.search(clause.text):
        return
    written = {str(h.get("name")) for h in world.of("file") if h.get("written") and h.inside}
    deployed = any(h.inside for h in world.of("deployment"))
    files = re.findall(r"\b[\w-]+\.(?:py|sh|json|toml)\b", clause.text)
    if (files and set(files) <= written) or (
        not files and deployed and _THE_FILE.search(clause.text)
    ):
        yield ("C12", "the incident wrote it")


def _outlasted(world: World, process: Happening) -> int | None:
    """From the first signal to the listing that shows the process gone."""
    gone = process.get("gone_us")
    sent = [s.start_us for s in world.of("signal") if s.get("pid") == process.get("pid")]
    return gone - min(sent) if isinstance(gone, int) and sent else None
