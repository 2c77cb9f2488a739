"""One writer's stream: its lock, its open segment, and repair of what a crash left behind.

Opening takes the first stream whose lock is free, so sessions that follow one another continue one
stream, and writers side by side get one each. A torn end (bytes after the last line end, or a hole
of zeros that a power cut left) goes to quarantine, unless a seal says that there was more; zeros
with nothing behind them are room that was laid out ahead, and are written into; any other break of
the chain is refused, for ``verify`` to name. Not here: what is appended (``journal.writer``).
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from journal.bookmark import Position, Start
from journal.disk import AppendFile, Disk, cut, make_folder, sync_folder, write_whole
from journal.errors import Corrupt, SegmentDamaged, WriteFailed
from journal.following import Follower
from journal.layout import Layout
from journal.locks import try_lock
from journal.machine import RandomSource
from journal.segments import ChainState, StoredLine, iterate, torn_tail
from journal.signed import Signed

SEGMENT_BYTES = 64 << 20
_ENDED = b'"kind":"session_ended"'


@dataclass(frozen=True, slots=True)
class Repair:
    """What was set aside when a stream was opened; quarantined is a path inside the journal."""

    what: str
    quarantined: str | None


@dataclass(slots=True)
class OpenStream:
    """A locked stream, ready to be appended to.

    sealed_size is its size when it was opened if its last session ended in order, which seals all;
    else 0.
    """

    name: str
    lock: int
    chain: ChainState
    segment: AppendFile
    repair: Repair | None
    sealed_size: int

    @property
    def size(self) -> int:
        """Its events."""
        return self.chain.next_seq

    @property
    def position(self) -> Position:
        """Where it ends now."""
        return self.segment.path.name[:6], self.segment.size

    def close(self) -> None:
        """Let go of file and lock."""
        self.segment.close()
        os.close(self.lock)


def lock_stream(layout: Layout, random: RandomSource) -> tuple[str, int]:
    """The first free stream, or a new one, with its lock."""
    for name in layout.streams():
        lock = try_lock(layout.stream(name))
        if lock is not None:
            return name, lock
    while True:
        number = len(layout.streams()) + 1
        name = f"s{number}-{random(4).hex()}"
        make_folder(layout.stream(name))
        lock = try_lock(layout.stream(name))
        if lock is not None:
            return name, lock


def open_stream(
    layout: Layout,
    name: str,
    lock: int,
    disk: Disk,
    follower: Follower,
    signed: Signed,
    start: Start | None = None,
) -> OpenStream:
    """Read, repair and open a stream whose lock is held. The follower's ledger takes its events.

    What lies before a start that was signed is not read again.

    Raises:
        Corrupt: The chain is broken by something other than a torn end, or the stream is not what
            was signed of it; no file was changed.
        WriteFailed: The disk refused.
    """
    if start is not None and not signed.stands_under(name, start.chain(name).frontier):
        start = None
    ended = start is not None
    chain = ChainState(name) if start is None else start.chain(name)
    number, offset = ("", 0) if start is None else start.position
    segments = layout.segments(name)
    reading = signed.reading(name, chain.frontier)
    hole: Corrupt | None = None
    for path in segments:
        if path.name[:6] < number:
            continue
        try:
            for stored in iterate(path, offset if path.name[:6] == number else 0):
                _refuse_hole(stored, chain)
                chain.take(stored)
                follower.take(stored)
                ended = _ENDED in stored.line
                if chain.next_seq in reading.sizes:
                    reading.pass_by(chain.frontier)
        except Corrupt as error:
            if path != segments[-1] or not _has_hole(path, error):
                raise
            hole = error
    reading.judge(chain.next_seq, hole)
    repair = _set_torn_end_aside(layout, name, hole)
    path = segments[-1] if segments else layout.stream(name) / "000000.jsonl"
    if path.suffix == ".zst":  # a crash came between compressing and opening the next one
        path = path.with_name(f"{int(path.name[:6]) + 1:06d}.jsonl")
    sealed_size = chain.next_seq if ended else 0
    segment = AppendFile(path, disk, begin=torn_tail(path)[0] if path.exists() else 0)
    opened = OpenStream(name, lock, chain, segment, repair, sealed_size)
    follower.positions[name] = opened.position
    return opened


def next_segment(stream: OpenStream, disk: Disk) -> tuple[AppendFile, int, str]:
    """Open the following segment; gives it with its number and the SHA-256 of the one before.

    That one ends with its last line from then on.

    Raises:
        WriteFailed: The disk refused.
    """
    path = stream.segment.path
    cut(path, stream.segment.size)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    number = int(path.name[:6]) + 1
    following = path.with_name(f"{number:06d}.jsonl")
    return AppendFile(following, disk), number, digest.hexdigest()


def _set_torn_end_aside(layout: Layout, name: str, hole: Corrupt | None) -> Repair | None:
    segments = layout.segments(name)
    if not segments or segments[-1].suffix == ".zst":
        return None
    if hole is not None:
        hole_at = int(hole.where.rpartition("@")[2])
        return _quarantine(layout, name, segments[-1], hole_at, "a hole of zeros at the end")
    at, torn = torn_tail(segments[-1])
    if not torn:
        return None
    return _quarantine(layout, name, segments[-1], at, f"a torn line of {len(torn)} bytes")


def _quarantine(layout: Layout, name: str, path: Path, at: int, what: str) -> Repair:
    with path.open("rb") as file:
        file.seek(at)
        torn = file.read().rstrip(b"\x00")
    place: Path | None = layout.quarantine / f"{name}-{path.name[:6]}-{at}.torn"
    try:
        make_folder(layout.quarantine)
        if place is not None:
            write_whole(place, torn)
    except (OSError, WriteFailed):
        place = None  # a full disk: cutting frees space, and the event says that nothing was kept
    cut(path, at)
    sync_folder(path.parent)
    kept = None if place is None else f"quarantine/{place.name}"
    return Repair(f"{what} in {path.name} at byte {at}", kept)


def _refuse_hole(stored: StoredLine, chain: ChainState) -> None:
    """A page in the middle of a line that never arrived leaves its link, at its end, in order."""
    if b"\x00" in stored.line:
        said = "the line holds zero bytes"
        raise Corrupt(said, stream=chain.stream, seq=chain.next_seq, where=stored.where)


def _has_hole(path: Path, error: Corrupt) -> bool:
    """Whether the first wrong line holds zero bytes, which no canonical line does."""
    if isinstance(error, SegmentDamaged) or path.suffix == ".zst":
        return False
    offset = int(error.where.rpartition("@")[2])
    for stored in iterate(path, offset):
        return b"\x00" in stored.line
    return False
