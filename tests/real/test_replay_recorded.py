"""Replaying recorded bytes: parsers read them again, a player shows them, nothing is invented."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from journal import Reader
from journal.events import CommandIntended, IncidentOpened
from reports.replay import Recorded, cast, frames, reparse
from tests.support import stories
from tests.support import teller as told_by


def told(folder: Path, stdout: bytes = b"hello\nworld\n") -> Reader:
    """Two commands whose observation is the number of bytes that came back."""
    teller = told_by.begin(folder / "j.journal", folder / "keys", "inc-r")
    teller.tell(IncidentOpened(title="replay", job=None))
    teller.run("count_bytes", {"bytes": len(stdout), "text": {"kept": True}}, stdout=stdout)
    teller.clock.pass_ms(60_000)
    teller.run("count_bytes", {"bytes": 3, "text": {"kept": True}}, stdout=b"abc")
    teller.journal.close()
    return Reader.open(folder / "j.journal")


def count(recorded: Recorded) -> tuple[int, JsonValue]:
    return 1, {"bytes": len(recorded.stdout), "text": {"kept": True}}


def test_the_same_parser_reads_the_same(tmp_path: Path) -> None:
    found = reparse(told(tmp_path), count)
    assert (found.compared, found.drifts) == (2, ())


def test_a_parser_that_reads_otherwise_is_shown_with_place_and_values(tmp_path: Path) -> None:
    def newer(recorded: Recorded) -> tuple[int, JsonValue]:
        lines = recorded.stdout.count(b"\n")
        return 2, {"bytes": len(recorded.stdout), "text": {"kept": lines == 0}}

    reader = told(tmp_path)
    found = reparse(reader, newer)
    assert found.compared == 2
    (drift,) = found.drifts
    assert (drift.pointer, drift.recorded, drift.parsed) == ("/text/kept", True, False)
    assert (drift.recorded_version, drift.parsed_version) == (1, 2)
    assert reader.event(drift.event).place == drift.place


def test_a_command_that_the_software_no_longer_knows_is_named(tmp_path: Path) -> None:
    found = reparse(told(tmp_path), lambda _: None)
    assert (found.compared, found.not_rebuilt) == (0, ("count_bytes",))


def test_a_cast_has_a_header_a_marker_a_command_and_an_end(tmp_path: Path) -> None:
    reader = told(tmp_path)
    header, *lines = [json.loads(line) for line in cast(reader).splitlines()]
    assert header["version"] == 3
    assert set(header["term"]) == {"cols", "rows"}
    intents = [e for e in reader.events() if isinstance(e.payload, CommandIntended)]
    assert [text for _, code, text in lines if code == "m"] == [
        e.payload.command for e in intents if isinstance(e.payload, CommandIntended)
    ]
    assert lines[-1] == [0.0, "x", "0"]
    assert all(0 <= interval <= 2.0 for interval, _, _ in lines)


def test_long_gaps_are_shortened_and_said_to_be(tmp_path: Path) -> None:
    shown = list(frames(told(tmp_path), gap_max_s=1.5))
    assert max(frame.interval_s for frame in shown) == 1.5
    assert max(frame.real_s for frame in shown) > 59
    assert any("60.0 s later" in frame.text for frame in shown)


def test_recorded_bytes_cannot_steer_the_terminal(tmp_path: Path) -> None:
    text = cast(told(tmp_path, b"\x1b[2J\x1b]0;owned\x07\x9bname\n"))
    for line in text.splitlines()[1:]:
        _, _, data = json.loads(line)
        clean = data.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[2m", "")
        assert "\x1b" not in clean.replace("\x1b[36m", "").replace("\x1b[31m", "")
        assert "\x07" not in data
        assert "\x9b" not in data


@pytest.mark.parametrize("story", ["second_interrupt", "lost_answer"])
def test_a_playback_shows_every_command_and_every_denial(story: str, tmp_path: Path) -> None:
    reader = Reader.open(getattr(stories, story)(tmp_path / "j.journal", tmp_path / "keys"))
    shown = "".join(frame.text for frame in frames(reader))
    for event in reader.events(kinds={"command_intended", "command_denied"}):
        assert event.payload.model_dump()["command"] in shown
