"""The truth about processes over time: who lived through it, who ended, who was signalled.

A watched process is held by a pidfd, so its end is seen even if its pid is used again at once.
Nothing here goes through the box's SSH server, or shares code with the commands.
"""

import contextlib
import os
import select
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from agentops.box.processes import Truth, processes_in, read_truth
from journal.events import Identity


@dataclass(slots=True)
class Watched:
    """One process under watch; signal_notes is a file where it notes signals, if it does that."""

    name: str
    truth: Truth
    signal_notes: Path | None
    handle: int

    @property
    def ended(self) -> bool:
        """Whether the process has ended, reaped or not."""
        ready, _, _ = select.select([self.handle], [], [], 0)
        return bool(ready)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals that it noted, in order."""
        if self.signal_notes is None or not self.signal_notes.exists():
            return ()
        return tuple(self.signal_notes.read_text().split())

    @property
    def touched(self) -> bool:
        """Whether it ended or got a signal."""
        return self.ended or bool(self.signals)


@dataclass(slots=True)
class Oracle:
    """Watches processes; use it in a ``with`` statement, or close it."""

    watched: list[Watched] = field(default_factory=list)

    def watch(self, name: str, truth: Truth, signal_notes: Path | None = None) -> Watched:
        """Hold the process.

        Raises:
            ProcessLookupError: it is gone, or its pid is another one's by now.
        """
        handle = os.pidfd_open(truth.outer_pid)
        again = read_truth(truth.outer_pid)
        if again is None or again.identity.start_ticks != truth.identity.start_ticks:
            os.close(handle)
            raise ProcessLookupError(f"{name} is gone")
        watched = Watched(name, truth, signal_notes, handle)
        self.watched.append(watched)
        return watched

    def touched(self) -> tuple[str, ...]:
        """Names of the watched processes that ended or got a signal."""
        return tuple(watched.name for watched in self.watched if watched.touched)

    def close(self) -> None:
        """Let go of all."""
        for watched in self.watched:
            with contextlib.suppress(OSError):
                os.close(watched.handle)
        self.watched.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Changes:
    """Who came and who went in one PID namespace between two looks."""

    births: tuple[Identity, ...]
    deaths: tuple[Identity, ...]


def alive_in(pid_namespace: int) -> frozenset[Identity]:
    """Identities of all living processes of a namespace; zombies are not alive."""
    return frozenset(t.identity for t in processes_in(pid_namespace) if t.state not in ("Z", "X"))


def changes(before: frozenset[Identity], after: frozenset[Identity]) -> Changes:
    """Births and deaths by identity, so that a reused pid counts as both."""
    return Changes(births=_in_order(after - before), deaths=_in_order(before - after))


def _in_order(found: frozenset[Identity]) -> tuple[Identity, ...]:
    return tuple(sorted(found, key=lambda identity: (identity.start_ticks, identity.pid)))
