"""Whether every word of a clause is understood: the gate before free prose is objected to.

A clause may restrict, hedge or turn what it says by any of its words, so it is contradicted only
where each of them is a word of grammar, a number, a name on record, or a word that the reading in
question is made of. A single word that nobody here knows makes the linter silent: that it cannot
find its like in the record is no evidence of a lie. Here: the words of grammar and the gate. Not
here: what a reading makes of the words.
"""

import re

from reports.lint.facts.vocabulary import DEEDS, SUPERVISORS, THINGS, TRAINERS
from reports.lint.words import NUMBER_WORDS, family

_GRAMMAR = family(
    "a|an|the|this|that|is|are|was|were|be|been|being|has|have|had|having|do|does|did|done",
    "and|or|nor|but|not|no|never|none|nothing|nobody|in|on|at|of|to|by|for|from|with|into|between",
    "after|before|until|since|during|when|while|than|then|without|all|every|each|both|either",
    "neither|half|some|any|several|one|ones|only|just|also|too|again|there|here|first|second",
    "third|last|next|more|less|least|most|about|around|roughly|nearly|almost|exactly|single",
    "in total|altogether|however|out|ever|once|twice|times|which|who|later|earlier|yet|still",
)
_NAMES = re.compile(
    r"\bSIG[A-Z]+\b|\b(?:TERM|INT|KILL|HUP|QUIT|CONT|STOP|PIDs?|UTC|H\d)\b|\b\w+_\w+\b|\b[\w-]+\.(?:py|sh"
    r"|json|toml)\b|\[?\+?\d[\d.,:]*\]?",
)
_COMMON = family(
    "pid|pids|step|steps|exit|status|code|incident|journal|recovery|engine|agentops|box|host",
    "interrupt|interrupts|stop|start|zero|nought|heartbeat|heartbeats|in the end|ordered",
    "right after|job|again|we|our|forced kill|forced",
)
# A pronoun stands for something that was not bound.
_POINTING = re.compile(
    r"\b(?:they|them|those|these|it|he|she|(?:both|neither|none|one|each|all)(?= (?:were|was|are|is"
    r"|had|have|has|did|got)\b))\b",
    re.IGNORECASE,
)
# The words that each reading is made of, besides those that all of them know.
OF_SETS = family(
    "returned|came back|show|shows|showed|holds|held|hold|contain*|list|lists|listed|includ*|had",
    "saw|observe|observed|observes|observing|observation|look|looked|read|read-only|nothing but",
    "met|succeeded|succeed|failed|exited|ended|went|zero|changed|change|changes|acted|warning*",
    "error*|traceback*|delivered|appear*|stand|stands|stood|present|found|missing|finite|training",
    "other|others|python|programs|machine|left alone|lacks|lack|hypothes*|explanation*|guard*",
    "something|anything|ran|ladder|rung*|passed|used|tried|below|above|negative|positive",
    "process table*",
    "readings|reading|line|lines|probe|probes|interrupt|interrupts|untouched|running|alive|made|taken|sent|both",
)
OF_MASKS = family(
    "ignor*|catch*|caught|handle|handles|handled|handler*|handling|installed|signal|signals|old|new",
    "relaunched|restarted|original|previous|mask|masks|interrupt|interrupts|as well|among|job",
)
OF_COMPARISONS = family(
    "longer|larger|bigger|higher|greater|lower|smaller|shorter|fewer|faster|slower|older|younger",
    "twice|double|half|as|long|large|big|high|low|much|same|loss|losses|finite|throughput|speed",
    "bytes|byte|size|file|files|script|launcher|version|old|new|previous|original|threads|thread",
    "resident|memory|wait|waits|took|lasted|hypothes*|explanation*|runner-up|ahead|behind|dB|age",
    "value|reading|readings|showed|shows|listing|right|time|far|slightly|a little|a bit|tokens",
    "start|end|per second|one|before|replacement|exceeded|exceeds|leading|replaced|deployed",
    "was made|even",
)
OF_TRENDS = family(
    "loss|losses|throughput|tokens|per second|rose|rise|grew|increased|went up|climbed|higher|fell",
    "dropped|decreased|went down|sank|lower|advanced|advance|moved|move|changed|progressed|counter",
    "count|value|start|end|up|down|went|gone|go|stayed|old|new|same|over|under|below|above|past|by|reading|readings|two",
)
OF_AFTERMATH = family(
    "progress|work|lost|lose|losing|redone|repeated|redid|training|respawn*|reappear*|successor|job",
    "came back|by itself|on its own|wrapper|supervisor|shell|started|another|new|old|orderly|way",
    "gracefully|cleanly|clean|good order|shut down|lock*|connection*|port*|file|network|held|holds",
    "enough|suffice*|sufficient|alone|unchanged|untouched|unmodified|script|launcher|repair|fix",
    "patch|place|listed|looked|a second time|making|made|had to|optimizer|tcp|open|interrupt*|kept",
    "left|holding|finish*|s|ms|second*|process|meantime|thrown away|had been",
)
OF_LOGS = family(
    "log|logs|tail|tails|show*|contain*|hold*|say*|said|print*|record*|mention*|traceback*|error*",
    "KeyboardInterrupt|exception*|warning*|nan|oom|out of memory|trainer's|line|lines|found|seen",
    "appear*",
)
OF_FILES = family(
    "same folder|beside|next to|lies|keep|in the",
    "backup*|back*|backed|copy|old|previous|original|kept|saved|preserved|version|content|file|match*",
    "script|launcher|digest|read back|new|replaced|correct|right|made|taken|it",
)
OF_READINGS = family(
    "checkpoint*|loss|losses|bytes|byte|threads|thread|dB|stood|stands|stuck|remained|stayed|says|said"
    "|reads|read|showed|shows|old|new|size|file|script|launcher|trainer|training",
)
OF_COUNTS = family(
    "carry|carries|id|incident's|it ran|it has|it took|it holds|it made|it sent",
    "makes|made|comes to|ran|sent|read|holds|has|carries|ships|shipped|replace|replaced|recorded",
    "taken|journal|session|in all|reached|weighed|considered",
)
OF_ORDER = family(
    "followed by|prior to|preceded by|earlier than|later than|sooner than|following|afterwards",
    "already|by the time|until|script|wrapper|shell|trainer|old|launcher|file|went|gone|came",
    "anything|run",
    "asked|took|taken|look|looked|read|reading|down|inspect*|proof|s|gone out",
)
OF_SPANS = family(
    "s|ms|sec|second*|minute*|min|hour*|h|took|lasted|ran|old|age|later|afterwards|RECOVERED",
    "STOPPED",
    "NOTHING_TO_DO|HANDED_OVER|request|requested|opening|closing|closed|opened|whole|start|finish",
    "came|followed|wait|waits|longest|shortest|over|itself|within|under|just|less|more|long|only",
    "end to end|as",
    "a third of|a quarter of|half of|open|was open|from|overall|affair|episode|thing",
)
_WORD = re.compile(r"[^\W\d_][\w'\u2019-]*")
_KNOWN = re.compile(
    "|".join(
        p.pattern
        for p in (
            *(deed.words for deed in DEEDS),
            *(thing.words for thing in THINGS),
            SUPERVISORS,
            TRAINERS,
            _COMMON,
            _GRAMMAR,
            family("|".join(NUMBER_WORDS)),
        )
    ),
    re.IGNORECASE,
)


def strange(text: str, also: re.Pattern[str] | None = None) -> list[str]:
    """The words of a text that are none of grammar, names, or what is known; *also* is known too.

    >>> strange("SIGTERM was sent to pid 16 in 2.5 gloomy seconds", family("seconds"))
    ['gloomy']
    """
    rest = _NAMES.sub(" ", text)
    if also is not None:
        rest = also.sub(" ", rest)
    return _WORD.findall(_KNOWN.sub(" ", rest))


def accounted(
    text: str, also: re.Pattern[str] | None = None, *, bound: re.Pattern[str] | None = None
) -> bool:
    """Whether a clause is understood to its end, and points at nothing outside itself.

    *bound*: pronouns of which is known what they stand for.
    """
    text = bound.sub(" ", text) if bound is not None else text
    return _POINTING.search(text) is None and not strange(text, also)
