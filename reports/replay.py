"""Replaying what was recorded: reading outputs again, and playing a session back.

Here: ``reparse`` (another parser over the recorded bytes) and ``cast`` (asciicast version 3). Both
are pure over a reader and open no socket; the parsers are handed in, since reports know none. Not
here: decisions computed again (``agentops.policy``), the chain (``journal.verification``).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from journal import Event, Reader, Shredded
from journal.errors import Corrupt
from journal.events import (
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    DecisionMade,
    JsonObject,
    ObservationParsed,
    VerdictReached,
)

# The longest pause that a player shows; the real one is printed beside it.
GAP_MAX_S = 2.0
_WIDTH, _HEIGHT = 100, 30
_SHOWN_BYTES = 16_000
_SHOWN_LINES, _LINE_CHARS, _ARGUMENT_CHARS = 16, 300, 200


@dataclass(frozen=True, slots=True)
class Recorded:
    """One command's answer as recorded, for a parser to read again."""

    command: str
    arguments: JsonObject
    exit_status: int
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool


# Gives (version, observation), or None when the command cannot be rebuilt from its record.
Parse = Callable[[Recorded], tuple[int, JsonValue] | None]


@dataclass(frozen=True, slots=True)
class Drift:
    """One answer that today's parser reads otherwise than the recorded observation."""

    event: str
    place: str
    command: str
    recorded_version: int
    parsed_version: int
    pointer: str
    recorded: JsonValue
    parsed: JsonValue


@dataclass(frozen=True, slots=True)
class Reparsed:
    """How many answers were read again, which read otherwise, and which could not be.

    not_rebuilt names commands that today's software does not know, or cannot make again from the
    recorded arguments.
    """

    compared: int
    drifts: tuple[Drift, ...]
    shredded: tuple[str, ...]
    not_rebuilt: tuple[str, ...]


def reparse(reader: Reader, parse: Parse, *, incident: str | None = None) -> Reparsed:
    """Read every recorded answer again and compare with the observation that stands beside it.

    Raises:
        Corrupt: An answer stands there without its intent.
    """
    events = tuple(reader.events(incident=incident))
    intents = {
        e.payload.command_id: e.payload for e in events if isinstance(e.payload, CommandIntended)
    }
    outcomes = {
        e.payload.command_id: e
        for e in events
        if isinstance(e.payload, CommandCompleted | CommandFailed)
    }
    compared = 0
    drifts: list[Drift] = []
    shredded: list[str] = []
    unknown: dict[str, None] = {}
    for event in events:
        payload = event.payload
        if not isinstance(payload, ObservationParsed) or payload.command_id not in outcomes:
            continue
        intent = intents.get(payload.command_id)
        if intent is None:
            raise Corrupt(
                f"an answer to {payload.command_id}, which nobody intended",
                stream=event.stream, seq=event.seq, where=event.place,
            )  # fmt: skip
        seen = reader.observation(event)
        answer = _answer(reader, intent, outcomes[payload.command_id])
        if isinstance(seen, Shredded) or answer is None:
            shredded.append(event.id)
            continue
        again = parse(answer)
        if again is None:
            unknown.setdefault(payload.command)
            continue
        compared += 1
        version, value = again
        difference = first_difference(seen, value)
        if difference is not None:
            pointer, old, new = difference
            drifts.append(
                Drift(
                    event=event.id,
                    place=event.place,
                    command=payload.command,
                    recorded_version=payload.parser_version,
                    parsed_version=version,
                    pointer=pointer,
                    recorded=old,
                    parsed=new,
                )
            )
    return Reparsed(compared, tuple(drifts), tuple(shredded), tuple(unknown))


def _answer(reader: Reader, intent: CommandIntended, outcome: Event) -> Recorded | None:
    """The recorded answer; None when an output was destroyed."""
    streams: dict[str, tuple[bytes, bool]] = {}
    for name in ("stdout", "stderr"):
        stored = outcome.out.get(name)
        raw = reader.attachment(outcome, name) if stored else b""
        if isinstance(raw, Shredded):
            return None
        streams[name] = (raw, stored.truncated if stored else False)
    assert isinstance(outcome.payload, CommandCompleted | CommandFailed)  # noqa: S101
    return Recorded(
        command=intent.command,
        arguments=intent.arguments,
        exit_status=outcome.payload.exit_status,
        stdout=streams["stdout"][0],
        stderr=streams["stderr"][0],
        stdout_truncated=streams["stdout"][1],
        stderr_truncated=streams["stderr"][1],
    )


def first_difference(
    old: JsonValue, new: JsonValue, pointer: str = ""
) -> tuple[str, JsonValue, JsonValue] | None:
    """The first place where two JSON values differ, as a pointer with both values.

    >>> first_difference({"a": [1, 2]}, {"a": [1, 3]})
    ('/a/1', 2, 3)
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            found = first_difference(old.get(key), new.get(key), f"{pointer}/{key}")
            if found is not None:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            found = first_difference(one, other, f"{pointer}/{place}")
            if found is not None:
                return found
        return None
    return None if old == new else (pointer or "/", old, new)


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a playback: seconds since the frame before, a code, and its text.

    code is asciicast's: ``o`` output, ``m`` marker. real_s is the time that passed in fact.
    """

    interval_s: float
    code: str
    text: str
    real_s: float
    event: str


def frames(
    reader: Reader, *, incident: str | None = None, gap_max_s: float = GAP_MAX_S
) -> Iterator[Frame]:
    """The session as a terminal shows it, long gaps shortened and said to be."""
    before: Event | None = None
    for event in reader.events(incident=incident):
        text = _screen(reader, event)
        if text is None:
            continue
        real = 0.0 if before is None else max(0.0, (event.ts_us - before.ts_us) / 1e6)
        before = event
        shown = round(min(real, gap_max_s), 6)
        if isinstance(event.payload, CommandIntended):
            yield Frame(shown, "m", event.payload.command, real, event.id)
            shown = 0.0
        if real > gap_max_s:
            text = f"\x1b[2m… {real:.1f} s later\x1b[0m\r\n{text}"
        yield Frame(shown, "o", text, real, event.id)


def cast(
    reader: Reader, *, incident: str | None = None, gap_max_s: float = GAP_MAX_S, title: str = ""
) -> str:
    """The playback as asciicast version 3: a header line, then one line a frame.

    Source: asciinema's asciicast v3 specification; markers carry the commands' names and the last
    line is the exit code.
    """
    header: JsonObject = {
        "version": 3,
        "term": {"cols": _WIDTH, "rows": _HEIGHT},
        "title": title or (incident or "journal"),
        "idle_time_limit": gap_max_s,
    }
    lines = [json.dumps(header)]
    lines += [
        json.dumps([frame.interval_s, frame.code, frame.text], ensure_ascii=False)
        for frame in frames(reader, incident=incident, gap_max_s=gap_max_s)
    ]
    lines.append(json.dumps([0.0, "x", "0"]))
    return "\n".join(lines) + "\n"


def _screen(reader: Reader, event: Event) -> str | None:  # noqa: PLR0911  (one arm a kind)
    """What a terminal shows of one event; None for those that nobody would watch."""
    match event.payload:
        case CommandIntended() as sent:
            host = event.host.name if event.host else "-"
            arguments = json.dumps(sent.arguments, ensure_ascii=False) if sent.arguments else ""
            arguments = _cut(arguments, _ARGUMENT_CHARS)
            return f"\x1b[1m{_plain(host)}$ {_plain(sent.command)}\x1b[0m {_plain(arguments)}\r\n"
        case CommandCompleted(exit_status=status) | CommandFailed(exit_status=status):
            return _stored(reader, event) + f"\x1b[2m[exit {status}]\x1b[0m\r\n"
        case CommandNotSent(reason=reason) | CommandOutcomeUnknown(reason=reason):
            return f"\x1b[31m[{event.kind.removeprefix('command_')}: {_plain(reason)}]\x1b[0m\r\n"
        case CommandDenied() as denied:
            return f"\x1b[31m[denied by {_plain(denied.rule)}]\x1b[0m {_plain(denied.command)}\r\n"
        case DecisionMade(decision=decision):
            action = decision.get("action")
            kind = action.get("kind") if isinstance(action, dict) else None
            return f"\x1b[36m[decision: {_plain(str(kind or 'made'))}]\x1b[0m\r\n"
        case VerdictReached() as reached:
            return f"\x1b[36m[{reached.verdict}]\x1b[0m {_plain(reached.reason)}\r\n"
        case _:
            return None


def _stored(reader: Reader, event: Event) -> str:
    """The first bytes of an outcome's streams, with line ends as a terminal wants them."""
    parts = []
    for name in ("stdout", "stderr"):
        if name not in event.out:
            continue
        raw = reader.attachment(event, name)
        if isinstance(raw, Shredded):
            parts.append(f"[{name} removed: {_plain(raw.reason)}]\r\n")
        elif raw:
            lines = _plain(raw[:_SHOWN_BYTES].decode("utf-8", "replace")).rstrip("\n").split("\n")
            more = (
                [f"… {len(lines) - _SHOWN_LINES} lines more"] if len(lines) > _SHOWN_LINES else []
            )
            shown = [_cut(line, _LINE_CHARS) for line in lines[:_SHOWN_LINES]] + more
            parts.append("\r\n".join(shown) + "\r\n")
    return "".join(parts)


def _cut(text: str, limit: int) -> str:
    """The beginning of a text, with a mark where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(text: str) -> str:
    """Text without control characters: recorded bytes must not steer the player's terminal."""
    return "".join(
        c if c in "\n\t" or (c.isprintable()) else "\N{REPLACEMENT CHARACTER}" for c in text
    )
