"""``verify --chain``: the links between lines, as fast as they can be hashed.

Proves that no line was changed without changing all that follow it, and nothing about seals,
outputs or rules. Not here: the full check (``journal.stream_check``).
"""

import hashlib
from typing import IO

from journal.findings import Finding
from journal.layout import Layout
from journal.segments import open_segment

_PREV = b'"prev":"'
_HEX = 64
_BUFFER_BYTES = 256 << 10  # small enough for the cache; grows where a line is longer


def chain_finding(layout: Layout, stream: str) -> tuple[int, Finding | None]:
    """Lines whose links hold, and the first that does not."""
    walk = _Walk()
    for path in layout.segments(stream):
        with open_segment(path) as file:
            if not walk.follow(file):
                text = "prev does not match the line before"
                place = path.name
                finding = Finding("LINE_CHANGED", "segment", stream, walk.held, place, text)
                return walk.held, finding
    return walk.held, None


class _Walk:
    """A walk along the links of one stream; ``held`` counts those that hold."""

    def __init__(self) -> None:
        self.held = 0
        self._prev = b"0" * _HEX
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
            start = self._check_lines(buffer, filled)
            if start < 0:
                return False
            kept = filled - start
            buffer[:kept] = buffer[start:filled]
            if kept > len(buffer) // 2:
                buffer.extend(bytes(len(buffer)))
        return True

    def _check_lines(self, buffer: bytearray, filled: int) -> int:
        """Where the last line end is, or -1 if a link is broken."""
        sha256, find, startswith = hashlib.sha256, buffer.find, buffer.startswith
        prev, back, held, start = self._prev, self._back, self.held, 0
        with memoryview(buffer) as view:
            while (end := find(b"\n", start, filled)) >= 0:
                if not startswith(prev, end - back):
                    at = buffer.rfind(_PREV, start, end) + len(_PREV)
                    if at < len(_PREV) or not startswith(prev, at):
                        self.held = held
                        return -1
                    back = end - at
                prev = sha256(view[start:end]).hexdigest().encode()
                buffer[end] = 0
                start = end
                held += 1
        self._prev, self._back, self.held = prev, back, held
        return start
