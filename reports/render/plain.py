"""One line and JSON: the forms for chats and programs. The line is Markdown, as chats take it."""

import json

from pydantic import JsonValue

from reports.model import Report
from reports.render.markdown import escape, inline
from reports.render.visible import visible


def render_line(report: Report) -> str:
    """Theme, incident and end in one line of text.

    It ends without a line break.
    """
    refs = "".join(f" [{ref.label}]" for ref in report.badge.refs[:1])
    end = inline(report.badge.spans)
    return visible(f"{report.theme.text}: {escape(report.incident)}. {end}{refs}")


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
