"""Bundles: the evidence for one incident in one folder, to be checked without agentops.

Here: choosing the events, writing lines, proofs, seals, outputs with their salts, and the
verifiers beside them. What is redacted is not in it. Not here: checking (``journal.bundle_check``,
and the two programs in ``journal/bundle_files``), the journal's own record of the export (the
caller's ``record_reading``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path

from journal.blobs import HEADER_BYTES, BlobFault, open_record, read_record
from journal.disk import FILE_MODE, make_folder
from journal.envelope import Event
from journal.errors import Corrupt, EventNotFound, JournalExists
from journal.events import JsonObject, Redacted
from journal.lines import canonical
from journal.proving import SealedStream, sealed_stream
from journal.reader import Reader
from journal.seals import read_notes, stream_origin

BUNDLE_FORMAT = 2
VERIFIERS = ("verify_bundle.py", "verify_bundle.mjs")
# Without an incident of their own, but an incident cannot be read without them.
_COMMON = frozenset(
    {"session_started", "definition_recorded", "configuration_loaded", "key_rotated"}
)

_README = """\
# Evidence for incident {incident}

{events} events from journal `{journal}`, with the outputs of its commands.

Check it with one of (neither needs agentops):

    python3 verify_bundle.py KEY_LINE [ANCHOR_FILE [FOLDER]]   (Python 3.10, `cryptography`)
    node verify_bundle.mjs KEY_LINE [ANCHOR_FILE [FOLDER]]     (Node 18)

KEY_LINE is the public line of the key that sealed the journal. Get it from its owner, not from
here: a key found inside a bundle proves nothing. This bundle was sealed by key id `{key_id}`.
ANCHOR_FILE is a file of anchors kept outside the journal, also from its keeper, not from here.
A verifier found inside a bundle runs its sender's code: read it (it is short), or take it from an
agentops of your own, or run `agentops verify FOLDER`.

Exit status 0 and `INTACT`: each event stands under the first anchored seal that covers it, and so
was not changed since. 3 and `UNANCHORED`: sealed, but that was not shown of every event. 1: the
first fault, with its place. 2: it was called wrongly.

| file | content |
|---|---|
| events.jsonl | the events, one canonical line each, as hashed |
| proofs.jsonl | for each of them, by size of the tree, the path to a sealed root (RFC 6962) |
| seals.jsonl | the signed heads (C2SP checkpoints) |
| anchors.jsonl | copies of anchored heads, for information |
| blobs/ | outputs, named by the commitment in their event: 32 bytes of salt, then the bytes |

What it proves: these events are in the sealed journal, unchanged. What it does not prove: that no
other event of the incident was left out, that the remote host told the truth, or anything against
the holder of the key after the last anchor.
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was written."""

    path: Path
    events: int
    outputs: int
    redacted: int


def export_bundle(
    reader: Reader, incident: str, target: Path, *, key_id: str, anchors: Sequence[Path] = ()
) -> Bundle:
    """Write the bundle of one incident into a new folder.

    Raises:
        JournalExists: The folder exists.
        EventNotFound: No such incident, or an event of it is not sealed yet.
        Corrupt: An output is missing or altered.
    """
    if target.exists():
        raise JournalExists(f"{target} exists; choose another folder for the bundle")
    events = _chosen(reader, incident)
    copies = [list(read_notes(place)) for place in anchors]
    sealed: dict[str, SealedStream] = {}
    for stream in sorted({event.stream for event in events}):
        sealed[stream] = sealed_stream(reader, stream, copies)
    proofs = [sealed[event.stream].prove(event.seq) for event in events]
    make_folder(target / "blobs")
    outputs = redacted = 0
    for event in events:
        for name in event.out:
            written = _write_output(reader, event, name, target / "blobs")
            outputs, redacted = outputs + written, redacted + (not written)
    _put(target / "events.jsonl", b"".join(event.line + b"\n" for event in events))
    _put(target / "proofs.jsonl", b"".join(canonical(one) + b"\n" for one in proofs))
    used = [note for one in sealed.values() for note in one.used()]
    _put(target / "seals.jsonl", b"".join(canonical({"note": note}) + b"\n" for note in used))
    origins = {stream_origin(reader.journal_id, stream) for stream in sealed}
    stored = chain.from_iterable(copies)
    kept = [one.note for one in stored if one.note.partition("\n")[0] in origins]
    _put(target / "anchors.jsonl", b"".join(canonical({"note": note}) + b"\n" for note in kept))
    about: JsonObject = {
        "format": BUNDLE_FORMAT,
        "incident": incident,
        "journal": reader.journal_id,
        "key_id": key_id,
    }
    _put(target / "bundle.json", canonical(about) + b"\n")
    readme = _README.format(
        incident=incident, events=len(events), journal=reader.journal_id, key_id=key_id
    )
    _put(target / "README.md", readme.encode())
    for name in VERIFIERS:
        _put(target / name, resources.files("journal.bundle_files").joinpath(name).read_bytes())
    return Bundle(target, len(events), outputs, redacted)


def _chosen(reader: Reader, incident: str) -> list[Event]:
    everything = list(reader.events())
    inside = {event.id for event in everything if event.incident == incident}
    if not inside:
        raise EventNotFound(f"no event belongs to incident {incident!r}")

    def belongs(event: Event) -> bool:
        said = event.payload
        if isinstance(said, Redacted):
            return said.event in inside
        return event.id in inside or event.kind in _COMMON

    chosen = [event for event in everything if belongs(event)]
    # Within a stream by seq, so that a verifier can check neighbours' links as it reads.
    return sorted(chosen, key=lambda event: (event.stream, event.seq))


def _write_output(reader: Reader, event: Event, name: str, folder: Path) -> bool:
    """Salt and bytes of one output; False when it was destroyed on purpose."""
    reference = event.out[name]
    try:
        record = read_record(reader.layout.blobs(event.stream), reference)
        if not record.strip(b"\x00"):
            reader.attachment(event, name)  # raises unless an event says so
            return False
        kept = open_record(record, reference)
    except BlobFault as fault:
        raise Corrupt(
            f"attachment {name}: {fault}", stream=event.stream, seq=event.seq, where=reference.file
        ) from fault
    _put(folder / reference.commitment, record[8:HEADER_BYTES] + kept)
    return True


def _put(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(FILE_MODE)
