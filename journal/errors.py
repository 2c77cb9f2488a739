"""What the journal raises, and nothing else.

    JournalError
    ├── NotAJournal           the path holds no journal, or one that this version cannot read
    ├── JournalExists         create was asked for, and something is there already
    ├── Refused               a promise of the journal would be broken; nothing was written
    │   ├── LineProfileError      a value cannot stand in a canonical line
    │   ├── DuplicateIdem         this idempotency key was used before
    │   ├── OrphanOutcome         an outcome (or observation) without its intent
    │   ├── DoubleOutcome         a second outcome for one intent
    │   └── HostBlocked           an unknown outcome on this host waits to be reconciled
    ├── WriteFailed           the disk refused; nothing of this append was acknowledged
    │   └── SealFailed            the intent is durable but could not be sealed: do not act
    ├── IndexFailed           journal.duckdb cannot be brought up; the evidence is not touched
    ├── JournalClosed         the journal was closed, or belongs to another process
    ├── Corrupt               stored bytes contradict the chain: names stream, seq, place
    │   ├── SegmentDamaged        a segment holds what no writer writes, so it is not read on
    │   └── SealContradicted      the log is not what the journal's own keys signed: not written on
    ├── KeyUnusable           the signing or verifying key cannot be used
    ├── QueryFailed           DuckDB refused the SQL
    └── EventNotFound         no event, or more than one, has this id

Every text is one line for a person: what, where, expected, got, remedy.
"""


class JournalError(Exception):
    """Base of all errors of the journal; its text is one line for a person."""


class NotAJournal(JournalError):  # noqa: N818 - the sentence reads better without "Error"
    """The path holds no journal that this version can read."""


class JournalExists(JournalError):  # noqa: N818
    """Something is already where a journal should be created."""


class Refused(JournalError):  # noqa: N818
    """A promise of the journal would be broken. Nothing was written; the journal stays usable."""


class LineProfileError(Refused):
    """A value cannot stand in a canonical line (float, huge integer, non-ASCII key, surrogate)."""


class DuplicateIdem(Refused):
    """The idempotency key was used before, in this or another stream."""


class OrphanOutcome(Refused):
    """An outcome whose intent is not open in this stream."""


class DoubleOutcome(Refused):
    """A second outcome for one intent."""


class HostBlocked(Refused):
    """A command that changes or destroys, while an unknown outcome on its host is unreconciled."""


class WriteFailed(JournalError):  # noqa: N818
    """The disk refused. Nothing of this append was acknowledged; the next append tries anew."""


class SealFailed(WriteFailed):
    """A destructive intent is durable, but no seal covers it. It must not be acted on."""


class IndexFailed(JournalError):  # noqa: N818
    """The index cannot be brought up. Events and outputs are not touched."""


class JournalClosed(JournalError):  # noqa: N818
    """The journal was closed, or this process is a fork of the one that opened it."""


class Corrupt(JournalError):  # noqa: N818
    """Stored bytes contradict the chain.

    Attributes:
        stream: The stream that is wrong.
        seq: Place of the first event that is wrong, counted from 0.
        where: File and byte offset.
    """

    def __init__(self, message: str, *, stream: str, seq: int, where: str) -> None:
        super().__init__(f"{message} (stream {stream}, seq {seq}, {where})")
        self.stream = stream
        self.seq = seq
        self.where = where


class SegmentDamaged(Corrupt):
    """A segment holds what no writer writes; it cannot be read on, so no event's place is known.

    Attributes:
        reason: What is wrong with it, without its place.
        is_line: Whether it is one line that is wrong.
    """

    def __init__(self, reason: str, *, stream: str, where: str, is_line: bool = False) -> None:
        JournalError.__init__(self, f"{reason} (stream {stream}, {where}); run: agentops verify")
        self.stream, self.seq, self.where = stream, -1, where
        self.reason, self.is_line = reason, is_line


class SealContradicted(Corrupt):
    """The log is not what was signed of it; no session goes on from it, and no file is changed.

    Attributes:
        where: The note that it contradicts.
    """

    def __init__(self, message: str, *, stream: str, seq: int, where: str) -> None:
        super().__init__(message, stream=stream, seq=seq, where=where)
        self.args = (f"{self.args[0]}; nothing was written; run: agentops verify",)


class KeyUnusable(JournalError):  # noqa: N818
    """The signing or verifying key is missing, unreadable, malformed or readable by others."""


class QueryFailed(JournalError):  # noqa: N818
    """DuckDB refused the SQL; the text is its own first line."""


class EventNotFound(JournalError):  # noqa: N818
    """No event, or more than one, has this id, prefix or place."""
