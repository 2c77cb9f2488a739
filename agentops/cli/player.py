"""The terminal player: pause, step, seek and speed by keys, over frames that are already made.

Here: what each key does to a playback, and the loop between a terminal's keys and its screen. Not
here: making frames (``reports.replay``), the command line (``agentops.cli.playing``).
"""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

from agentops.cli.printing import say
from reports.replay import Frame

KEYS = (
    "space pauses, . shows one more, left and right seek 5 s, [ and ] go to a command, + and -"
    " change the speed, q ends"
)
_SEEK_S = 5.0
_SPEED_MIN, _SPEED_MAX = 1 / 16, 1024.0
_ARROWS = {b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOC": "right", b"\x1bOD": "left"}


@dataclass
class Player:
    """A playback: which frame comes next, how fast, and whether it stands still."""

    frames: Sequence[Frame]
    speed: float = 1.0
    paused: bool = False
    ended: bool = False
    place: int = 0
    times: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """Seconds from the beginning to each frame, as they passed in fact."""
        shown = (frame.real_s if frame.code == "o" else 0.0 for frame in self.frames)
        self.times = list(accumulate(shown))

    @property
    def now_s(self) -> float:
        """Where the playback is."""
        return self.times[min(self.place, len(self.times) - 1)] if self.times else 0.0

    def wait_s(self) -> float | None:
        """Seconds until the next frame is due; None while nothing is."""
        if self.paused or self.ended or self.place >= len(self.frames):
            return None
        return self.frames[self.place].interval_s / self.speed

    def step(self) -> str:
        """The next frame's text; the playback goes on behind it."""
        frame = self.frames[self.place]
        self.place += 1
        self.ended = self.ended or self.place >= len(self.frames)
        return frame.text if frame.code == "o" else ""

    def seek(self, second: float) -> None:
        """Go to the first frame that is not before a second."""
        later = (place for place, at in enumerate(self.times) if at >= second)
        self.place = min(next(later, len(self.frames) - 1), len(self.frames) - 1)

    def press(self, key: str) -> str | None:
        """Do what a key asks; a line for the viewer, or None for a key that means nothing."""
        if self.ended:
            return None
        match key:
            case " ":
                self.paused = not self.paused
            case ".":
                self.paused = True
                return self.step()
            case "right" | "left":
                self.seek(max(0.0, self.now_s + (_SEEK_S if key == "right" else -_SEEK_S)))
            case "]" | "[":
                self._to_command(1 if key == "]" else -1)
            case "+" | "=":
                self.speed = min(self.speed * 2, _SPEED_MAX)
            case "-":
                self.speed = max(self.speed / 2, _SPEED_MIN)
            case "q" | "\x03":
                self.ended = True
                return None
            case _:
                return None
        return self._status()

    def _to_command(self, way: int) -> None:
        marks = [place for place, frame in enumerate(self.frames) if frame.code == "m"]
        if way > 0:
            self.place = next((mark for mark in marks if mark > self.place), self.place)
        else:
            self.place = next((mark for mark in reversed(marks) if mark < self.place - 1), 0)

    def _status(self) -> str:
        state = "paused" if self.paused else "playing"
        total = self.times[-1] if self.times else 0.0
        return f"\x1b[2m── {state} at {self.now_s:.1f} of {total:.1f} s, x{self.speed:g}\x1b[0m\r\n"


def watch(player: Player) -> None:
    """Play in this terminal and heed its keys, until the end or ``q``."""
    with _keys_at_once(sys.stdin.fileno()) as terminal:
        say(KEYS)
        due = _due(player)
        while not player.ended:
            left = None if due is None else max(0.0, due - time.monotonic())
            ready, _, _ = select.select([terminal], [], [], left)
            if ready:
                for key in _keys(terminal):
                    _show(player.press(key))
                due = _due(player)
            elif due is not None:
                _show(player.step())
                due = _due(player)


def _due(player: Player) -> float | None:
    wait = player.wait_s()
    return None if wait is None else time.monotonic() + wait


def _show(text: str | None) -> None:
    if text:
        sys.stdout.write(text.replace("\r\n", "\n"))
        sys.stdout.flush()


def _keys(terminal: int) -> Iterator[str]:
    """The keys pressed since the last look; a closed terminal ends the playback."""
    pressed = os.read(terminal, 64)
    if not pressed:
        yield "q"
    while pressed:
        arrow = next((raw for raw in _ARROWS if pressed.startswith(raw)), None)
        if arrow is not None:
            yield _ARROWS[arrow]
            pressed = pressed[len(arrow) :]
        else:
            yield chr(pressed[0])
            pressed = pressed[1:]


@contextmanager
def _keys_at_once(terminal: int) -> Iterator[int]:
    """The terminal giving each key as it is pressed; as it was afterwards."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
