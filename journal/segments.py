"""Segments: reading a stream's lines back from its files, and the chain between them.

Here: iteration over complete lines with their place, the quick check of each line's link to the one
before, and the state of a stream's end. Reading takes no lock and works while a writer appends: a
line counts once its line end is there. Not here: appending (``journal.writer``), what lines mean.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import zstandard

from journal.disk import sync_folder, write_whole
from journal.errors import Corrupt, SegmentDamaged, WriteFailed
from journal.layout import Layout
from journal.lines import ZERO_LEAF, leaf_hash
from journal.merkle import Frontier
from journal.segment_walk import filled_size, open_segment

CHUNK_BYTES = 1 << 20
_LEVEL = 6  # full segments are compressed once and kept for years
LINE_BYTES_MAX = 64 << 20  # a longer "line" is damage, not an event
_UNPACKED_BYTES_MAX = 1 << 30  # a writer goes on in a new segment long before that

# The envelope's last fields, in canonical order. ``data`` stands before them, so the last match of
# this text in a line is the envelope's own, whatever the payload quotes.
_TAIL = re.compile(
    rb'"prev":"([0-9a-f]{64})",(?:"redact":\{[^{}]*\},)?"schema":[0-9]+,"seq":([0-9]+),'
    rb'"stream":"([a-z0-9-]+)","ts_us":-?[0-9]+,"v":1\}\Z'
)
_TAIL_BYTES = 4096


class StoredLine(NamedTuple):
    """One complete line and where it begins in its (uncompressed) segment."""

    segment: Path
    offset: int
    line: bytes

    @property
    def where(self) -> str:
        """File and byte offset, for findings."""
        return f"{self.segment.name}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Link:
    """What a line says of its own place."""

    prev: str
    seq: int
    stream: str


@dataclass(slots=True)
class ChainState:
    """The end of a stream: what the next line must refer to."""

    stream: str
    next_seq: int = 0
    last_leaf: str = ZERO_LEAF
    frontier: Frontier = field(default_factory=Frontier)

    def take(self, stored: StoredLine) -> None:
        """Go on by one line.

        Raises:
            Corrupt: The line does not follow from the one before.
        """
        link = link_of(stored.line)
        fault = ""
        if link is None:
            fault = "the line has no envelope"
        elif link.stream != self.stream:
            fault = f"the line belongs to stream {link.stream}"
        elif link.seq != self.next_seq:
            fault = f"expected seq {self.next_seq}, got {link.seq}"
        elif link.prev != self.last_leaf:
            fault = "the line before it was changed (prev does not match)"
        if fault:
            raise Corrupt(fault, stream=self.stream, seq=self.next_seq, where=stored.where)
        self.advance(leaf_hash(stored.line))

    def advance(self, leaf: bytes) -> None:
        """Go on by one leaf that is known to follow."""
        self.frontier.add(leaf)
        self.last_leaf = leaf.hex()
        self.next_seq += 1


def link_of(line: bytes) -> Link | None:
    """Place and predecessor that a line claims, without parsing its JSON; None if it has none."""
    match = _TAIL.search(line, max(0, len(line) - _TAIL_BYTES))
    if match is None:
        return None
    return Link(prev=match[1].decode(), seq=int(match[2]), stream=match[3].decode())


def iterate(path: Path, start: int = 0) -> Iterator[StoredLine]:
    """The complete lines of one segment from byte *start* on, which must begin a line.

    Raises:
        OSError: The file cannot be read.
        SegmentDamaged: A compressed segment does not unpack, or unpacks to more than any writer
            packs; or a line is longer than any event.
    """
    try:
        yield from _complete_lines(path, start)
    except zstandard.ZstdError as error:
        raise SegmentDamaged(
            f"cannot be unpacked: {error}", stream=path.parent.name, where=path.name
        ) from error


def _complete_lines(path: Path, start: int) -> Iterator[StoredLine]:
    with open_segment(path) as file:
        if start:
            file.seek(start)
        offset = start
        rest: list[bytes] = []  # of a line whose end was not read yet
        length = 0
        while chunk := file.read(CHUNK_BYTES):
            first, *others = chunk.split(b"\n")
            rest.append(first)
            length += len(first)
            if others:
                rest, last = [others.pop()], b"".join(rest)
                length = len(rest[0])
                for line in (last, *others):
                    yield StoredLine(path, offset, line)
                    offset += len(line) + 1
            _refuse_excess(path, offset, length)


def _refuse_excess(path: Path, offset: int, length: int) -> None:
    """Stop where no writer would have got: a line without end, a file that unpacks for ever."""
    stream, mib = path.parent.name, 1 << 20
    if length > LINE_BYTES_MAX:
        raise SegmentDamaged(
            f"a line is longer than {LINE_BYTES_MAX // mib} MiB",
            stream=stream, where=f"{path.name}@{offset}", is_line=True,
        )  # fmt: skip
    if path.suffix == ".zst" and offset > _UNPACKED_BYTES_MAX:
        raise SegmentDamaged(
            f"unpacks to more than {_UNPACKED_BYTES_MAX // mib} MiB",
            stream=stream, where=path.name,
        )  # fmt: skip


def stream_lines(layout: Layout, stream: str) -> Iterator[StoredLine]:
    """All complete lines of a stream, oldest first."""
    for path in layout.segments(stream):
        yield from iterate(path)


def compress(path: Path) -> Path:
    """Turn a full segment into its compressed form; readers see one or the other.

    Raises:
        WriteFailed: The disk refused; the plain segment stays.
    """
    packed = path.with_name(path.name + ".zst")
    plain = path.read_bytes()
    write_whole(packed, zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(plain))
    if zstandard.ZstdDecompressor().decompress(packed.read_bytes()) != plain:
        packed.unlink()
        raise WriteFailed(f"{packed} does not read back as {path.name}; the plain one stays")
    path.unlink()
    sync_folder(path.parent)
    return packed


def plain_size(path: Path) -> int | None:
    """Bytes of a plain segment without the zeros that are laid out ahead of its writer.

    None for a compressed one, or one that was compressed just now.
    """
    if path.suffix == ".zst":
        return None
    try:
        return filled_size(path)
    except FileNotFoundError:
        return None


def torn_tail(path: Path) -> tuple[int, bytes]:
    """Where the last complete line of a plain segment ends, and the bytes after it.

    Zeros at the very end are not among them: they were laid out ahead and never written.
    """
    at = filled_size(path)  # a writer goes on meanwhile: what lies before that is whole
    with path.open("rb") as file:
        tail = b""
        while at > 0:
            step = min(CHUNK_BYTES, at)
            at -= step
            file.seek(at)
            block = file.read(step)
            end = block.rfind(b"\n")
            if end >= 0:
                return at + end + 1, block[end + 1 :] + tail
            tail = block + tail
        return 0, tail
