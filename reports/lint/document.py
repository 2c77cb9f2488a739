"""A report as text: blocks, sentences, quotations, code and event labels, with their lines.

Here: reading Markdown, HTML and plain text into one shape. Not here: what is wrong with it.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from html.parser import HTMLParser
from typing import ClassVar, Literal

BlockKind = Literal["heading", "paragraph", "item", "row", "code"]

_LABEL = re.compile(r"\[e(\d{4,})(?:·([0-9a-f]{8,64}))?\]|\[?<?msg (?:id=)?(\d+)>?\]?")
_AFTER_LABELS = re.compile(r"(?<=\])(?!\s*\[e\d)(?=[\s,;:])")
_QUOTES = re.compile(r"“([^”]+)”|«([^»]+)»|(?<![\w`])\"([^\"\n]+)\"(?!\w)")
_CODE = re.compile(r"(`+)(.+?)\1")
_ITEM = re.compile(r"^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)#*$")
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_RULE_ROW = re.compile(r"^\|[\s:|-]+\|$")
_END = re.compile(
    r"(?<=[.!?…])[”\"»)\]]*(?:\s*\[[^\]]*·[^\]]*\])*\s+(?=[A-Z“\"«`(]|\[(?!e\d|\+|msg))"
)
_ABBREVIATED = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no|Fig|Dr|St)\.)$")
# A recorded line, whole or cut off, that stands in a text as evidence.
_RAW = re.compile(r"`+\{\".*$")
_COMMAND_LINE = re.compile(
    r"^(?:\[bash\]\s*|\$\s+|# )?(?:ssh|sudo|sleep|nvidia-smi|pct|docker|ps|kill)\b.*[-|;&'\"]"
)
_HEADING_WORDS_MAX = 16
_OWN_WORDS_MAX = 2


@dataclass(frozen=True)
class Sentence:
    """One sentence. ``bare`` has no quotations, labels or code marks left in it."""

    text: str
    line: int
    heading: str
    block: int
    kind: BlockKind

    @cached_property
    def bare(self) -> str:
        """The writer's own words: quotations cut out, code spans kept without their ticks."""
        return " ".join(_CODE.sub(r"\2", _unquoted(_LABEL.sub(" ", self.text))).split())

    @cached_property
    def plain(self) -> str:
        """The words with quotations and code spans cut out."""
        return " ".join(_CODE.sub(" ", _unquoted(_LABEL.sub(" ", self.text))).split())

    @cached_property
    def quotes(self) -> tuple[str, ...]:
        """What stands between quotation marks; a code span is no quotation and has none."""
        words = _CODE.sub(" ", self.text)
        return tuple(next(part for part in found if part) for found in _QUOTES.findall(words))

    @cached_property
    def code(self) -> tuple[str, ...]:
        """What stands in code spans."""
        return tuple(found[1] for found in _CODE.findall(self.text))

    def parts(self) -> tuple["Sentence", ...]:
        """The sentence cut behind each group of labels, which stay with the part before."""
        pieces = [piece for piece in _AFTER_LABELS.split(self.text) if piece.strip()]
        if len(pieces) < 2:  # noqa: PLR2004  (nothing to cut)
            return (self,)
        return tuple(replace(self, text=piece) for piece in pieces)

    @cached_property
    def labels(self) -> tuple[tuple[int, str], ...]:
        """Event labels: sequence or message number, and the hash's beginning (may be empty)."""
        return tuple((int(a or c), b) for a, b, c in _LABEL.findall(self.text))


def _unquoted(text: str) -> str:
    """The text without its quotations; one or two words between marks are the writer's own."""

    def kept(found: re.Match[str]) -> str:
        inner = next(part for part in found.groups() if part)
        return inner if len(inner.split()) <= _OWN_WORDS_MAX else " "

    return _QUOTES.sub(kept, text)


@dataclass(frozen=True, slots=True)
class Block:
    """A heading (with its level), paragraph, list item, table row or code block.

    ``guessed``: nothing but its shortness makes the line a heading.
    """

    kind: BlockKind
    text: str
    line: int
    number: int | None = None
    level: int = 0
    guessed: bool = False


@dataclass(frozen=True)
class Document:
    """A report's blocks in order."""

    blocks: tuple[Block, ...]

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """All sentences outside code blocks and headings."""
        return tuple(_sentences(self.blocks))

    @cached_property
    def text(self) -> str:
        """All words, blocks apart."""
        return "\n".join(block.text for block in self.blocks)


def read(text: str) -> Document:
    """A document from HTML (when it begins like it) or Markdown or plain text."""
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype", "<html")):
        parser = _Page()
        parser.feed(text)
        parser.close()
        return Document(tuple(parser.blocks))
    return Document(tuple(_markdown(text)))


def _markdown(text: str) -> Iterator[Block]:  # noqa: C901  (one state machine)
    """Blocks of Markdown or of plain text with blank lines between paragraphs."""
    pending: list[str] = []
    first = 0
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence):
                yield Block("code", "\n".join(pending), first)
                pending, fence = [], ""
            else:
                pending.append(line)
            continue
        starts = opening or _HEADING.match(line) or _ITEM.match(line) or line.startswith("|")
        if pending and (not line.strip() or starts):
            yield _paragraph(pending, first)
            pending = []
        if opening:
            fence, first = opening[1][:3], number + 1
        elif line.strip() and not pending and starts:
            block = _line(line, number)
            if block is not None and block.kind == "item":
                pending, first = [line], number
            elif block is not None:
                yield block
        elif line.strip():
            first = first if pending else number
            pending.append(line)
    if pending:
        yield Block("code", "\n".join(pending), first) if fence else _paragraph(pending, first)


def _line(line: str, number: int) -> Block | None:
    """A heading, an item or a table row that stands on its own line."""
    if heading := _HEADING.match(line):
        return Block("heading", heading[2].strip(), number, level=len(heading[1]))
    if item := _ITEM.match(line):
        return Block("item", item[2], number, int(item[1]) if item[1] else None)
    if _RULE_ROW.match(line.strip()):
        return None
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    return Block("row", " | ".join(cell for cell in cells if cell), number)


def _paragraph(lines: list[str], first: int) -> Block:
    """Joined lines: an item with its continuation, a command line, a heading or a paragraph."""
    if item := _ITEM.match(lines[0]):
        words = " ".join([item[2], *(line.strip() for line in lines[1:])])
        return Block("item", words, first, int(item[1]) if item[1] else None)
    words = "\n".join(line.strip() for line in lines)
    if _COMMAND_LINE.match(words) and not re.search(r"[a-z]\. [A-Z]", words):
        return Block("code", words, first)
    flat = " ".join(words.split())
    short = len(flat.split()) <= _HEADING_WORDS_MAX and not re.search(r"[.!?:;»”\"\]]$", flat)
    if short and flat[:1].isupper():
        return Block("heading", flat, first, level=2, guessed=True)
    return Block("paragraph", flat, first)


def _sentences(blocks: tuple[Block, ...]) -> Iterator[Sentence]:
    heading = ""
    for place, block in enumerate(blocks):
        if block.kind == "heading":
            heading = block.text
        elif block.kind != "code":
            for part in split(_RAW.sub("`…`", block.text)):
                yield Sentence(part, block.line, heading, place, block.kind)


def split(text: str) -> list[str]:
    """Sentences of a paragraph; labels stay with the sentence before them.

    >>> split("It ran. [e0001·3f2a91c4] No (e.g. this). «A. B.» Done")
    ['It ran. [e0001·3f2a91c4]', 'No (e.g. this).', '«A. B.»', 'Done']
    """
    parts: list[str] = []
    start = 0
    for found in _END.finditer(text):
        piece = text[start : found.end()].strip()
        if _ABBREVIATED.search(piece) or piece.count("«") > piece.count("»"):
            continue
        if piece.count("“") > piece.count("”") or piece.count("`") % 2:
            continue
        parts.append(piece)
        start = found.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


class _Page(HTMLParser):
    """Collects the text blocks of an HTML page."""

    _KINDS: ClassVar[dict[str, BlockKind]] = {
        **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading"),
        **dict.fromkeys(("p", "figcaption", "summary", "dd", "div"), "paragraph"),
        "li": "item",
        "tr": "row",
        "pre": "code",
    }  # fmt: skip
    _SKIPPED = frozenset({"script", "style", "svg", "nav", "head"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._kind: BlockKind | None = None
        self._text: list[str] = []
        self._line = 0
        self._level = 0
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  (the base's signature)
        """Open a block, or mark inline quotations and code."""
        if tag in self._SKIPPED:
            self._skipping += 1
        elif tag in self._KINDS:
            self._flush()
            self._kind, self._line = self._KINDS[tag], self.getpos()[0]
            self._level = int(tag[1]) if self._kind == "heading" else 0
        elif tag == "q":
            self._text.append("«")
        elif tag == "code" and self._kind != "code":
            self._text.append("`")
        elif tag in {"td", "th"} and self._text:
            self._text.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        """Close what was opened."""
        if tag in self._SKIPPED:
            self._skipping = max(0, self._skipping - 1)
        elif tag in self._KINDS:
            self._flush()
        elif tag == "q":
            self._text.append("»")
        elif tag == "code" and self._kind != "code":
            self._text.append("`")

    def handle_data(self, data: str) -> None:
        """Text of the block that is open."""
        if not self._skipping and self._kind is not None:
            self._text.append(data)

    def close(self) -> None:
        """End the last block."""
        super().close()
        self._flush()

    def _flush(self) -> None:
        text = html.unescape("".join(self._text))
        if self._kind is not None and text.strip():
            kept = text if self._kind == "code" else " ".join(text.split())
            self.blocks.append(Block(self._kind, kept, self._line, level=self._level))
        self._kind, self._text = None, []
