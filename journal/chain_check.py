"""``verify --chain``: the links between lines, as fast as they can be hashed.

Proves that no line was changed without changing all that follow it, and nothing about seals,
outputs or rules. Not here: the full check (``journal.stream_check``).
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from journal.findings import Finding
from journal.layout import Layout
from journal.segments import CHUNK_BYTES, open_segment

_PREV = b'"prev":"'
_HEX = 64


def chain_finding(layout: Layout, stream: str) -> tuple[int, Finding | None]:
    """Lines whose links hold, and the first that does not."""
    prev = b"0" * _HEX
    count = 0
    sha256 = hashlib.sha256
    for path in layout.segments(stream):
        for leaf_input in _leaf_inputs(path):
            # The envelope's own prev is the last one in a line: only redact, schema, seq, stream,
            # ts_us and v stand behind it, and none of them holds such a text.
            at = leaf_input.rfind(_PREV)
            if at < 0 or leaf_input[at + 8 : at + 72] != prev:
                text = "prev does not match the line before"
                return count, Finding("LINE_CHANGED", "segment", stream, count, path.name, text)
            prev = sha256(leaf_input).hexdigest().encode()
            count += 1
    return count, None


def _leaf_inputs(path: Path) -> Iterator[bytes]:
    """0x00 and a line, for each complete line: what RFC 6962 hashes, cut with one copy."""
    rest = b"\x00"
    with open_segment(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            pieces = (rest + chunk.replace(b"\n", b"\n\x00")).split(b"\n")
            rest = pieces.pop()
            yield from pieces
