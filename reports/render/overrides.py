"""A user's own words and pages: found in folders, checked, and used one by one.

Here: which files count and whether they may be used. ``words.toml`` replaces sentences entry by
entry; ``report.md.j2`` and ``report.html.j2`` replace a page as a whole. The first folder that has
a file wins for pages; for words every folder counts, the first one most. Not here: the packaged
ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from reports.model import Report
from reports.render.html import render_html
from reports.render.markdown import render_markdown
from reports.wording.catalogue import Catalogue, WordingError, load

WORDS, MARKDOWN, HTML = "words.toml", "report.md.j2", "report.html.j2"
FILES = (WORDS, MARKDOWN, HTML)
_SILENT = "prints no report.standing, so that a changed journal's report would look like any other"


@dataclass(frozen=True, slots=True)
class Overrides:
    """What to render with: words, and pages or None for the packaged ones."""

    words: Catalogue
    markdown: str | None = None
    html: str | None = None

    def as_markdown(self, report: Report) -> str:
        """The report by these words and this page."""
        return render_markdown(report, words=self.words, override=self.markdown)

    def as_html(self, report: Report) -> str:
        """The report by these words and this page."""
        return render_html(report, words=self.words, override=self.html)


def find(folders: Sequence[Path]) -> Overrides:
    """What the folders hold, the first folder first.

    Raises:
        WordingError: A file breaks the rules, is no UTF-8 or cannot be read; the text names it.
    """
    problems = faults(folders)
    if problems:
        raise WordingError("; ".join(problems))
    texts = [_text(folder / WORDS) for folder in reversed(folders)]
    pages = {name: _first(folders, name) for name in (MARKDOWN, HTML)}
    return Overrides(load(*(t for t in texts if t is not None)), pages[MARKDOWN], pages[HTML])


def faults(folders: Sequence[Path]) -> list[str]:
    """What is wrong with the files in the folders, each with its path; empty when nothing is."""
    found: list[str] = []
    for folder in folders:
        for name in FILES:
            try:
                text = _text(folder / name)
                if text is not None and name == WORDS:
                    load(text)
                elif text is not None:
                    SandboxedEnvironment().parse(text)
                    found += [f"{folder / name}: {_SILENT}"] * ("report.standing" not in text)
            except (WordingError, TemplateError) as error:
                found.append(f"{folder / name}: {error}")
    return found


def _first(folders: Sequence[Path], name: str) -> str | None:
    return next((text for f in folders if (text := _text(f / name)) is not None), None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8") if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise WordingError(f"cannot be read: {error}") from error
