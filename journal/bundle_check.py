"""Checking a bundle with the journal's own parts: the third implementation beside the shipped two.

Reads a folder that anybody may have made; every fault is a finding with its place, none a crash.
Not here: the whole journal (``journal.verification``).
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from journal.blobs import SALT_BYTES
from journal.envelope import Event, read_line
from journal.errors import LineProfileError, NotAJournal
from journal.events import Redacted
from journal.lines import loads, parse
from journal.merkle import root_from_inclusion
from journal.notes import Checkpoint, PublicKey, open_note
from journal.seals import read_notes, split_origin

_COMMITMENT = re.compile(r"[0-9a-f]{64}")


class _Bad(Exception):  # noqa: N818 - carries the finding to the one place that returns it
    pass


@dataclass(frozen=True, slots=True)
class BundleVerification:
    """The answer; finding is ``CODE at stream:seq`` and more, set if and only if tampered."""

    status: Literal["intact", "unanchored", "tampered"]
    events: int
    finding: str | None


def is_bundle(path: Path) -> bool:
    """Whether the folder looks like a bundle."""
    return (path / "bundle.json").is_file()


def verify_bundle(path: Path, *, key: str, anchors: Sequence[Path] = ()) -> BundleVerification:
    """Check a bundle against a pinned key line and anchors from outside.

    Raises:
        NotAJournal: The folder is no bundle.
        KeyUnusable: The key line cannot be read.
    """
    if not is_bundle(path):
        raise NotAJournal(f"{path} is not a bundle: it has no bundle.json")
    trusted = PublicKey.parse(key)
    try:
        journal_id = _journal_id(path)
        heads = _heads(path, journal_id, trusted)
        events = _events(path, heads)
        _check_outputs(path, events)
        anchored = _anchored(heads, journal_id, trusted, anchors)
    except _Bad as fault:
        return BundleVerification("tampered", 0, str(fault))
    except (OSError, LineProfileError, KeyError, TypeError, ValueError) as error:
        return BundleVerification("tampered", 0, f"MALFORMED {type(error).__name__}: {error}")
    return BundleVerification("intact" if anchored else "unanchored", len(events), None)


def bundled_journal(path: Path) -> str:
    """The id of the journal that the bundle says it comes from; nothing is believed yet.

    Raises:
        NotAJournal: ``bundle.json`` cannot be read.
    """
    try:
        return _journal_id(path)
    except (_Bad, OSError, LineProfileError, TypeError, ValueError) as error:
        raise NotAJournal(f"{path} is not a bundle that can be read: {error}") from error


def _journal_id(path: Path) -> str:
    value = loads((path / "bundle.json").read_bytes())
    journal_id = value.get("journal")
    if value.get("format") != 1 or not isinstance(journal_id, str):
        raise _Bad("MALFORMED bundle.json")
    return journal_id


def _heads(path: Path, journal_id: str, trusted: PublicKey) -> dict[str, Checkpoint]:
    heads: dict[str, Checkpoint] = {}
    for stored in read_notes(path / "seals.jsonl"):
        checkpoint = open_note(stored.note, trusted)
        if isinstance(checkpoint, str):
            raise _Bad(f"BAD_SIGNATURE {checkpoint}")
        origin = split_origin(checkpoint.origin)
        if origin is None or origin[0] != journal_id or origin[1] is None:
            raise _Bad(f"FOREIGN seal of {checkpoint.origin[:80]}")
        heads[origin[1]] = checkpoint
    return heads


def _events(path: Path, heads: Mapping[str, Checkpoint]) -> list[Event]:
    lines = (path / "events.jsonl").read_bytes().split(b"\n")[:-1]
    proofs = (path / "proofs.jsonl").read_bytes().split(b"\n")[:-1]
    if not lines or len(lines) != len(proofs):
        raise _Bad(f"TRUNCATED {len(lines)} events, {len(proofs)} proofs")
    seen: dict[tuple[str, int], Event] = {}
    for line, proof in zip(lines, proofs, strict=True):
        event = _event(line)
        at = f"at {event.place}"
        if loads(proof).get("seq") != event.seq or (event.stream, event.seq) in seen:
            raise _Bad(f"SEQ_WRONG {at}")
        head = heads.get(event.stream)
        if head is None:
            raise _Bad(f"UNSEALED {at}")
        leaf = bytes.fromhex(event.leaf)
        root = root_from_inclusion(leaf, event.seq, head.size, _path(proof))
        if root != head.root:
            raise _Bad(f"ROOT_MISMATCH {at}")
        before = seen.get((event.stream, event.seq - 1))
        if before is not None and before.leaf != event.prev:
            raise _Bad(f"LINE_CHANGED {at}")
        seen[event.stream, event.seq] = event
    return list(seen.values())


def _event(line: bytes) -> Event:
    try:
        parse(line)
        return read_line(line)
    except LineProfileError as error:
        place = ""
        try:
            value = loads(line)
            place = f"at {value.get('stream')}:{value.get('seq')} "
        except LineProfileError:
            place = ""
        raise _Bad(f"LINE_MALFORMED {place}{error}") from error


def _path(proof: bytes) -> list[bytes]:
    path = loads(proof).get("path")
    if not isinstance(path, list):
        raise _Bad("MALFORMED proof")
    return [bytes.fromhex(str(one)) for one in path]


def _check_outputs(path: Path, events: Sequence[Event]) -> None:
    said = [event.payload for event in events]
    gone = {(one.event, one.attachment) for one in said if isinstance(one, Redacted)}
    for event in events:
        for name, reference in event.out.items():
            place = f"at {event.place} {name}"
            if not _COMMITMENT.fullmatch(reference.commitment):
                raise _Bad(f"LINE_MALFORMED {place}")
            blob = path / "blobs" / reference.commitment
            if not blob.exists():
                if (event.id, name) not in gone:
                    raise _Bad(f"BLOB_MISSING {place}")
                continue
            data = blob.read_bytes()
            digest = hmac.digest(data[:SALT_BYTES], data[SALT_BYTES:], "sha256").hex()
            if digest != reference.commitment:
                raise _Bad(f"BLOB_CORRUPT {place}")


def _anchored(
    heads: Mapping[str, Checkpoint], journal_id: str, trusted: PublicKey, anchors: Sequence[Path]
) -> bool:
    kept: dict[tuple[str, int], bytes] = {}
    for place in anchors:
        for stored in read_notes(place):
            origin = split_origin(stored.note.partition("\n")[0])
            if origin is None or origin[0] != journal_id or origin[1] is None:
                continue
            checkpoint = open_note(stored.note, trusted)
            if isinstance(checkpoint, str):
                raise _Bad(f"BAD_SIGNATURE {checkpoint}")
            kept[origin[1], checkpoint.size] = checkpoint.root
    for stream, head in heads.items():
        if kept.get((stream, head.size), head.root) != head.root:
            raise _Bad("FORK against the anchor")
    return all((stream, head.size) in kept for stream, head in heads.items())
