"""Late redaction, key rotation, heartbeats, readings."""

import os
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from agentops.box import Box
from journal import Event, Journal, KeyStore, NewEvent, Reader, Shredded, verify
from journal.anchors import GIT_FILE, AnchorFailed, SshAnchor, anchor_at
from journal.errors import Corrupt, EventNotFound, KeyUnusable
from journal.events import Heartbeat
from journal.keeper import Keeper
from journal.lines import canonical
from journal.upkeep import record_reading, redact, rotate_key
from tests.support.journals import ACTOR, Place, completed, intended, note, twenty_events

SECRET = b"the customer's name is Eve Example; " * 3


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("size", [1, 60_000])
def test_a_late_redaction_destroys_the_output_and_keeps_the_chain(place: Place, size: int) -> None:
    # Random bytes do not shrink, so that the blob is big enough for a file of its own.
    output = SECRET + (os.urandom(2 << 20) if size > 1 else b"")
    with place.create() as journal:
        journal.append(intended("c1"))
        (event,) = journal.append(completed("c1", stdout=output))
        journal.reader().query("SELECT 1")
        said = redact(journal, event, "stdout", "personal data")
        answer = journal.reader().attachment(event, "stdout")
        assert answer == Shredded("personal data", said.id)
    assert place.verify().status == "intact"
    for path in place.path.rglob("*"):
        assert path.is_dir() or b"Eve Example" not in path.read_bytes(), path


def test_zeros_in_place_of_an_output_are_no_redaction_without_its_event(place: Place) -> None:
    with place.create() as journal:
        journal.append(intended("c1"))
        (event,) = journal.append(completed("c1", stdout=SECRET))
    (pack,) = (place.path / "blob").rglob("*.pack")
    pack.write_bytes(bytes(pack.stat().st_size))
    finding = place.verify().finding
    assert finding is not None
    assert (finding.code, finding.seq) == ("BLOB_MISSING", event.seq)
    with pytest.raises(Corrupt, match="SHREDDED"):
        Reader.open(place.path).attachment(event, "stdout")


def test_only_an_output_that_exists_can_be_redacted(place: Place) -> None:
    with place.create() as journal:
        (event,) = journal.append(note("x"))
        with pytest.raises(EventNotFound, match="it has: none"):
            redact(journal, event, "stdout", "why")


def test_a_rotated_key_is_trusted_by_whoever_pinned_the_old_one(place: Place) -> None:
    with place.create() as journal:
        old = journal.signing_key.public
        journal.append(note("under the old key"))
        journal.seal()
        new = rotate_key(journal)
        journal.append(note("under the new key"))
    assert new != old
    verification = verify(place.path, key=old.line, anchors=[place.anchor])
    assert verification.status == "intact", str(verification.finding)
    assert verification.keys == (old.line, new.line)
    with place.open() as journal:
        assert journal.signing_key.public == new
    assert verify(place.path, key=old.line, anchors=[place.anchor]).status == "intact"


def test_a_key_that_was_rotated_in_one_journal_signs_no_other(place: Place, tmp_path: Path) -> None:
    """Both share a key store; each goes on with the key that it pinned."""
    keys, other = place.keys, tmp_path / "other.journal"
    with Journal.create(other, clock=place.clock, actor=ACTOR, keys=keys, anchor=None) as journal:
        journal.append(note("before"))
    with place.create() as journal:
        rotate_key(journal)
    with Journal.open(other, clock=place.clock, actor=ACTOR, keys=keys) as journal:
        journal.append(note("after"))
    assert verify(other, keys=keys).status == "unanchored"
    assert place.verify().status == "intact"


def test_a_strangers_session_leaves_no_seal_and_the_owner_seals_what_it_wrote(
    place: Place, tmp_path: Path
) -> None:
    """Also what another writer left in doubt is only named by it, not sealed."""
    with place.create() as journal:
        journal.append(note("mine"))
    dying = place.open()
    dying.append(intended("c1"))
    dying.abandon()
    stranger = Journal.open(
        place.path, clock=place.clock, actor=ACTOR, keys=KeyStore(tmp_path / "theirs"),
        settings=replace(place.settings, seals=False),
    )  # fmt: skip
    with stranger as journal:
        journal.append(*(note(f"theirs {n}") for n in range(300)))
    between = place.verify()
    assert between.finding is None, between.finding
    with place.open():
        pass
    assert place.verify().status == "intact"


def test_the_new_key_alone_does_not_vouch_for_what_the_old_one_sealed(place: Place) -> None:
    with place.create() as journal:
        journal.seal()
        new = rotate_key(journal)
    finding = verify(place.path, key=new.line, anchors=[place.anchor]).finding
    assert finding is not None
    assert finding.code == "BAD_SEAL_SIGNATURE"


def test_a_silent_hour_after_a_heartbeat_is_a_gap(place: Place) -> None:
    with place.create() as journal:
        journal.append(NewEvent(Heartbeat(interval_ms=60_000)))
        journal.append(NewEvent(Heartbeat(interval_ms=60_000)))
        place.clock.back(-3_600_000_000)
        (late,) = journal.append(note("an hour later"))
    gaps = [remark for remark in place.verify().remarks if remark.code == "GAP"]
    assert [remark.seq for remark in gaps] == [late.seq]


def test_an_ended_session_leaves_no_gap(place: Place) -> None:
    with place.create() as journal:
        journal.append(NewEvent(Heartbeat(interval_ms=60_000)))
    place.clock.back(-3_600_000_000)
    with place.open() as journal:
        journal.append(note("the next day"))
    assert "GAP" not in {remark.code for remark in place.verify().remarks}


def test_the_keeper_brings_the_index_up_and_beats(place: Place) -> None:
    with place.create() as journal:
        with Keeper(journal, index_every_ms=5, heartbeat_every_ms=20) as keeper:
            journal.append(note("seen by a notebook"))
            beats: list[Event] = []
            end = time.monotonic() + 60
            while (len(beats) < 2 or not place.layout.index.exists()) and time.monotonic() < end:
                threading.Event().wait(0.005)
                beats = list(journal.reader().events(kinds={"heartbeat"}))
            assert len(beats) >= 2
        assert keeper.index_fault is None
        with duckdb.connect(place.layout.index, read_only=True) as connection:
            rows = connection.execute("SELECT count(*) FROM event WHERE kind = 'incident_noted'")
            assert rows.fetchall() == [(1,)]


def test_a_reading_is_an_event_with_its_reader(place: Place) -> None:
    twenty_events(place)
    with place.open() as journal:
        event = record_reading(journal, "export", "incident I1")
    assert event.actor.id == "ada"
    assert place.verify().status == "intact"


@pytest.mark.needs("git")
def test_a_git_anchor_keeps_its_commits_and_ignores_the_work_tree(tmp_path: Path) -> None:
    folder = tmp_path / "anchors"
    for argv in (
        ["init", "--quiet", str(folder)],
        ["-C", str(folder), "config", "user.email", "a@b"],
        ["-C", str(folder), "config", "user.name", "a"],
    ):
        subprocess.run(["git", *argv], check=True)
    place = Place(tmp_path)
    with Journal.create(
        place.path, clock=place.clock, actor=ACTOR, keys=place.keys, anchor=f"git:{folder}",
        settings=place.settings,
    ) as journal:  # fmt: skip
        journal.append(note("kept"))
    assert place.verify().status == "intact"
    (folder / GIT_FILE).write_text("")
    assert place.verify().status == "intact"
    place.put_lines(place.lines()[:1])
    place.layout.seals.unlink()
    place.layout.index.unlink()
    finding = place.verify().finding
    assert finding is not None
    assert finding.code == "ROLLBACK"


@pytest.mark.needs("ssh")
@pytest.mark.parametrize("place_name", ["ssh:-oProxyCommand=x:/y", "ssh:host", "ssh::/x"])
def test_an_ssh_anchor_that_is_none_is_refused(place_name: str) -> None:
    with pytest.raises(KeyUnusable, match="ssh:HOST:PATH"):
        anchor_at(place_name)


def test_an_anchor_that_cannot_be_reached_is_written_down(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with Journal.create(
        place.path, clock=place.clock, actor=ACTOR, keys=place.keys,
        anchor=f"git:{tmp_path}/nowhere", settings=place.settings,
    ) as journal:  # fmt: skip
        journal.append(note("kept"))
    verification = place.verify()
    assert verification.status == "unanchored"
    assert "ANCHOR_UNREADABLE" in {remark.code for remark in verification.remarks}
    assert '"taken":false' in place.layout.anchors.read_text()


@pytest.mark.needs("ssh", "sshd")
def test_an_ssh_anchor_appends_to_a_file_behind_a_real_server(tmp_path: Path) -> None:
    with Box(containers=()) as box:
        known = tmp_path / "known_hosts"
        known.write_text(f"[127.0.0.1]:{box.address.port} {box.address.host_key}\n")
        remote = box.directory / "anchor of ada.jsonl"
        anchor = SshAnchor(
            f"{box.address.user}@127.0.0.1",
            str(remote),
            options=("-p", str(box.address.port), "-i", str(box.address.key), "-F", "none",
                     f"-oUserKnownHostsFile={known}", "-oStrictHostKeyChecking=yes"),
        )  # fmt: skip
        assert anchor.notes() is None
        place = Place(tmp_path)
        with place.create() as journal:
            journal.anchors = (anchor,)
            journal.append(note("kept"))
            journal.seal()
        stored = anchor.notes()
        assert stored is not None
        assert len(stored) == 3
        local = tmp_path / "fetched.jsonl"
        local.write_bytes(b"".join(canonical({"note": one.note}) + b"\n" for one in stored))
        assert place.verify(anchors=[local]).status == "intact"
        known.write_text("")
        with pytest.raises(AnchorFailed, match="refused"):
            anchor.send("x")
