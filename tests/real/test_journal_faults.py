"""A disk that is full, read-only or lying: acknowledged stays, the rest is refused clearly."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal import Journal, Reader, Settings
from journal.errors import JournalError, SealFailed, WriteFailed
from journal.events import JournalRecovered
from tests.support.journals import (
    ACTOR,
    MACHINE,
    FailingDisk,
    Place,
    completed,
    intended,
    note,
    seeded,
)

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def place(tmp_path: Path, disk: FailingDisk) -> Place:
    place = Place(tmp_path)
    place.settings = Settings(random=seeded(7), machine=MACHINE, disk=disk)
    return place


def texts(place: Place) -> list[str]:
    return [
        str(event.payload.model_dump()["text"])
        for event in Reader.open(place.path).events(kinds={"incident_noted"})
    ]


@pytest.mark.parametrize("room", [0, 1, 200])
def test_a_write_that_runs_out_of_space_leaves_nothing_of_its_append(
    place: Place, disk: FailingDisk, room: int
) -> None:
    with place.create() as journal:
        journal.append(note("kept"))
        disk.write_error, disk.write_room = FULL, room
        with pytest.raises(WriteFailed, match="No space left"):
            journal.append(note("refused"))
        with pytest.raises(WriteFailed):
            journal.append(note("refused again"))
        disk.write_error = None
        journal.append(note("goes on"))
        (event,) = journal.reader().events(kinds={"journal_recovered"})
        assert isinstance(event.payload, JournalRecovered)
        assert "No space left" in event.payload.what
    assert texts(place) == ["kept", "goes on"]
    assert place.verify().status == "intact"


def test_a_failed_sync_acknowledges_nothing_and_is_not_simply_retried(
    place: Place, disk: FailingDisk
) -> None:
    """After a failed fdatasync the kernel may call the lost pages clean: they are cut off."""
    with place.create() as journal:
        journal.append(note("kept"))
        disk.sync_error = BROKEN
        with pytest.raises(WriteFailed, match="nothing was acknowledged"):
            journal.append(note("refused"))
        disk.sync_error = None
        journal.append(note("goes on"))
    assert texts(place) == ["kept", "goes on"]
    assert place.verify().status == "intact"


def test_an_output_that_cannot_be_stored_refuses_its_event(place: Place, disk: FailingDisk) -> None:
    with place.create() as journal:
        journal.append(intended("c1"))
        disk.write_error, disk.write_room = FULL, 20
        with pytest.raises(WriteFailed):
            journal.append(completed("c1", stdout=b"x" * 500))
        disk.write_error = None
        (event,) = journal.append(completed("c1", stdout=b"x" * 500))
        assert journal.reader().attachment(event, "stdout") == b"x" * 500
    assert place.verify().status == "intact"


def test_a_destructive_intent_that_cannot_be_sealed_says_do_not_act(
    place: Place,
) -> None:
    with place.create() as journal:
        place.layout.seals.unlink(missing_ok=True)
        place.layout.seals.mkdir()
        with pytest.raises(SealFailed, match="do not act"):
            journal.append(intended("k1", "destroys"))
        place.layout.seals.rmdir()
        journal.append(completed("k1"))
    assert place.verify().status == "intact"


def test_a_full_disk_at_the_end_of_a_session_loses_nothing_acknowledged(
    place: Place, disk: FailingDisk
) -> None:
    journal = place.create()
    journal.append(note("kept"))
    disk.write_error = FULL
    with pytest.raises(WriteFailed):
        journal.close()
    disk.write_error = None
    with place.open() as journal:
        journal.append(note("next session"))
    assert texts(place) == ["kept", "next session"]
    assert place.verify().status == "intact"


def test_an_unwritable_anchor_is_written_down_and_stops_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.anchor.parent.parent.mkdir(exist_ok=True)
    place.anchor.parent.write_text("a file where the anchor's folder should be")
    with place.create() as journal:
        journal.append(note("kept"))
    assert place.verify().status == "unanchored"
    assert '"taken":false' in place.layout.anchors.read_text()


@pytest.fixture
def small_mount(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB, gone afterwards."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(mount)], check=True)
    yield mount
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


@pytest.mark.needs("root-namespaces", "mount")
def test_a_full_file_system_is_survived(small_mount: Path, tmp_path: Path) -> None:
    """Events, outputs and index compete for 3 MB; then space returns."""
    place = Place(tmp_path)
    path = small_mount / "x.journal"
    ballast = small_mount / "ballast"
    journal = Journal.create(
        path, clock=place.clock, actor=ACTOR, keys=place.keys, anchor=place.anchor,
        settings=place.settings,
    )  # fmt: skip
    journal.append(note("first"))
    journal.reader().query("SELECT 1")
    ballast.write_bytes(bytes(512 << 10))
    acknowledged = ["first"]
    refused = 0
    for number in range(4000):
        try:
            journal.append(note(f"{number} " + "x" * 2000))
            acknowledged.append(str(number))
        except WriteFailed as error:
            assert "No space left" in str(error)  # noqa: PT017 - the loop goes on
            refused += 1
            if refused > 3:
                break
    assert refused > 3
    with pytest.raises(JournalError):
        journal.reader().query("SELECT count(*) FROM event")
    found = [
        str(event.payload.model_dump()["text"]).split(" ")[0]
        for event in Reader.open(path).events(kinds={"incident_noted"})
    ]
    assert found == acknowledged
    ballast.unlink()
    journal.append(note("goes on"))
    journal.close()
    read = [
        str(event.payload.model_dump()["text"]).split(" ")[0]
        for event in Reader.open(path).events(kinds={"incident_noted"})
    ]
    assert read == [*acknowledged, "goes"]


@pytest.mark.needs("root-namespaces", "mount")
def test_a_read_only_file_system_is_read_and_refuses_a_writer(
    small_mount: Path, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    path = small_mount / "x.journal"
    with Journal.create(
        path, clock=place.clock, actor=ACTOR, keys=place.keys, anchor=None, settings=place.settings
    ) as journal:
        journal.append(note("kept"))
    subprocess.run(["mount", "-o", "remount,ro", str(small_mount)], check=True)
    assert len(list(Reader.open(path).events(kinds={"incident_noted"}))) == 1
    assert Reader.open(path).query("SELECT count(*) FROM event").rows[0][0] == 3
    with pytest.raises(WriteFailed, match="Read-only"):
        Journal.open(path, clock=place.clock, actor=ACTOR, keys=place.keys)


def test_an_opening_that_fails_leaves_no_lock_behind(place: Place, disk: FailingDisk) -> None:
    """The next opening goes on in the same stream and settles what was in doubt there."""
    with place.create() as journal:
        journal.append(intended("c1"))
        journal.abandon()
    disk.write_error = FULL
    with pytest.raises(WriteFailed):
        place.open()
    disk.write_error = None
    with place.open() as journal:
        assert [intent.command_id for intent in journal.unreconciled()] == ["c1"]
        assert place.layout.streams() == [journal.stream]
    assert place.verify().status == "intact"
