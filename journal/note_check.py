"""Judging seals and anchors against what the lines showed. Pure but for reading the two files.

Here: which tree sizes are needed, and what each note proves or contradicts. A note is believed only
if a key that the caller trusts signed it. Not here: the lines (``journal.stream_check``), whom to
trust (``journal.keys``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from journal.events import KeyRotated
from journal.findings import Code, Copy, Finding
from journal.notes import Checkpoint, PublicKey, open_note, parse_note, signers
from journal.seals import Head, StoredNote, heads_root, split_origin
from journal.stream_check import StreamCheck


@dataclass(frozen=True, slots=True)
class NoteFile:
    """``seals.jsonl`` or one anchor, as read."""

    copy: Copy
    name: str
    notes: tuple[StoredNote, ...]


@dataclass(slots=True)
class Coverage:
    """Per stream, the biggest size that a good note covers."""

    sizes: dict[str, int] = field(default_factory=dict)
    notes: int = 0

    def add(self, stream: str, size: int) -> None:
        """Take one good note."""
        self.sizes[stream] = max(size, self.sizes.get(stream, 0))


def sizes_claimed(files: Iterable[NoteFile], journal_id: str) -> dict[str, set[int]]:
    """Stream -> tree sizes that any note speaks of, believed or not."""
    sizes: dict[str, set[int]] = {}
    for file in files:
        for stored in file.notes:
            checkpoint = parse_note(stored.note)
            if isinstance(checkpoint, str):
                continue
            origin = split_origin(checkpoint.origin)
            if origin is not None and origin[0] == journal_id and origin[1] is not None:
                sizes.setdefault(origin[1], set()).add(checkpoint.size)
            for head in stored.heads:
                sizes.setdefault(head.stream, set()).add(head.size)
    return sizes


def trusted_with_rotations(
    trusted: Sequence[PublicKey], rotations: Iterable[KeyRotated]
) -> tuple[PublicKey, ...]:
    """The trusted keys, and those to which a trusted one handed over in a note that both signed."""
    keys = list(trusted)
    for rotation in rotations:
        new = PublicKey.parse(rotation.new_key)
        old = PublicKey.parse(rotation.old_key)
        if old in keys and new not in keys:
            by = signers(rotation.statement, old, new)
            named = rotation.statement.startswith(rotation_text(old, new))
            if not isinstance(by, str) and by == {old.line, new.line} and named:
                keys.append(new)
    return tuple(keys)


def rotation_text(old: PublicKey, new: PublicKey) -> str:
    """The text that both keys sign when one hands over to the other."""
    return f"agentops-journal/key-rotation\nold {old.line}\nnew {new.line}\n"


class NoteJudge:
    """Judges the notes of one journal against its streams."""

    def __init__(
        self, journal_id: str, streams: Mapping[str, StreamCheck], trusted: Sequence[PublicKey]
    ) -> None:
        self._journal_id = journal_id
        self._streams = streams
        self._trusted = trusted

    def judge(self, file: NoteFile) -> tuple[Coverage, Finding | None]:
        """What the file's notes cover, up to the first contradiction."""
        coverage = Coverage()
        for stored in file.notes:
            if stored.fault:
                return coverage, self._finding("SEAL_MALFORMED", file, stored, stored.fault)
            claimed = parse_note(stored.note)
            if isinstance(claimed, str):
                return coverage, self._finding("SEAL_MALFORMED", file, stored, claimed)
            origin = split_origin(claimed.origin)
            if origin is None or origin[0] != self._journal_id:
                if file.copy == "anchor":
                    continue  # one anchor may serve many journals
                text = f"a seal of {claimed.origin[:80]!r}"
                return coverage, self._finding("FOREIGN", file, stored, text)
            checkpoint = open_note(stored.note, *self._trusted)
            if isinstance(checkpoint, str):
                code: Code = (
                    "BAD_ANCHOR_SIGNATURE" if file.copy == "anchor" else "BAD_SEAL_SIGNATURE"
                )
                return coverage, self._finding(code, file, stored, checkpoint)
            finding = self._contradiction(file, stored, checkpoint, origin[1], coverage)
            if finding is not None:
                return coverage, finding
            coverage.notes += 1
        return coverage, None

    def _contradiction(
        self,
        file: NoteFile,
        stored: StoredNote,
        checkpoint: Checkpoint,
        stream: str | None,
        coverage: Coverage,
    ) -> Finding | None:
        if stream is not None:
            head = Head(stream, checkpoint.size, checkpoint.root.hex())
            finding = self._check_head(file, stored, head, coverage)
            if finding is None:
                coverage.add(stream, checkpoint.size)
            return finding
        if file.copy == "anchor":
            return None  # a super-seal's heads are in seals.jsonl, not in the note
        if len(stored.heads) != checkpoint.size or heads_root(stored.heads) != checkpoint.root:
            text = "the heads beside a super-seal are not the signed ones"
            return self._finding("SEAL_MALFORMED", file, stored, text)
        for head in stored.heads:
            if (finding := self._check_head(file, stored, head, coverage)) is not None:
                return finding
        return None

    def _check_head(
        self, file: NoteFile, stored: StoredNote, head: Head, coverage: Coverage
    ) -> Finding | None:
        anchored = file.copy == "anchor"
        check = self._streams.get(head.stream)
        if check is None:
            signed = self._most_signed(file, head)
            text = f"a stream of {signed} events or more is sealed and not here"
            return self._finding("STREAM_MISSING", file, stored, text, head.stream)
        if check.finding is not None:
            return None  # its first fault is known; what follows is its echo
        if head.size > check.size:
            text = f"the log has {check.size} events, {head.size} were signed"
            code: Code = "ROLLBACK" if anchored else "TRUNCATED"
            return self._finding(code, file, stored, text, head.stream, check.size)
        if check.roots[head.size] != head.root:
            good = coverage.sizes.get(head.stream, 0)
            first = head.size - 1 if check.size == head.size else good
            text = f"events {good} to {head.size - 1} are not the ones that were signed"
            if good >= head.size:
                text = f"another log of {head.size} events was signed, as of a copy that went on"
            code = "FORK" if anchored else "ROOT_MISMATCH"
            return self._finding(code, file, stored, text, head.stream, first)
        return None

    def _most_signed(self, file: NoteFile, head: Head) -> int:
        """The biggest size of the head's stream that a trusted key signed in the file."""
        most = head.size
        for stored in file.notes:
            signed = open_note(stored.note, *self._trusted)
            if isinstance(signed, str):
                continue
            if split_origin(signed.origin) == (self._journal_id, head.stream):
                most = max(most, signed.size)
        return most

    def _finding(
        self,
        code: Code,
        file: NoteFile,
        stored: StoredNote,
        message: str,
        stream: str | None = None,
        seq: int | None = None,
    ) -> Finding:
        # A log that is shorter or other than signed is wrong itself; the note only tells.
        told = {"TRUNCATED", "ROLLBACK", "ROOT_MISMATCH", "FORK", "STREAM_MISSING"}
        copy: Copy = "segment" if code in told else file.copy
        return Finding(code, copy, stream, seq, f"{file.name} line {stored.number}", message)
