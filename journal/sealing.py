"""What happens when a stream is sealed: sign, store, send to the anchors, and say so.

Between ``journal.writer``, which knows the head, and ``journal.seals``, which knows the form. A
failing anchor does not stop the journal: it is written down in ``anchors.jsonl``, and ``verify``
shows the range as unanchored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from journal.anchors import Anchor, AnchorFailed
from journal.clock import Clock
from journal.disk import Disk
from journal.envelope import Event, NewEvent
from journal.events import CommandIntended, SealAnchored, Sealed
from journal.keys import KeyStore
from journal.kinds import OUTCOME_KINDS
from journal.layout import Layout, stream_order
from journal.ledger import command_id_of
from journal.notes import SigningKey
from journal.seals import (
    Head,
    append_note,
    append_object,
    latest_heads,
    seal_note,
    super_seal_note,
)


@dataclass(slots=True)
class Pace:
    """When a stream is to be sealed: around destructive commands, and every so many events."""

    every: int
    sealed_size: int
    _destroying: set[str] = field(default_factory=set)

    def around(self, events: Sequence[Event]) -> tuple[bool, bool]:
        """Whether a destructive command is about to be sent, and whether one has ended."""
        before, after = False, False
        for event in events:
            payload = event.payload
            if type(payload) is CommandIntended and payload.effect == "destroys":
                self._destroying.add(payload.command_id)
                before = True
            elif event.kind in OUTCOME_KINDS and command_id_of(payload) in self._destroying:
                self._destroying.discard(command_id_of(payload))
                after = True
        return before, after

    def is_overdue(self, size: int) -> bool:
        """Whether too many events lie behind the last seal."""
        return size - self.sealed_size >= self.every

    def hurry(self) -> None:
        """A seal failed: the next append tries again."""
        self.sealed_size = -self.every


class Sealable(Protocol):
    """As much of a journal as sealing needs."""

    layout: Layout
    journal_id: str
    clock: Clock
    keys: KeyStore
    anchors: tuple[Anchor, ...]


def seal(journal: Sealable, head: Head, key: SigningKey, disk: Disk) -> list[NewEvent]:
    """Store and anchor a signed head; gives the events that say so.

    Raises:
        WriteFailed: ``seals.jsonl`` cannot be written.
    """
    note = seal_note(journal.journal_id, head, journal.clock.wall_us(), key)
    append_note(journal.layout.seals, disk, note)
    key_id = key.public.key_id.hex()
    events = [NewEvent(Sealed(size=head.size, root=head.root, key_id=key_id))]
    events += [
        NewEvent(SealAnchored(size=head.size, root=head.root, sink=place))
        for place in _send(journal, note, head.stream, head.size, disk)
    ]
    return events


def super_seal(journal: Sealable, key: SigningKey, disk: Disk) -> Sequence[Head]:
    """Sign the heads of all streams together, store and anchor it; gives the heads.

    Heads that no key of this journal signed are left out: whoever can write ``seals.jsonl`` could
    otherwise have the owner's key sign what never was.

    Raises:
        WriteFailed: ``seals.jsonl`` cannot be written.
    """
    trusted = (key.public, *journal.keys.pinned(journal.journal_id).keys)
    found = latest_heads(journal.layout.seals, journal.journal_id, trusted)
    heads = [found[name] for name in sorted(found, key=stream_order)]
    note = super_seal_note(journal.journal_id, heads, journal.clock.wall_us(), key)
    append_note(journal.layout.seals, disk, note, heads)
    _send(journal, note, "", len(heads), disk)
    return heads


def take_over(journal: Sealable, key: SigningKey, disk: Disk) -> None:
    """Sign, store and anchor the newest head of each stream that another key of ours signed last.

    After a key was rotated, whoever is given the new one alone, as a bundle's verifier is, could
    otherwise judge no stream that was last sealed before.

    Raises:
        WriteFailed: ``seals.jsonl`` cannot be written.
    """
    trusted = (key.public, *journal.keys.pinned(journal.journal_id).keys)
    path, journal_id = journal.layout.seals, journal.journal_id
    own = latest_heads(path, journal_id, (key.public,))
    newest = latest_heads(path, journal_id, trusted)
    for stream in sorted(newest, key=stream_order):
        head = newest[stream]
        if own.get(stream) != head:
            note = seal_note(journal_id, head, journal.clock.wall_us(), key)
            append_note(path, disk, note)
            _send(journal, note, stream, head.size, disk)


def _send(journal: Sealable, note: str, stream: str, size: int, disk: Disk) -> list[str]:
    """Send to every anchor; gives the places that took it."""
    taken: list[str] = []
    for anchor in journal.anchors:
        detail = ""
        try:
            anchor.send(note)
        except AnchorFailed as error:
            detail = str(error)
        else:
            taken.append(anchor.place)
        append_object(
            journal.layout.anchors,
            disk,
            {
                "anchor": anchor.place,
                "detail": detail,
                "size": size,
                "stream": stream,
                "taken": not detail,
                "ts_us": journal.clock.wall_us(),
            },
        )
    return taken
