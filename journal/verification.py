"""``verify``: is this the journal that was written, and how far can that be said?

Reads the bytes of the segments and packs anew, compares roots with seals and anchors, and the rows
of the index with the lines. Says yes (``intact``) only if every event is below an anchor that lies
outside the journal. Takes no lock, changes nothing, works while the journal is written: what is
appended after it began is not looked at. ``docs/journal.md`` says what a yes proves and what not.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from journal.anchor_check import shortfalls
from journal.anchors import Anchor, AnchorFailed, anchor_at
from journal.chain_check import chain_finding
from journal.clock import Clock
from journal.errors import KeyUnusable
from journal.findings import Finding, Ranges, Remark
from journal.index_check import IndexCheck, IndexReader, comparing, judge
from journal.keys import KeyStore, Pinned
from journal.layout import Layout, read_format
from journal.ledger import Intent
from journal.lines import leaf_hash
from journal.note_check import NoteFile, NoteJudge, sizes_claimed, trusted_with_rotations
from journal.notes import PublicKey, open_note
from journal.seals import read_notes, stream_origin
from journal.stream_check import StreamCheck, StreamChecker

# Findings that may mean that a line is not what it was; of those the index can tell more.
_OF_A_LINE = {"LINE_MALFORMED", "LINE_CHANGED", "SEQ_WRONG", "ROOT_MISMATCH", "FORK"}

_AHEAD_US = 300_000_000  # clocks of machines that each keep time differ by seconds
Status = Literal["intact", "unanchored", "unsealed", "tampered"]


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer. finding is set if and only if status is ``tampered``.

    in_doubt are the intents without an outcome. While a writer lives, its running commands are
    among them; with a finding, nothing is believed and there are none.
    """

    journal_id: str
    status: Status
    ranges: tuple[Ranges, ...]
    finding: Finding | None
    remarks: tuple[Remark, ...]
    keys: tuple[str, ...]
    in_doubt: tuple[Intent, ...] = ()

    @property
    def events(self) -> int:
        """Events that were checked and found good."""
        return sum(one.size for one in self.ranges)


def verify(
    path: Path,
    *,
    keys: KeyStore | None = None,
    key: str | None = None,
    anchors: Sequence[Path | str] | None = None,
    outputs: bool = True,
    clock: Clock | None = None,
) -> Verification:
    """Check a journal's folder.

    key is a pinned public line and beats the key store; anchors are places (``journal.anchors``)
    and beat the recorded ones, of which one that was dropped need not be there. Without any key no
    seal counts. outputs False leaves the blobs unread. By the clock an event from the future is
    remarked.

    Raises:
        NotAJournal: No journal is at the path.
        KeyUnusable: The key line cannot be read.
    """
    layout = Layout(path)
    journal_id = read_format(layout)
    pinned = Pinned() if keys is None else keys.pinned(journal_id)
    trusted = pinned.keys if key is None else (PublicKey.parse(key),)
    places = pinned.places if anchors is None else tuple(anchors)
    # Notes first: whatever they cover is in the log that is read after them.
    seals = NoteFile("seals", layout.seals.name, tuple(read_notes(layout.seals)))
    sinks = [anchor_at(str(place)) for place in places]
    anchored, remarks = _read_anchors(sinks, pinned.dropped)
    sizes = sizes_claimed([seals, *anchored], journal_id)
    if not trusted:
        remarks.append(Remark("NO_KEY", None, None, "no trusted key is known: seals count nothing"))
    with ExitStack() as stack:
        index = stack.enter_context(comparing(layout))
        if isinstance(index, str):
            remarks.append(Remark("INDEX_UNCHECKED", None, None, index))
        checks, compared = _check_streams(layout, journal_id, sizes, index, outputs=outputs)
        judging = _Judging(journal_id, checks, trusted, seals, anchored, layout.seals)
        finding, ranges = judging.judge()
        finding = _with_index(finding, ranges, compared, index)
        if isinstance(index, IndexReader) and index.fault is not None:
            remarks.append(Remark("INDEX_UNCHECKED", None, None, index.fault))
    ranges = tuple(_good(one, finding) for one in ranges)
    remarks += [remark for check in checks.values() for remark in check.remarks]
    remarks += judging.remarks
    remarks += shortfalls(layout, journal_id, sinks, anchored, checks)
    if clock is not None:
        remarks += _from_the_future(checks, clock)
    status = status_of(finding, ranges)
    lines = tuple(one.line for one in judging.trusted)
    in_doubt = (
        () if finding else tuple(one for c in checks.values() for one in c.ledger.open.values())
    )
    return Verification(journal_id, status, ranges, finding, tuple(remarks), lines, in_doubt)


def _from_the_future(checks: Mapping[str, StreamCheck], clock: Clock) -> list[Remark]:
    """Events that are dated later than now: some clock, then or here, is wrong."""
    now_us = clock.wall_us()
    remarks: list[Remark] = []
    for stream, check in checks.items():
        ts_us, seq = check.latest
        if ts_us > now_us + _AHEAD_US:
            ahead_s = (ts_us - now_us) // 1_000_000
            text = f"dated {ahead_s} s later than this machine's clock; the order is that of seq"
            remarks.append(Remark("CLOCK_AHEAD", stream, seq, text))
    return remarks


def verify_chain(path: Path) -> tuple[int, Finding | None]:
    """Check only the links between lines; gives how many held, and the first that did not.

    Raises:
        NotAJournal: No journal is at the path.
    """
    layout = Layout(path)
    read_format(layout)
    total = 0
    for stream in layout.streams():
        count, finding = chain_finding(layout, stream)
        total += count
        if finding is not None:
            return total, finding
    return total, None


def status_of(finding: Finding | None, ranges: Sequence[Ranges]) -> Status:
    """One word for it all: a yes needs every event of at least one stream below an anchor."""
    if finding is not None:
        return "tampered"
    if any(one.sealed < one.size for one in ranges):
        return "unsealed"
    if not ranges or any(one.anchored < one.size for one in ranges):
        return "unanchored"
    return "intact"


def _read_anchors(
    anchors: Sequence[Anchor], dropped: Sequence[str]
) -> tuple[list[NoteFile], list[Remark]]:
    files: list[NoteFile] = []
    remarks: list[Remark] = []
    for anchor in anchors:
        reason = f"the anchor {anchor.place} is not there"
        try:
            notes = anchor.notes()
        except AnchorFailed as error:
            notes, reason = None, str(error)
        if notes is not None:
            files.append(NoteFile("anchor", anchor.place, notes))
        elif anchor.place not in dropped:
            remarks.append(Remark("ANCHOR_UNREADABLE", None, None, reason))
    return files, remarks


def _check_streams(
    layout: Layout,
    journal_id: str,
    sizes: Mapping[str, set[int]],
    index: IndexReader | Finding | str,
    *,
    outputs: bool,
) -> tuple[dict[str, StreamCheck], dict[str, IndexCheck]]:
    checks: dict[str, StreamCheck] = {}
    compared: dict[str, IndexCheck] = {}
    for stream in layout.streams():
        checker = StreamChecker(layout, stream, journal_id, sizes.get(stream, ()), outputs=outputs)
        beside = index.stream(stream) if isinstance(index, IndexReader) else None
        for _, event in checker.lines():
            if beside is not None:
                beside.compare(event, checker.outputs_read)
        checks[stream] = checker.check
        if beside is not None:
            compared[stream] = beside
    return checks, compared


class _Judging:
    """From checked streams to one finding and the ranges."""

    def __init__(
        self,
        journal_id: str,
        checks: Mapping[str, StreamCheck],
        trusted: Sequence[PublicKey],
        seals: NoteFile,
        anchors: Sequence[NoteFile],
        seals_path: Path,
    ) -> None:
        self._journal_id = journal_id
        self._checks = checks
        self._seals = seals
        self._anchors = anchors
        self._seals_path = seals_path
        self.remarks: list[Remark] = []
        rotations = [one for check in checks.values() for one in check.rotations]
        try:
            self.trusted = trusted_with_rotations(trusted, rotations)
        except KeyUnusable:
            self.trusted = tuple(trusted)

    def judge(self) -> tuple[Finding | None, tuple[Ranges, ...]]:
        """The first finding, and how far each stream is covered."""
        finding = next((c.finding for c in self._checks.values() if c.finding is not None), None)
        finding = finding or self._doubled_idem() or self._unexplained_loss()
        sealed: dict[str, int] = {}
        anchored: dict[str, int] = {}
        if self.trusted:
            judge = NoteJudge(self._journal_id, self._checks, self.trusted)
            coverage, fault = judge.judge(self._seals)
            sealed = coverage.sizes
            finding = finding or fault or self._missing_seal()
            for file in self._anchors:
                coverage, fault = judge.judge(file)
                finding = finding or fault
                if file.notes and not coverage.notes and fault is None:
                    text = f"{file.name} holds nothing of this journal"
                    self.remarks.append(Remark("ANCHOR_OTHER_LOG", None, None, text))
                for stream, size in coverage.sizes.items():
                    anchored[stream] = max(size, anchored.get(stream, 0))
        ranges = tuple(
            Ranges(
                stream=name,
                size=check.size,
                sealed=min(check.size, max(sealed.get(name, 0), anchored.get(name, 0))),
                anchored=min(check.size, anchored.get(name, 0)),
            )
            for name, check in self._checks.items()
        )
        return finding, ranges

    def _doubled_idem(self) -> Finding | None:
        seen: dict[str, str] = {}
        for stream, check in self._checks.items():
            for idem, seq in check.idems.items():
                if idem in seen:
                    text = f"the idempotency key {idem} stands in stream {seen[idem]} too"
                    return Finding("DUP_IDEM", "segment", stream, seq, stream, text)
                seen[idem] = stream
        return None

    def _unexplained_loss(self) -> Finding | None:
        """Outputs of zeros count as destroyed on purpose only if an event says so."""
        said = {pair for check in self._checks.values() for pair in check.redacted}
        for stream, check in self._checks.items():
            for (event_id, name), seq in check.shredded.items():
                if (event_id, name) not in said:
                    text = f"output {name} holds only zeros, and no event says that it was redacted"
                    return Finding("BLOB_MISSING", "blob", stream, seq, "blob", text)
        return None

    def _missing_seal(self) -> Finding | None:
        """Each ``sealed`` event must have its seal: a shortened ``seals.jsonl`` is missed.

        The file is read once more: a log that is being written has got seals, and events that
        name them, since the notes were read that the log was checked against.
        """
        present: set[tuple[str, int, str]] = set()
        for stored in read_notes(self._seals_path):
            checkpoint = open_note(stored.note, *self.trusted)
            if not isinstance(checkpoint, str):
                present.add((checkpoint.origin, checkpoint.size, checkpoint.root.hex()))
        for stream, check in self._checks.items():
            origin = stream_origin(self._journal_id, stream)
            for seq, said in check.seals_claimed:
                if (origin, said.size, said.root) not in present:
                    text = f"the seal over {said.size} events is not in seals.jsonl"
                    return Finding("SEAL_MISSING", "seals", stream, seq, "seals.jsonl", text)
        return None


def _with_index(
    finding: Finding | None,
    ranges: Sequence[Ranges],
    compared: Mapping[str, IndexCheck],
    index: IndexReader | Finding | str,
) -> Finding | None:
    """Let the index speak: it may hold what a changed line was, or be the changed copy itself."""
    if finding is not None:
        beside = compared.get(finding.stream or "")
        return finding if beside is None else _second_opinion(finding, beside)
    if isinstance(index, Finding):
        return index
    sealed = {one.stream: one.sealed for one in ranges}
    for stream, beside in compared.items():
        if (found := judge(beside, sealed[stream])) is not None:
            return found
    if isinstance(index, str):
        return None
    return index.foreign(sealed.keys()) or index.column_difference()


def _good(ranges: Ranges, finding: Finding | None) -> Ranges:
    """What is good of a stream: nothing from its first wrong event on, however it was signed."""
    if finding is None or finding.copy == "index" or finding.seq is None:
        return ranges
    if finding.stream != ranges.stream or finding.seq >= ranges.size:
        return ranges
    seq = finding.seq
    return Ranges(ranges.stream, seq, min(seq, ranges.sealed), min(seq, ranges.anchored))


def _second_opinion(finding: Finding, beside: IndexCheck) -> Finding:
    if finding.code not in _OF_A_LINE:
        return finding
    row = beside.next_row()
    if row is None or row.leaf != leaf_hash(row.line):
        return finding
    if finding.code in {"ROOT_MISMATCH", "FORK"} and beside.difference is not None:
        finding = replace(finding, seq=row.seq)
    if row.seq != finding.seq:
        return finding
    text = f"{finding.message}; the index still holds the line as it was"
    return replace(finding, message=text)
