"""Building a report: from a journal and an incident to the model, at the depth asked for.

Here: the order of the sections and the appendix. Not here: their content
(``reports.sections``), their form (``reports.render``).
"""

import json
import re
from collections.abc import Callable

from journal import Event, Reader
from journal.events import IncidentOpened
from reports.evidence import Evidence, NoIncidentError, gather
from reports.model import Depth, Entry, EventOutput, Report, Section
from reports.sections import closing, command, knowledge, opening
from reports.sections.author import Author
from reports.standing import Standing
from reports.wording.catalogue import Catalogue, load

# A report of five hundred events stays below a megabyte: the rest of the page takes some nine
# hundred bytes an event, and the entries of the appendix share what is left, at least so many.
_PAGE_BYTES, _EVENT_BYTES, _APPENDIX_BYTES_MIN = 500_000, 900, 120_000
_ENTRY_BYTES_MAX = 6_000
_DATA_CHARS = 240

SECTIONS: tuple[Callable[[Author], Section], ...] = (
    opening.summary,
    opening.key_numbers,
    opening.overview,
    opening.context,
    opening.why,
    opening.how,
    opening.assumptions,
    opening.mistaken,
    knowledge.input_knowledge,
    knowledge.output_knowledge,
    knowledge.thinking,
    knowledge.timeline,
    knowledge.plots,
    closing.causes,
    closing.well_wrong_lucky,
    closing.open_questions,
    closing.actions,
    closing.significance,
    closing.conclusion,
)
_SHORT = (opening.summary,)


def latest_incident(reader: Reader) -> str:
    """The incident opened last.

    Raises:
        NoIncidentError: The journal holds none.
    """
    latest: Event | None = None
    for event in reader.events(kinds=("incident_opened",)):
        if isinstance(event.payload, IncidentOpened) and event.incident is not None:
            latest = event
    if latest is None or latest.incident is None:
        raise NoIncidentError(
            "the journal holds no incident; open one with `agentops incident open`"
        )
    return latest.incident


def build_report(
    reader: Reader,
    incident: str | None = None,
    depth: Depth = "incident",
    *,
    words: Catalogue | None = None,
    until: str | None = None,
    standing: Standing | None = None,
) -> Report:
    """The report on one incident, the latest by default. Same journal, same report.

    until is the id of the event at which the report ends; all there is by default. standing is
    what a verification of the journal found, which the report tells at its top.

    Raises:
        NoIncidentError: The journal holds no such incident.
    """
    incident = incident or latest_incident(reader)
    evidence = gather(reader, incident, until=until, standing=standing)
    return report_on(evidence, depth, words=words)


def report_on(evidence: Evidence, depth: Depth, *, words: Catalogue | None = None) -> Report:
    """The report on evidence already gathered."""
    author = Author(evidence, words or load())
    chosen: tuple[Callable[[Author], Section], ...]
    match depth:
        case "line":
            chosen = ()
        case "summary":
            chosen = _SHORT
        case "incident":
            chosen = SECTIONS
        case "command":
            chosen = (*SECTIONS[:-1], command.chapters, SECTIONS[-1])
    return Report(
        language=author.words.language,
        depth=depth,
        incident=evidence.incident,
        theme=author.say("incident.title"),
        badge=author.say("incident.closed"),
        standing=author.say("journal.verified"),
        sections=tuple(section(author) for section in chosen),
        entries=entries(evidence) if depth in {"incident", "command"} else (),
        journal_place=evidence.first.stream,
    )


def entries(evidence: Evidence) -> tuple[Entry, ...]:
    """The appendix: every event of the incident and every definition, session and configuration."""
    events = (*evidence.context, *evidence.events)
    shared = max(_APPENDIX_BYTES_MIN, _PAGE_BYTES - _EVENT_BYTES * len(events))
    budget = min(_ENTRY_BYTES_MAX, shared // max(1, len(events)))
    return tuple(_entry(evidence, event, budget) for event in events)


def _data(event: Event) -> tuple[str, bool]:
    """The beginning of the payload as it stands in the line, and whether that is not all of it."""
    whole = event.line.decode("utf-8", "replace")
    start = whole.find('"data":')
    _, end = json.JSONDecoder().raw_decode(whole, start + len('"data":'))
    data = whole[start + len('"data":') : end]
    if len(data) <= _DATA_CHARS:
        return data, False
    # A cut number would read as another number, so the cut goes before the word.
    return re.sub(r"[\w.-]+$", "", data[:_DATA_CHARS]), True


def _entry(evidence: Evidence, event: Event, budget: int) -> Entry:
    data, data_is_cut = _data(event)
    line = event.line[: budget // 2].decode("utf-8", "replace")
    outputs = [
        EventOutput(
            name=name,
            length_bytes=found.length_bytes,
            truncated=found.truncated,
            shredded=found.shredded,
            excerpt=found.excerpt[: budget // 2].decode("utf-8", "replace"),
        )
        for (owner, name), found in sorted(evidence.outputs.items())
        if owner == event.id
    ]
    return Entry(
        event=event.id,
        label=f"e{event.seq:04d}·{event.leaf[:8]}",
        place=event.place,
        kind=event.kind,
        ts_us=event.ts_us,
        leaf=event.leaf,
        prev=event.prev,
        line=line,
        data=data,
        data_is_cut=data_is_cut,
        line_bytes=len(event.line),
        outputs=tuple(outputs),
    )
