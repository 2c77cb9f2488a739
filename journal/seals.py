"""Seals: signed heads of streams in ``seals.jsonl``, and the super-seal over all of them.

A seal is a C2SP checkpoint (``journal.notes``) whose origin names journal and stream, so that it
fits no other log. A super-seal signs a tree whose leaves are the heads of all streams, so that a
whole deleted stream is missed. The file is shared by all writers and only grows. Not here: keys
(``journal.keys``), copies elsewhere (``journal.anchors``), judging (``journal.verification``).
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from journal.disk import Disk
from journal.errors import LineProfileError, WriteFailed
from journal.events import JsonObject
from journal.lines import canonical, leaf_hash, loads
from journal.locks import locked
from journal.merkle import root_of
from journal.notes import Checkpoint, PublicKey, SigningKey, open_note, parse_note, sign
from journal.segment_walk import open_regular

ORIGIN_PREFIX = "agentops-journal"


@dataclass(frozen=True, slots=True)
class Head:
    """Latest size and root (hex) of one stream."""

    stream: str
    size: int
    root: str

    @property
    def value(self) -> JsonObject:
        """The head as JSON; its canonical bytes are a leaf of the super-seal's tree."""
        return {"root": self.root, "size": self.size, "stream": self.stream}


@dataclass(frozen=True, slots=True)
class StoredNote:
    """One line of ``seals.jsonl`` or of an anchor file: the note, and the heads of a super-seal."""

    number: int
    note: str
    heads: tuple[Head, ...]
    fault: str = ""


def stream_origin(journal_id: str, stream: str) -> str:
    """What a stream's seals call themselves."""
    return f"{ORIGIN_PREFIX}/{journal_id}/{stream}"


def journal_origin(journal_id: str) -> str:
    """What a super-seal calls itself."""
    return f"{ORIGIN_PREFIX}/{journal_id}"


def split_origin(origin: str) -> tuple[str, str | None] | None:
    """Journal id and stream (None for a super-seal) of an origin; None if it is no origin of ours.

    >>> split_origin("agentops-journal/J1/s1-7f3a9c2e")
    ('J1', 's1-7f3a9c2e')
    """
    parts = origin.split("/")
    if parts[0] != ORIGIN_PREFIX or len(parts) not in {2, 3}:
        return None
    return parts[1], parts[2] if len(parts) == 3 else None  # noqa: PLR2004 - prefix, journal, stream


def seal_note(journal_id: str, head: Head, ts_us: int, *keys: SigningKey) -> str:
    """A signed head of one stream."""
    origin = stream_origin(journal_id, head.stream)
    checkpoint = Checkpoint(origin, head.size, bytes.fromhex(head.root), (f"ts_us {ts_us}",))
    return sign(checkpoint, *keys)


def super_seal_note(journal_id: str, heads: Sequence[Head], ts_us: int, *keys: SigningKey) -> str:
    """A signed tree over the heads of all streams, in their order."""
    root = heads_root(heads)
    checkpoint = Checkpoint(journal_origin(journal_id), len(heads), root, (f"ts_us {ts_us}",))
    return sign(checkpoint, *keys)


def heads_root(heads: Sequence[Head]) -> bytes:
    """The root of the super-seal's tree."""
    return root_of([leaf_hash(canonical(head.value)) for head in heads])


def append_note(path: Path, disk: Disk, note: str, heads: Sequence[Head] = ()) -> None:
    """Append one note durably; several processes may do so at once.

    Raises:
        WriteFailed: The disk refused.
    """
    value: JsonObject = {"note": note}
    if heads:
        value["heads"] = [head.value for head in heads]
    append_object(path, disk, value)


def append_object(path: Path, disk: Disk, value: JsonObject) -> None:
    """Append one canonical JSON line durably, after cutting off a torn one before it.

    A line without its end was never acknowledged; closed off instead, it would stand for ever as
    one that is no note, and no verification could tell a crash from a forgery.

    Raises:
        WriteFailed: The disk refused.
    """
    try:
        with locked(path):
            descriptor = open_regular(str(path), os.O_RDWR | os.O_APPEND)
            try:
                _cut_torn_end(descriptor)
                rest = memoryview(canonical(value) + b"\n")
                while rest:
                    rest = rest[disk.write(descriptor, bytes(rest)) :]
                disk.sync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise WriteFailed(f"cannot append to {path}: {error.strerror}") from error


def _cut_torn_end(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    end = os.pread(descriptor, size, 0).rfind(b"\n") + 1
    os.ftruncate(descriptor, end)


def read_notes(path: Path) -> Iterator[StoredNote]:
    """The notes of a file, oldest first; a torn last line is not yet a note.

    Raises:
        OSError: The file cannot be read (an absent one is empty).
    """
    if path.exists():
        with open(path, "rb", opener=open_regular) as file:
            yield from parse_notes(file.read())


def parse_notes(text: bytes) -> Iterator[StoredNote]:
    """The notes in a file's bytes, oldest first."""
    lines = text.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        yield _read_note(number, line)


def latest_heads(path: Path, journal_id: str, trusted: Sequence[PublicKey]) -> dict[str, Head]:
    """Per stream, the biggest head that a trusted key signed."""
    claimed: dict[str, list[tuple[int, int, str]]] = {}
    for stored in read_notes(path):
        checkpoint = parse_note(stored.note)
        if isinstance(checkpoint, str):
            continue
        origin = split_origin(checkpoint.origin)
        if origin is not None and origin[0] == journal_id and origin[1] is not None:
            claim = (checkpoint.size, stored.number, stored.note)
            claimed.setdefault(origin[1], []).append(claim)
    heads: dict[str, Head] = {}
    for stream, claims in claimed.items():
        # Signatures cost more than all the rest: the biggest claim is nearly always good.
        for _, _, note in sorted(claims, reverse=True):
            checkpoint = open_note(note, *trusted)
            if not isinstance(checkpoint, str):
                heads[stream] = Head(stream, checkpoint.size, checkpoint.root.hex())
                break
    return heads


def _read_note(number: int, line: bytes) -> StoredNote:
    try:
        value = loads(line)
        note = value["note"]
        heads = tuple(_read_head(head) for head in _listed(value.get("heads", [])))
    except (LineProfileError, KeyError, TypeError, ValueError) as error:
        return StoredNote(number, "", (), fault=f"line {number} is not a note: {error}")
    if not isinstance(note, str):
        return StoredNote(number, "", (), fault=f"line {number} is not a note")
    return StoredNote(number, note, heads)


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("heads is not a list")
    return value


def _read_head(value: object) -> Head:
    if not isinstance(value, dict) or set(value) != {"root", "size", "stream"}:
        raise ValueError("a head is not {root, size, stream}")
    if not (isinstance(value["size"], int) and isinstance(value["root"], str)):
        raise TypeError("a head's size or root has the wrong type")
    return Head(str(value["stream"]), value["size"], value["root"])
