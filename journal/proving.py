"""Inclusion proofs: that one event stands under a signed seal, without showing the others.

Here: finding the seal, building the paths. Not here: the tree (``journal.merkle``), checking a
proof away from the journal (the verifiers in ``journal/bundle_files``).
"""

from dataclasses import dataclass
from itertools import islice

from journal.envelope import Event
from journal.errors import EventNotFound, SealContradicted
from journal.events import JsonObject
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.merkle import Tree
from journal.notes import Checkpoint, parse_note
from journal.reader import Reader
from journal.seals import StoredNote, read_notes, stream_origin
from journal.segments import stream_lines

_SEALED = b'"kind":"sealed"'

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
        SealContradicted: The seal is over other events, or the seals that the log tells of are not
            there: no proof would hold.
    """
    origin = stream_origin(journal_id, stream)
    best: tuple[Checkpoint, StoredNote] | None = None
    for stored in read_notes(layout.seals):
        checkpoint = parse_note(stored.note)
        if isinstance(checkpoint, str) or checkpoint.origin != origin:
            continue
        if best is None or checkpoint.size >= best[0].size:
            best = checkpoint, stored
    if best is None:
        if any(_SEALED in line.line for line in stream_lines(layout, stream)):
            raise SealContradicted(
                "the log tells of seals that are not there",
                stream=stream, seq=0, where=layout.seals.name,
            )  # fmt: skip
        raise EventNotFound(f"stream {stream} has no seal; run: agentops journal seal")
    signed, stored = best
    lines = islice(stream_lines(layout, stream), signed.size)
    tree = Tree([leaf_hash(line.line) for line in lines])
    if (tree.size, tree.root) != (signed.size, signed.root):
        raise SealContradicted(
            f"the log no longer fits the seal over {signed.size} events",
            stream=stream, seq=min(tree.size, signed.size - 1),
            where=f"{layout.seals.name} line {stored.number}",
        )  # fmt: skip
    return SealedTree(stream, stored.note, tree)


def prove(reader: Reader, event: Event) -> Proof:
    """The proof for one event.

    Raises:
        EventNotFound: The event is not sealed yet.
    """
    return sealed_tree(reader.layout, reader.journal_id, event.stream).prove(event.seq)
