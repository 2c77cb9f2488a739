"""Journals for tests: a clock and randomness that repeat, ordinary events, places on disk.

The clock and the random source are second implementations of the journal's own seams; everything
else is the real thing.
"""

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from journal import Actor, HostRef, Journal, KeyStore, NewEvent, Settings, Verification, verify
from journal.disk import SystemDisk
from journal.events import (
    CommandCompleted,
    CommandIntended,
    CommandOutcomeUnknown,
    CommandReconciled,
    Effect,
    IncidentNoted,
    ObservationParsed,
)
from journal.layout import Layout
from journal.machine import Machine, RandomSource

ACTOR = Actor("human", "ada")
HOST = HostRef("box", "SHA256:fingerprint")
MACHINE = Machine(
    "controller/0123456789ab", "boot-1", "Linux 6 x86_64", "3.11.7", "0.1.0", 4242, 1000
)


class SteppingClock:
    """Each reading is one millisecond after the one before; ``back`` sets the wall clock back."""

    def __init__(self, start_us: int = 1_796_000_000_000_000) -> None:
        self._wall_us = start_us
        self._mono_ns = 5_000_000_000

    def wall_us(self) -> int:
        """One millisecond later than at the last reading."""
        self._wall_us += 1_000
        return self._wall_us

    def mono_ns(self) -> int:
        """One millisecond later than at the last reading."""
        self._mono_ns += 1_000_000
        return self._mono_ns

    def back(self, by_us: int) -> None:
        """Set the wall clock back."""
        self._wall_us -= by_us


def seeded(seed: int) -> RandomSource:
    """A random source that repeats."""
    return random.Random(seed).randbytes  # noqa: S311 - repeatable on purpose


class FailingDisk:
    """A disk that can be told to refuse: the second implementation of ``journal.disk.Disk``."""

    def __init__(self) -> None:
        self.write_error: OSError | None = None
        self.sync_error: OSError | None = None
        self.write_room: int | None = None

    def reserve(self, descriptor: int, start: int, end: int) -> None:
        """As the system does."""
        SystemDisk().reserve(descriptor, start, end)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write, or refuse after ``write_room`` bytes."""
        if self.write_error is not None:
            if self.write_room:
                data, self.write_room = data[: self.write_room], 0
                return os.write(descriptor, data)
            raise self.write_error
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Sync, or refuse."""
        if self.sync_error is not None:
            raise self.sync_error
        os.fsync(descriptor)


@dataclass
class Place:
    """One journal with its keys and its anchor, side by side in a folder."""

    root: Path
    clock: SteppingClock = field(default_factory=SteppingClock)
    seed: int = 7
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        """Draw ids and salts from the seed, so that two places differ and each repeats."""
        self.settings = Settings(random=seeded(self.seed), machine=MACHINE)

    @property
    def path(self) -> Path:
        """The journal's folder."""
        return self.root / "x.journal"

    @property
    def layout(self) -> Layout:
        """The journal's paths."""
        return Layout(self.path)

    @property
    def keys(self) -> KeyStore:
        """The user's key store."""
        return KeyStore(self.root / "keys", seeded(self.seed + 1_000))

    @property
    def anchor(self) -> Path:
        """The anchor outside the journal."""
        return self.root / "elsewhere" / "anchor.jsonl"

    def create(self) -> Journal:
        """Begin the journal."""
        return Journal.create(
            self.path, clock=self.clock, actor=ACTOR, keys=self.keys, anchor=self.anchor,
            settings=self.settings,
        )  # fmt: skip

    def open(self) -> Journal:
        """Open it again."""
        return Journal.open(
            self.path, clock=self.clock, actor=ACTOR, keys=self.keys, settings=self.settings
        )

    def verify(self, anchors: Sequence[Path] | None = None) -> Verification:
        """Verify it with the store's key."""
        return verify(self.path, keys=self.keys, anchors=anchors)

    def segment(self, number: int = 0) -> Path:
        """A segment of the first stream."""
        return self.layout.segments(self.layout.streams()[0])[number]

    def lines(self) -> list[bytes]:
        """The lines of its first segment, without the room behind them."""
        return self.segment().read_bytes().rstrip(b"\x00").splitlines()

    def put_lines(self, lines: Sequence[bytes]) -> None:
        """Overwrite its first segment, as an attacker would."""
        self.segment().write_bytes(b"".join(line + b"\n" for line in lines))


def intended(
    command_id: str, effect: Effect = "observes", host: HostRef | None = HOST, **more: str
) -> NewEvent:
    """An ordinary intent."""
    payload = CommandIntended(
        command_id=command_id,
        command=more.get("command", "list_processes"),
        definition="d" * 64,
        arguments={"path": "/proc"},
        argv=("ps", "-eo", "pid,args"),
        route=("ssh", "pct"),
        effect=effect,
        intrusiveness=0,
        retry="reconcile",
        deadline_ms=30_000,
        victims=(),
        decision_id=None,
        authority="test",
        reason="to see",
    )
    return NewEvent(payload, incident="I1", host=host)


def completed(command_id: str, **attachments: bytes) -> NewEvent:
    """Its ordinary outcome."""
    payload = CommandCompleted(command_id=command_id, exit_status=0, duration_ms=12)
    return NewEvent(payload, incident="I1", host=HOST, attachments=attachments)


def unknown(command_id: str) -> NewEvent:
    """Its outcome when the connection broke."""
    payload = CommandOutcomeUnknown(
        command_id=command_id, reason="connection_lost", detail="reset by peer", duration_ms=9
    )
    return NewEvent(payload, incident="I1", host=HOST)


def reconciled(command_id: str, settled: str = "done") -> NewEvent:
    """A probe's answer to that."""
    payload = CommandReconciled.model_validate(
        {"command_id": command_id, "settled": settled, "evidence": ("e1",)}
    )
    return NewEvent(payload, incident="I1", host=HOST)


def observed(command_id: str, observation: bytes) -> NewEvent:
    """An observation kept in the blob pack."""
    payload = ObservationParsed(
        command_id=command_id,
        command="list_processes",
        definition="d" * 64,
        parser_version=1,
        observation=None,
    )
    return NewEvent(payload, incident="I1", host=HOST, attachments={"observation": observation})


def note(text: str) -> NewEvent:
    """A remark."""
    return NewEvent(IncidentNoted(text=text), incident="I1")


def without_its_second_stream(place: Place) -> str:
    """Two writers at once, and the folder of the second one's stream deleted; gives its name."""
    with place.create() as first, place.open() as second:
        first.append(note("one"))
        second.append(note("two"))
        gone = second.stream
    shutil.rmtree(place.layout.stream(gone))
    return gone


def twenty_events(place: Place) -> None:
    """A whole session of some twenty events: intents, outcomes, outputs, a destructive command."""
    with place.create() as journal:
        for number in range(3):
            journal.append(intended(f"c{number}"))
            journal.append(
                completed(f"c{number}", stdout=b"PID ARGS\n" + b"1 init\n" * number),
                observed(f"c{number}", b'{"n":%d}' % number),
            )
        journal.append(intended("k1", "destroys"))
        journal.append(completed("k1"))
        journal.append(note("caf\u00e9 \u2014 quoted, never believed"))
