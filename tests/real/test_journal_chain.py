"""The quick check of the links alone, by one process or several."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from journal import Reader, Settings
from journal.lines import canonical, parse
from journal.segments import iterate
from journal.verification import verify_chain
from tests.support.journals import MACHINE, Place, note, seeded, twenty_events


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    twenty_events(place)
    return place


def edited(line: bytes, **changes: object) -> bytes:
    value = json.loads(line)
    value.update(changes)
    return canonical(value)


def of_small_segments(folder: Path, segment_bytes: int, texts: Sequence[str]) -> Place:
    """A journal of notes that fill several segments."""
    place = Place(folder)
    place.settings = Settings(random=seeded(7), machine=MACHINE, segment_bytes=segment_bytes)
    with place.create() as journal:
        for text in texts:
            journal.append(note(text))
    return place


def test_the_quick_chain_check_names_the_first_broken_link(place: Place) -> None:
    lines = place.lines()
    assert verify_chain(place.path) == (len(lines), None)
    for seq in range(len(lines) - 1):
        place.put_lines([*lines[:seq], edited(lines[seq], ts_us=1), *lines[seq + 1 :]])
        held, finding = verify_chain(place.path)
        assert finding is not None
        assert held == seq + 1


def test_the_quick_chain_check_follows_long_lines_and_compressed_segments(tmp_path: Path) -> None:
    place = of_small_segments(tmp_path, 900_000, ["x" * (n * 100_000) for n in range(6)])
    assert len(place.layout.segments(place.layout.streams()[0])) > 1
    held, finding = verify_chain(place.path)
    assert finding is None
    assert held == len(list(Reader.open(place.path).events()))


def test_the_chain_of_many_segments_is_walked_by_several_processes(tmp_path: Path) -> None:
    """A break inside a run, at the border of two runs, and a file that is no segment any more."""
    place = of_small_segments(tmp_path, 4_000, ["x" * 300 + str(number) for number in range(60)])
    size = Reader.open(place.path).query("SELECT count(*) FROM event").rows[0][0]
    (stream,) = place.layout.streams()
    segments = place.layout.segments(stream)
    assert len(segments) >= 8
    assert verify_chain(place.path) == (size, None)
    firsts = [next(iterate(path)).line for path in segments]
    for at, path in enumerate(segments):
        good = path.read_bytes()
        lines = b"".join(stored.line + b"\n" for stored in iterate(path)).splitlines()
        lines[0] = edited(lines[0], ts_us=1)
        path.unlink()
        plain = path.with_name(path.name[:12])
        plain.write_bytes(b"".join(line + b"\n" for line in lines))
        held, finding = verify_chain(place.path)
        assert finding is not None
        assert (finding.code, held) == ("LINE_CHANGED", parse(firsts[at])["seq"] + 1)  # type: ignore[operator]  # a number
        plain.unlink()
        path.write_bytes(good)
    segments[-2].write_bytes(b"no zstd frame")
    _, finding = verify_chain(place.path)
    assert finding is not None
    assert (finding.code, finding.where) == ("SEGMENT_CHANGED", segments[-2].name)


@pytest.mark.parametrize("interpreter", ["/bin/false", "/no/such/program", ""])
def test_the_walk_goes_on_here_where_no_process_can_do_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    place = of_small_segments(tmp_path, 4_000, ["x" * 300 + str(number) for number in range(60)])
    size = Reader.open(place.path).query("SELECT count(*) FROM event").rows[0][0]
    monkeypatch.setattr("sys.executable", interpreter)
    assert verify_chain(place.path) == (size, None)


def test_a_first_link_that_is_no_text_is_a_broken_one(place: Place) -> None:
    lines = place.lines()
    place.put_lines([lines[0].replace(b'"prev":"0000', b'"prev":"\xb7\xff00'), *lines[1:]])
    held, finding = verify_chain(place.path)
    assert held == 0
    assert finding is not None
    assert finding.code == "LINE_CHANGED"
