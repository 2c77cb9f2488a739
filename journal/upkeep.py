"""What an operator does to a journal beyond appending: redact late, rotate the key, note a reading.

Each is an event before or with the deed, like everything else. Not here: redaction before hashing
(``journal.redaction``), sealing (``journal.sealing``).
"""

from journal.blobs import BlobFault, shred
from journal.envelope import Event, NewEvent
from journal.errors import Corrupt, EventNotFound
from journal.events import JournalRead, KeyRotated, Redacted
from journal.index import rebuild
from journal.note_check import rotation_text
from journal.notes import PublicKey, signature_line
from journal.sealing import take_over
from journal.writer import Journal


def redact(journal: Journal, event: Event, attachment: str, reason: str) -> Event:
    """Destroy one stored output for good; its commitment stays in the line, so the chain holds.

    Said first, done second: a crash in between leaves a redaction that is announced and can be
    repeated. Copies outside this folder (backups, bundles) are beyond its reach.

    Raises:
        EventNotFound: The event has no such attachment.
        Corrupt: The blob is missing.
        WriteFailed: The disk refused.
    """
    reference = event.out.get(attachment)
    if reference is None:
        has = ", ".join(sorted(event.out)) or "none"
        raise EventNotFound(f"event {event.id} has no attachment {attachment!r} (it has: {has})")
    payload = Redacted(event=event.id, attachment=attachment, reason=reason)
    (said,) = journal.append(NewEvent(payload, incident=event.incident, cause=event.id))
    folder = journal.layout.blobs(event.stream)
    try:
        shred(folder, reference)
    except BlobFault as fault:
        raise Corrupt(
            f"attachment {attachment}: {fault}", stream=event.stream, seq=event.seq,
            where=reference.file,
        ) from fault  # fmt: skip
    # The index showed the output inline; DuckDB keeps deleted rows' bytes, a new file does not.
    rebuild(journal.layout)
    return said


def rotate_key(journal: Journal) -> PublicKey:
    """Draw a new signing key and hand over: both keys sign the statement, the log records it.

    The next seal is the new key's, and so is one over every stream's newest head. Whoever pinned
    the old key can follow the statement.

    Raises:
        KeyUnusable: The key store cannot be written.
        WriteFailed: The disk refused.
    """
    old = journal.signing_key
    new = journal.keys.make_key()
    text = rotation_text(old.public, new.public)
    statement = text + "\n" + signature_line(text, old) + signature_line(text, new)
    journal.append(
        NewEvent(KeyRotated(old_key=old.public.line, new_key=new.public.line, statement=statement))
    )
    journal.signing_key = new
    journal.keys.pin(journal.journal_id, key=new.public, anchor=None)
    journal.seal()
    take_over(journal, new, journal.settings.disk)
    return new.public


def record_reading(journal: Journal, purpose: str, query: str) -> Event:
    """Write down that somebody read or exported the journal; who is the session's actor.

    Raises:
        WriteFailed: The disk refused.
    """
    (event,) = journal.append(NewEvent(JournalRead(purpose=purpose, query=query)))
    return event
