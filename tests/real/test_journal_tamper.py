"""Every change of a stored journal is found, named, and blamed on the right copy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journal import KeyStore, Reader, verify
from journal.anchors import FileAnchor
from journal.envelope import read_line
from journal.lines import canonical, leaf_hash, parse
from journal.merkle import root_of
from journal.seals import Head, seal_note
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
    twenty_events(place)
    return place


def code_of(place: Place, *, anchors: list[Path] | None = None) -> str:
    finding = place.verify(anchors).finding
    return "" if finding is None else finding.code


def rechained(lines: list[bytes], start: int) -> list[bytes]:
    """The lines with every link from *start* on made to fit again, as a careful forger would."""
    good = lines[:start]
    for line in lines[start:]:
        value = parse(line)
        value["seq"] = len(good)
        value["prev"] = leaf_hash(good[-1]).hex() if good else "0" * 64
        good.append(canonical(value))
    return good


def edited(line: bytes, **changes: object) -> bytes:
    value = json.loads(line)
    value.update(changes)
    return canonical(value)


def test_an_untouched_journal_is_intact(place: Place) -> None:
    verification = place.verify()
    assert verification.status == "intact"
    assert verification.finding is None
    (ranges,) = verification.ranges
    assert ranges.size == ranges.sealed == ranges.anchored == len(place.lines())


def test_without_an_anchor_the_answer_is_never_yes(place: Place) -> None:
    assert place.verify(anchors=[]).status == "unanchored"


def test_without_a_key_no_seal_counts(place: Place) -> None:
    verification = verify(place.path)
    assert verification.status == "unsealed"
    assert "NO_KEY" in {remark.code for remark in verification.remarks}


def test_every_flipped_byte_of_a_twenty_event_log_is_found_at_its_event(tmp_path: Path) -> None:
    """One bit of every byte; the index is away, so the chain and the seals are alone.

    Two places are ambiguous: a line end joins two lines, and nothing follows the last line that
    could tell whether it was changed itself or the one before.
    """
    place = Place(tmp_path)
    with place.create() as journal:
        for number in range(18):
            journal.append(note(str(number)))
    place.layout.index.unlink()
    original = place.segment().read_bytes()
    last = original.count(b"\n") - 1
    for offset in range(len(original)):
        flipped = bytearray(original)
        flipped[offset] ^= 1 << (offset % 8)
        place.segment().write_bytes(flipped)
        finding = verify(place.path, keys=place.keys, anchors=[], outputs=False).finding
        assert finding is not None, f"byte {offset}"
        seq = original.count(b"\n", 0, offset)
        ambiguous = original[offset] == ord("\n") or seq == last
        assert finding.seq == seq or ambiguous, f"byte {offset} of event {seq}: {finding}"
    place.segment().write_bytes(original)
    assert place.verify().status == "intact"


def test_an_edited_event_is_named_and_the_index_still_tells_what_it_was(place: Place) -> None:
    lines = place.lines()
    for seq in range(len(lines)):
        changed = edited(lines[seq], ts_us=1)
        place.put_lines([*lines[:seq], changed, *lines[seq + 1 :]])
        verification = place.verify()
        finding = verification.finding
        assert finding is not None
        assert (finding.copy, finding.seq) == ("segment", seq), str(finding)
        assert "the index still holds the line as it was" in finding.message
        (ranges,) = verification.ranges
        assert ranges.size == seq  # the event itself is not good, and covered by nothing
        assert ranges.anchored <= ranges.sealed <= seq


def test_an_edit_with_all_links_made_to_fit_contradicts_the_seal(place: Place) -> None:
    place.layout.index.unlink()
    lines = place.lines()
    lines[3] = edited(lines[3], ts_us=1)
    place.put_lines(rechained(lines, 4))
    assert code_of(place, anchors=[]) == "ROOT_MISMATCH"


@pytest.mark.parametrize("victim", [1, 5, 12])
def test_a_deleted_event_is_missed_at_its_place(place: Place, victim: int) -> None:
    lines = place.lines()
    place.put_lines(lines[:victim] + lines[victim + 1 :])
    finding = place.verify().finding
    assert finding is not None
    assert (finding.code, finding.seq) == ("SEQ_WRONG", victim)


def test_two_events_in_another_order_are_found(place: Place) -> None:
    lines = place.lines()
    lines[4], lines[5] = lines[5], lines[4]
    place.put_lines(lines)
    finding = place.verify().finding
    assert finding is not None
    assert (finding.code, finding.seq) == ("SEQ_WRONG", 4)


def test_a_doubled_event_is_found(place: Place) -> None:
    lines = place.lines()
    place.put_lines([*lines[:5], lines[4], *lines[5:]])
    assert code_of(place) == "SEQ_WRONG"


@pytest.mark.parametrize("left", [0, 1, 9])
def test_a_cut_end_below_a_seal_is_named_with_both_sizes(place: Place, left: int) -> None:
    size = len(place.lines())
    place.put_lines(place.lines()[:left])
    finding = place.verify(anchors=[]).finding
    assert finding is not None
    assert finding.code == "TRUNCATED"
    assert f"{left} events" in finding.message
    assert size > left


def test_a_cut_end_with_its_seals_is_missed_only_by_an_anchor(place: Place) -> None:
    """Events, later seals and index removed together: the anchor alone tells."""
    lines, seals = place.lines(), place.layout.seals.read_text().splitlines()
    sealed = int(json.loads(seals[0])["note"].split("\n")[1])
    place.put_lines(lines[:sealed])
    place.layout.seals.write_text(seals[0] + "\n")
    place.layout.index.unlink()
    assert place.verify(anchors=[]).status == "unanchored"
    assert code_of(place) == "ROLLBACK"


def test_a_cut_unsealed_end_was_announced_as_unsealed(place: Place) -> None:
    journal = place.open()
    journal.append(note("not yet sealed"))
    journal.abandon()
    (ranges,) = place.verify().ranges
    assert place.verify().status == "unsealed"
    assert ranges.unsealed == 2
    place.put_lines(place.lines()[: -ranges.unsealed])
    assert place.verify().status == "intact"


def test_the_index_tells_of_a_cut_unsealed_end(place: Place) -> None:
    journal = place.open()
    journal.append(note("not yet sealed"))
    journal.reader().query("SELECT 1")
    journal.abandon()
    place.put_lines(place.lines()[:-1])
    finding = place.verify().finding
    assert finding is not None
    assert (finding.code, finding.copy) == ("INDEX_DIFFERS", "index")
    assert "the log lost events that no seal covers" in finding.message


def test_a_fork_by_the_same_key_contradicts_the_anchor(place: Place) -> None:
    """The owner of the key rewrites history and seals it again; the anchor remembers."""
    lines = place.lines()
    lines[6] = edited(lines[6], ts_us=1)
    lines = rechained(lines, 7)
    place.put_lines(lines)
    place.layout.index.unlink()
    reader_id = json.loads(place.layout.format_file.read_bytes())["journal"]
    notes = []
    for text in place.layout.seals.read_text().splitlines():
        origin, size = json.loads(text)["note"].split("\n")[:2]
        if origin.count("/") == 2:
            root = root_of([leaf_hash(one) for one in lines[: int(size)]]).hex()
            head = Head(origin.rpartition("/")[2], int(size), root)
            notes.append(seal_note(reader_id, head, 1, place.keys.signing_key()))
    place.layout.seals.write_text(
        "".join(canonical({"note": one}).decode() + "\n" for one in notes)
    )
    assert code_of(place) in {"SEAL_MISSING", "FORK"}
    # Even when the log's own words about its seals are made to fit:
    for seq in range(len(lines)):
        value = json.loads(lines[seq])
        if value["kind"] in {"sealed", "seal_anchored"}:
            size = value["data"]["size"]
            value["data"]["root"] = root_of([leaf_hash(one) for one in lines[:size]]).hex()
            lines[seq] = canonical(value)
            lines = rechained(lines, seq + 1)
    place.put_lines(lines)
    place.layout.seals.unlink()
    for size in [*(read_line(o).payload.model_dump()["size"] for o in lines
                   if read_line(o).kind == "sealed"), len(lines)]:  # fmt: skip
        root = root_of([leaf_hash(one) for one in lines[:size]]).hex()
        head = Head(place.layout.streams()[0], size, root)
        FileAnchor(place.layout.seals).send(seal_note(reader_id, head, 1, place.keys.signing_key()))
    assert place.verify(anchors=[]).finding is None
    assert code_of(place) == "FORK"


def test_a_whole_deleted_stream_is_missed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    gone = without_its_second_stream(place)
    place.layout.index.unlink()
    lines = [
        line
        for line in place.layout.seals.read_text().splitlines()
        if gone not in json.loads(line)["note"]
    ]
    place.layout.seals.write_text("\n".join(lines) + "\n")
    finding = place.verify(anchors=[]).finding
    assert finding is not None
    assert (finding.code, finding.stream) == ("STREAM_MISSING", gone)


def test_of_a_missing_stream_the_most_that_was_signed_is_told(place: Place) -> None:
    with place.open() as journal:
        journal.append(note("more"))
    most = len(place.lines())
    shutil.rmtree(place.layout.stream(place.layout.streams()[0]))
    place.layout.index.unlink()
    finding = place.verify().finding
    assert finding is not None
    assert finding.code == "STREAM_MISSING"
    assert f"a stream of {most} events or more is sealed and not here" in finding.message
    assert "the index still holds" not in finding.message


def test_seals_removed_from_their_file_are_missed(place: Place) -> None:
    lines = place.layout.seals.read_text().splitlines()
    place.layout.seals.write_text("\n".join(lines[1:]) + "\n")
    assert code_of(place) == "SEAL_MISSING"


def test_every_flipped_character_of_a_seal_is_found(place: Place) -> None:
    place.layout.index.unlink()
    original = place.layout.seals.read_bytes()
    step = 41  # the whole file takes too long here; the torture run takes every one
    for offset in range(0, len(original) - 1, step):
        flipped = bytearray(original)
        flipped[offset] ^= 1
        place.layout.seals.write_bytes(flipped)
        assert place.verify(anchors=[]).finding is not None, f"byte {offset}"


def test_a_key_that_is_not_the_pinned_one_seals_nothing(place: Place, tmp_path: Path) -> None:
    stranger = KeyStore(tmp_path / "stranger", seeded(99)).signing_key()
    verification = verify(place.path, key=stranger.public.line, anchors=[place.anchor])
    assert verification.finding is not None
    assert verification.finding.code == "BAD_SEAL_SIGNATURE"


def test_a_seal_of_another_journal_is_foreign(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other", seed=8)
    twenty_events(other)
    foreign = other.layout.seals.read_text().splitlines()[0]
    with place.layout.seals.open("a") as file:
        file.write(foreign + "\n")
    assert code_of(place) == "FOREIGN"


def test_an_anchor_of_another_journal_anchors_nothing(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other", seed=8)
    twenty_events(other)
    verification = place.verify(anchors=[other.anchor])
    assert verification.status == "unanchored"
    assert "ANCHOR_OTHER_LOG" in {remark.code for remark in verification.remarks}


def test_a_flipped_byte_of_any_blob_is_found_at_its_event(place: Place) -> None:
    """A flip may pass only if every output still reads as it did (zstd ignores a header bit)."""
    (pack,) = (place.path / "blob").rglob("*.pack")
    original = pack.read_bytes()
    reader = Reader.open(place.path)
    outputs = [(event, name) for event in reader.events() for name in event.out]
    place.layout.index.unlink()
    before = {(event.id, name): reader.attachment(event, name) for event, name in outputs}
    passed = 0
    for offset in range(0, len(original), 7):
        flipped = bytearray(original)
        flipped[offset] ^= 0x20
        pack.write_bytes(flipped)
        finding = place.verify(anchors=[]).finding
        if finding is None:
            passed += 1
            after = {(event.id, name): reader.attachment(event, name) for event, name in outputs}
            assert after == before, f"byte {offset}"
        else:
            assert finding.copy == "blob"
            assert finding.seq is not None
    assert passed <= len(outputs)


def test_swapped_and_missing_blobs_are_found(place: Place) -> None:
    (pack,) = (place.path / "blob").rglob("*.pack")
    whole = pack.read_bytes()
    first, second = [
        read_line(line).out["observation"]
        for line in place.lines()
        if b'"observation":{"at"' in line
    ][:2]
    swapped = bytearray(whole)
    a = whole[first.offset : first.offset + first.size_bytes]
    b = whole[second.offset : second.offset + second.size_bytes]
    assert len(a) == len(b)
    swapped[first.offset : first.offset + len(a)] = b
    swapped[second.offset : second.offset + len(b)] = a
    pack.write_bytes(swapped)
    assert code_of(place) == "BLOB_CORRUPT"
    pack.write_bytes(bytes(len(whole)))
    assert code_of(place) == "BLOB_MISSING"
    pack.unlink()
    assert code_of(place) == "BLOB_MISSING"


@pytest.mark.parametrize(
    ("kind", "code"), [("command_intended", "DUP_IDEM"), ("command_completed", "DOUBLE_OUTCOME")]
)
def test_a_repeated_event_with_links_made_to_fit_breaks_a_rule(
    place: Place, kind: str, code: str
) -> None:
    lines = place.lines()
    seq = next(n for n, line in enumerate(lines) if f'"kind":"{kind}"'.encode() in line)
    place.put_lines(rechained([*lines, lines[seq]], len(lines)))
    assert code_of(place) == code


@pytest.mark.parametrize(
    "change",
    [lambda line: line.replace(b'"kind":', b'"kind": '), lambda line: b'{"v":1,' + line[1:]],
)
def test_another_form_of_the_same_json_is_found_even_if_all_links_fit(
    place: Place, change: Callable[[bytes], bytes]
) -> None:
    lines = place.lines()
    lines[-1] = change(lines[-1])
    place.put_lines(lines)
    finding = place.verify().finding
    assert finding is not None
    assert (finding.code, finding.seq) == ("LINE_MALFORMED", len(lines) - 1)


def test_an_outcome_without_its_intent_is_an_orphan(place: Place) -> None:
    lines = place.lines()
    seq = next(n for n, line in enumerate(lines) if b'"kind":"command_intended"' in line)
    place.put_lines(rechained(lines[:seq] + lines[seq + 1 :], seq))
    assert code_of(place) == "ORPHAN_OUTCOME"


def test_a_copy_of_the_folder_verifies_elsewhere(place: Place, tmp_path: Path) -> None:
    copy = shutil.copytree(place.path, tmp_path / "carried.journal")
    assert verify(copy, keys=place.keys).status == "intact"


def test_two_continuations_of_one_copy_are_a_fork(place: Place, tmp_path: Path) -> None:
    """The journal is carried to another machine and continued here and there with one key."""
    there = Place(tmp_path / "there", seed=8)
    shutil.copytree(place.path, there.path)
    shutil.copytree(place.keys.folder, there.keys.folder)
    with there.open() as beside:
        with place.open() as journal:
            journal.append(intended("here"))
        beside.append(intended("there"))
    assert code_of(there) == "FORK"
