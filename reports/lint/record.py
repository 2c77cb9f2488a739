"""What a journal offers a linter: commands, outputs, words, numbers, verdicts, times.

Here: reading events of any kind, imported transcripts included, into one shape. Not here: judging
a sentence.
"""

import re
import shlex
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from pydantic import JsonValue

from journal import Event, Reader, Shredded
from journal.events import (
    CommandCompleted,
    CommandFailed,
    CommandIntended,
    DecisionMade,
    Imported,
    IncidentNoted,
    ObservationParsed,
    ProposalReceived,
    VerdictReached,
)
from reports import shell
from reports.wording.cited import Cited, moment

_MILLISECONDS = {"_ms": 1, "_s": 1_000}
_BYTES = {"_kib": 2**10, "_mib": 2**20, "_gib": 2**30, "_bytes": 1}
# What a journal says of its own keeping: no report's duration is measured from there.
_AROUND = frozenset(
    {
        "session_started", "session_ended", "journal_read", "sealed", "seal_anchored",
        "anchor_dropped", "heartbeat",
    }
)  # fmt: skip
_ECHO_MIN = 12
# A longer word is a program handed on whole; its grammar is not a report's matter.
_WORD_MAX = 400
_UNSEEN = re.compile(r"\\u([0-9a-f]{4})")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class RecordedCommand:
    """A command line with what came back. ``exit_status`` None: not recorded.

    name is the typed command's; an imported command line has none.
    """

    event: Event
    name: str
    text: str
    stdout: str
    exit_status: int | None
    end_marker: bool
    truncated: bool

    @cached_property
    def levels(self) -> tuple[shell.Nested, ...]:
        """The command line and those that it hands on to other shells."""
        return tuple(shell.nested(self.text))

    @cached_property
    def matches_itself(self) -> tuple[tuple[shell.Simple, shell.Simple], ...]:
        """Actions by pattern that find the shell around them, and that shell."""
        return shell.self_matches(self.text)

    @cached_property
    def inner(self) -> shell.Script:
        """The innermost of them."""
        return max(self.levels, key=lambda found: len(found.wrappers)).script


@dataclass(frozen=True)
class Record:
    """Everything a report on these events may rest on."""

    events: tuple[Event, ...]
    commands: tuple[RecordedCommand, ...]
    spans_ms: tuple[int, ...]
    sizes_bytes: frozenset[int]
    words: tuple[tuple[Event, str], ...]
    corpus: str
    labels: Mapping[int, tuple[Event, ...]]
    observations: Mapping[str, JsonValue]
    incidents: tuple[str, ...]

    @cached_property
    def folded(self) -> str:
        """All recorded text with white space made one blank, for quotations."""
        return fold(self.corpus)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Every number in the record without thousands separators, and how many events it has."""
        written = {n.replace(",", "") for n in _NUMBER.findall(self.corpus)}
        kinds = Counter(event.kind for event in self.events)
        incidents = Counter(event.incident for event in self.events)
        counted = (len(self.events), *kinds.values(), *incidents.values())
        return frozenset(written | {str(number) for number in counted})

    @cached_property
    def decimals(self) -> tuple[float, ...]:
        """Recorded numbers that have decimal places."""
        return tuple(float(number) for number in self.numbers if "." in number)

    @cached_property
    def wholes(self) -> frozenset[int]:
        """Recorded integers of three digits and more."""
        return frozenset(int(n) for n in self.numbers if n.isdigit() and 2 < len(n) < 16)  # noqa: PLR2004

    @cached_property
    def horizon(self) -> int:
        """The greatest label that is recorded; nothing beyond may be spoken of."""
        return max(self.labels, default=0)

    @cached_property
    def has_clock(self) -> bool:
        """Whether the events were recorded as they happened, with clocks, and not imported."""
        return any(not isinstance(e.payload, Imported) for e in self._telling)

    @cached_property
    def _telling(self) -> tuple[Event, ...]:
        quiet = {"session_started", "session_ended", "sealed", "incident_opened", "journal_read"}
        return tuple(event for event in self.events if event.kind not in quiet)

    @cached_property
    def verdicts(self) -> frozenset[str]:
        """Ids of events that hold a settled verdict or a resolution."""
        return frozenset(
            event.id
            for event in self.events
            if (
                isinstance(event.payload, VerdictReached)
                and event.payload.verdict != "inconclusive"
            )
            or event.kind == "incident_closed"
        )

    @cached_property
    def reasons(self) -> frozenset[str]:
        """Ids of events that record why something was done."""
        kinds = (CommandIntended, DecisionMade, ProposalReceived, IncidentNoted)
        return frozenset(event.id for event in self.events if isinstance(event.payload, kinds))

    def lasted(self, low_us: Fraction, high_us: Fraction) -> bool:
        """Whether a recorded duration, or the interval of any two events, lies in [low, high).

        Within a boot the monotonic clock counts, between boots the wall clock.
        """
        if any(low_us <= span * 1_000 < high_us for span in (0, *self.spans_ms)):
            return True
        for times in self._times:
            for start in times:
                place = bisect_left(times, start + low_us)
                if place < len(times) and times[place] < start + high_us:
                    return True
        return False

    @cached_property
    def _times(self) -> tuple[list[int], ...]:
        """Sorted instants in microseconds, by each boot's monotonic clock and by the wall's."""
        boots: dict[str, list[int]] = {}
        told = [e for e in self.events if e.incident is not None or e.kind not in _AROUND]
        for event in told:
            boots.setdefault(event.boot, []).append(event.mono_ns // 1_000)
        wall = [[event.ts_us for event in told]] if len(boots) > 1 else []
        return tuple(sorted(times) for times in (*boots.values(), *wall))

    @cached_property
    def instants(self) -> frozenset[str]:
        """The events' wall-clock times as they may be printed: date, minute, second, ms."""
        forms = set()
        for event in self.events:
            whole = moment(Cited(event.ts_us)).printed.removesuffix(" UTC")
            date, _, time = whole.partition(" ")
            forms |= {date, time, time[:8], time[:5]}
        return frozenset(forms)

    def observation(self, event: Event) -> JsonValue:
        """What an observation event says; None for any other, and for a shredded one."""
        return self.observations.get(event.id)

    def echoes(self, text: str) -> bool:
        """Whether a text is nothing but a recorded command or output."""
        flat = fold(text).strip("`")
        return len(flat) >= _ECHO_MIN and any(flat in line for line in self._command_lines)

    @cached_property
    def _command_lines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(fold(command.text) for command in self.commands))

    def holds(self, words: str) -> bool:
        """Whether the words are recorded, white space and backslashes aside.

        A page shows what cannot be seen as an escape; here it is the character again.
        """
        shown = _UNSEEN.sub(lambda found: chr(int(found[1], 16)), words)
        flat = fold(shown).replace("\\", "")
        bare = flat.rstrip(".,;:!?")
        return flat in self._quotable or bare.rstrip("…") in self._quotable

    @cached_property
    def _quotable(self) -> str:
        return self.folded.replace("\\", "")

    def named(self, labels: Iterable[tuple[int, str]]) -> tuple[Event, ...]:
        """The events that labels name; those that resolve."""
        return tuple(event for label in labels if (event := self.resolve(*label)) is not None)

    def resolve(self, number: int, leaf: str) -> Event | None:
        """The event of a label, or None."""
        found = self.labels.get(number, ())
        return next((event for event in found if event.leaf.startswith(leaf)), None)


def fold(text: str) -> str:
    """Text with every run of white space made one blank."""
    return " ".join(text.split())


def record(reader: Reader, incident: str | None = None) -> Record:
    """The record of one incident, or of the whole journal."""
    events = tuple(
        event for event in reader.events() if incident is None or event.incident in {incident, None}
    )
    commands: list[RecordedCommand] = []
    words: list[tuple[Event, str]] = []
    parts: list[str] = []
    labels: dict[int, list[Event]] = {}
    spans: list[int] = []
    sizes: list[int] = []
    observations: dict[str, JsonValue] = {}
    intents = {e.payload.command_id: e for e in events if isinstance(e.payload, CommandIntended)}
    for event in events:
        labels.setdefault(event.seq, []).append(event)
        parts += _texts(reader, event)
        values = _values(reader, event)
        spans += _measured(values, _MILLISECONDS)
        sizes += _measured(values, _BYTES)
        sizes += [stored.length_bytes for stored in event.out.values()]
        if len(values) > 1:
            observations[event.id] = values[1]
        match event.payload:
            case Imported(body=body):
                message = body.get("message")
                if isinstance(message, int):
                    labels.setdefault(message, []).append(event)
                if (command := _imported(event)) is not None:
                    commands.append(command)
                if isinstance(said := body.get("words"), str):
                    words.append((event, said))
            case CommandCompleted() | CommandFailed() as ended if ended.command_id in intents:
                commands.append(_recorded(reader, intents[ended.command_id], event))
            case ProposalReceived(words=said) | IncidentNoted(text=said):
                words.append((event, said))
            case _:
                pass
    return Record(
        events=events,
        commands=tuple(commands),
        spans_ms=tuple(spans),
        sizes_bytes=frozenset(sizes),
        words=tuple(words),
        corpus="\n".join(parts),
        observations=observations,
        labels={number: tuple(found) for number, found in labels.items()},
        incidents=tuple(dict.fromkeys(e.incident for e in events if e.incident)),
    )


def _texts(reader: Reader, event: Event) -> list[str]:
    """All text of an event: every string and number of its payload, outputs, observation."""
    texts = list(_leaves(event.payload.model_dump(mode="json")))
    for name, stored in event.out.items():
        texts.append(str(stored.length_bytes))
        raw = reader.attachment(event, name)
        if not isinstance(raw, Shredded):
            texts.append(raw.decode("utf-8", "replace"))
    texts += [text for value in _values(reader, event)[1:] for text in _leaves(value)]
    if event.host is not None:
        texts.append(event.host.name)
    texts += [event.id, event.place, event.leaf, event.actor.id, event.kind, event.incident or ""]
    # Reports print the beginnings of digests; one that holds digits only would read as a number.
    texts += [event.prev[:16], str(getattr(event.payload, "digest", ""))[:12]]
    return texts


def _values(reader: Reader, event: Event) -> list[JsonValue]:
    """The payload as JSON, and the observation where there is one."""
    values: list[JsonValue] = [event.payload.model_dump(mode="json")]
    if isinstance(event.payload, ObservationParsed):
        seen = reader.observation(event)
        if not isinstance(seen, Shredded):
            values.append(seen)
    return values


def _measured(value: object, units: Mapping[str, int], name: str = "") -> list[int]:
    """Numbers in fields whose name ends in one of the units, in the smallest of them."""
    if isinstance(value, dict):
        pairs = value.items()
        return [found for key, inner in pairs for found in _measured(inner, units, str(key))]
    if isinstance(value, list):
        return [found for inner in value for found in _measured(inner, units, name)]
    scale = next((scale for unit, scale in units.items() if name.endswith(unit)), None)
    if scale is None or not isinstance(value, int) or isinstance(value, bool):
        return []
    return [value * scale]


def leaves(value: object) -> list[str]:
    """Strings of a JSON value, without the names of its members."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in leaves(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in leaves(inner)]
    return [value] if isinstance(value, str) else []


def _leaves(value: object) -> list[str]:
    """Strings and numbers of a JSON value; argv also joined as a command line."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _leaves(inner)] + list(value)
    if isinstance(value, list):
        joined = [" ".join(value)] if value and all(isinstance(v, str) for v in value) else []
        return joined + [text for inner in value for text in _leaves(inner)]
    if value is None or isinstance(value, bool):
        return []
    return [str(value)]


def _imported(event: Event) -> RecordedCommand | None:
    assert isinstance(event.payload, Imported)  # noqa: S101
    body = event.payload.body
    text, stdout, status = body.get("command"), body.get("stdout"), body.get("exit_status")
    if not isinstance(text, str):
        return None
    return RecordedCommand(
        event=event,
        name="",
        text=text,
        stdout=stdout if isinstance(stdout, str) else "",
        exit_status=status if isinstance(status, int) else None,
        end_marker=isinstance(status, int),
        truncated=body.get("truncated") is True,
    )


def _recorded(reader: Reader, intent: Event, outcome: Event) -> RecordedCommand:
    assert isinstance(intent.payload, CommandIntended)  # noqa: S101
    assert isinstance(outcome.payload, CommandCompleted | CommandFailed)  # noqa: S101
    argv = intent.payload.argv
    given = intent.payload.arguments.get("argv")
    if isinstance(given, list):
        argv = tuple(str(word) for word in given)
    stored = outcome.out.get("stdout")
    raw = reader.attachment(outcome, "stdout") if stored else b""
    return RecordedCommand(
        event=outcome,
        name=intent.payload.command,
        text=shlex.join(word[:_WORD_MAX] for word in argv),
        stdout="" if isinstance(raw, Shredded) else raw.decode("utf-8", "replace"),
        exit_status=outcome.payload.exit_status,
        end_marker=True,
        truncated=stored.truncated if stored else False,
    )
