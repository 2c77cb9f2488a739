"""What lies in a journal's folder and was put there by nobody of ours neither hangs nor passes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from journal import Reader
from journal.errors import JournalError, NotAJournal, SegmentDamaged
from journal.lines import canonical, leaf_hash, parse
from journal.seals import Head, append_note, seal_note
from journal.verification import verify_chain
from tests.support.journals import Place, note, twenty_events

MIB = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    twenty_events(place)
    return place


def packed(place: Place, content: bytes) -> None:
    """Put a compressed segment in the place of the plain one."""
    path = place.segment()
    path.with_name(path.name + ".zst").write_bytes(content)
    path.unlink()


def test_behind_a_line_longer_than_any_event_nothing_is_believed(place: Place) -> None:
    lines = place.lines()
    forged = parse(lines[-1])
    forged["seq"], forged["prev"] = len(lines), leaf_hash(lines[-1]).hex()
    with place.segment().open("ab") as file:
        file.write(b"a" * (65 * MIB) + b"\n" + canonical(forged) + b"\n")
    verification = place.verify()
    assert verification.status == "tampered"
    assert verification.finding is not None
    assert verification.finding.code == "LINE_MALFORMED"
    assert verification.finding.seq == len(lines)
    assert verify_chain(place.path)[1] is not None
    with pytest.raises(SegmentDamaged, match="longer than 64 MiB"):
        list(Reader.open(place.path).events())
    with pytest.raises(SegmentDamaged, match="longer than 64 MiB"):
        place.open()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"no zstandard at all", "SEGMENT_CHANGED"),
        (zstandard.ZstdCompressor().compress(bytes(200 * MIB)), "LINE_MALFORMED"),
    ],
    ids=["garbage", "a bomb of zeros"],
)
def test_a_packed_segment_that_does_not_unpack_is_named(
    place: Place, content: bytes, code: str
) -> None:
    packed(place, content)
    finding = place.verify().finding
    assert finding is not None
    assert finding.code == code
    assert verify_chain(place.path)[1] is not None
    with pytest.raises(SegmentDamaged):
        list(Reader.open(place.path).events())


@pytest.mark.parametrize(
    "where",
    [
        lambda place: place.segment(),
        lambda place: place.segment().with_name("000001.jsonl"),
        lambda place: next(place.layout.blobs(place.layout.streams()[0]).iterdir()),
        lambda place: place.layout.seals,
        lambda place: place.layout.format_file,
        lambda place: place.layout.bookmark,
        lambda place: place.layout.anchors,
        lambda place: place.layout.index,
        lambda place: place.layout.index_lock,
        lambda place: place.layout.claims_lock,
    ],
    ids=["segment", "next segment", "pack", "seals", "format", "bookmark", "anchors", "index",
         "index lock", "claims lock"],
)  # fmt: skip
@pytest.mark.parametrize("sort", ["pipe", "device", "loose link"])
def test_a_pipe_or_a_device_in_its_folder_is_named_and_not_waited_for(
    place: Place, where: Callable[[Place], Path], sort: str
) -> None:
    path = where(place)
    path.unlink(missing_ok=True)
    if sort == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if sort == "device" else "/nowhere/at/all")
    asked: tuple[Callable[[], object], ...] = (
        place.verify, place.open, lambda: Reader.open(place.path), lambda: verify_chain(place.path),
    )  # fmt: skip
    for ask in asked:
        with pytest.raises(NotAJournal, match=path.name):
            ask()


def test_an_anchor_that_is_a_pipe_anchors_nothing(place: Place) -> None:
    place.anchor.unlink()
    os.mkfifo(place.anchor)
    verification = place.verify()
    assert verification.status == "unanchored"
    assert "ANCHOR_UNREADABLE" in {remark.code for remark in verification.remarks}
    with place.open() as journal:
        journal.append(note("written all the same"))


def test_a_format_file_that_nests_for_ever_is_no_journal(place: Place) -> None:
    place.layout.format_file.write_bytes(b"[" * 200_000)
    with pytest.raises(JournalError, match=r"format\.json"):
        place.verify()


@pytest.mark.parametrize("stream", ["own", "ghost"])
def test_no_super_seal_signs_a_head_that_no_key_of_the_journal_signed(
    place: Place, tmp_path: Path, stream: str
) -> None:
    """Whoever can write ``seals.jsonl`` could else have the owner sign a lie against himself."""
    stranger = Place(tmp_path / "stranger", seed=99)
    with stranger.create():
        pass
    name = place.layout.streams()[0] if stream == "own" else "s9-deadbeef"
    before = place.layout.seals.read_bytes()
    with place.open() as journal:
        lie = Head(name, 999, "ab" * 32)
        key = stranger.keys.signing_key()
        append_note(
            place.layout.seals, place.settings.disk, seal_note(journal.journal_id, lie, 1, key)
        )
        journal.append(note("one more"))
    lines = place.layout.seals.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b"\\n999\\n" not in line]
    assert len(kept) == len(lines) - 1
    assert b"".join(kept).startswith(before)
    place.layout.seals.write_bytes(b"".join(kept))
    verification = place.verify()
    assert verification.finding is None
    assert verification.status == "intact"
