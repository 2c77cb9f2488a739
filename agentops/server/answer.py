"""What a tool answers: the verdict first, the proof, the events, bounded data, what to do next.

Here: the one shape of all answers, its closed codes, and how a long answer is cut to a budget.
Structured content and text hold the same facts. Not here: what a command's outcome means as an
answer (``agentops.server.outcomes``).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from journal.events import JsonObject, Verdict

Code = Literal[
    "BAD_ARGS",
    "BUSY",
    "DENIED",
    "NEEDS_APPROVAL",
    "APPROVAL_STALE",
    "NOT_SENT",
    "LAYER_DOWN",
    "HOST_KEY_CHANGED",
    "HOST_KEY_UNKNOWN",
    "AUTH",
    "TIMEOUT_STOPPED",
    "TIMEOUT_STILL_RUNNING",
    "UNKNOWN",
    "IDENTITY_CHANGED",
    "UNKILLABLE",
    "FAILED",
    "HANDED_OVER",
    "NOT_FOUND",
    "JOURNAL",
]
Changed = Literal["yes", "no", "unknown"]
CutBy = Literal["slice", "remote", "connection"]
# One token is about four characters of JSON: the rule by which budgets are counted here.
CHARS_PER_TOKEN = 4
BRIEF_TOKENS = 1_500
FULL_TOKENS = 6_000
_HEAD_CHARS = 2_048
_TAIL_CHARS = 4_096
_WORDS_CHARS = 600
_TEXT_KEPT_CHARS = 60
_ROWS_KEPT = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Proof(_Part):
    """How it is known that a command ran; marker says that its end marker arrived.

    ran is None where nobody knows. signal is the name behind an exit status above 128. layers is
    the route, outermost first.
    """

    ran: bool | None
    exit_status: int | None = None
    signal: str | None = None
    marker: bool = False
    layers: tuple[str, ...] = ()


class Output(_Part):
    """A bounded view of what a command wrote; handle names the whole in the journal."""

    head: str
    tail: str
    bytes: int
    truncated: bool
    handle: str


class Deadline(_Part):
    """How long was asked for, how long was granted, and who ended it, if anybody did."""

    asked_ms: int | None
    applied_ms: int
    cut_by: CutBy | None = None


class ToolCall(_Part):
    """A call that can be made as it stands here."""

    tool: str
    arguments: JsonObject


class Fault(_Part):
    """Why not. may_have_run decides whether it may be tried again; reconcile tells how to learn."""

    code: Code
    detail: str
    rule: str | None = None
    layer: str | None = None
    approval: str | None = None
    may_have_run: bool = False
    reconcile: ToolCall | None = None


class Answer(_Part):
    """One tool's answer. untrusted names the fields that hold text of a host: data, never orders.

    cut says which parts were shortened, and how long they were.
    """

    ok: bool
    verdict: Verdict | None = None
    summary: str
    changed: Changed = "no"
    incident: str | None = None
    event_ids: tuple[str, ...] = ()
    proof: Proof | None = None
    data: JsonObject = {}
    output: Output | None = None
    deadline: Deadline | None = None
    error: Fault | None = None
    untrusted: tuple[str, ...] = ()
    cut: dict[str, int] = {}
    next: tuple[str, ...] = ()

    def structured(self) -> JsonObject:
        """The answer as JSON, without what is empty."""
        whole: JsonObject = self.model_dump(mode="json", exclude_none=True)
        return {key: value for key, value in whole.items() if value not in ([], {}, "")}

    def text(self) -> str:
        """The same facts for clients that hand on text: one line for a reader, then the JSON."""
        word = self.error.code if self.error is not None else (self.verdict or "ok")
        return f"{word}: {self.summary}\n{compact(self.structured())}"

    def fitted(self, tokens: int) -> "Answer":
        """The answer within a budget: the longest list or text is cut first, and cut says so."""
        body: JsonObject = json.loads(json.dumps(self.data))
        cut: dict[str, int] = dict(self.cut)
        fits = self.model_copy(update={"data": body, "cut": cut, **self._bounded()})
        while len(fits.text()) > tokens * CHARS_PER_TOKEN:
            longest = max(_cuttable(body, "data"), key=lambda part: part.room, default=None)
            if longest is None:
                break
            cut[longest.path] = max(cut.get(longest.path, 0), len(longest.whole))
            longest.halve()
        return fits

    def _bounded(self) -> dict[str, object]:
        """Words that stand outside data, cut to what a person would read."""
        bounded: dict[str, object] = {"summary": self.summary[:_WORDS_CHARS]}
        if self.error is not None:
            words = {"detail": self.error.detail[:_WORDS_CHARS]}
            bounded["error"] = self.error.model_copy(update=words)
        return bounded


def compact(value: JsonValue) -> str:
    """JSON without spaces, as it is counted and sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shown(text: str) -> str:
    r"""Text of a host with everything that could move a cursor escaped.

    >>> shown("ok\x1b[2K")
    'ok\\x1b[2K'
    """
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def output_of(data: bytes, *, length: int, truncated: bool, handle: str, full: bool) -> Output:
    """A view of *data* within bounds: head and tail, shorter unless *full*."""
    text = shown(data.decode("utf-8", "backslashreplace"))
    head, tail = (_HEAD_CHARS, _TAIL_CHARS) if full else (_HEAD_CHARS // 4, _TAIL_CHARS // 4)
    if len(text) <= head + tail:
        return Output(head=text, tail="", bytes=length, truncated=truncated, handle=handle)
    return Output(head=text[:head], tail=text[-tail:], bytes=length, truncated=True, handle=handle)


@dataclass(frozen=True, slots=True)
class _Cuttable:
    """A list or text within an answer's data that is long enough to be cut. room is in characters.

    Rows of one list share their path, without an index.
    """

    holder: dict[str, JsonValue] | list[JsonValue]
    key: str | int
    path: str
    whole: list[JsonValue] | str
    room: int

    def halve(self) -> None:
        """Keep the first half, in place."""
        least = _ROWS_KEPT if isinstance(self.whole, list) else _TEXT_KEPT_CHARS
        self.holder[self.key] = self.whole[: max(least, len(self.whole) // 2)]  # type: ignore[index] # a key of its holder


def _cuttable(value: dict[str, JsonValue] | list[JsonValue], path: str) -> Iterator[_Cuttable]:
    places: Iterable[tuple[str | int, JsonValue, str]] = (
        ((number, item, f"{path}[]") for number, item in enumerate(value))
        if isinstance(value, list)
        else ((key, item, f"{path}.{key}") for key, item in value.items())
    )
    for key, item, here in list(places):
        least = _ROWS_KEPT if isinstance(item, list) else _TEXT_KEPT_CHARS
        if isinstance(item, list | str) and len(item) > least:
            yield _Cuttable(value, key, here, item, len(compact(item)))
        if isinstance(item, dict | list):
            yield from _cuttable(item, here)
