"""Whether an anchor still holds what it took: one that forgot is how an attack on a log begins.

What each took stands in the log (``seal_anchored``) and in ``anchors.jsonl``. Neither proves that
somebody shortened the anchor, so a shortfall is a remark. Not here: what the notes that it holds
prove (``journal.note_check``).
"""

from collections.abc import Iterable, Mapping, Sequence

from journal.anchors import Anchor, AnchorFailed
from journal.errors import LineProfileError
from journal.findings import Remark
from journal.layout import Layout
from journal.lines import loads
from journal.note_check import NoteFile, sizes_claimed
from journal.seals import StoredNote
from journal.segment_walk import open_regular
from journal.stream_check import StreamCheck


def shortfalls(
    layout: Layout,
    journal_id: str,
    anchors: Sequence[Anchor],
    files: Iterable[NoteFile],
    checks: Mapping[str, StreamCheck],
) -> list[Remark]:
    """A remark on each anchor that lacks seals which it is said to have taken.

    files are the anchors as they were read before the log: one that seems short is read again, for
    a log that is being written has told of more since.
    """
    took = _took(layout)
    for stream, check in checks.items():
        for said in check.anchors_claimed:
            took.setdefault(said.sink, set()).add((stream, said.size))
    by_place = {anchor.place: anchor for anchor in anchors}
    remarks: list[Remark] = []
    for file in files:
        said_here = took.get(file.name, set())
        gone = said_here - _held(file.notes, journal_id)
        if gone:
            gone = said_here - _held(_again(by_place[file.name]), journal_id)
        if gone:
            stream, size = min(gone)
            text = (
                f"{file.name} took {len(said_here)} seals and lacks {len(gone)} of them, the first"
                f" over {size} events"
            )
            remarks.append(Remark("ANCHOR_SHORT", stream, None, text))
    return remarks


def _took(layout: Layout) -> dict[str, set[tuple[str, int]]]:
    """Place -> (stream, size) of the seals of streams that ``anchors.jsonl`` says it took."""
    took: dict[str, set[tuple[str, int]]] = {}
    try:
        with open(layout.anchors, "rb", opener=open_regular) as file:
            lines = file.read().split(b"\n")
    except OSError:
        return took
    for line in lines:
        try:
            value = loads(line)
        except LineProfileError:
            continue
        place, stream, size = value.get("anchor"), value.get("stream"), value.get("size")
        if value.get("taken") is not True or not (isinstance(place, str) and stream):
            continue
        if isinstance(stream, str) and isinstance(size, int):
            took.setdefault(place, set()).add((stream, size))
    return took


def _held(notes: Iterable[StoredNote], journal_id: str) -> set[tuple[str, int]]:
    sizes = sizes_claimed([NoteFile("anchor", "", tuple(notes))], journal_id)
    return {(stream, size) for stream, ones in sizes.items() for size in ones}


def _again(anchor: Anchor) -> Sequence[StoredNote]:
    try:
        return anchor.notes() or ()
    except AnchorFailed:
        return ()
