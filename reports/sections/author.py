"""The author: draws claims from evidence and puts them into words, one at a time.

Here: what every section needs. Not here: any section.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from reports.claims import Claim
from reports.evidence import Evidence
from reports.model import Block, Bullets, Missing, Paragraph, Row, Section, Sentence, Table
from reports.predicates import registry
from reports.wording.catalogue import Catalogue

Named = tuple[str, Mapping[str, JsonValue]]


@dataclass(frozen=True, slots=True)
class Author:
    """Evidence and words, side by side."""

    evidence: Evidence
    words: Catalogue

    def draw(self, predicate: str, **args: JsonValue) -> Claim:
        """One claim without words."""
        return registry.draw(self.evidence, predicate, **args)

    def say(self, predicate: str, **args: JsonValue) -> Sentence:
        """One claim as a sentence."""
        claim = registry.draw(self.evidence, predicate, **args)
        return Sentence(claim=claim, spans=self.words.sentence(claim))

    def known(self, predicate: str, **args: JsonValue) -> Sentence | None:
        """One claim as a sentence, or None when the journal does not say."""
        claim = registry.draw(self.evidence, predicate, **args)
        if claim.kind == "UNKNOWN":
            return None
        return Sentence(claim=claim, spans=self.words.sentence(claim))

    def all_of(self, named: Iterable[Named]) -> tuple[Sentence, ...]:
        """Several claims, each once, in the order given."""
        said = [self.say(name, **args) for name, args in named]
        return tuple({sentence.claim.id: sentence for sentence in said}.values())

    def known_of(self, named: Iterable[Named]) -> tuple[Sentence, ...]:
        """Those of several claims that the journal can say something about."""
        return tuple(s for s in self.all_of(named) if s.claim.kind != "UNKNOWN")

    def table(self, predicate: str, each: Iterable[Mapping[str, JsonValue]]) -> Table | None:
        """Claims of one predicate as a table; None without any known one."""
        rows = []
        for args in each:
            claim = registry.draw(self.evidence, predicate, **args)
            if claim.value is not None:
                rows.append(Row(claim=claim, cells=self.words.row(claim)))
        if not rows:
            return None
        return Table(columns=self.words.columns[predicate], rows=tuple(rows))

    def section(self, key: str, *blocks: Block | None) -> Section:
        """A section; one without a block says that nothing is recorded."""
        kept = tuple(block for block in blocks if block is not None)
        return Section(key=key, title=self.words.titles[key], blocks=kept or (Missing(),))


def paragraph(*sentences: Sentence | None) -> Paragraph | None:
    """A paragraph of the sentences there are; None without any."""
    kept = tuple(sentence for sentence in sentences if sentence is not None)
    return Paragraph(sentences=kept) if kept else None


def bullets(sentences: Iterable[Sentence], *, ordered: bool = False) -> Bullets | None:
    """A list of the sentences there are; None without any."""
    kept = tuple(sentences)
    return Bullets(sentences=kept, ordered=ordered) if kept else None
