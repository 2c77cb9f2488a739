"""What a report is before it has a form: sections of sentences, tables and figures.

Here: the frozen, serialisable model. Markdown, HTML and JSON are pure functions of it. Not here:
which claims go where (``reports.sections``), how it looks (``reports.render``).
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from reports.claims import Claim, Ref
from reports.wording.catalogue import Span

SCHEMA = 1
Depth = Literal["line", "summary", "incident", "command"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Sentence(_Frozen):
    """One claim in words."""

    claim: Claim
    spans: tuple[Span, ...]

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The events behind it, each once."""
        return tuple({ref.event: ref for ref in reversed(self.claim.refs)}.values())[::-1]

    @property
    def text(self) -> str:
        """The words alone."""
        return "".join(span.text for span in self.spans)


class Row(_Frozen):
    """One claim in cells."""

    claim: Claim
    cells: tuple[tuple[Span, ...], ...]

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The events behind it, each once."""
        return tuple({ref.event: ref for ref in self.claim.refs}.values())


class Paragraph(_Frozen):
    """Sentences that belong together."""

    block: Literal["paragraph"] = "paragraph"
    sentences: tuple[Sentence, ...]


class Bullets(_Frozen):
    """Sentences that stand beside each other; ``ordered`` numbers them."""

    block: Literal["bullets"] = "bullets"
    sentences: tuple[Sentence, ...]
    ordered: bool = False


class Table(_Frozen):
    """Claims of one predicate, a row each."""

    block: Literal["table"] = "table"
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Excerpt(_Frozen):
    """Recorded bytes or argv, verbatim, below the sentence that introduces them."""

    block: Literal["excerpt"] = "excerpt"
    sentence: Sentence
    text: str


class Mark(_Frozen):
    """A point or a span in a figure: times in milliseconds since the first event.

    A ``gap`` is a reading that was asked for and is missing: the line breaks there.
    """

    row: str
    at_ms: int
    until_ms: int | None = None
    value: int | None = None
    label: str
    event: str
    style: Literal["span", "signal", "point", "verdict", "decision", "command", "gap"]


class Figure(_Frozen):
    """A plot: lanes over time, one line of values, or a small line a row."""

    block: Literal["figure"] = "figure"
    figure: Literal["lanes", "line", "multiples"]
    title: str
    unit: str
    rows: tuple[str, ...]
    marks: tuple[Mark, ...]
    duration_ms: int


class Missing(_Frozen):
    """The journal holds nothing for this section."""

    block: Literal["missing"] = "missing"


class Heading(_Frozen):
    """A heading inside a section."""

    block: Literal["heading"] = "heading"
    title: str
    anchor: str | None = None
    code: bool = False
    level: int = 3


Block = Annotated[
    Paragraph | Bullets | Table | Excerpt | Figure | Missing | Heading,
    Field(discriminator="block"),
]


class Section(_Frozen):
    """One of the numbered sections."""

    key: str
    title: str
    blocks: tuple[Block, ...]


class EventOutput(_Frozen):
    """One stored output in the appendix: the first bytes, decoded, and the whole's length."""

    name: str
    length_bytes: int
    truncated: bool
    shredded: bool
    excerpt: str


class Entry(_Frozen):
    """One event in the appendix.

    ``line`` is the canonical line's beginning and ``data`` the payload's, both verbatim.
    """

    event: str
    label: str
    place: str
    kind: str
    ts_us: int
    leaf: str
    prev: str
    line: str
    data: str
    data_is_cut: bool
    line_bytes: int
    outputs: tuple[EventOutput, ...]


class Report(_Frozen):
    """The whole report on one incident."""

    schema_version: int = SCHEMA
    language: str
    depth: Depth
    incident: str
    theme: Sentence
    badge: Sentence
    standing: Sentence
    sections: tuple[Section, ...]
    entries: tuple[Entry, ...]
    journal_place: str

    @property
    def is_of_a_changed_journal(self) -> bool:
        """Whether the journal was found not to be what was written: then that is said first."""
        value = self.standing.claim.value
        return isinstance(value, dict) and bool(value.get("finding"))

    def sentences(self) -> Iterator[Sentence | Row]:
        """Everything that states a claim, in order of appearance."""
        yield self.theme
        yield self.badge
        yield self.standing
        for section in self.sections:
            for block in section.blocks:
                match block:
                    case Paragraph() | Bullets():
                        yield from block.sentences
                    case Table():
                        yield from block.rows
                    case Excerpt():
                        yield block.sentence
                    case Figure() | Missing() | Heading():
                        pass

    def claims(self) -> tuple[Claim, ...]:
        """Every claim once, in order of first appearance."""
        return tuple({said.claim.id: said.claim for said in self.sentences()}.values())
