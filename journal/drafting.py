"""From what a caller hands in to what can be chained: redaction, outputs, id, time.

Here: everything about a new event that needs no place in the chain, so that it is done outside the
writer's mutex. Not here: the chain and the disk's acknowledgement (``journal.writer``).
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from journal.blobs import BlobWriter, Output
from journal.clock import Clock
from journal.disk import Disk, SystemDisk
from journal.envelope import Actor, Draft, NewEvent, OutputRef
from journal.events import CommandIntended
from journal.machine import Machine, RandomSource, this_machine, ulid
from journal.redaction import Clean, Redactor
from journal.streams import SEGMENT_BYTES

SEAL_EVERY = 256  # events; bounds what an attacker with the disk can rewrite unsealed
BOOKMARK_EVERY = 1_024  # events at least; opening reads no more than about that many


@dataclass(frozen=True, slots=True)
class Settings:
    """The journal's seams and sizes, each with its ordinary value.

    seals is False for one whose key is not the journal's: what is written then stays unsealed until
    the next session of one who has it.
    """

    disk: Disk = field(default_factory=SystemDisk)
    random: RandomSource = os.urandom
    machine: Machine = field(default_factory=this_machine)
    redactor: Redactor = field(default_factory=Redactor)
    segment_bytes: int = SEGMENT_BYTES
    seal_every: int = SEAL_EVERY
    seals: bool = True
    bookmark_every: int = BOOKMARK_EVERY


@dataclass(frozen=True, slots=True)
class Drafter:
    """Makes drafts for one session. ``actor`` is who acts unless the event names another."""

    blobs: BlobWriter
    clock: Clock
    actor: Actor
    settings: Settings

    def drafts(self, new: Sequence[NewEvent]) -> list[Draft]:
        """Redact, store the outputs with one sync for all, and give each event id and time."""
        redactor = self.settings.redactor
        outputs: dict[tuple[int, str], Output] = {}
        cleaned: list[Clean] = []
        struck: dict[int, Counter[str]] = {}
        for place, one in enumerate(new):
            clean = redactor.payload(one.payload)
            cleaned.append(clean)
            if clean.struck:
                struck[place] = Counter(clean.struck)
            for name, given in one.attachments.items():
                outputs[place, name], found = redactor.output(Output.of(given))
                if found:
                    struck.setdefault(place, Counter()).update(found)
        references: dict[int, dict[str, OutputRef]] = {}
        for (place, name), reference in self.blobs.store(outputs).items():
            references.setdefault(place, {})[name] = reference
        return [
            self._draft(one, clean, struck.get(place, {}), references.get(place, {}))
            for place, (one, clean) in enumerate(zip(new, cleaned, strict=True))
        ]

    def _draft(
        self, new: NewEvent, clean: Clean, struck: dict[str, int], out: dict[str, OutputRef]
    ) -> Draft:
        idem = new.idem
        if idem is None and type(clean.payload) is CommandIntended:
            idem = clean.payload.command_id
        wall_us = self.clock.wall_us()
        return Draft(
            id=ulid(wall_us, self.settings.random),
            ts_us=wall_us,
            mono_us=self.clock.mono_ns() // 1_000,
            boot=self.settings.machine.boot_id,
            incident=new.incident,
            host=new.host,
            actor=new.actor or self.actor,
            cause=new.cause,
            idem=idem,
            payload=clean.payload,
            data=clean.text,
            out=out,
            redacted=dict(struck),
        )
