"""Being asked to stop: SIGINT, SIGTERM, or a file named ``stop`` in the run's directory.

The loop asks between steps and stops after a whole one. A second signal is not answered kindly: the
process ends at once, as it would without us. Handlers are only installed in the main thread, since
Python allows no other; a loop in another thread still honours the file.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

STOP_FILE = "stop"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class StopRequest:
    """Whether somebody asked, and how. A stop file from before this run asked another one."""

    directory: Path
    signalled: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.directory / STOP_FILE).unlink(missing_ok=True)

    @property
    def reason(self) -> str | None:
        """``SIGINT``, ``SIGTERM`` or ``stop file``; None when nobody asked."""
        if self.signalled:
            return self.signalled[0]
        return "stop file" if (self.directory / STOP_FILE).exists() else None

    def honoured(self) -> None:
        """Take the stop file away, so that the next start does not meet it."""
        (self.directory / STOP_FILE).unlink(missing_ok=True)


@contextmanager
def listening(directory: Path) -> Iterator[StopRequest]:
    """Listen for requests while entered; earlier handlers come back afterwards."""
    request = StopRequest(directory)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    # A process started with SIGINT ignored (a shell's background job) keeps ignoring it.
    earlier = {number: signal.getsignal(number) for number in _SIGNALS}
    mine = [number for number in _SIGNALS if earlier[number] != signal.SIG_IGN]

    def on_signal(number: int, _frame: FrameType | None) -> None:
        request.signalled.append(signal.Signals(number).name)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for number in mine:
        signal.signal(number, on_signal)
    try:
        yield request
    finally:
        for number in mine:
            signal.signal(number, earlier[number])
