"""No session goes on from a log that is not what was signed of it; nothing is sealed or changed."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from journal import KeyStore, Reader
from journal.bookmark import read_bookmark, write_bookmark
from journal.errors import SealContradicted
from journal.lines import canonical, leaf_hash, parse
from journal.merkle import Frontier
from journal.proving import prove
from journal.seals import Head, read_notes, seal_note
from tests.support.journals import (
    Place,
    intended,
    note,
    seeded,
    twenty_events,
    without_its_second_stream,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.settings = replace(place.settings, bookmark_every=1)
    twenty_events(place)
    return place


def relinked(lines: list[bytes], start: int) -> list[bytes]:
    """The lines with every link from *start* on made to fit, as somebody without a key would."""
    good = lines[:start]
    for line in lines[start:]:
        value = parse(line)
        value["seq"], value["prev"] = len(good), leaf_hash(good[-1]).hex()
        good.append(canonical(value))
    return good


def changed(lines: list[bytes]) -> list[bytes]:
    seq = next(n for n, line in enumerate(lines) if b'"kind":"command_intended"' in line)
    edited = lines[seq].replace(b"list_processes", b"list_nothing__")
    assert edited != lines[seq]
    return relinked([*lines[:seq], edited, *lines[seq + 1 :]], seq + 1)


def without_two(lines: list[bytes]) -> list[bytes]:
    return relinked([*lines[:2], *lines[4:]], 2)


def shortened(lines: list[bytes]) -> list[bytes]:
    return lines[:-4]


def with_zeros_inside(lines: list[bytes]) -> list[bytes]:
    return [*lines[:9], bytes(100), *lines[9:]]


def with_zeros_in_a_line(lines: list[bytes]) -> list[bytes]:
    return [*lines[:9], lines[9].replace(b"actor", bytes(5)), *lines[10:]]


ATTACKS = [changed, without_two, shortened, with_zeros_inside]


def files(place: Place) -> dict[str, str]:
    """Every file of the journal and its anchor but the locks and the index, by digest."""
    kept = [*place.path.rglob("*"), place.anchor]
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in kept
        if path.is_file() and path.suffix not in {".lock", ".duckdb"}
    }


def refuse(place: Place) -> str:
    """Opening refuses, changes no file, and says why."""
    before = files(place)
    with pytest.raises(SealContradicted) as caught:
        place.open()
    assert files(place) == before
    said = str(caught.value)
    assert "nothing was written; run: agentops verify" in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("left", ["all", "no bookmark", "no anchor", "no seals"])
def test_a_log_that_was_changed_below_a_seal_is_not_gone_on_from(
    place: Place, attack: Callable[[list[bytes]], list[bytes]], left: str
) -> None:
    place.put_lines(attack(place.lines()))
    if left == "no bookmark":
        place.layout.bookmark.unlink()
    elif left == "no anchor":
        place.anchor.unlink()
    elif left == "no seals":
        place.layout.seals.unlink()
    said = refuse(place)
    assert ("seals.jsonl line" if left == "no anchor" else " line ") in said


def test_the_last_line_of_a_sealed_log_is_no_torn_end(place: Place) -> None:
    whole = place.segment().read_bytes().rstrip(b"\x00")
    for end in (len(whole) - 1, len(whole) - 40):
        place.segment().write_bytes(whole[:end])
        assert f"{len(place.lines()) - 1} are here" in refuse(place)


def test_a_fault_stays_where_it_is_for_verify_to_name(place: Place) -> None:
    """The first cause must not be cut off with the evidence behind it."""
    place.put_lines(with_zeros_inside(place.lines()))
    before = place.verify().finding
    assert before is not None
    assert (before.code, before.seq) == ("LINE_MALFORMED", 9)
    assert "zero bytes" in refuse(place)
    assert place.verify().finding == before


def test_zeros_in_a_sealed_line_are_no_power_cut(place: Place) -> None:
    place.layout.bookmark.unlink()  # with it, that line is not read again
    place.put_lines(with_zeros_in_a_line(place.lines()))
    assert "only 9 can be read (the line holds zero bytes" in refuse(place)


def test_the_zeros_of_a_power_cut_behind_the_last_seal_are_still_set_aside(place: Place) -> None:
    journal = place.open()
    journal.append(note("unsealed in the middle"), note("and its end"))
    journal.abandon()
    whole = place.segment().read_bytes()
    place.segment().write_bytes(whole.replace(b"unsealed in", bytes(11)))
    with place.open() as journal:
        journal.append(note("goes on"))
    assert place.verify().status == "intact"


def test_a_restored_copy_writes_nothing_and_leaves_the_original_intact(
    place: Place, tmp_path: Path
) -> None:
    copy = Place(tmp_path)
    copy.seed = 9
    backup = tmp_path / "backup"
    shutil.copytree(place.path, backup)
    with place.open() as journal:
        journal.append(note("goes on in the original"))
    shutil.move(place.path, tmp_path / "original")
    shutil.move(backup, place.path)
    assert "an older copy" in refuse(place)
    shutil.rmtree(place.path)
    shutil.move(tmp_path / "original", place.path)
    assert place.verify().status == "intact"


def test_both_sides_of_a_fork_are_ended(place: Place, tmp_path: Path) -> None:
    """Two copies that were open at once cannot know; neither goes on after that."""
    there = Place(tmp_path / "there", seed=8)
    shutil.copytree(place.path, there.path)
    shutil.copytree(place.keys.folder, there.keys.folder)
    with place.open() as journal, there.open() as beside:
        journal.append(intended("here"))
        beside.append(intended("there"), note("one more"))
    for one in (place, there):
        found = one.verify().finding
        assert found is not None
        assert found.code in {"FORK", "ROLLBACK"}
        with pytest.raises(SealContradicted):
            one.open()


def test_a_stream_that_was_signed_and_is_gone_stops_every_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    gone = without_its_second_stream(place)
    assert f"the stream is not here (stream {gone}" in refuse(place)


def test_a_note_that_nobody_trusted_signed_stops_no_session(place: Place, tmp_path: Path) -> None:
    """Else whoever can write the folder could end a journal by one line."""
    stranger = Place(tmp_path / "stranger", seed=50).keys.signing_key()
    journal_id = Reader.open(place.path).journal_id
    stream = place.layout.streams()[0]
    for size in (3, len(place.lines()) + 500):
        head = Head(stream, size, "ab" * 32)
        text = seal_note(journal_id, head, 1, stranger)
        for path in (place.layout.seals, place.anchor):
            with path.open("ab") as file:
                file.write(canonical({"note": text}) + b"\n")
    with place.open() as journal:
        journal.append(note("goes on"))


def test_who_cannot_check_a_seal_writes_nothing_against_it(place: Place, tmp_path: Path) -> None:
    place.put_lines(shortened(place.lines()))
    shutil.move(place.keys.folder, tmp_path / "away")
    refuse(place)


def test_a_forged_bookmark_over_a_forged_note_gets_no_rewritten_log_signed(place: Place) -> None:
    """Its start fits the rewritten lines, and seals.jsonl holds its root: unsigned."""
    bookmark = read_bookmark(place.layout)
    ((stream, start),) = bookmark.starts.items()
    lines = changed(place.lines())
    place.put_lines(lines)
    tree = Frontier()
    for line in lines:
        tree.add(leaf_hash(line))
    offset = sum(len(line) + 1 for line in lines)
    forged = replace(
        start,
        position=("000000", offset),
        size=len(lines),
        leaf=leaf_hash(lines[-1]).hex(),
        peaks=tuple(peak.hex() for peak in tree.peaks),
    )
    (last, *_) = reversed(
        [one.note for one in read_notes(place.layout.seals) if stream in one.note]
    )
    journal_id = Reader.open(place.path).journal_id
    other = Place(place.root / "other", seed=60).keys.signing_key()
    text = seal_note(journal_id, Head(stream, len(lines), tree.root().hex()), 1, other)
    assert text.split("\n")[0] == last.split("\n")[0]
    with place.layout.seals.open("ab") as file:
        file.write(canonical({"note": text}) + b"\n")
    write_bookmark(
        place.layout,
        replace(bookmark, positions={stream: forged.position}, starts={stream: forged}),
    )
    assert read_bookmark(place.layout).starts == {stream: forged}
    refuse(place)


def test_a_rotated_key_still_vouches_for_what_it_signed(place: Place) -> None:
    new = KeyStore(place.keys.folder, seeded(77)).make_key()
    place.keys.pin(Reader.open(place.path).journal_id, key=new.public, anchor=None)
    with place.open() as journal:
        journal.append(note("sealed by the new key"))
    sizes = {int(one.note.split("\n")[1]) for one in read_notes(place.layout.seals)}
    assert len(place.lines()) in sizes
    kept = place.lines()
    lines = place.layout.seals.read_text().splitlines()
    names = {json.loads(line)["note"].split("\u2014 ")[1].split(" ")[0] for line in lines}
    assert len(names) == 2
    place.put_lines(changed(kept))
    refuse(place)


def test_a_proof_is_of_the_tree_that_was_signed_or_there_is_none(place: Place) -> None:
    reader = Reader.open(place.path)
    (event, *_) = reader.events()
    assert prove(reader, event).size == len(place.lines())
    whole = place.segment().read_bytes()
    place.put_lines(shortened(place.lines()))
    with pytest.raises(SealContradicted, match="no longer fits the seal"):
        prove(reader, event)
    place.segment().write_bytes(whole)
    place.layout.seals.unlink()
    with pytest.raises(SealContradicted, match="tells of seals that are not there"):
        prove(reader, event)
