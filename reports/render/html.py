"""HTML: one file that needs no network and runs no script.

Here: filling the page. Not here: sentences, geometry of figures (``reports.render.svg``).
"""

import json
from functools import partial
from itertools import count

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from reports.claims import Ref
from reports.model import Figure, Report, Row, Section, Sentence
from reports.predicates.registry import PREDICATES
from reports.render.loading import template
from reports.render.svg import draw
from reports.render.visible import visible
from reports.wording.catalogue import Catalogue, Span, load
from reports.wording.cited import Cited, moment

_LABELS_MAX = 24
_LONG = 32
_UNBROKEN = 12
_OPEN = {"summary", "key_numbers"}


def render_html(
    report: Report, *, words: Catalogue | None = None, override: str | None = None
) -> str:
    """The report as one HTML file; ``override`` replaces the packaged page template."""
    numbers = count(1)
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    here = frozenset(entry.event for entry in report.entries)
    environment.filters |= {
        "said": partial(_said, here=here),
        "raw": _raw,
        "cell": _inline,
        "cites": partial(_row_cites, here=here),
        "plot": lambda figure: _plot(figure, numbers),
        "time": lambda ts_us: moment(Cited(ts_us)).printed,
    }
    source = override if override is not None else template("report.html.j2")
    page = environment.from_string(source).render(
        report=report,
        words=words or load(),
        style=Markup(template("report.css")),  # noqa: S704  (packaged, not input)
        claims=_data(_compact(report)),
        kinds=_kinds(report),
        anchor=_anchor,
    )
    return visible(page) + "\n"


def _compact(report: Report) -> str:
    """The claims for the page: references by event id, whose hashes are in the appendix.

    The cut-off is the same for all of them and stands once; kind and strength are left out where
    they are the predicate's own, references where they are the event in the arguments.
    """
    claims = []
    for claim in report.claims():
        usual = PREDICATES[claim.predicate]
        body = claim.model_dump(mode="json", exclude={"as_of", "refs"}, exclude_defaults=True)
        if (claim.kind, claim.strength) == (usual.kind, usual.strength):
            del body["kind"], body["strength"]
        named = {"event", "pointer", "span"}
        refs = [ref.model_dump(include=named, exclude_defaults=True) for ref in claim.refs]
        if refs != [{"event": claim.args.get("event")}]:
            body["refs"] = refs
        claims.append(body)
    return json.dumps(
        {"incident": report.incident, "as_of": report.theme.claim.as_of, "claims": claims},
        separators=(",", ":"),
        sort_keys=True,
    )


def _raw(text: str) -> Markup:
    """Text for an element's content, where quotation marks need no escape."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(safe)  # noqa: S704  (the three active characters are gone)


def _data(text: str) -> Markup:
    """JSON made safe inside a script element: no text in it can end the element."""
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(safe)  # noqa: S704  (the three active characters are gone)


def _kinds(report: Report) -> list[tuple[str, int]]:
    """How many claims of each kind the report makes."""
    tally: dict[str, int] = {}
    for claim in report.claims():
        tally[claim.kind] = tally.get(claim.kind, 0) + 1
    return sorted(tally.items())


def _anchor(section: Section) -> str:
    return section.key.replace("_", "-")


def _plot(figure: Figure, numbers: "count[int]") -> Markup:
    return draw(figure, next(numbers))


def _inline(spans: tuple[Span, ...]) -> Markup:
    """Spans as HTML text."""
    return Markup().join(_form(span) for span in spans)


def _form(span: Span) -> Markup:
    match span.style:
        case "text":
            return Markup("{}").format(span.text)
        case "value":
            short = len(span.text) <= _UNBROKEN
            return Markup("<b>{}</b>").format(
                span.text.replace(" ", "\u00a0") if short else span.text
            )
        case "code":
            form = '<code class="long">{}</code>' if len(span.text) > _LONG else "<code>{}</code>"
            return Markup(form).format(span.text)  # noqa: S704  (one of two constants)
        case "quote":
            return Markup("<q>{}</q>").format(span.text)


def _said(sentence: Sentence, here: frozenset[str]) -> Markup:
    """A sentence with its labels."""
    return Markup('<span class="claim {kind}" data-claim="{id}">{text} {cites}</span>').format(
        kind=sentence.claim.kind.lower(),
        id=sentence.claim.id,
        text=_inline(sentence.spans),
        cites=_cites(sentence.refs, _LABELS_MAX, here),
    )


def _row_cites(row: Row, here: frozenset[str]) -> Markup:
    return _cites(row.refs, _LABELS_MAX, here)


def _cites(refs: tuple[Ref, ...], limit: int, here: frozenset[str]) -> Markup:
    shown = Markup(" ").join(_cite(ref, here) for ref in refs[:limit])
    if len(refs) <= limit:
        return shown
    rest = ", ".join(ref.label for ref in refs[limit:])
    return Markup('{} <span class="more" title="{}">+{}</span>').format(
        shown, rest, len(refs) - limit
    )


def _cite(ref: Ref, here: frozenset[str]) -> Markup:
    if ref.event not in here:
        return Markup('<span class="ref">[{}]</span>').format(ref.label)
    where = f"{ref.pointer} bytes {ref.span[0]}-{ref.span[1]}" if ref.span else ref.pointer
    return Markup('<a class="ref" href="#ev-{}" title="{}">[{}]</a>').format(
        ref.event, where or "the whole event", ref.label
    )
