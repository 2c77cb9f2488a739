"""A simulated device for the pipeline: lanes whose work happens late, in an order drawn by a seed.

One thread plays the device: it takes, again and again, a lane at random whose next piece of work
may happen. So two lanes overtake each other in every way that the marks between them allow. Some
lanes are starved for a while: their work happens only when no other's comes for a moment.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from trainer.pipeline.lanes import Mark

_DEADLINE_S = 60.0
_PATIENCE_S = 0.003
_TURNS = 20  # pieces of work after which other lanes are starved


@dataclass
class LateMark:
    """A point on a late lane."""

    _passed: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def is_done(self) -> bool:
        """Whether the device came by."""
        return self._passed.is_set()

    def wait(self) -> None:
        """Wait for the device; what the lane's work raised is raised here."""
        if not self._passed.wait(_DEADLINE_S):
            raise TimeoutError("the simulated device did not come by")
        if self.error is not None:
            raise self.error

    def passed(self, error: BaseException | None) -> None:
        """The device came by."""
        self.error = error
        self._passed.set()


class LateLane:
    """Queues work for the device that it belongs to."""

    def __init__(self, owner: "SimulatedDevice") -> None:
        self.device = torch.device("cpu")
        self.work: deque[Callable[[], None] | Mark] = deque()
        self.error: BaseException | None = None
        self._owner = owner

    def run(self, work: Callable[[], None]) -> None:
        """Queue it."""
        self._owner.put(self, work)

    def mark(self) -> Mark:
        """A point behind what is queued."""
        mark = LateMark()
        self._owner.put(self, lambda: mark.passed(self.error))
        return mark

    def after(self, mark: Mark) -> None:
        """What is queued from now on waits for it."""
        self._owner.put(self, mark)


class SimulatedDevice:
    """Does the work of its lanes in one thread, in an order that ``seed`` draws."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - chooses an order
        self._lanes: list[LateLane] = []
        self._changed = threading.Condition()
        self._is_ended = False
        self._thread = threading.Thread(target=self._play, daemon=True)
        self.is_frozen = False

    def lane(self, _device: torch.device | None = None) -> LateLane:
        """A new lane."""
        made = LateLane(self)
        self._lanes.append(made)
        return made

    def put(self, lane: LateLane, work: Callable[[], None] | Mark) -> None:
        """Called by lanes."""
        with self._changed:
            lane.work.append(work)
            self._changed.notify_all()

    @contextmanager
    def playing(self) -> Iterator["SimulatedDevice"]:
        """The device works while this is entered."""
        self._thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._is_ended = True
                self._changed.notify_all()
            self._thread.join(_DEADLINE_S)

    def thaw(self) -> None:
        """Go on after ``is_frozen`` was set."""
        with self._changed:
            self.is_frozen = False
            self._changed.notify_all()

    def _play(self) -> None:
        turn, starved = 0, set[LateLane]()
        while True:
            if turn % _TURNS == 0:
                starved = {lane for lane in self._lanes if self._draw.random() < 0.5}
            with self._changed:
                while not (able := self._able()) or self.is_frozen:
                    if self._is_ended:
                        return
                    # A mark of somebody else's device passes without telling us.
                    self._changed.wait(0.01)
                if starved.issuperset(able):
                    self._changed.wait(_PATIENCE_S)
                    able = self._able()
                favoured = [lane for lane in able if lane not in starved]
                lane = self._draw.choice(favoured or able)
                work = lane.work.popleft()
                turn += 1
            if callable(work):
                try:
                    work()
                except BaseException as error:  # noqa: BLE001 - raised where the lane is waited for
                    lane.error = error

    def _able(self) -> list[LateLane]:
        return [lane for lane in self._lanes if lane.work and _may(lane.work[0])]


def _may(work: Callable[[], None] | Mark) -> bool:
    return callable(work) or work.is_done()
