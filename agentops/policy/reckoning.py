"""The engine's time: the wall clock's, with its jumps taken out.

Here: how far the wall clock runs ahead of the time that really passed, worked out from the two
clocks of each event. Not here: reading a clock. Graces and ages hang on this time, so a clock that
is set cannot make a grace look over, nor an old look fresh. Where no clock ever jumped, it is the
wall clock's to the microsecond.

A monotonic clock stands still while its machine sleeps. So after a jump, whatever its direction,
what was seen before counts as old: it may be.
"""

from dataclasses import dataclass
from typing import Final

# More than clocks are slewed by between two events; less would not be missed in any grace.
JUMP_US: Final = 500_000


@dataclass(frozen=True, slots=True)
class Reckoning:
    """The clocks at the newest event. ahead_us is wall time minus the engine's.

    jumped is the place in the fold of the first event after the last jump; 0: there was none.
    """

    wall_us: int = 0
    mono_us: int = 0
    boot: str = ""
    ahead_us: int = 0
    jumped: int = 0

    @property
    def time_us(self) -> int:
        """The engine's time at the newest event."""
        return self.wall_us - self.ahead_us

    def now_us(self, wall_us: int, mono_us: int, boot: str) -> int:
        """The engine's time when the clocks read this."""
        return wall_us - self.ahead_us - self._jump(wall_us, mono_us, boot)

    def after(self, wall_us: int, mono_us: int, boot: str, order: int) -> "Reckoning":
        """The reckoning at the event that stands at *order* in the fold."""
        jump = self._jump(wall_us, mono_us, boot)
        ahead_us, jumped = (self.ahead_us + jump, order) if jump else (self.ahead_us, self.jumped)
        return Reckoning(wall_us, mono_us, boot, ahead_us, jumped)

    def _jump(self, wall_us: int, mono_us: int, boot: str) -> int:
        """How far the wall clock jumped since the newest event; 0 where it only ran.

        Another boot has another monotonic clock; then only a step back is sure to be none of time.
        """
        if not self.boot:
            return 0
        passed = wall_us - self.wall_us
        if boot == self.boot:
            passed -= mono_us - self.mono_us
        elif passed > 0:
            return 0
        return passed if abs(passed) > JUMP_US else 0
