"""All items on one journal, and the page that says what was found."""

from journal import Reader
from reports.compliance import acts, keeping
from reports.compliance.answers import Answer, Item, Records, Surroundings
from reports.compliance.completeness import unexplained
from reports.compliance.history import Unexplained
from reports.render.markdown import escape

ITEMS = tuple(sorted((*acts.ITEMS, *keeping.ITEMS), key=lambda item: item.id))


def comply(reader: Reader, surroundings: Surroundings) -> tuple[tuple[Item, Answer], ...]:
    """Each item with its answer, in order of ids; empty for a journal without events."""
    records = Records(reader, surroundings, tuple(reader.events()))
    if not records.events:
        return ()
    return tuple((item, item.answer(records)) for item in ITEMS)


def render_compliance(
    found: tuple[tuple[Item, Answer], ...],
    foreign: tuple[Unexplained, ...] = (),
    unread: tuple[str, ...] = (),
    standing: str = "",
) -> str:
    """The answers as Markdown: evidence, not a certificate.

    ``foreign`` is what is not ours, ``unread`` the hosts whose own logs nobody read, ``standing``
    how far the journal was verified.
    """
    tally = dict.fromkeys(("pass", "fail", "not applicable"), 0)
    for _, answer in found:
        tally[answer.status] += 1
    parts = [
        "# Compliance",
        "",
        *([escape(standing), ""] if standing else []),
        "Evidence from this journal, not a certificate: which standards apply is for its owner.",
        "",
        ", ".join(f"{status}: {number}" for status, number in tally.items()) + ".",
        "",
        "| Item | What an auditor samples | Asked by | Answer | Found | Events |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for item, answer in found:
        refs = "".join(f"[{label}]" for label in answer.refs) or "—"
        asked = "; ".join(item.standards)
        cells = (item.id, item.title, asked, answer.status, escape(answer.words), refs)
        parts.append("| " + " | ".join(cells) + " |")
    parts += ["", "## Not ours", ""]
    parts += [
        f"- {escape(change.what)} on `{change.host}` {''.join(f'[{ref}]' for ref in change.refs)}"
        for change in foreign
    ] or ["Nothing that was looked at is without a recorded act."]
    parts += ["", "## Not looked at", ""] if unread else []
    parts += [
        f"- The own logs of `{host}` were not read: `agentops do host_history --host {host}`"
        for host in unread
    ]
    return "\n".join(parts) + "\n"


__all__ = ["ITEMS", "comply", "render_compliance", "unexplained"]
