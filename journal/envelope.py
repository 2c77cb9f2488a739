"""The envelope around every event: who, when, where, after which, and with which outputs.

Here: the types that callers hand in and get back, and the one mapping between an event and its
canonical line. Not here: which payloads exist (``journal.events``), how lines are stored
(``journal.segments``), whether a chain holds (``journal.verification``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from journal.errors import LineProfileError
from journal.events import JsonObject, Payload
from journal.kinds import KIND_OF, PAYLOADS
from journal.lines import canonical, encoded, leaf_hash, loads, quoted, utf8
from journal.upcasting import current_schema, upcast

if TYPE_CHECKING:
    from journal.capture import Capture

VERSION = 1
_REMEMBERED_LINES = 512
_REMEMBERED_BYTES = 16 << 10
_TS_MARK = b'"ts_us":'
_LAST = b',"v":1}'
_TS_BYTES = 48  # the two last fields of a line, with room
ActorKind = Literal["human", "agent", "engine", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: a person, an agent (with its model), the engine, or the system itself.

    id names one person or agent, never a shared account; on_behalf_of names the person for whom
    an agent or the engine acts.
    """

    kind: ActorKind
    id: str
    model: str | None = None
    on_behalf_of: str | None = None


@dataclass(frozen=True, slots=True)
class HostRef:
    """The machine or container acted on: its name here, and the fingerprint of its host key."""

    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class OutputRef:
    """What a line says about one attachment; the bytes are in the blob pack.

    commitment is HMAC-SHA256 in hex, keyed with the salt beside the blob, over the stored bytes.
    length_bytes counts what the command wrote, stored_bytes what was kept: they differ when
    truncated or redacted. file, offset and size_bytes say where the blob lies.
    """

    commitment: str
    length_bytes: int
    stored_bytes: int
    truncated: bool
    file: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What a caller hands to ``append``.

    idem is unique for ever over all streams; for an intent it is its command_id by default.
    cause is the id of the event that led to this one. attachments go to the blob pack.
    """

    payload: Payload
    incident: str | None = None
    host: HostRef | None = None
    cause: str | None = None
    idem: str | None = None
    actor: Actor | None = None
    attachments: "Mapping[str, bytes | Capture]" = field(default_factory=dict)


class Event(NamedTuple):
    """One stored event. ``line`` is the evidence; every other field is read from it.

    ts_us is the wall clock of the writer (UTC), mono_ns its monotonic clock within ``boot``.
    prev is the leaf hash (hex) of the event before in this stream, leaf this event's own.
    """

    id: str
    stream: str
    seq: int
    prev: str
    leaf: str
    ts_us: int
    mono_ns: int
    boot: str
    incident: str | None
    host: HostRef | None
    actor: Actor
    cause: str | None
    idem: str | None
    kind: str
    schema: int
    payload: Payload
    out: dict[str, OutputRef]
    redacted: dict[str, int]
    line: bytes

    @property
    def place(self) -> str:
        """Stream and seq, as people write it: ``s1-7f3a9c2e:42``."""
        return f"{self.stream}:{self.seq}"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _ActorField(_Strict):
    kind: ActorKind
    id: str
    model: str | None = None
    on_behalf_of: str | None = None


class _HostField(_Strict):
    name: str
    fingerprint: str


class _OutField(_Strict):
    c: str
    len: int
    stored: int
    trunc: bool
    file: str
    at: int
    size: int


_OUTPUTS = TypeAdapter(dict[str, _OutField])


class Envelope(_Strict):
    """The line's fields, as stored; absent means None, never null."""

    v: Literal[1]
    stream: str
    seq: int
    prev: str
    id: str
    ts_us: int
    mono_us: int
    boot: str
    kind: str
    schema_number: int = Field(alias="schema")  # BaseModel has a method named schema
    actor: _ActorField
    host: _HostField | None = None
    incident: str | None = None
    cause: str | None = None
    idem: str | None = None
    out: dict[str, _OutField] = Field(default_factory=dict)
    redact: dict[str, int] = Field(default_factory=dict)
    data: dict[str, JsonValue]


class Draft(NamedTuple):
    """A new event made ready for its line: everything but its place in the chain.

    data is the payload's canonical JSON without its kind.
    """

    id: str
    ts_us: int
    mono_us: int
    boot: str
    incident: str | None
    host: HostRef | None
    actor: Actor
    cause: str | None
    idem: str | None
    payload: Payload
    data: str
    out: dict[str, OutputRef]
    redacted: dict[str, int]


def chained(draft: Draft, *, stream: str, seq: int, prev: str) -> Event:
    """Give a draft its place: the canonical line and the event that reads back from it."""
    kind = KIND_OF[type(draft.payload)]
    schema = current_schema(kind)
    line = _line(draft, kind, schema, stream, seq, prev)
    return Event(
        id=draft.id,
        stream=stream,
        seq=seq,
        prev=prev,
        leaf=leaf_hash(line).hex(),
        ts_us=draft.ts_us,
        mono_ns=draft.mono_us * 1_000,
        boot=draft.boot,
        incident=draft.incident,
        host=draft.host,
        actor=draft.actor,
        cause=draft.cause,
        idem=draft.idem,
        kind=kind,
        schema=schema,
        payload=draft.payload,
        out=draft.out,
        redacted=draft.redacted,
        line=line,
    )


def _line(draft: Draft, kind: str, schema: int, stream: str, seq: int, prev: str) -> bytes:
    """The canonical form of the whole event around its data, which is canonical already.

    Written out field by field, in order: encoding the data a second time would double the cost of
    an append. That this is the canonical form is what ``read_line``'s readers check on every line.
    """
    # The mono clock is kept in microseconds: nanoseconds pass 2**53 after 104 days of uptime.
    return utf8(
        f'{{"actor":{_actor_text(draft.actor)},"boot":{quoted(draft.boot)}'
        f'{_given("cause", draft.cause)},"data":{draft.data}{_host_text(draft.host)}'
        f',"id":"{draft.id}"{_given("idem", draft.idem)}{_given("incident", draft.incident)}'
        f',"kind":"{kind}","mono_us":{draft.mono_us}'
        f'{_out_text(draft.out) if draft.out else ""},"prev":"{prev}"'
        f'{_redact_text(draft.redacted) if draft.redacted else ""},"schema":{schema},"seq":{seq}'
        f',"stream":"{stream}","ts_us":{draft.ts_us},"v":{VERSION}}}'
    )


def read_line(line: bytes) -> Event:
    """The event that a line holds, its payload brought up to the present schema.

    The last lines that were read are remembered: a loop that is started anew reads them again.

    Raises:
        LineProfileError: The line is not an event, or of a newer version than this software.
    """
    return _remembered(line) if len(line) <= _REMEMBERED_BYTES else read_parsed(line, parsed=False)


@lru_cache(maxsize=_REMEMBERED_LINES)
def _remembered(line: bytes) -> Event:
    return read_parsed(line, parsed=False)


def read_parsed(line: bytes, *, parsed: bool = True) -> Event:
    """The event that a line holds which ``journal.lines.parse`` took, so that it is in the profile.

    Raises:
        LineProfileError: The line is not an event, or of a newer version than this software.
    """
    try:
        fields = Envelope.model_validate_json(line)
        payload = _payload(fields, parsed=parsed)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in [".".join(map(str, first["loc"]))] if part)
        raise LineProfileError(f"not an event: {place}{first['msg']}") from error
    host, actor = fields.host, fields.actor
    return Event(
        id=fields.id,
        stream=fields.stream,
        seq=fields.seq,
        prev=fields.prev,
        leaf=leaf_hash(line).hex(),
        ts_us=fields.ts_us,
        mono_ns=fields.mono_us * 1_000,
        boot=fields.boot,
        incident=fields.incident,
        host=None if host is None else HostRef(host.name, host.fingerprint),
        actor=Actor(actor.kind, actor.id, actor.model, actor.on_behalf_of),
        cause=fields.cause,
        idem=fields.idem,
        kind=fields.kind,
        schema=fields.schema_number,
        payload=payload,
        out={name: _out_ref(given) for name, given in fields.out.items()},
        redacted=fields.redact,
        line=line,
    )


def time_of(line: bytes) -> int | None:
    """The wall clock of a line, which stands at its end; None if it is no event.

    >>> time_of(b'{"data":{"ts_us":1},"ts_us":77,"v":1}')
    77
    """
    try:
        return int(line[line.rindex(_TS_MARK, -_TS_BYTES) + len(_TS_MARK) : -len(_LAST)])
    except ValueError:
        return None


def outputs_of(line: bytes) -> dict[str, OutputRef]:
    """What a line says of its outputs, the rest of it unread.

    Raises:
        LineProfileError: It is not JSON, or says it in another form.
    """
    try:
        return {
            name: _out_ref(given)
            for name, given in _OUTPUTS.validate_python(loads(line).get("out", {})).items()
        }
    except ValidationError as error:
        raise LineProfileError(f"not an event: out: {error.errors()[0]['msg']}") from error


def _payload(fields: Envelope, *, parsed: bool) -> Payload:
    model = PAYLOADS.get(fields.kind)
    if model is None:
        raise LineProfileError(f"unknown kind {fields.kind!r}: written by newer software?")
    data = upcast(fields.kind, fields.schema_number, fields.data)
    # canonical refuses floats, which pydantic lets pass inside JSON values
    return model.model_validate_json(encoded(data) if parsed else canonical(data))


@lru_cache
def _actor_text(actor: Actor) -> str:
    value = {"id": actor.id, "kind": actor.kind, "model": actor.model,
             "on_behalf_of": actor.on_behalf_of}  # fmt: skip
    return encoded({name: said for name, said in value.items() if said is not None}).decode()


@lru_cache
def _host_text(host: HostRef | None) -> str:
    if host is None:
        return ""
    value = encoded({"fingerprint": host.fingerprint, "name": host.name}).decode()
    return f',"host":{value}'


def _given(name: str, text: str | None) -> str:
    return "" if text is None else f',"{name}":{quoted(text)}'


def _out_text(out: Mapping[str, OutputRef]) -> str:
    value: JsonObject = {
        name: {
            "c": ref.commitment,
            "len": ref.length_bytes,
            "stored": ref.stored_bytes,
            "trunc": ref.truncated,
            "file": ref.file,
            "at": ref.offset,
            "size": ref.size_bytes,
        }
        for name, ref in out.items()
    }
    return f',"out":{encoded(value).decode()}'


def _redact_text(struck: Mapping[str, int]) -> str:
    return f',"redact":{encoded(dict(struck)).decode()}'


def _out_ref(given: _OutField) -> OutputRef:
    return OutputRef(
        commitment=given.c,
        length_bytes=given.len,
        stored_bytes=given.stored,
        truncated=given.trunc,
        file=given.file,
        offset=given.at,
        size_bytes=given.size,
    )
