"""Where work is queued in order: a CUDA stream, or the CPU, which does it at once.

A stage puts work on a lane and asks for a mark behind it; another lane or a thread waits for the
mark. Work may happen at any time between, so a stage must never read a result before its mark: what
holds for a lane that is late holds for every lane. Tests bring lanes that are as late as they like.
"""

from collections.abc import Callable
from typing import Protocol

import torch


class Mark(Protocol):
    """A point on a lane."""

    def is_done(self) -> bool:
        """Whether all work before it has happened."""
        ...

    def wait(self) -> None:
        """Return once all work before it has happened."""
        ...


class Lane(Protocol):
    """Work in order on one device."""

    device: torch.device

    def run(self, work: Callable[[], None]) -> None:
        """Queue ``work`` behind all that was queued before."""
        ...

    def mark(self) -> Mark:
        """The point behind what is queued now."""
        ...

    def after(self, mark: Mark) -> None:
        """Later work waits for ``mark``, which may be another lane's."""
        ...


class Done:
    """A point that everything has passed."""

    def is_done(self) -> bool:
        """Always."""
        return True

    def wait(self) -> None:
        """At once."""


class CpuLane:
    """Does everything at once."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    def run(self, work: Callable[[], None]) -> None:
        """Do it."""
        work()

    def mark(self) -> Mark:
        """A point that is passed already."""
        return Done()

    def after(self, mark: Mark) -> None:
        """Wait here: there is no later."""
        mark.wait()


class CudaMark:
    """An event on a stream; waiting for it yields the processor."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # torch has no types
        self.event.record(stream)

    def is_done(self) -> bool:
        """Whether the event has happened."""
        return bool(self.event.query())  # type: ignore[no-untyped-call]  # torch has no types

    def wait(self) -> None:
        """Wait for the event."""
        self.event.synchronize()


class CudaLane:
    """A stream of its own on one GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no types here

    def run(self, work: Callable[[], None]) -> None:
        """Launch it on the stream."""
        with torch.cuda.stream(self.stream):
            work()

    def mark(self) -> Mark:
        """An event behind what was launched."""
        return CudaMark(self.stream)

    def after(self, mark: Mark) -> None:
        """The stream waits; the thread does not, unless the mark is no event."""
        if isinstance(mark, CudaMark):
            self.stream.wait_event(mark.event)
        else:
            mark.wait()


def lane_on(device: torch.device) -> Lane:
    """A new lane on ``device``."""
    return CudaLane(device) if device.type == "cuda" else CpuLane()
