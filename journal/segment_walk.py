"""Following the links between the lines of segments, as fast as they can be hashed.

Needs nothing of this package, so that it also runs as a program of its own, a few milliseconds
after it is asked: ``journal.chain_check`` shares a long stream's segments among processes. Not
here: what a link means (``journal.segments``).
"""

import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

import zstandard

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PREV = b'"prev":"'
_HEX = 64
_BLOCK_BYTES = 16 << 10
_ZEROS = bytes(_BLOCK_BYTES)
_BUFFER_BYTES = 256 << 10  # small enough for the cache; grows where a line is longer
_BUFFER_BYTES_MAX = 128 << 20  # a line that fills half of it is no event's


@dataclass(frozen=True, slots=True)
class Walked:
    """How far the links of a run of segments hold.

    first is what the first line claims of the line before, last the hash of the last line that
    holds (both hex); broken is the place in the run of the segment with the first broken link, or
    None; fault says why that segment cannot be read, if it cannot.
    """

    first: str
    last: str
    held: int
    broken: int | None
    fault: str


def walk(paths: Sequence[Path]) -> Walked:
    """Follow the links through segments that follow one another."""
    walker = _Walk()
    broken, fault = None, ""
    for place, path in enumerate(paths):
        try:
            with open_segment(path) as file:
                holds = walker.follow(file)
        except (OSError, zstandard.ZstdError) as error:
            holds, fault = False, f"cannot be read: {error}"
        if not holds:
            broken = place
            break
    first, last = walker.first.decode("latin-1"), walker.prev.decode("latin-1")  # a line may lie
    return Walked(first, last, walker.held, broken, fault)


def open_segment(path: Path) -> IO[bytes]:
    """A segment's uncompressed bytes, for reading, without the zeros that are laid out ahead.

    A full segment may be compressed by its writer between listing and opening it.
    """
    if path.suffix != ".zst":
        try:
            return _Filled(path)
        except FileNotFoundError:
            path = path.with_name(path.name + ".zst")
    raw = FileIO(path, "rb", opener=open_regular)
    return zstandard.ZstdDecompressor().stream_reader(raw, closefd=True)


def open_regular(path: str, flags: int) -> int:
    """A descriptor of a regular file: from a pipe or a device a reader would wait for ever.

    Raises:
        OSError: Nothing is there, it cannot be opened, or it is no regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return descriptor


def filled_size(file: Path | int) -> int:
    """Where a file's last byte that is not zero ends: what follows was laid out and not written.

    Raises:
        OSError: The file cannot be read.
    """
    descriptor = file if isinstance(file, int) else open_regular(str(file), os.O_RDONLY)
    try:
        end = os.fstat(descriptor).st_size
        while end > 0:
            start = max(0, end - _BLOCK_BYTES)
            block = os.pread(descriptor, end - start, start)
            if block != _ZEROS and (filled := block.rstrip(b"\x00")):
                return start + len(filled)
            end = start
        return 0
    finally:
        if descriptor is not file:
            os.close(descriptor)


class _Filled(FileIO):
    """A plain segment as far as it was filled when it was opened.

    A writer fills the zeros from left to right, so what lies before a byte that is there is there
    too; who reads on to wherever the file ends may see zeros first and what follows them later.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb", opener=open_regular)
        self._end = filled_size(self.fileno())

    def read(self, size: int | None = -1, /) -> bytes:
        room = max(0, self._end - self.tell())
        return super().read(room if size is None or size < 0 else min(size, room)) or b""

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        room = max(0, self._end - self.tell())
        return super().readinto(memoryview(buffer)[:room]) or 0


class _Walk:
    """A walk along the links of one stream; ``held`` counts the lines whose links hold."""

    def __init__(self) -> None:
        self.held = 0
        self.first = b""
        self.prev = b""
        # How far before its line end the last prev began. Only redact, schema, seq, stream, ts_us
        # and v stand behind it, so the next one is there too unless a number grew a digit.
        self._back = 0

    def follow(self, file: IO[bytes]) -> bool:
        """Check one segment's lines; False at the first broken link.

        Each line end is overwritten with the 0x00 that RFC 6962 puts before a leaf, so that leaves
        are hashed where they lie in the buffer, without a copy.
        """
        buffer = bytearray(_BUFFER_BYTES)
        kept = 1  # the 0x00 before the first line
        while count := file.readinto(memoryview(buffer)[kept:]):  # type: ignore[attr-defined]  # both kinds of file have it
            filled = kept + count
            if not self.first and not self._begin(buffer, filled):
                start = 0  # not one whole line so far
            else:
                start = self._check_lines(buffer, filled)
            if start < 0:
                return False
            kept = filled - start
            buffer[:kept] = buffer[start:filled]
            if kept > _BUFFER_BYTES_MAX // 2:
                return False
            if kept > len(buffer) // 2:
                buffer.extend(bytes(len(buffer)))
        return True

    def _begin(self, buffer: bytearray, filled: int) -> bool:
        """Take what the first line claims of the one before it, once that line is there."""
        end = buffer.find(b"\n", 0, filled)
        if end < 0:
            return False
        at = buffer.rfind(_PREV, 0, end) + len(_PREV)
        self.first = self.prev = bytes(buffer[at : at + _HEX])
        return True

    def _check_lines(self, buffer: bytearray, filled: int) -> int:
        """Where the last line end is, or -1 if a link is broken."""
        sha256, find, startswith = hashlib.sha256, buffer.find, buffer.startswith
        prev, back, held, start = self.prev, self._back, self.held, 0
        with memoryview(buffer) as view:
            while (end := find(b"\n", start, filled)) >= 0:
                if not startswith(prev, end - back):
                    at = buffer.rfind(_PREV, start, end) + len(_PREV)
                    if at < len(_PREV) or not startswith(prev, at):
                        self.prev, self.held = prev, held
                        return -1
                    back = end - at
                prev = sha256(view[start:end]).hexdigest().encode()
                buffer[end] = 0
                start = end
                held += 1
        self.prev, self._back, self.held = prev, back, held
        return start


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(walk([Path(name) for name in sys.argv[1:]]))) + "\n")
