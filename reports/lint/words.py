"""Word families that the rules look for: what a sentence promises, explains, hedges or praises.

Each entry is one meaning with the words for it (``|`` between them, ``*`` for any ending). A word
is here for what it does to a sentence, and a test refuses an entry that only one document of the
corpus holds. Not here: when a match is a fault (``reports.lint.rules``).
"""

import re


def family(*entries: str) -> re.Pattern[str]:
    """A pattern of whole words or stems.

    >>> bool(family("ensur*|guarante*").search("it ensures"))
    True
    """
    words = [word for entry in entries for word in entry.split("|")]
    parts = [re.escape(word).replace(r"\*", r"[\w-]*").replace(r"\ ", r"\s+") for word in words]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-])", re.IGNORECASE)


_FREQUENCY = "always|never|invariably|every time|regardless|no matter|either way|in any case"
_CERTAINTY = (
    "certain|certainly|certainty|conclusive*|definitely|definitive*|undoubted*|unmistakab*|surely|"
    "no doubt|without doubt|obviously|absolut*|confidence|confident*"
)
_LATER = (
    "in the end|eventually|ultimately|subsequently|going forward|next message|next phase|"
    "next step|follow-up|later message|went on to|would later|moved on"
)

ABSOLUTE = (
    _FREQUENCY,
    _CERTAINTY,
    "ensur*|guarante*|without risk|no risk|risk-free",
    "exactly|fully|perfect*|impossible",
    "immediate*|instant*|at once",
)
PROOF = (
    "confirm|confirms|confirmed|confirmation|verifies|verified|validated|establish*|prove|proves",
    "proven|proved",
    "demonstrat*|reveal*|showed that|shows that",
)
TOTAL = (
    "all|every|complete|entire*|whole",
    "alone|only|exclusively",
    "none|no other",
)
PRAISE = (
    "careful|carefully|thorough*|meticulous*|diligen*|prudent*",
    "methodical*|disciplin*|systematic*|professional*",
    "correctly|properly|rightly|wisely|wise|right to|to its credit",
    "textbook|best practice|exemplary|excellent*|elegant*|clever*|brilliant*|smart|robust",
    "deliberate*|thoughtful*|considered",
    "precise|precisely",
    "understanding|insight*|expert*|skilful*",
)
BLAME = (
    "careless*|reckless*|negligen*|sloppy|clumsy",
    "foolish*|stupid*|naive*|incompeten*|lazy",
    "nuclear|brutal*|hacky|wasteful|wasted|to blame",
    "fragil*",
)
CAUSE = (
    "because|due to|thanks to|root cause|reason is|caused|causes|led to|leads to|result of",
    "meaning|means that|this means|consequently|hence|therefore|thus|which is why",
    "indicates|indicating|suggests|suggesting|points to|signals that|proves that",
    "in order to|so that|to avoid|to prevent",
    "motivated|motivation|reflects|shows the|rather than",
    "by mistake|by accident|accidentally|on purpose|intentionally|inadvertently|forgot",
    "is why|was why|reason was|cause was|was the cause|is the cause|was the reason|culprit",
)
HEDGE = (
    "could|may|might",
    "likely|unlikely|probably|presumably|apparently|possibly|perhaps|maybe|potentially",
    "appear to|appears to|seem|seems|possibility|possibilities|will have been|must have been",
    "typical|typically|should",
    "would be|would have|would not|wouldn't",
    "guess|guesses|suspect*|suspicion*|theory|theories|plausibl*|speculat*|conjectur*|candidate",
)
OPEN = (
    "alternativ*|hypothes*|consistent with",
    "assumption*|assumed|taken for granted",
    "inconclusive|unknown|not known|cannot be judged|cannot tell|not established|do not know",
    "can not say|cannot say|can't say|can not tell|can't tell|nobody knows|does not say|do not say",
    "nothing in the journal|nothing on record|nobody looked|was not looked at|cannot promise",
    "not recorded|not shown|does not show|do not show|did not show",
    "not measured|not tested|untested|neither was tested|unsupported|not looked at|open question*",
    "probe|would settle|would tell",
    "recorded reason|the agent wrote",
)
STATE = (
    "alive|running|active|continues",
    "dead|terminated|killed|exited|stopped|aborted|gone",
    "clean|cleanly|safe|safely|sound|stable|healthy",
    "broken|crashed|corrupt|corrupted|stuck|abandoned",
    "freed|released|idle",
    "completed|finished|succeeded|successful|successfully|resolved|fixed|recovered",
    "intact|survived|ready",
)
_NOW = (
    "right now|currently|at the moment|at the time of writing|as this is written|as of now|"
    "presently|to this day|even now|ever since"
)
FUTURE = (_LATER, _NOW, "today|tomorrow")

# What a trouble may come from; told as a fact, it has to have been looked at.
ORIGIN = (
    "gpu|gpus|cuda|vram|nccl|nvlink|full disk|disk was full",
    "disk was too|disk was slow|disk had no|disk had filled|disk space|file system|filesystem",
    "nfs|quota|dns|firewall|oom|swap|network|out of memory|memory leak|driver|firmware|hardware",
    "deadlock*|race condition|data loader|data-loader|dataloader|overheat*|power cut",
    "stack dump|core dump|profiler|debugger|typo|regression|cron job|ssh daemon|sshd|tmux|nohup",
    "oom killer|watchdog|kernel panic|cgroup|systemd",
)
NUMBER_WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30,
    "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90, "hundred": 100,
}  # fmt: skip
ENTRIES = {
    "absolute": ABSOLUTE,
    "proof": PROOF,
    "total": TOTAL,
    "praise": PRAISE,
    "blame": BLAME,
    "cause": CAUSE,
    "hedge": HEDGE,
    "open": OPEN,
    "state": STATE,
    "future": FUTURE,
    "origin": ORIGIN,
}
ABSOLUTES, PROOFS, TOTALS = family(*ABSOLUTE), family(*PROOF), family(*TOTAL)
PRAISES, BLAMES = family(*PRAISE), family(*BLAME)
CAUSES, HEDGES, OPENS = family(*CAUSE), family(*HEDGE), family(*OPEN)
STATES, FUTURES, NOW = family(*STATE), family(*FUTURE), family(_NOW)
ORIGINS = family(*ORIGIN)
