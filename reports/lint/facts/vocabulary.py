"""The words in which reports say what happened, each with the kind of happening that it names.

Here: deeds (verbs with a test of a happening) and things (nouns that are counted). The words are
of English and of this field; a test refuses one that only a single document of the corpus holds.
Not here: grammar (``reports.lint.facts.clauses``), judging (``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from reports.lint.facts.happenings import Happening
from reports.lint.words import family

# A participle behind an article describes a thing and says no deed.
_ADJECTIVE = re.compile(r"\b(?:the|an?|its|this|that|each|every)\s+$", re.IGNORECASE)
Test = Callable[[Happening], bool | None]
_SIGNAL = r"(?<![\w-])(?:SIG)?(TERM|KILL|INT|HUP|QUIT|CONT|STOP)(?![\w-])"
SIGNALS = re.compile(_SIGNAL)
_CTRL_C = re.compile(r"\bCtrl-C\b", re.IGNORECASE)
_INTERRUPT = re.compile(r"\binterrupt(?:s|ed)?\b", re.IGNORECASE)
_KILL_9 = re.compile(r"\bkill -9\b|\b(?:forced|hard) kill\b")
PIDS = re.compile(
    r"\b(?:pids?|process(?: id)?|PID)\s+(\d+)(?:(?:,| and|, and) (\d+)\b(?! [a-z]))?", re.IGNORECASE
)
STEPS = re.compile(
    r"\b(?:steps?|checkpoint) (?:at )?(\d[\d,]*)(?:(?:, | and | to | or )(\d[\d,]*)(?! ?[a-z%]))*",
    re.IGNORECASE,
)
RESUMED_AT = re.compile(
    r"\b(?:resum\w+|came back|picked up|continued|went on|started over|restored)"
    r" (?:from|at) (?:step |checkpoint )?(\d[\d,]*)(?!\d|[.:]\d)"
)
RESOLUTIONS = re.compile(r"\b(RECOVERED|STOPPED|NOTHING_TO_DO|HANDED_OVER)\b")


@dataclass(frozen=True, slots=True)
class Deed:
    """A way to say that something happened.

    ``words`` names it, ``about`` must stand in the clause too, ``unless`` must not. ``test`` says
    of a happening of the kind whether it is so; None where the record does not tell.
    """

    name: str
    kind: str
    words: re.Pattern[str]
    test: Test
    about: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None

    def said_in(self, text: str) -> re.Match[str] | None:
        """Where a clause names the deed."""
        found = self.words.search(text)
        if found is None or _ADJECTIVE.search(text[: found.start()]):
            return None
        if self.kind == "launch" and SUPERVISORS.match(
            text.removeprefix("The ").removeprefix("the ")
        ):
            return None  # a supervisor's start is none of ours
        if self.about is not None and self.about.search(text) is None:
            return None
        return None if self.unless is not None and self.unless.search(text) else found


def _flag(name: str) -> Test:
    def test(happening: Happening) -> bool | None:
        value = happening.get(name)
        return value if isinstance(value, bool) else None

    return test


def _equals(name: str, wanted: str) -> Test:
    def test(happening: Happening) -> bool | None:
        value = happening.get(name)
        return None if value is None else value == wanted

    return test


def _sent(happening: Happening) -> bool | None:
    delivered = happening.get("delivered")
    return delivered if isinstance(delivered, bool) else None


def _happened(_happening: Happening) -> bool | None:
    return True


def _command_of(what: str) -> Test:
    def test(happening: Happening) -> bool | None:
        return what in str(happening.get("command"))

    return test


def _resumed(happening: Happening) -> bool | None:
    return happening.get("resumed_from_step") is not None


def _partial(happening: Happening) -> bool | None:
    return happening.get("complete") is not True


def _unmet(happening: Happening) -> bool | None:
    return happening.get("met") is False


def _before(happening: Happening) -> bool | None:
    """Of the processes, those that were there before the first signal."""
    return happening.get("bystander") is True or happening.get("signalled") is True


def _complete(happening: Happening) -> bool | None:
    return happening.get("complete") is True


_TRAINER = family("trainer|training|job|process|processes|pid|pids|run|member|members|it")
_OTHERS = family(
    "else|nobody|innocent|innocents|bystander*|neighbour*|other process*|others|unrelated"
)
_LOOK = family("listing|listings|process table*|table|tables|process list*")
_COMMANDS = family("command|commands|probe|probes")
_WAITS = family("wait|waits|waited|timeout")

_LOOKED = re.compile(
    r"\b(?:looked|checked|measured|inspected|queried|read|compared)\b", re.IGNORECASE
)
_LOOKED_AT = {
    "gpu": re.compile(r"\bGPUs?\b|\bdevice memory\b", re.IGNORECASE),
    "ports": re.compile(r"\bnetwork\b|\bports?\b", re.IGNORECASE),
    "disk": re.compile(r"\bdisks?\b|\bfree space\b", re.IGNORECASE),
    "shared_memory": re.compile(r"\bshared memory\b", re.IGNORECASE),
    "digest": re.compile(r"\bdigests?\b|\bfingerprints?\b|\bchecksums?\b", re.IGNORECASE),
    "kernel_log": re.compile(r"\bkernel log\b|\bdmesg\b", re.IGNORECASE),
}
SENT = family(
    "sent|issued|delivered|delivery|received|receive|signalled|used|needed|necessary|required|"
    "followed|reached|escalated|escalation|got|get|went to|fired|tried|applied|dispatched|landed",
    "arrived|resorted to|given|employed|interrupted|ordered",
)
_NOT_SENT = family(
    "ignor*|passed over|turned down|ruled out|not chosen|rather than|instead of|skipped|considered",
    "weighed|rejected|ladder|caught|handler*|mask|nobody|else|other process*|suffice*|enough",
    "blocked|lost|reject*|rule|rules|permit*|forbid*|held back|before trying|handles|handled",
    "handling|catch|catches|reacts|responds|listens|effect|log|logs|logged|refused",
)
LAUNCHED = family(
    "launched|launch|started|restarted|relaunched|relaunch|restart|started again|brought back",
    "brought up|revived",
)
AGAIN = family(
    "restarted|relaunched|relaunch|restart|started again|again|new process|brought back|revived"
)
SUPERVISORS = family("wrapper|supervisor|parent|shell script|script|launcher|shell")
TRAINERS = family("trainer|child|training process")
_SIGNALLING = re.compile(
    rf"{_SIGNAL}|\bsignal(?:s|led)?\b|\bCtrl-C\b|\binterrupt(?:s|ed)?\b", re.IGNORECASE
)
_GONE = family(
    "gone|absent|vanished|disappeared|exited|died|dead|terminated|ended|stopped|missing|went away",
    "was away|quit|shut down|went down|perished",
)
_NOT_GONE = family("incident|listing was|still|outcome|completed|step|wait|waits|check")
_THERE = family(
    "left alone|survive|survived|lived through|lived on|still there|still listed|still running",
    "still alive|untouched|unharmed|kept running|alive|running|persisted|lingered|stayed up",
    "stayed alive|carried on|kept going|outlived|still up|remained|existed",
)
_LIVING = family("process*|pid|pids|innocent*|bystander*|trainer|other*|download|dispatcher")
_TOUCHED = family(
    "touched|harmed|hit|hurt|affected|signalled|killed|got a signal|received a signal"
)
_RESUMED = family(
    "resumed|resume|resumes|picked up|continued from|went on from|came back at|came back from",
    "carried on from|took up|started over|restored from|started from",
)
_DEPLOYED = family(
    "deployed|redeployed|replaced|shipped|put in place|patched|repaired|swapped|overwritten",
    "rewritten|updated|installed|corrected|mended",
)
_WRITING = re.compile(r"\bcheckpoint\b[^.;]*\bbeing written\b|\bwriting (?:a|the|its) checkpoint\b")
_VERIFIED = family("verified|verification|proven|proved|proof")
_PARTIAL = family("partial|incomplete|truncated|cut off")
_UNMET = family("failed|ran out|timed out|expired|in vain|came back empty*|ended without")
DEEDS = (
    Deed("sent", "signal", SENT, _sent, _SIGNALLING, _NOT_SENT),
    Deed("gone", "process", _GONE, _flag("gone"), _TRAINER, _NOT_GONE),
    Deed("there", "process", _THERE, _flag("alive"), _LIVING),
    Deed("touched", "process", _TOUCHED, _flag("signalled"), _OTHERS),
    Deed("launched", "launch", LAUNCHED, _happened, None, family("start-up|session|journal")),
    Deed("resumed", "heartbeat", _RESUMED, _resumed),
    Deed("deployed", "deployment", _DEPLOYED, _happened),
    Deed("writing", "heartbeat", _WRITING, _flag("checkpoint_writing")),
    *(
        Deed(word, "verdict", family(word), _equals("verdict", word))
        for word in ("confirmed", "refuted", "inconclusive")
    ),
    Deed("verified", "verdict", _VERIFIED, _equals("verdict", "confirmed")),
    *(
        Deed(word, "command", family(word), _equals("outcome", word), _COMMANDS)
        for word in ("completed", "failed", "unknown", "denied")
    ),
    *(
        Deed(f"looked at {what}", "command", _LOOKED, _command_of(what), about)
        for what, about in _LOOKED_AT.items()
    ),
    Deed("complete", "listing", family("complete|whole"), _complete, _LOOK),
    Deed("partial", "listing", _PARTIAL, _partial, _LOOK),
    Deed("met", "wait", family("met|fulfilled|satisfied|successful"), _flag("met"), _WAITS),
    Deed("unmet", "wait", _UNMET, _unmet, _WAITS),
    Deed("opened", "opening", family("opened|opening"), _happened, family("incident|recovery")),
    Deed("closed", "ending", family("closed|closing"), _happened, None, family("session|journal")),
    Deed("listed", "listing", family("listing|listings|process table*|listed"), _happened),
)


@dataclass(frozen=True, slots=True)
class Thing:
    """A noun that is counted: the kind that it names and which of them."""

    name: str
    kind: str
    words: re.Pattern[str]
    which: Test = _happened


THINGS = (
    Thing("signal", "signal", family("signal|signals"), _sent),
    Thing("event", "event", family("event|events")),
    Thing("file", "deployment", family("file|files")),
    Thing("command", "command", family("command|commands")),
    Thing("decision", "decision", family("decision|decisions")),
    Thing("verdict", "verdict", family("verdict|verdicts|check|checks")),
    Thing("listing", "listing", family("listing|listings|process table|process tables|lists")),
    Thing("reading", "heartbeat", family("heartbeat|heartbeats|heartbeat readings")),
    Thing("wait", "wait", family("wait|waits|bounded wait|bounded waits")),
    Thing("relaunch", "launch", family("launch|launches|relaunch|relaunches|restart|restarts")),
    Thing("deployment", "deployment", family("deployment|deployments")),
    Thing("denial", "denial", family("denial|denials")),
    Thing("proposal", "proposal", family("proposal|proposals")),
    Thing("process", "process", family("process|processes"), _before),
    Thing("innocent", "process", family("innocent|innocents|bystander*"), _flag("bystander")),
)  # fmt: skip
DEED_WORDS = re.compile("|".join(deed.words.pattern for deed in DEEDS), re.IGNORECASE)
# Verbs in the form that follows *will* and *about to*, each with what it would make happen.
PLANNED = (
    (family("replace|deploy|swap|patch|install|repair"), "deployment"),
    (family("restart|relaunch|start|launch"), "launch"),
    (family("signal|interrupt|kill|terminate|stop|be stopped|be signalled"), "signal"),
    (family("close|be closed|resolve|be resolved"), "ending"),
    (family("resume|be resumed"), "launch"),
)
ENTRIES = (*(deed.words for deed in DEEDS), *(thing.words for thing in THINGS))


def signals_in(text: str) -> frozenset[str]:
    """Signals that a text names, without their prefix.

    >>> sorted(signals_in("SIGTERM, then KILL; a Ctrl-C")), sorted(signals_in("the interrupt"))
    (['INT', 'KILL', 'TERM'], ['INT'])
    """
    names = set(SIGNALS.findall(text))
    if _CTRL_C.search(text):
        names.add("INT")
    if _KILL_9.search(text):
        names.add("KILL")
    if not names and _INTERRUPT.search(text):
        names.add("INT")
    return frozenset(names)


def naming(text: str) -> int:
    """Where a text names a signal first; 0 where it names none."""
    places = [found.start() for p in (SIGNALS, _INTERRUPT, _CTRL_C) if (found := p.search(text))]
    return min(places, default=0)


def pids_in(text: str) -> tuple[int, ...]:
    """Process numbers that a text names as such.

    >>> pids_in("pid 16, process 3 and 6"), pids_in("5 processes")
    ((16, 3, 6), ())
    """
    return tuple(int(n) for pair in PIDS.findall(text) for n in pair if n)
