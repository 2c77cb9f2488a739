"""What a tool answers: the verdict first, the proof, the events, bounded data, what to do next.

Here: the one shape of all answers, its closed codes, and how a long answer is cut to a budget.
Structured content and text hold the same facts. Not here: what a command's outcome means as an
answer (``agentops.server.outcomes``).
"""

import json
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
_CUT_TEXT_CHARS = 200
_ROWS_KEPT = 3


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
        data: JsonObject = json.loads(json.dumps(self.data))
        cut: dict[str, int] = dict(self.cut)
        fits = self.model_copy(update={"data": data, "cut": cut})
        while len(fits.text()) > tokens * CHARS_PER_TOKEN:
            longest = _longest(data, "data")
            if longest is None:
                break
            holder, key, path = longest
            whole = holder[key]
            assert isinstance(whole, list | str)  # noqa: S101 - what _longest gives
            cut.setdefault(path, len(whole))
            kept = _ROWS_KEPT if isinstance(whole, list) else _CUT_TEXT_CHARS
            holder[key] = whole[: max(kept, len(whole) // 2)]
        return fits


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


_Place = tuple[dict[str, JsonValue], str, str]


def _longest(value: dict[str, JsonValue], path: str) -> _Place | None:
    """The list or text below *value* that takes most room and can still be cut."""
    found: list[tuple[int, _Place]] = []
    _gather(value, path, found)
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _gather(value: dict[str, JsonValue], path: str, found: list[tuple[int, _Place]]) -> None:
    for key, item in value.items():
        here = f"{path}.{key}"
        if isinstance(item, dict):
            _gather(item, here, found)
        elif (isinstance(item, list) and len(item) > _ROWS_KEPT) or (
            isinstance(item, str) and len(item) > _CUT_TEXT_CHARS
        ):
            found.append((len(compact(item)), (value, key, here)))
        if isinstance(item, list):
            for number, row in enumerate(item):
                if isinstance(row, dict):
                    _gather(row, f"{here}[{number}]", found)
