"""What an append leaves on the disk: full segments, syncs, seals; and who reads meanwhile."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from journal import Reader, Settings
from journal.disk import SystemDisk
from journal.segment_walk import open_segment
from journal.segments import iterate
from journal.tailing import Tail
from tests.support.journals import (
    MACHINE,
    Place,
    completed,
    intended,
    note,
    observed,
    seeded,
)
from tests.support.torture import rounds


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_full_segments_are_compressed_and_read_the_same(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.settings = type(place.settings)(
        random=place.settings.random, machine=place.settings.machine, segment_bytes=4096
    )
    with place.create() as journal:
        written = [journal.append(note("x" * 200))[0] for _ in range(40)]
        names = [path.name for path in place.layout.segments(journal.stream)]
        assert names[0] == "000000.jsonl.zst"
        assert names[-1].endswith(".jsonl")
        read = list(journal.reader().events(kinds={"incident_noted"}))
        assert read == written
        assert journal.reader().event(written[0].id) == written[0]
    assert place.verify().status == "intact"
    with place.open() as journal:
        journal.append(note("goes on"))
        rows = journal.reader().query("SELECT count(*) FROM event WHERE kind = 'incident_noted'")
        assert rows.rows == [(41,)]
    assert place.verify().status == "intact"


def test_a_tail_gives_each_event_once_across_streams_and_segments(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.settings = Settings(random=seeded(7), machine=MACHINE, segment_bytes=3_000)
    with place.create() as first, place.open() as second:
        tail = Tail(place.layout)
        tail.skip()
        seen: list[str] = []
        written: list[str] = []
        for number in range(30):
            (event,) = (first if number % 3 else second).append(note("x" * 50 + str(number)))
            written.append(event.id)
            if number % 4 == 0:
                seen += [one.id for one in tail.new() if one.kind == "incident_noted"]
        seen += [one.id for one in tail.new() if one.kind == "incident_noted"]
        assert seen == written
        assert tail.new() == []


class WatchingDisk:
    """The system's disk, with a note of every call in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def reserve(self, descriptor: int, start: int, end: int) -> None:
        """As the system does."""
        SystemDisk().reserve(descriptor, start, end)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write, and remember to which file."""
        self.calls.append(("write", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Sync, and remember which file."""
        self.calls.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        os.fdatasync(descriptor)


def test_an_output_is_on_stable_storage_before_the_line_that_names_it(tmp_path: Path) -> None:
    place, disk = Place(tmp_path), WatchingDisk()
    place.settings = Settings(random=seeded(7), machine=MACHINE, disk=disk)
    with place.create() as journal:
        journal.append(intended("c1"))
        disk.calls.clear()
        journal.append(completed("c1", stdout=b"x", stderr=b"y"), observed("c1", b"{}"))
        assert disk.calls == [
            ("write", "000000.pack"), ("write", "000000.pack"), ("write", "000000.pack"),
            ("sync", "000000.pack"), ("write", "000000.jsonl"), ("sync", "000000.jsonl"),
        ]  # fmt: skip


def test_many_events_in_one_append_cost_one_sync(tmp_path: Path) -> None:
    place, disk = Place(tmp_path), WatchingDisk()
    place.settings = Settings(random=seeded(7), machine=MACHINE, disk=disk)
    with place.create() as journal:
        disk.calls.clear()
        journal.append(*[note(str(number)) for number in range(100)])
        assert disk.calls == [("write", "000000.jsonl"), ("sync", "000000.jsonl")]


def test_a_destructive_intent_is_sealed_and_anchored_when_append_returns(place: Place) -> None:
    with place.create() as journal:
        (intent,) = journal.append(intended("k1", "destroys"))
        (ranges,) = place.verify().ranges
        assert min(ranges.sealed, ranges.anchored) == intent.seq + 1
        (outcome,) = journal.append(completed("k1"))
        (ranges,) = place.verify().ranges
        assert min(ranges.sealed, ranges.anchored) == outcome.seq + 1


def test_a_look_is_not_sealed_by_itself(place: Place) -> None:
    with place.create() as journal:
        journal.append(intended("c1"))
        journal.append(completed("c1"))
        (ranges,) = place.verify().ranges
        assert ranges.sealed == 0


def test_a_long_session_seals_itself(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.settings = Settings(random=seeded(7), machine=MACHINE, seal_every=10)
    with place.create() as journal:
        for number in range(25):
            journal.append(note(str(number)))
        (ranges,) = place.verify().ranges
        assert 20 <= ranges.anchored <= 30


def test_readers_are_not_disturbed_while_segments_are_compressed(tmp_path: Path) -> None:
    """Listing and opening a segment straddle the moment in which it becomes a compressed one."""
    place = Place(tmp_path)
    place.settings = Settings(random=seeded(7), machine=MACHINE, segment_bytes=4_000)
    stop = threading.Event()
    faults: list[Exception] = []

    def read() -> None:
        while not stop.is_set():
            try:
                list(Reader.open(place.path).events())
                assert place.verify().finding is None
            except Exception as fault:  # noqa: BLE001 - any at all is what the test is about
                faults.append(fault)
                return

    with place.create() as journal:
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(150):
            journal.append(note("x" * 300 + str(number)))
        stop.set()
        reader.join()
    assert faults == []


def test_a_reader_never_joins_what_it_read_before_a_write_to_what_it_read_after(
    tmp_path: Path,
) -> None:
    """The room behind the last line is zeros to one look and lines to the next."""
    place = Place(tmp_path)
    with place.create() as journal:
        journal.append(note("first"))
        reading, walking = iterate(place.segment()), open_segment(place.segment())
        assert next(reading).line.endswith(b'"v":1}')
        assert walking.read(1) == b"{"
        for number in range(3):
            journal.append(*[note("x" * 9_000 + str(number))] * 40)  # far beyond the room
        assert all(b"\x00" not in stored.line for stored in reading)
        with walking:
            whole = walking.read()
        assert b"\x00" not in whole
        assert len(whole) < 4_000


WRITES_ON = """
import os, sys
file, line, size = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), b"x" * 200_000 + b"\\n", 0
while True:
    os.posix_fallocate(file, size, len(line) + (256 << 10))
    os.write(file, line)
    size += len(line)
    if size > 40 << 20:
        size = 0
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
"""


def test_a_line_that_is_being_written_is_not_seen_with_a_hole(tmp_path: Path) -> None:
    """The pages of a long line arrive one after the other in the eyes of another process."""
    path = tmp_path / "000000.jsonl"
    path.touch()
    writer = subprocess.Popen([sys.executable, "-c", WRITES_ON, str(path)])
    try:
        seen = 0
        while seen < rounds(300, 10_000):
            assert writer.poll() is None
            for stored in iterate(path, max(0, path.stat().st_size // 200_001 - 4) * 200_001):
                assert b"\x00" not in stored.line
                seen += 1
    finally:
        writer.kill()
        writer.wait(60)
