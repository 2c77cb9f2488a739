"""Inclusion proofs: that one event stands under a signed seal, without showing the others.

Here: finding the seal, building the paths. Not here: the tree (``journal.merkle``), checking a
proof away from the journal (the verifiers in ``journal/bundle_files``).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from journal.envelope import Event
from journal.errors import EventNotFound, SealContradicted
from journal.events import JsonObject
from journal.layout import Layout
from journal.lines import leaf_hash
from journal.merkle import Tree
from journal.notes import Checkpoint, parse_note, signature_ids
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


@dataclass(frozen=True, slots=True)
class SealedStream:
    """One stream under all the seals that one key signed over it.

    An event is proved under each seal that a verifier may ask for: the newest, and the first that
    covers it, among all and among those that each anchor keeps. Under the first one that left the
    machine, nobody can have changed it since, whoever holds the key.
    """

    tree: Tree
    notes: Mapping[int, str]
    sizes: tuple[tuple[int, ...], ...]
    _used: set[int] = field(default_factory=set)

    def prove(self, seq: int) -> JsonObject:
        """Tree size to audit path, hashes in hex.

        Raises:
            EventNotFound: The event is not sealed yet.
        """
        newest = max(self.notes)
        if seq >= newest:
            raise EventNotFound(
                f"event {seq} is not sealed yet (sealed: {newest} events); "
                "run: agentops journal seal"
            )
        firsts = (ones[bisect_right(ones, seq) :][:1] for ones in self.sizes)
        wanted = {newest, *chain.from_iterable(firsts)}
        self._used.update(wanted)
        return {
            str(size): [one.hex() for one in self.tree.inclusion_proof(seq, size)]
            for size in sorted(wanted)
        }

    def used(self) -> list[str]:
        """The notes of the sizes under which something was proved."""
        return [self.notes[size] for size in sorted(self._used)]


def sealed_stream(
    reader: Reader, stream: str, anchors: Sequence[Sequence[StoredNote]]
) -> SealedStream:
    """A stream under its seals, of which *anchors* keep copies.

    Raises:
        EventNotFound: The stream has no seal.
        SealContradicted: A seal is over other events.
    """
    newest = sealed_tree(reader.layout, reader.journal_id, stream)
    origin = stream_origin(reader.journal_id, stream)
    signer = signature_ids(newest.note)
    notes: dict[int, str] = {}
    for stored in read_notes(reader.layout.seals):
        checkpoint = parse_note(stored.note)
        if isinstance(checkpoint, str) or checkpoint.origin != origin or not checkpoint.size:
            continue
        if not signer & signature_ids(stored.note) or checkpoint.size > newest.tree.size:
            continue
        if newest.tree.root_over(0, checkpoint.size) != checkpoint.root:
            raise SealContradicted(
                f"the log no longer fits the seal over {checkpoint.size} events",
                stream=stream, seq=checkpoint.size - 1,
                where=f"{reader.layout.seals.name} line {stored.number}",
            )  # fmt: skip
        notes[checkpoint.size] = stored.note
    copied = [
        {one.size for one in map(parse_note, (stored.note for stored in anchor))
         if not isinstance(one, str) and one.origin == origin}
        for anchor in anchors
    ]  # fmt: skip
    sizes = [set(notes), *(set(notes) & ones for ones in copied)]
    return SealedStream(newest.tree, notes, tuple(tuple(sorted(ones)) for ones in sizes))
