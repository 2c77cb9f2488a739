"""Markdown: readable as text, safe as Markdown.

Recorded words are data: whatever they hold, they cannot start a heading, a link or a tag. Not
here: which sentences there are.
"""

import re
from collections.abc import Iterator
from functools import partial

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from reports.claims import Ref
from reports.model import Report, Row, Sentence
from reports.render.loading import template
from reports.render.visible import visible
from reports.wording.catalogue import Catalogue, Span, load
from reports.wording.cited import Cited, moment

_ACTIVE = re.compile(r"([\\`*\[\]<>|~#])")
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_TICKS = re.compile(r"`+")
_LABELS_MAX = 24


def render_markdown(
    report: Report, *, words: Catalogue | None = None, override: str | None = None
) -> str:
    """The report as Markdown; ``override`` is the text of a template to use instead."""
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {
        "line": sentence_line,
        "cells": cells,
        "escape": escape,
        "fence": fence,
        "code": code,
        "time": lambda ts_us: moment(Cited(ts_us)).printed,
        "labels": partial(labels, limit=_LABELS_MAX),
    }
    source = override if override is not None else template("report.md.j2")
    text = environment.from_string(source).render(report=report, words=words or load())
    return visible(re.sub(r"\n{3,}", "\n\n", text).strip("\n")) + "\n"


def escape(text: str) -> str:
    r"""Text with all Markdown taken out of it.

    >>> print(escape("a_b <i> _x_ [l](u)"))
    a_b \<i\> \_x\_ \[l\](u)
    """
    one_line = " ".join(text.split())
    return _EDGE_UNDERSCORE.sub(r"\\_", _ACTIVE.sub(r"\\\1", one_line))


def code(text: str) -> str:
    """A code span that no backtick inside can end."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if longest else ""
    flat = " ".join(text.split()).replace("|", "\\|")
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def fence(text: str) -> str:
    """A fenced block that no backtick inside can end."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{text.rstrip()}\n{ticks}"


def inline(spans: tuple[Span, ...]) -> str:
    """Spans as Markdown text."""
    return "".join(_forms(spans))


def _forms(spans: tuple[Span, ...]) -> Iterator[str]:
    for span in spans:
        match span.style:
            case "text":
                yield span.text
            case "value":
                yield escape(span.text)
            case "code":
                yield code(span.text)
            case "quote":
                yield f"«{escape(span.text)}»"


def labels(refs: tuple[Ref, ...], limit: int = _LABELS_MAX) -> str:
    """Event labels in brackets; beyond the limit a count, the rest is in the claims."""
    shown = "".join(f"[{ref.label}]" for ref in refs[:limit])
    return shown + (f"[+{len(refs) - limit}]" if len(refs) > limit else "")


def sentence_line(sentence: Sentence) -> str:
    """A sentence with its labels before the full stop's line end."""
    return f"{inline(sentence.spans)} {labels(sentence.refs)}"


def cells(row: Row) -> str:
    """A table row with the labels in its last cell."""
    parts = [inline(cell) or "—" for cell in row.cells]
    return "| " + " | ".join([*parts, labels(row.refs)]) + " |"
