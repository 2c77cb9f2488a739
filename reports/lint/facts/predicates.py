"""What can be said of each of several things of a kind, as a test of one of them.

Here: the predicates that the rest of a clause may hold, by the kind of thing that its subject is.
Not here: which things the subject is (``reports.lint.facts.sets``), deeds that a clause says
without counting (``reports.lint.facts.vocabulary``).
"""

import re
from collections.abc import Callable, Iterator

from reports.lint.facts.happenings import Happening, World
from reports.lint.facts.mentions import named, role_pids
from reports.lint.facts.vocabulary import DEEDS, SIGNALS, Test, signals_in
from reports.lint.words import family

_EXIT = re.compile(
    r"\bexit(?:ed|s)?(?: status| code| with)?(?: status| code)? (?:of )?(\d+)\b", re.IGNORECASE
)
_FAILED = family("failed|fail|went wrong|ended badly|errored")
_SUCCEEDED = family("succeeded|succeed|completed|went through|went well|worked")
_CHANGING = family("changed|changes|altered|modified|wrote|touched|acted on", "changes|acts")
_READING = family(
    "nothing but look|nothing but observe|only observe|only look|just look|just looked",
    "read-only|observed|looked|read|only looked|probes|harmless|observations",
)
_MET = family(
    "met|fulfilled|satisfied|successful|succeeded|came true|saw it|saw what|held|was in time"
)
_UNMET = family(
    "failed|ran out|timed out|expired|in vain|came back empty*|ended without|unmet|unsuccessful",
    "gave up|ran into|ended empty*|fruitless|exhausted|not met",
)
_HOLDING = re.compile(
    r"\b(?:show|shows|showed|held|holds|hold|contain\w*|list|lists|listed|had|has|have|includ\w*"
    r"|without|lack\w*|saw|with)\b(?P<object>.*)",
    re.IGNORECASE,
)
_CLEAN = family("clean|empty|clear")
_NO_OBJECT = re.compile(r"^\s*(?:no|neither|none|not a|not any)\b|^\s*nothing\b", re.IGNORECASE)
_LACKS = re.compile(r"\b(?:without|lack\w*)\b", re.IGNORECASE)
_WHOLE = family("complete|whole|full")
_PARTIAL = family("partial|incomplete|truncated|cut off|cut short")
_STATE_WORDS = ("starting", "training", "evaluating", "checkpointing", "stopping", "finished")
_IN_STATE = r"\b(?:state|says?|said|reads?|was|is|were|are|showed|shows?)[ :]+[\"“]?"
_AT_STEP = re.compile(r"\bsteps? (\d[\d,]*)\b", re.IGNORECASE)
_FINITE = family("finite")
_NOT_FINITE = family("NaN|infinite|non-finite|not finite")
_WRITING = re.compile(r"\bcheckpoint\w*\b[^.;]*\b(?:being written|written|writing)\b|\bwriting\b")
_ZERO = re.compile(
    r"\b(?P<side>below|under|above|over) (?:zero|nought|0)\b|\b(?P<sign>negative|positive)\b",
    re.IGNORECASE,
)
_PASSED = family("passed|pass|held|allowed|satisfied|green")
_CLIMBED = family("used|tried|needed|climbed|taken|reached|employed|gone through|exhausted")
_LEFT = family("skipped|left|unused|spared|passed over|held back|left out")
_FAULTY = family("warning*|error*|traceback*|exception*|failure*|complaint*|nan")
_CALLED = {
    "signal_process": family("a signal|signals"),
    "list_processes": family("listings|process listings|process tables|listing"),
    "wait_until": family("waits"),
    "read_heartbeat": family("heartbeats|heartbeat readings|heartbeat reads"),
    "launch": family("launches|launch|relaunches"),
    "deploy_files": family("deployments|deployment"),
    "tail_log": family("log tails|log reads|tails"),
    "file_digest": family("digests|digest reads"),
}
_DELIVERED = family(
    "delivered|reached|arrived|landed|got through|received|sent|issued|used|needed|necessary",
    "required|fired|dispatched",
)
_REFUSED = family("refused|rejected|turned away|came too late")
_INTERRUPTS = family("interrupts|Ctrl-C*")
_OTHERS = family("other|others|innocent|innocents|bystander*")
Made = tuple[Test, int]


def predicate(world: World, kind: str, text: str) -> Made | None:
    """The first thing in a text that can be said of a kind, as a test, and where it stands."""
    found = sorted(_OF.get(kind, _deeds)(world, kind, text), key=lambda made: made[1])
    return found[0] if found else None


def _deeds(world: World, kind: str, text: str) -> Iterator[Made]:
    """The deeds of the vocabulary, for kinds that have no predicates of their own."""
    del world
    for deed in DEEDS:
        place = deed.words.search(text) if deed.kind == kind else None
        if place is not None and (deed.unless is None or not deed.unless.search(text)):
            yield deed.test, place.start()


def _is(name: str, wanted: object) -> Test:
    def test(happening: Happening) -> bool | None:
        value = happening.get(name)
        return None if value is None else value == wanted

    return test


def _words(text: str, *pairs: tuple[re.Pattern[str], Test]) -> Iterator[Made]:
    for words, test in pairs:
        if place := words.search(text):
            yield test, place.start()


def _not(test: Test) -> Test:
    def turned(happening: Happening) -> bool | None:
        answer = test(happening)
        return None if answer is None else not answer

    return turned


def _commands(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    if status := _EXIT.search(text):
        yield _is("exit", int(status[1])), status.start()
    yield from _words(
        text,
        (_FAILED, _not(_is("outcome", "completed"))),
        (_SUCCEEDED, _is("outcome", "completed")),
        (_CHANGING, lambda h: h.get("effect") in {"changes", "destroys"}),
        (_READING, _is("effect", "observes")),
        *((family(word), _is("outcome", word)) for word in ("unknown", "denied", "not sent")),
        *((words, _is("command", name)) for name, words in _CALLED.items()),
    )


def _waits(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    yield from _words(text, (_UNMET, _is("met", wanted=False)), (_MET, _is("met", wanted=True)))


def _listings(world: World, kind: str, text: str) -> Iterator[Made]:
    del kind
    yield from _words(
        text,
        (_WHOLE, _is("complete", wanted=True)),
        (_PARTIAL, _not(_is("complete", wanted=True))),
    )
    trainers = role_pids(world, "trainer")
    if (place := _CLEAN.search(text)) and trainers:
        yield _not(_lists(trainers)), place.start()
    found = _HOLDING.search(text)
    if found is None:
        return
    about = found["object"]
    names = named(world, about)
    pids = frozenset(names.pids) or names.roles
    if re.search(r"\b(?:members?|of the job|the victim)\b", about, re.IGNORECASE):
        pids = pids or trainers
    if not pids and _OTHERS.search(about):
        others = (p.get("pid") for p in world.of("process") if p.get("bystander"))
        pids = frozenset(pid for pid in others if isinstance(pid, int))
    if pids:
        test = _lists(pids)
        lacking = _NO_OBJECT.search(about) is not None or _LACKS.match(found[0]) is not None
        yield (_not(test) if lacking else test), found.start()


def _lists(pids: frozenset[int]) -> Test:
    def test(happening: Happening) -> bool | None:
        held = happening.get("pids")
        return bool(pids & held) if isinstance(held, frozenset) else None

    return test


def _beats(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    steps = [int(n.replace(",", "")) for n in _AT_STEP.findall(text)]
    if len(steps) == 1 and (place := _AT_STEP.search(text)):
        yield _is("step", steps[0]), place.start()
    for word in _STATE_WORDS:
        yield from _words(text, (re.compile(_IN_STATE + word + r"\b"), _is("state", word)))
    yield from _words(
        text,
        (_NOT_FINITE, _not(_finite)),
        (_FINITE, _finite),
        (_WRITING, _is("checkpoint_writing", wanted=True)),
    )


def _finite(happening: Happening) -> bool | None:
    loss = happening.get("loss")
    return None if loss is None else re.fullmatch(r"-?\d+(?:\.\d+)?", str(loss)) is not None


def _signals(world: World, kind: str, text: str) -> Iterator[Made]:
    del kind
    names = named(world, text)
    pids = frozenset(names.pids) or names.roles
    if wanted := signals_in(text):
        place = SIGNALS.search(text)
        yield (lambda h: h.get("signal") in wanted), place.start() if place else 0
    if pids:
        place = re.search(r"\b(?:to|went|sent|reached|hit|at|for)\b", text)
        if place is not None:
            yield (lambda h: h.get("pid") in pids), place.start()
    yield from _words(
        text,
        (_REFUSED, _not(_is("delivered", wanted=True))),
        (_DELIVERED, _is("delivered", wanted=True)),
        (_INTERRUPTS, _is("signal", "INT")),
    )


def _hypotheses(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    if found := _ZERO.search(text):
        low = (found["side"] or found["sign"]).lower() in {"below", "under", "negative"}
        yield (lambda h: _below(h) if low else _not(_below)(h)), found.start()


def _below(happening: Happening) -> bool | None:
    weight = happening.get("db")
    return weight < 0 if isinstance(weight, int) else None


def _rungs(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    yield from _words(text, (_CLIMBED, _is("used", wanted=True)))
    yield from _words(text, (_LEFT, _is("used", wanted=False)))


def _guards(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    yield from _words(text, (_FAILED, _not(_is("passed", wanted=True))))
    yield from _words(text, (_PASSED, _is("passed", wanted=True)))


def _lines(world: World, kind: str, text: str) -> Iterator[Made]:
    del world, kind
    for place in _FAULTY.finditer(text):
        root = place[0].lower().rstrip("s")
        yield _tells(root), place.start()


def _tells(root: str) -> Test:
    def test(happening: Happening) -> bool | None:
        return root in str(happening.get("text")).lower()

    return test


_OF: dict[str, Callable[[World, str, str], Iterator[Made]]] = {
    "command": _commands,
    "wait": _waits,
    "listing": _listings,
    "heartbeat": _beats,
    "signal": _signals,
    "hypothesis": _hypotheses,
    "guard": _guards,
    "rung": _rungs,
    "line": _lines,
}
