"""What a lint run finds, and what it looks at."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from reports.lint.document import Document, Sentence
from reports.lint.facts import derived
from reports.lint.facts.clauses import clauses
from reports.lint.facts.happened import worlds
from reports.lint.facts.happenings import World
from reports.lint.facts.stated import on_record
from reports.lint.facts.weighing import Weighed, weigh
from reports.lint.record import Record, leaves
from reports.render.overrides import Overrides

RULES: dict[str, str] = {
    "C01": "a quotation is in the record, byte for byte",
    "C02": "what is said of a command line follows from its grammar",
    "C03": "silence and a thrown-away status support nothing",
    "C04": "an action by pattern does not find itself",
    "C05": "numbers carry unit and base; only like is compared with like",
    "C06": "a metric is read as its card says",
    "C07": "nothing total is said over a truncated capture",
    "C08": "a motive is recorded, a cause is an inference",
    "C09": "times and order come from the record",
    "C10": "a name is one kind of thing",
    "C11": "a process is not a thread, and a role needs an identity",
    "C12": "statements on one subject agree",
    "C13": "a verdict has its positive evidence",
    "C14": "a proxy is not the thing",
    "C15": "no section is empty, no list announced and missing",
    "C16": "nothing is later than the cut-off",
    "C17": "a timeout is credited with its own phase only",
    "C18": "counts add up, collateral is counted",
    "C19": "an explanation names alternatives and the probe that decides",
    "C20": "no praise, no blame",
    "C21": "no absolutes",
    "C22": "no secret is printed",
    "C23": "every number is recorded or recomputed",
    "C24": "references resolve and generated text equals its regeneration",
}


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place that a rule objects to. ``line`` counts from one in the report's text."""

    line: int
    rule: str
    message: str
    excerpt: str


@dataclass(frozen=True)
class Ground:
    """What reports are held to: the record, and what happened, incident by incident."""

    record: Record
    _weighed: dict[object, tuple[Weighed, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def worlds(self) -> tuple[World, ...]:
        """What happened, incident by incident."""
        return worlds(self.record)

    @cached_property
    def read(self) -> str:
        """What was read from hosts, in small letters, with the names of the commands that read."""
        parts = [
            *self.reasons,
            *(str(c.get("command")) for w in self.worlds for c in w.of("command")),
        ]
        for seen in self.record.observations.values():
            parts += leaves(seen)
        return " ".join(parts).lower()

    def weigh(self, sentence: Sentence, before: Sentence | None) -> tuple[Weighed, ...]:
        """A sentence against each incident, behind the one before it; each weighed once."""
        key = (sentence.text, sentence.heading, before and (before.text, before.heading))
        if key not in self._weighed:
            parts, earlier = clauses(sentence), clauses(before) if before is not None else ()
            self._weighed[key] = tuple(weigh(world, parts, earlier) for world in self.worlds)
        return self._weighed[key]

    def derives(self, text: str, digits: str, unit: str | None) -> bool:
        """Whether a number follows from readings that the text speaks of."""
        return any(derived.derives(world, text, digits, unit) for world in self.worlds)

    @cached_property
    def trains(self) -> bool:
        """Whether a trainer's heartbeats are on record, so that a step is a training step."""
        return any(world.of("heartbeat") for world in self.worlds)

    @cached_property
    def reasons(self) -> frozenset[str]:
        """The recorded words of why something was done."""
        return frozenset(reason for world in self.worlds for reason in world.reasons)


@dataclass(frozen=True)
class Context:
    """The report, the ground it stands on, earlier reports on the same, and the words in force."""

    document: Document
    ground: Ground
    earlier: tuple[Document, ...] = field(default=())
    source: str = ""
    overrides: Overrides | None = None

    @cached_property
    def claims(self) -> tuple[Sentence, ...]:
        """Sentences that state something: no question, no echo of a recorded command or output."""
        return tuple(
            sentence
            for sentence in self.document.sentences
            if not sentence.bare.endswith("?") and not self.record.echoes(sentence.text)
        )

    def weighed(self, sentence: Sentence) -> Weighed:
        """A sentence against what happened: wrong where every incident contradicts it."""
        return self._weighed.get(sentence, Weighed((), supported=False))

    def supports(self, sentence: Sentence, words: str) -> bool:
        """Whether a part of a sentence says something that is on record, and nothing else."""
        parts = clauses(replace(sentence, text=words))
        return any(
            not answer.wrong and (answer.supported or any(on_record(world, c) for c in parts))
            for world in self.ground.worlds
            for answer in (weigh(world, parts, ()),)
        )

    def strict(self, sentence: Sentence) -> bool:
        """Whether a sentence is held to its words as well as to what happened.

        One that cites events asks for it; of an imported transcript there is nothing else to hold
        it to. Any other, written by hand on what was recorded as it happened, is objected to only
        where all of it is understood and the record has it otherwise.
        """
        return bool(sentence.labels) or not self.ground.worlds

    def before(self, sentence: Sentence) -> Sentence | None:
        """The sentence before one, in the same block."""
        place = self.claims.index(sentence)
        found = self.claims[place - 1] if place else None
        return found if found is not None and found.block == sentence.block else None

    @property
    def record(self) -> Record:
        """Everything that is recorded."""
        return self.ground.record

    @cached_property
    def _weighed(self) -> dict[Sentence, Weighed]:
        found = {}
        before: Sentence | None = None
        for sentence in self.claims:
            near = before is not None and before.block in {sentence.block, sentence.block - 1}
            answers = self.ground.weigh(sentence, before if near else None)
            if answers:
                wrong = min((answer.wrong for answer in answers), key=len)
                found[sentence] = Weighed(wrong, any(answer.supported for answer in answers))
            before = sentence
        return found


Rule = Callable[[Context], Iterator[Finding]]


def at(sentence: Sentence, rule: str, message: str) -> Finding:
    """A finding at a sentence."""
    return Finding(sentence.line, rule, message, sentence.text)


_NEGATORS = re.compile(
    r"\b(?:not|no|nor|neither|without|whether|unless|unknown|unsupported|unrecorded|cannot|can't|"
    r"isn't|wasn't|doesn't|didn't|nothing|nobody|if)\b"
)
_CLAUSE = re.compile(r"[,;:—()]| but | and | which | while ")


def asserted(text: str, start: int) -> bool:
    """Whether what begins at a place is asserted: no negation or question before it in its clause.

    >>> asserted("it was not stopped", 11), asserted("no error, it was stopped", 17)
    (False, True)
    """
    clause = text[:start]
    cuts = [found.end() for found in _CLAUSE.finditer(clause)]
    return _NEGATORS.search(clause[cuts[-1] if cuts else 0 :].lower()) is None
