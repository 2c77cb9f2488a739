"""What was signed of the streams, for an opener to compare with what it reads.

A session that went on from a rewritten or shortened log would sign it anew, beside the seals that
contradict it. So before its first word an opener compares the tree that it computes with every seal
by the journal's own keys, in ``seals.jsonl`` and in the anchors at hand (files and git; over SSH
each opening would wait). Notes are found by their text, and only one that contradicts the log has
its signature checked, so that an honest log costs a search and a few hashes. Not here: naming what
was changed (``journal.verification``).
"""

import base64
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from journal.anchors import AnchorFailed, FileAnchor, GitAnchor
from journal.errors import Corrupt, SealContradicted
from journal.lines import canonical
from journal.merkle import Frontier
from journal.notes import PublicKey, open_note
from journal.sealing import Sealable
from journal.seals import ORIGIN_PREFIX, parse_notes
from journal.segment_walk import open_regular


class Claim(NamedTuple):
    """What one note claims of a stream, its signature unchecked; root is in base64.

    The note begins at byte *at* of what was read of the file or anchor.
    """

    size: int
    root: bytes
    name: str
    text: bytes
    at: int

    @property
    def where(self) -> str:
        """The file or anchor, and the line in it."""
        number = self.text.count(b"\n", 0, self.at) + 1
        return f"{self.name} line {number}"

    @property
    def line(self) -> bytes:
        """The whole line that the note stands in, with its end; empty if it has none."""
        end = self.text.find(b"\n", self.at) + 1
        return self.text[self.text.rfind(b"\n", 0, self.at) + 1 : end]


@dataclass(frozen=True, slots=True)
class Signed:
    """The claims of all notes at hand, by stream.

    Without a trusted key every claim counts: who cannot check a signature writes nothing against
    what may be signed.
    """

    trusted: tuple[PublicKey, ...] = ()
    claims: Mapping[str, Sequence[Claim]] = field(default_factory=dict)

    @classmethod
    def read(cls, journal: Sealable) -> "Signed":
        """Search ``seals.jsonl`` and the anchors; one that cannot be read says nothing here.

        Raises:
            SealContradicted: A stream that was signed is not here.
        """
        seals = journal.layout.seals
        texts = {seals.name: _text(seals)}
        for anchor in journal.anchors:
            if isinstance(anchor, FileAnchor):
                texts[f"anchor {anchor.place}"] = _text(anchor.path)
            elif isinstance(anchor, GitAnchor):
                texts[f"anchor {anchor.place}"] = _committed(anchor)
        claims: dict[str, list[Claim]] = {}
        note = re.compile(
            rb'"note":"%s/%s/([a-z0-9-]+)\\n([0-9]{1,16})\\n([A-Za-z0-9+/]{43}=)\\n'
            % (ORIGIN_PREFIX.encode(), re.escape(journal.journal_id.encode()))
        )
        for name, text in texts.items():
            for found in note.finditer(text):
                claim = Claim(int(found[2]), found[3], name, text, found.start())
                claims.setdefault(found[1].decode(), []).append(claim)
        signed = cls(journal.keys.pinned(journal.journal_id).keys, claims)
        signed.refuse_missing(journal.layout.streams())
        return signed

    def stands_under(self, stream: str, tree: Frontier) -> bool:
        """Whether a note over this very tree is signed: a start may be forged, its note not."""
        root = base64.b64encode(tree.root())
        return any(
            claim.size == tree.size and claim.root == root and self._is_signed(claim)
            for claim in self.claims.get(stream, ())
        )

    def reading(self, stream: str, tree: Frontier) -> "SignedReading":
        """A comparison of what is read of a stream from this tree on."""
        beyond = [one for one in self.claims.get(stream, ()) if one.size > tree.size]
        return SignedReading(self, stream, beyond, frozenset(one.size for one in beyond))

    def refuse_missing(self, streams: Collection[str]) -> None:
        """Let nothing be written beside a hole where a signed stream was.

        Raises:
            SealContradicted: A signed stream is not among these.
        """
        for stream, claims in self.claims.items():
            if stream not in streams and (claim := self.biggest(claims)) is not None:
                _refuse(stream, claim, "the stream is not here", seq=0)

    def biggest(self, claims: Iterable[Claim]) -> Claim | None:
        """Of these claims, the signed one over the most events."""
        ordered = sorted(claims, key=lambda claim: claim.size, reverse=True)
        return next(filter(self._is_signed, ordered), None)

    def first(self, claims: Iterable[Claim]) -> Claim | None:
        """Of these claims, the signed one over the fewest events."""
        return next(filter(self._is_signed, sorted(claims, key=lambda claim: claim.size)), None)

    def _is_signed(self, claim: Claim) -> bool:
        if not self.trusted:
            return True
        notes = (stored.note for stored in parse_notes(claim.line))
        return any(not isinstance(open_note(note, *self.trusted), str) for note in notes)


@dataclass(slots=True)
class SignedReading:
    """One stream's lines on their way past what was signed of them."""

    _signed: Signed
    _stream: str
    _claims: Sequence[Claim]
    sizes: frozenset[int]
    _roots: dict[int, bytes] = field(default_factory=dict)

    def pass_by(self, tree: Frontier) -> None:
        """Note the root at one of the sizes that a note speaks of."""
        self._roots[tree.size] = base64.b64encode(tree.root())

    def judge(self, size: int, fault: Corrupt | None) -> None:
        """Whether the stream, read up to *size*, still is what was signed.

        fault is what stopped the reading there, if it did not simply end.

        Raises:
            SealContradicted: A signed note is over other events, or over more than there are.
        """
        other = [one for one in self._claims if self._roots.get(one.size, one.root) != one.root]
        if (claim := self._signed.first(other)) is not None:
            text = "these are not the events that were signed"
            _refuse(self._stream, claim, text, seq=claim.size - 1)
        more = self._signed.biggest(one for one in self._claims if one.size > size)
        if more is not None:
            text = f"{size} are here; the end was cut off, or this is an older copy"
            if fault is not None:
                text = f"only {size} can be read ({fault})"
            _refuse(self._stream, more, text, seq=size)


def _text(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read()
    except OSError:
        return b""


def _committed(anchor: GitAnchor) -> bytes:
    try:
        notes = anchor.notes() or ()
    except AnchorFailed:
        return b""
    return b"".join(canonical({"note": stored.note}) + b"\n" for stored in notes)


def _refuse(stream: str, claim: Claim, reason: str, *, seq: int) -> NoReturn:
    """Refuse to write on.

    Raises:
        SealContradicted: Always.
    """
    raise SealContradicted(
        f"the log no longer fits the seal over {claim.size} events: {reason}",
        stream=stream, seq=seq, where=claim.where,
    )  # fmt: skip
