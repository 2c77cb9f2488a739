"""Time, as the trainer reads it: only the entry points make a real clock.

Wall time is for people and for the neighbour that reads our files; durations use the monotonic
clock.
"""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where a time comes from."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...


@dataclass(frozen=True)
class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        return time.monotonic()
