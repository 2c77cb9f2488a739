"""Inclusion proofs: that one event stands under a signed seal, without showing the others.

Here: finding the seal, building the paths. Not here: the tree (``journal.merkle``), checking a
proof away from the journal (the verifiers in ``journal/bundle_files``).
"""

from dataclasses import dataclass

from journal.envelope import Event
from journal.errors import EventNotFound
from journal.events import JsonObject
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.merkle import Tree
from journal.notes import parse_note
from journal.reader import Reader
from journal.seals import read_notes, stream_origin
from journal.segments import stream_lines


@dataclass(frozen=True, slots=True)
class Proof:
    """The audit path of one leaf in the tree whose head the note signs."""

    stream: str
    seq: int
    size: int
    path: tuple[str, ...]
    note: str

    @property
    def value(self) -> JsonObject:
        """The proof as JSON; hashes in hex, from the leaf upwards."""
        return {"path": list(self.path), "seq": self.seq, "size": self.size, "stream": self.stream}


@dataclass(frozen=True, slots=True)
class SealedTree:
    """One stream up to its latest seal."""

    stream: str
    note: str
    tree: Tree

    def prove(self, seq: int) -> Proof:
        """The proof for one event.

        Raises:
            EventNotFound: The event is not sealed yet.
        """
        if seq >= self.tree.size:
            raise EventNotFound(
                f"event {self.stream}:{seq} is not sealed yet (sealed: {self.tree.size} events); "
                "run: agentops journal seal"
            )
        path = tuple(one.hex() for one in self.tree.inclusion_proof(seq))
        return Proof(self.stream, seq, self.tree.size, path, self.note)


def sealed_tree(layout: Layout, journal_id: str, stream: str) -> SealedTree:
    """A stream's tree under its latest seal. Signatures are the verifier's business.

    Raises:
        EventNotFound: The stream has no seal.
    """
    origin = stream_origin(journal_id, stream)
    best: tuple[int, str] | None = None
    for stored in read_notes(layout.seals):
        checkpoint = parse_note(stored.note)
        if not isinstance(checkpoint, str) and checkpoint.origin == origin:
            best = max(best or (0, ""), (checkpoint.size, stored.note))
    if best is None:
        raise EventNotFound(f"stream {stream} has no seal; run: agentops journal seal")
    size, note = best
    leaves: list[bytes] = []
    for stored_line in stream_lines(layout, stream):
        if len(leaves) == size:
            break
        leaves.append(leaf_hash(stored_line.line))
    return SealedTree(stream, note, Tree(leaves))


def prove(reader: Reader, event: Event) -> Proof:
    """The proof for one event.

    Raises:
        EventNotFound: The event is not sealed yet.
    """
    return sealed_tree(reader.layout, reader.journal_id, event.stream).prove(event.seq)
