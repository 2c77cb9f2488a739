"""A sentence cut into clauses, each with what its grammar says: polarity, tense, mood, numbers.

Here: grammar only, of English as reports use it. Not here: the words for what happened
(``reports.lint.facts.vocabulary``), whether it did (``reports.lint.facts.weighing``).
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from reports.lint.document import Sentence
from reports.lint.words import NUMBER_WORDS, family

_CUT = re.compile(
    r"\s*(?:;| · |—|\u2013(?=\s)"
    r"|:(?!\s*(?:\d|none|zero|no\b))(?=\s+\S+\s+\S+\s+\S+\s)"
    r"|, (?:and|but|then|which|while|so|whereas|with|since|as|because|though)\b"
    r"|, (?=(?:no|none|nothing|nobody|neither)\b)"
    rf"|, (?=(?:\d+|{'|'.join(NUMBER_WORDS)}) [\w-]+(?:,|\.?$))"  # an item of a tally
    r"|, (?=\w+(?:ed|ing) (?:over|on|by|from)\b)"
    r"|(?<!nothing)(?<!anything)(?<!all) but\b"
    r"| (?:and then|and so|whereas|although|though|because)\b|\. )\s*"
)
_NEGATED = re.compile(
    r"\b(?:not|no|never|without|neither|nor|none|nobody|nothing|cannot)\b|n't\b", re.IGNORECASE
)
_JOINED = {"no", "nor", "neither", "none", "without", "not", "nothing", "nobody"}
_COMPARED = re.compile(
    r"\b(?:not (?:only|quite|even|just|much|far|very|really)|not? (?:more|less|fewer|later|earlier)"
    r" than)\b",
    re.IGNORECASE,
)
_NOUGHT = re.compile(
    r"\b(?:0|zero) (?=touched|harmed|hit|hurt|killed|sent|signalled|delivered|denied|failed)"
    r"|: (?:0|none|zero|no)\b(?![.:]\d)(?=\W|$)",
    re.IGNORECASE,
)
_NO_LONGER = re.compile(
    r"\bno longer\b|(?:\bnot\b|n't\b)[^.;,]*\b(?:any ?more|any longer)\b", re.IGNORECASE
)
_NOT_YET = re.compile(r"\b(?:not yet|yet to|not (?:\w+ ){1,3}yet)\b", re.IGNORECASE)
_STILL = re.compile(r"\b(?:still|remains?|keeps?|continues?)\b", re.IGNORECASE)
_FUTURE = re.compile(
    r"\b(?:will|shall|remains? to be|(?:is|are) (?:going to|about to|yet to|due|expected|planned"
    r"|scheduled|pending|(?:still )?to (?:be|come|follow))"
    r"|(?:(?:still |yet )?(?:has|have)|needs?)(?: still| yet)? to be"
    r"|(?:is |are |still |yet )*(?:outstanding|under ?way|in progress|on hold)|still open)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(r"\b(?:is|are|has|have|remains?|keeps?|continues?|runs?)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(?:was|were|had|did|been|\w{3,}ed)\b", re.IGNORECASE)
_SUPPOSED = re.compile(
    r"\b(?:if|whether|would|could|might|may|should|unless|can|cannot|must|supposed?|assum\w*|"
    r"hypothes\w*|suspects?|expects?|in case|wants? to|wanted to|asked (?:to|whether)|meant to|"
    r"likely|probabl\w*|possibl\w*|perhaps|unknown|unclear|not known|not recorded|"
    r"consistent with|explanations?|alternatives?)\b",
    re.IGNORECASE,
)
# What is said of any such thing is no event.
_OF_A_KIND = re.compile(
    r"(?:since |because |as )?an? [\w-]+(?: [\w-]+)? (?:that|which|who) (?:\w+s|is|has|can)\b",
    re.IGNORECASE,
)
_WEIGHED = re.compile(
    r"\b(?:alternatives?|explanations?|hypothes[ei]s|consistent with|passed over|options?)\b",
    re.IGNORECASE,
)
_RANKED = re.compile(r"\b(?:hypothes[ei]s|explanations?|H\d)\b(?! that )", re.IGNORECASE)
_CONTRASTED = re.compile(
    r"(?:, (?:and )?not (?!\w+ed\b)|\b(?:rather than|instead of|without) )[^,;()]*", re.IGNORECASE
)
# Recorded lines and arguments in a report are no statements.
_DUMPED = re.compile(r"\{.*\}|\{\s*\".*|\b[0-9a-f]{16,}\b")
_PLANS = re.compile(
    r"\b(?:follow|action items?|actions to|to do|todo|next|open|question|recommend|prevent|"
    r"lesson|improve|propos|not know|unknown|unclear|plan)\w*",
    re.IGNORECASE,
)
TIME_OF_DAY = re.compile(r"\b(?:\d{4}-\d\d-\d\d[T ])?(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,6}))?)?\b")
_DID_NOT = re.compile(
    r"\b(?:did not|didn't|failed to|refused to|was unable to|were unable to|could not) ([a-z]+)\b",
    re.IGNORECASE,
)
_IRREGULAR = {
    "send": "sent", "get": "got", "go": "gone", "run": "run", "have": "had", "be": "been",
    "come": "came", "take": "taken", "make": "made", "see": "seen", "find": "found", "die": "died",
    "put": "put", "begin": "begun", "rise": "risen", "fall": "fallen", "show": "shown",
    "catch": "caught", "bring": "brought", "lose": "lost", "hold": "held", "read": "read",
    "write": "written", "give": "given", "say": "said", "know": "known", "let": "let",
    "hear": "heard", "stand": "stood", "leave": "left", "keep": "kept", "contain": "contained",
}  # fmt: skip
_UNITS_US = {
    "ms": 1_000, "millisecond": 1_000, "milliseconds": 1_000, "s": 1_000_000, "sec": 1_000_000,
    "second": 1_000_000, "seconds": 1_000_000, "min": 60_000_000, "minute": 60_000_000,
    "minutes": 60_000_000, "h": 3_600_000_000, "hour": 3_600_000_000, "hours": 3_600_000_000,
}  # fmt: skip
_WORDS = "|".join(NUMBER_WORDS)
_PART_OF = {
    "half": Fraction(1, 2), "third": Fraction(1, 3), "quarter": Fraction(1, 4),
    "fifth": Fraction(1, 5), "tenth": Fraction(1, 10),
}  # fmt: skip
_PARTS = f"(?:{'|'.join(_PART_OF)})"
_DURATION = re.compile(
    rf"(?<![\w.:])(\d[\d,]*(?:\.\d+)?"
    rf"|(?:{_WORDS}|an?|half an?|(?:a|one|three) {_PARTS}s? of an?)(?= ))"
    rf"(?P<half> and a half)?[ -]?({'|'.join(sorted(_UNITS_US, key=len, reverse=True))})\b(?!/)"
    rf"(?: and (?:a|one) (?P<rest>{_PARTS}))?",
    re.IGNORECASE,
)
_COMPOUND = re.compile(
    r"\b(\d+) ?(?:min|minutes?|m)(?: and)? (\d+) ?(?:s|sec|seconds?)\b", re.IGNORECASE
)
_LESS = family(
    "within|under|less than|at most|no more than|up to|not more than|fewer than|below",
    "shorter than|quicker than|faster than|sooner than|short of|inside|in under",
)
_MORE = family(
    "over|more than|at least|longer than|no less than|above|upwards of|exceeded|not less than",
    "later than|slower than|beyond|no sooner than|well over",
)
_ABOUT = family(
    "about|around|roughly|approximately|some|nearly|almost|just under|just over|close to"
)


@dataclass(frozen=True, slots=True)
class Duration:
    """A stated span with the width of its last digit, both in microseconds, and its comparison.

    ``than`` is one of ``=``, ``~``, ``<`` and ``>``.
    """

    us: Fraction
    step_us: Fraction
    than: str
    start: int
    text: str


@dataclass(frozen=True)
class Clause:
    """One clause of a sentence; *given* is what its pronouns may stand for, said before it.

    ``shortened``: what it is said to be without was cut off, which may restrict the rest.
    """

    text: str
    sentence: Sentence
    weighed: bool = False
    given: str = ""
    shortened: bool = False

    @cached_property
    def negated(self) -> bool:
        """An odd number of denials; *no longer* and *not yet* are told apart below."""
        plain = _NO_LONGER.sub(" ", _NOT_YET.sub(" ", self.text))
        plain = _COMPARED.sub(" ", plain)
        plain = _NOUGHT.sub(" no ", plain)
        found = [match.lower() for match in _NEGATED.findall(plain)]
        return len(found) % 2 == 1 or (len(found) > 1 and set(found) <= _JOINED)

    @cached_property
    def no_longer(self) -> bool:
        """Whether it says that something came to an end."""
        return _NO_LONGER.search(self.text) is not None

    @cached_property
    def not_yet(self) -> bool:
        """Whether it says that something is still to come."""
        return _NOT_YET.search(self.text) is not None

    @cached_property
    def still(self) -> bool:
        """Whether it says that something goes on."""
        return _STILL.search(self.text) is not None and not self.no_longer

    @cached_property
    def future(self) -> bool:
        """Whether it foretells."""
        return _FUTURE.search(self.text) is not None

    @cached_property
    def present(self) -> bool:
        """Whether its verbs are in the present only."""
        return _PRESENT.search(self.text) is not None and _PAST.search(self.text) is None

    @cached_property
    def past(self) -> bool:
        """Whether a verb is in the past."""
        return _PAST.search(self.text) is not None

    @cached_property
    def supposed(self) -> bool:
        """Whether it supposes, asks, plans or leaves open instead of stating."""
        whole = self.sentence
        return (
            self.weighed
            or _SUPPOSED.search(self.text) is not None
            or _OF_A_KIND.match(self.text) is not None
            or whole.bare.endswith("?")
            or _PLANS.match(whole.heading.strip("# ")) is not None
        )

    @cached_property
    def ranks(self) -> bool:
        """Whether it speaks of hypotheses as things that were weighed, and supposes none itself."""
        plain = _RANKED.sub(" ", self.text)
        return plain != self.text and _SUPPOSED.search(plain) is None

    @cached_property
    def times(self) -> tuple[tuple[int, int], ...]:
        """Times of day as (microseconds since midnight, width of the last digit)."""
        found = []
        for hour, minute, second, rest in TIME_OF_DAY.findall(self.text):
            if int(hour) > 23 or int(minute) > 59:  # noqa: PLR2004  (no time of day)
                continue
            whole = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
            width = 60_000_000 if not second else 10 ** (6 - len(rest))
            found.append((whole * 1_000_000 + int((rest or "").ljust(6, "0")), width))
        return tuple(found)

    @cached_property
    def durations(self) -> tuple[Duration, ...]:
        """Spans of time with their comparisons."""
        return tuple(durations(self.text))


def durations(text: str) -> list[Duration]:
    """Spans of time in a text.

    >>> [(float(d.us), d.than) for d in durations("within 2.5 s, about two minutes")]
    [(2500000.0, '<'), (120000000.0, '~')]
    """
    found = []
    masked = TIME_OF_DAY.sub(lambda m: " " * len(m[0]), text)
    for match in _COMPOUND.finditer(masked):
        us = Fraction(int(match[1]) * 60 + int(match[2])) * 1_000_000
        found.append(Duration(us, Fraction(1_000_000), "=", match.start(), match[0]))
    masked = _COMPOUND.sub(lambda m: " " * len(m[0]), masked)
    for match in _DURATION.finditer(masked):
        digits = match[1].lower().replace(",", "")
        worded = not digits[0].isdigit()
        value = _worded(digits) if worded else Fraction(digits)
        unit = _UNITS_US[match[3].lower()]
        if match["half"]:
            value += Fraction(1, 2)
        value += _PART_OF.get((match["rest"] or "").lower(), 0)
        step = Fraction(unit, 2) if match["half"] else Fraction(unit, value.denominator)
        if not worded and "." in digits:
            step = Fraction(unit, 10 ** len(digits.partition(".")[2]))
        before = text[max(0, match.start() - 14) : match.start()]
        than = "=" if digits not in {"a", "an"} else "~"
        for sign, words in (("~", _ABOUT), ("<", _LESS), (">", _MORE)):
            if re.search(rf"{words.pattern}\s*$", before, re.IGNORECASE):
                than = sign
        found.append(Duration(value * unit, step, than, match.start(), match[0]))
    return found


def _worded(words: str) -> Fraction:
    """A number in words: *three*, *a*, *half a*, *three quarters of a*."""
    part = next((part for name, part in _PART_OF.items() if name in words), Fraction(1))
    many = 3 if words.startswith("three ") else NUMBER_WORDS.get(words, 1)
    return many * part


def _plain(text: str) -> str:
    """A text with *did not stop* and *failed to stop* in the words of *not stopped*.

    >>> _plain("It did not stop and never got to send one.")
    'It not stopped and never got to send one.'
    """
    return _DID_NOT.sub(lambda found: f"not {_past(found[1])}", text)


def _past(verb: str) -> str:
    if verb.lower() in _IRREGULAR:
        return _IRREGULAR[verb.lower()]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    double = verb in {"stop", "ship", "drop", "skip", "quit", "permit"}
    return verb + (verb[-1] if double else "") + "ed"


def contrasted(text: str) -> str:
    """A text without what it sets aside: ``A, not B`` says nothing of B that A does not.

    >>> contrasted("sent SIGTERM, not SIGKILL")
    'sent SIGTERM'
    """
    return _CONTRASTED.sub("", text) if not re.match(r"\s*(?:not|without)\b", text) else text


def clauses(sentence: Sentence) -> tuple[Clause, ...]:
    """A sentence's clauses in order; behind a word like *alternatives* all of them suppose."""
    made: list[Clause] = []
    weighed = False
    for part in _CUT.split(_DUMPED.sub(" ", sentence.bare)):
        if part and part.strip():
            weighed = weighed or _WEIGHED.search(part) is not None
            given = " ".join(clause.text for clause in made)
            kept = contrasted(part.strip())
            cut = "without" in part.lower() and "without" not in kept.lower()
            made.append(Clause(_plain(kept), sentence, weighed, given, shortened=cut))
    return tuple(made)
