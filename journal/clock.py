"""The two clocks that a journal reads, as a seam.

Only an entry point builds a ``SystemClock``; everything else is handed a ``Clock``.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC; may jump."""

    def mono_ns(self) -> int:
        """Nanoseconds since some point after boot; never goes back."""


class SystemClock:
    """The machine's own clocks."""

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC; may jump."""
        return time.time_ns() // 1_000

    def mono_ns(self) -> int:
        """Nanoseconds since some point after boot; never goes back."""
        return time.monotonic_ns()
