"""Whole reports as they were agreed on: the same story gives the same bytes, for ever.

After a wanted change of words or form run this file with AGENTOPS_REWRITE_GOLDENS=1 and read the
difference before committing it.
"""

import os
from pathlib import Path

import pytest

from journal import Reader
from reports.build import build_report
from reports.model import Depth
from reports.render.html import render_html
from reports.render.markdown import render_markdown
from reports.render.plain import render_claims, render_line
from tests.support import stories

FOLDER = Path(__file__).parents[1] / "golden" / "reports" / "pages"


@pytest.mark.parametrize(
    ("story", "depth", "name"),
    [
        ("second_interrupt", "incident", "second_interrupt.md"),
        ("second_interrupt", "line", "second_interrupt.txt"),
        ("lost_answer", "command", "lost_answer.md"),
        ("lost_answer", "summary", "lost_answer.html"),
        ("lost_answer", "summary", "lost_answer.claims.json"),
    ],
)
def test_a_story_is_told_as_agreed(story: str, depth: Depth, name: str, tmp_path: Path) -> None:
    reader = Reader.open(getattr(stories, story)(tmp_path / "j.journal", tmp_path / "keys"))
    report = build_report(reader, depth=depth)
    match name.partition(".")[2]:
        case "md":
            text = render_markdown(report)
        case "html":
            text = render_html(report)
        case "claims.json":
            text = render_claims(report)
        case _:
            text = render_line(report) + "\n"
    path = FOLDER / name
    if os.environ.get("AGENTOPS_REWRITE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
