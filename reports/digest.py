"""The digest: many incidents in one page, over a span of time.

Here: counts by theme and resolution, times to resolution, signals by rung, what was not verified
and which assumptions keep coming back. Each row names its incidents. Not here: one incident's story
(``reports.build``).
"""

from collections import Counter
from dataclasses import dataclass

from journal import Reader
from reports.evidence import Evidence, elapsed_ms, gather
from reports.predicates.learning import questions
from reports.predicates.signals import signals
from reports.predicates.theme import theme
from reports.render.markdown import escape
from reports.wording.cited import Cited, duration, moment

_OPEN = "open"


@dataclass(frozen=True, slots=True)
class Line:
    """One incident in the digest."""

    incident: str
    title: str
    theme: str
    resolution: str
    opened_us: int
    duration_ms: int | None
    rungs: tuple[str, ...]
    undelivered: int
    commands: int
    unanswered: int
    denied: int
    verified: bool
    open_questions: int
    label: str


@dataclass(frozen=True, slots=True)
class Digest:
    """All incidents opened since a moment (microseconds UTC), in order of opening."""

    since_us: int
    lines: tuple[Line, ...]

    @property
    def resolutions(self) -> dict[str, int]:
        """How many incidents ended in which way."""
        return dict(sorted(Counter(line.resolution for line in self.lines).items()))

    @property
    def rungs(self) -> dict[str, int]:
        """How often each signal was used."""
        return dict(sorted(Counter(r for line in self.lines for r in line.rungs).items()))

    @property
    def themes(self) -> dict[str, int]:
        """How often each pattern was seen, the most frequent first."""
        return dict(Counter(line.theme for line in self.lines).most_common())

    @property
    def median_ms(self) -> int | None:
        """The median time from opening to end of those that ended."""
        ended = sorted(line.duration_ms for line in self.lines if line.duration_ms is not None)
        return ended[len(ended) // 2] if ended else None

    @property
    def unverified(self) -> tuple[Line, ...]:
        """Incidents that acted and have no settled verdict afterwards."""
        return tuple(line for line in self.lines if line.rungs and not line.verified)


def digest(reader: Reader, *, since_us: int = 0) -> Digest:
    """The digest of all incidents opened since a moment."""
    lines = [
        _line(gather(reader, incident.id), incident.title)
        for incident in reader.incidents()
        if incident.opened_us >= since_us
    ]
    return Digest(since_us, tuple(lines))


def _line(evidence: Evidence, title: str) -> Line:
    sent = signals(evidence)
    closed = next((e for e in reversed(evidence.events) if e.kind == "incident_closed"), None)
    words = [thread.outcome_word for thread in evidence.commands]
    open_questions = [name for name, _ in questions(evidence)]
    return Line(
        incident=evidence.incident,
        title=title,
        theme=theme(evidence)[0],
        resolution=getattr(closed.payload, "resolution", _OPEN) if closed else _OPEN,
        opened_us=evidence.first.ts_us,
        duration_ms=elapsed_ms(evidence.first, closed) if closed else None,
        rungs=tuple(s.signal for s in sent if s.delivered is not False),
        undelivered=sum(s.delivered is False for s in sent),
        commands=len(words),
        unanswered=sum(word in {"unknown", "in doubt", "failed"} for word in words),
        denied=words.count("denied"),
        verified="question.unverified" not in open_questions,
        open_questions=len(open_questions),
        label=f"e{evidence.first.seq:04d}·{evidence.first.leaf[:8]}",
    )


def render_digest(found: Digest) -> str:
    """The digest as Markdown."""
    parts = [
        "# Digest",
        "",
        " ".join(
            (
                f"Incidents: {len(found.lines)}.",
                _counts("By resolution", found.resolutions),
                _counts("Signals", found.rungs),
                _median(found),
            )
        ),
        "",
        "| Opened | Incident | Theme | Resolution | Took | Signals | Commands | Open | Event |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    parts += [_row(line) for line in found.lines]
    parts += ["", "## Patterns", ""]
    parts += [f"- {name}: {count}" for name, count in found.themes.items()] or ["Not recorded."]
    parts += ["", "## Acted without a settled verdict", ""]
    parts += [f"- `{line.incident}` [{line.label}]" for line in found.unverified] or ["None."]
    return "\n".join(parts) + "\n"


def _counts(name: str, counted: dict[str, int]) -> str:
    inner = ", ".join(f"{word} {count}" for word, count in counted.items()) or "none"
    return f"{name}: {inner}."


def _median(found: Digest) -> str:
    median = found.median_ms
    if median is None:
        return "No incident has ended."
    return f"Median time to an end: {duration(Cited(median)).printed}."


def _row(line: Line) -> str:
    took = duration(Cited(line.duration_ms)).printed if line.duration_ms is not None else "—"
    cells = (
        moment(Cited(line.opened_us)).printed,
        f"`{line.incident}` {escape(line.title)}",
        line.theme,
        line.resolution,
        took,
        " ".join(line.rungs) or "—",
        f"{line.commands}, {line.unanswered} unanswered, {line.denied} denied",
        str(line.open_questions),
        f"[{line.label}]",
    )
    return "| " + " | ".join(cells) + " |"
