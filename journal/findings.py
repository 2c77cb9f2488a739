"""What a verifier can say: a finding (something was changed), a remark (something to know), ranges.

Pure values. ``verify`` prints the first finding only: what follows a break is its echo.
"""

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "LINE_MALFORMED",  # not JSON, not canonical, or not an event
    "LINE_CHANGED",  # its bytes no longer fit the line behind it
    "SEQ_WRONG",  # a line is missing, moved or doubled
    "FOREIGN",  # a line, seal or segment of another journal or stream
    "SEGMENT_CHANGED",  # a closed segment has another digest, or stray bytes
    "BLOB_MISSING",
    "BLOB_CORRUPT",
    "DUP_IDEM",
    "ORPHAN_OUTCOME",
    "DOUBLE_OUTCOME",
    "SEAL_MALFORMED",
    "BAD_SEAL_SIGNATURE",
    "SEAL_MISSING",  # the log says that it was sealed here, seals.jsonl does not
    "ROOT_MISMATCH",  # the log was rewritten below a seal
    "TRUNCATED",  # the log ends below a seal
    "STREAM_MISSING",
    "BAD_ANCHOR_SIGNATURE",
    "ROLLBACK",  # the log ends below an anchor
    "FORK",  # the log continues differently from an anchored one
    "INDEX_DIFFERS",
]
Copy = Literal["segment", "index", "blob", "seals", "anchor"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Proof that something was changed: what, in which copy, at which first place.

    seq is the first wrong event, counted from 0, or None where no single event is to blame.
    where is a file, with a byte offset or line number if there is one.
    """

    code: Code
    copy: Copy
    stream: str | None
    seq: int | None
    where: str
    message: str

    def __str__(self) -> str:
        place = "" if self.stream is None else f" at {self.stream}"
        if self.seq is not None:
            place += f":{self.seq}"
        return f"{self.code}{place} ({self.copy}, {self.where}): {self.message}"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that an auditor should know and that proves no change."""

    code: str
    stream: str | None
    seq: int | None
    message: str

    def __str__(self) -> str:
        place = "" if self.stream is None else f" {self.stream}"
        if self.seq is not None:
            place += f":{self.seq}"
        return f"{self.code}{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Ranges:
    """How far one stream is covered, in events from its beginning.

    Events below ``anchored`` cannot have been changed or removed by anybody who lacks the anchor;
    below ``sealed`` by nobody who lacks the key; above it, by nobody who cannot write the files.
    """

    stream: str
    size: int
    sealed: int
    anchored: int

    @property
    def unsealed(self) -> int:
        """Events at the end that no seal covers."""
        return self.size - self.sealed
