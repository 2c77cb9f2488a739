"""Reports: events in; Markdown, HTML and JSON out. Pure, and knowing the journal only."""

from reports.build import build_report
from reports.evidence import NoIncidentError
from reports.model import Depth, Report
from reports.render.html import render_html
from reports.render.markdown import render_markdown
from reports.render.plain import render_claims, render_json, render_line

__all__ = [
    "Depth",
    "NoIncidentError",
    "Report",
    "build_report",
    "render_claims",
    "render_html",
    "render_json",
    "render_line",
    "render_markdown",
]
