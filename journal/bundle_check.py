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
from journal.bundle import BUNDLE_FORMAT
from journal.envelope import Event, read_line
from journal.errors import LineProfileError, NotAJournal
from journal.events import Redacted
from journal.lines import loads, parse
from journal.merkle import root_from_inclusion
from journal.notes import PublicKey, open_note, signature_ids
from journal.seals import parse_notes, read_notes, split_origin

_COMMITMENT = re.compile(r"[0-9a-f]{64}")


Status = Literal["intact", "unanchored", "tampered"]
_Roots = Mapping[tuple[str, int], bytes]
"""Stream and size of a tree -> its root."""


class _Bad(Exception):  # noqa: N818 - carries the finding to the one place that returns it
    pass


@dataclass(frozen=True, slots=True)
class BundleVerification:
    """The answer; finding is ``CODE at stream:seq`` and more, set if and only if tampered.

    incident is the one that every event belongs to, or None with a finding.
    """

    status: Status
    events: int
    finding: str | None
    incident: str | None = None


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
        about = _about(path)
        heads = _heads(path, about.journal, trusted)
        kept = _kept(heads, about.journal, trusted, anchors)
        events, anchored = _events(path, about.incident, heads, kept)
        _check_outputs(path, events)
    except _Bad as fault:
        return BundleVerification("tampered", 0, str(fault))
    except (OSError, LineProfileError, KeyError, TypeError, ValueError) as error:
        return BundleVerification("tampered", 0, f"MALFORMED {type(error).__name__}: {error}")
    word: Status = "intact" if anchored else "unanchored"
    return BundleVerification(word, len(events), None, about.incident)


def bundled_journal(path: Path) -> str:
    """The id of the journal that the bundle says it comes from; nothing is believed yet.

    Raises:
        NotAJournal: ``bundle.json`` cannot be read.
    """
    try:
        return _about(path).journal
    except (_Bad, OSError, LineProfileError, TypeError, ValueError) as error:
        raise NotAJournal(f"{path} is not a bundle that can be read: {error}") from error


@dataclass(frozen=True, slots=True)
class _About:
    journal: str
    incident: str


def _about(path: Path) -> _About:
    value = loads((path / "bundle.json").read_bytes())
    journal_id, incident = value.get("journal"), value.get("incident")
    if not (isinstance(journal_id, str) and isinstance(incident, str)):
        raise _Bad("MALFORMED bundle.json")
    if value.get("format") != BUNDLE_FORMAT:
        raise _Bad(f"FOREIGN bundle.json is of format {value.get('format')}, not {BUNDLE_FORMAT}")
    return _About(journal_id, incident)


def _lines(path: Path) -> list[bytes]:
    """The lines of a file that ends with a line end."""
    if not path.is_file():
        raise _Bad(f"MALFORMED {path.name} is no file")
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        raise _Bad(f"MALFORMED {path.name}: no line end at its end")
    return lines


def _heads(path: Path, journal_id: str, trusted: PublicKey) -> dict[tuple[str, int], bytes]:
    heads: dict[tuple[str, int], bytes] = {}
    for stored in parse_notes(b"".join(line + b"\n" for line in _lines(path / "seals.jsonl"))):
        checkpoint = open_note(stored.note, trusted)
        if isinstance(checkpoint, str):
            raise _Bad(f"BAD_SIGNATURE {checkpoint}")
        origin = split_origin(checkpoint.origin)
        if origin is None or origin[0] != journal_id or origin[1] is None:
            raise _Bad(f"FOREIGN seal of {checkpoint.origin[:80]}")
        heads[origin[1], checkpoint.size] = checkpoint.root
    return heads


def _kept(
    heads: _Roots, journal_id: str, trusted: PublicKey, anchors: Sequence[Path]
) -> dict[tuple[str, int], bytes]:
    """What the anchors hold of this journal under this key."""
    kept: dict[tuple[str, int], bytes] = {}
    for place in anchors:
        for stored in read_notes(place):
            if stored.fault:
                raise _Bad(f"BAD_SIGNATURE or malformed: {stored.fault} of the anchor")
            origin = split_origin(stored.note.partition("\n")[0])
            mine = f"{trusted.name}+{trusted.key_id.hex()}" in signature_ids(stored.note)
            if origin is None or origin[0] != journal_id or origin[1] is None or not mine:
                continue
            checkpoint = open_note(stored.note, trusted)
            if isinstance(checkpoint, str):
                raise _Bad(f"BAD_SIGNATURE {checkpoint}")
            place_there = origin[1], checkpoint.size
            roots = {kept.setdefault(place_there, checkpoint.root), checkpoint.root}
            if roots | {heads.get(place_there, checkpoint.root)} != {checkpoint.root}:
                raise _Bad("FORK of the anchor")
    return kept


def _events(path: Path, incident: str, heads: _Roots, kept: _Roots) -> tuple[list[Event], bool]:
    """The events, and whether each stands under the first anchored seal that covers it."""
    lines, proofs = _lines(path / "events.jsonl"), _lines(path / "proofs.jsonl")
    if not lines or len(lines) != len(proofs):
        raise _Bad(f"TRUNCATED {len(lines)} events, {len(proofs)} proofs")
    events: list[Event] = []
    before, anchored = ("", -1), True
    for line, proof in zip(lines, proofs, strict=True):
        event = _event(line)
        at = f"at {event.place}"
        if event.incident not in {None, incident}:
            raise _Bad(f"FOREIGN {at}")
        if (event.stream, event.seq) <= before:
            raise _Bad(f"SEQ_WRONG {at}")
        before = event.stream, event.seq
        paths = _paths(proof)
        leaf = bytes.fromhex(event.leaf)
        for size, path_up in paths.items():
            root = root_from_inclusion(leaf, event.seq, size, path_up)
            if root is None or root != heads.get((event.stream, size)):
                raise _Bad(f"ROOT_MISMATCH {at}")
        if not paths:
            raise _Bad(f"ROOT_MISMATCH {at}")
        covering = [size for stream, size in kept if stream == event.stream and size > event.seq]
        anchored = anchored and min(covering, default=0) in paths
        events.append(event)
    return events, anchored


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


def _paths(proof: bytes) -> dict[int, list[bytes]]:
    """Size of the tree -> hashes from the leaf upwards."""
    found: dict[int, list[bytes]] = {}
    for size, path in loads(proof).items():
        if not isinstance(path, list):
            raise _Bad("MALFORMED proof")
        found[int(size)] = [bytes.fromhex(str(one)) for one in path]
    return found


def _check_outputs(path: Path, events: Sequence[Event]) -> None:
    said = [event.payload for event in events]
    gone = {(one.event, one.attachment) for one in said if isinstance(one, Redacted)}
    for event in events:
        for name, reference in event.out.items():
            place = f"at {event.place} {name}"
            if not _COMMITMENT.fullmatch(reference.commitment):
                raise _Bad(f"LINE_MALFORMED {place}")
            blob = path / "blobs" / reference.commitment
            if not blob.is_file():
                if (event.id, name) not in gone:
                    raise _Bad(f"BLOB_MISSING {place}")
                continue
            data = blob.read_bytes()
            digest = hmac.digest(data[:SALT_BYTES], data[SALT_BYTES:], "sha256").hex()
            if digest != reference.commitment:
                raise _Bad(f"BLOB_CORRUPT {place}")
