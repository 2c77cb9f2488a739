"""One line and JSON: the forms for chats and programs. The line is Markdown, as chats take it."""

import json

from pydantic import JsonValue

from reports.model import Report
from reports.render.markdown import escape, sentence_line
from reports.render.visible import visible


def render_line(report: Report) -> str:
    """Theme, incident, end and how far that was verified, in one line of text.

    It ends without a line break.
    """
    head = f"{report.theme.text}: {escape(report.incident)}."
    said = [f"{head} {sentence_line(report.badge)}", sentence_line(report.standing)]
    return visible(" ".join(reversed(said) if report.is_of_a_changed_journal else said))


def render_json(report: Report) -> str:
    """The whole model, its claims beside it, keys sorted, as one JSON document."""
    whole: dict[str, JsonValue] = report.model_dump(mode="json")
    whole["claims"] = [claim.model_dump(mode="json") for claim in report.claims()]
    return _document(whole)


def render_claims(report: Report) -> str:
    """The claims alone: the sidecar ``report.claims.json``."""
    return _document(claims_body(report))


def _document(value: JsonValue) -> str:
    return visible(json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False)) + "\n"


def claims_body(report: Report) -> dict[str, JsonValue]:
    """What the sidecar holds; a field at its default is left out."""
    claims: list[JsonValue] = [
        claim.model_dump(mode="json", exclude_defaults=True) for claim in report.claims()
    ]
    return {"schema_version": report.schema_version, "incident": report.incident, "claims": claims}
