"""The terminal player: what keys do, and a real terminal that they are pressed in."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from agentops.cli.player import Player
from journal import Reader
from reports.replay import frames
from tests.support import stories

DEADLINE_S = 60


@pytest.fixture
def player(tmp_path: Path) -> Player:
    path = stories.second_interrupt(tmp_path / "j.journal", tmp_path / "keys")
    return Player(tuple(frames(Reader.open(path))))


def test_a_pause_stands_still_until_it_ends(player: Player) -> None:
    assert player.wait_s() is not None
    assert "paused at 0.0" in str(player.press(" "))
    assert player.wait_s() is None
    shown = player.press(".")
    assert shown is not None
    assert player.paused
    assert "playing" in str(player.press(" "))
    assert player.wait_s() is not None


def test_speed_divides_the_waiting(player: Player) -> None:
    slow = player.frames[5].interval_s
    player.place = 5
    assert player.wait_s() == slow
    player.press("+")
    assert player.wait_s() == slow / 2
    player.press("-")
    player.press("-")
    assert player.wait_s() == slow * 2


def test_seeking_goes_by_the_time_that_passed_in_fact(player: Player) -> None:
    player.press("right")
    assert player.now_s >= 5
    there = player.now_s
    player.press("left")
    assert player.now_s < there
    player.seek(10**6)
    assert player.place == len(player.frames) - 1


def test_brackets_go_from_command_to_command(player: Player) -> None:
    player.press("]")
    first = player.place
    assert player.frames[first].code == "m"
    player.press("]")
    assert player.place > first
    player.press("[")
    assert player.place == first or player.frames[player.place].code == "m"


def test_every_frame_is_shown_once_and_then_it_ends(player: Player) -> None:
    text = ""
    while not player.ended:
        assert player.wait_s() is not None
        text += player.step()
    assert text == "".join(frame.text for frame in player.frames if frame.code == "o")
    assert player.wait_s() is None


class Terminal:
    """A pseudo-terminal with the program in it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**os.environ, "HOME": str(folder), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentops", *arguments],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def until(self, text: str) -> None:
        """Read until a text was shown."""
        end = time.monotonic() + DEADLINE_S
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], end - time.monotonic())
            assert ready, f"{text!r} was not shown; seen: {self.seen[-500:]!r}"
            self.seen += os.read(self.master, 65_536).decode("utf-8", "replace")

    def press(self, keys: str) -> None:
        """Press keys, as bytes of a terminal."""
        os.write(self.master, keys.encode())

    def close(self) -> int:
        """Close the terminal; gives how the program ended."""
        os.close(self.master)
        return self.process.wait(DEADLINE_S)


def test_keys_pressed_in_a_terminal_pause_seek_and_end(tmp_path: Path) -> None:
    stories.second_interrupt(tmp_path / "j.journal", tmp_path / "keys")
    arguments = ("replay", str(tmp_path / "j.journal"), "play", "--speed", "0.01")
    terminal = Terminal(tmp_path, *arguments)
    try:
        terminal.until("space pauses")
        terminal.press(" ")
        terminal.until("paused at")
        terminal.press("\x1b[C")
        terminal.until("x0.01")
        terminal.press("+.")
        terminal.until("x0.02")
        terminal.press("q")
        assert terminal.process.wait(DEADLINE_S) == 0
    finally:
        terminal.process.kill()
        terminal.close()


def test_a_whole_playback_ends_by_itself(tmp_path: Path) -> None:
    stories.lost_answer(tmp_path / "j.journal", tmp_path / "keys")
    terminal = Terminal(tmp_path, "replay", str(tmp_path / "j.journal"), "play", "--speed", "500")
    try:
        terminal.until("denied by G4")
        assert terminal.process.wait(DEADLINE_S) == 0
    finally:
        terminal.process.kill()
        terminal.close()
