"""The threads of a pipeline as one: they wait together, fail together and end together.

All that stages share is guarded by one condition, so a failure, a stop and an abandoned wait wake
everybody and nobody is left waiting on a neighbour that is gone. The work of a stage, which is
where time goes, is done outside of it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from trainer.errors import TrainerError

T = TypeVar("T")


class StageFailedError(TrainerError):
    """A thread of the pipeline failed: names its stage and what happened."""


class EndedError(Exception):
    """The pipeline ends: what a waiting stage gets instead of what it waits for."""


@dataclass(frozen=True)
class StageFault:
    """The first failure: its stage, and the exception with its trace."""

    stage: str
    error: BaseException


class _Watched:
    """Hands what is raised inside to the crew: a thread has nobody else to raise it to."""

    def __init__(self, crew: "Crew", stage: str) -> None:
        self._crew = crew
        self._stage = stage

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is not None and not isinstance(error, EndedError):
            self._crew.fail(self._stage, error)
        return True


class Crew:
    """Starts the stages of one pipeline and ends them.

    ``changed`` guards everything that stages share; whoever changes something notifies.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._fault: StageFault | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether stages are to stop."""
        return self._is_ended

    def start(self, stage: str, body: Callable[[], None]) -> threading.Thread:
        """Run ``body`` in a thread; what it raises ends all stages."""

        def run() -> None:
            with _Watched(self, stage):
                body()

        thread = threading.Thread(target=run, name=f"pipeline: {stage}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def until(self, ready: Callable[[], T | None]) -> T:
        """What ``ready`` gives once it gives something; call it inside ``changed``.

        Raises:
            EndedError: the pipeline ended before that.
        """
        while True:
            found = ready()
            if found:
                return found
            if self._is_ended:
                raise EndedError
            self.changed.wait()

    def fail(self, stage: str, error: BaseException) -> None:
        """End everything because of this; the first failure is the one that is told."""
        with self.changed:
            if self._fault is None and not self._is_ended:
                self._fault = StageFault(stage, error)
            self._is_ended = True
            self.changed.notify_all()

    def end(self) -> None:
        """Ask all stages to stop."""
        with self.changed:
            self._is_ended = True
            self.changed.notify_all()

    def check(self) -> None:
        """Raise the first failure, if there was one.

        Raises:
            StageFailedError: its text names the stage; the cause has the trace.
        """
        fault = self._fault
        if fault is None:
            return
        if isinstance(fault.error, TrainerError):
            raise fault.error
        kind = type(fault.error).__name__
        text = " ".join(str(fault.error).split()) or "no message"
        raise StageFailedError(f"pipeline, {fault.stage}: {kind}: {text}") from fault.error

    def join(self, seconds: float) -> tuple[str, ...]:
        """Wait for all stages; names of those that are still alive."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return tuple(thread.name for thread in self._threads if thread.is_alive())
