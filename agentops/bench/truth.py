"""The truth about a staged world, read from outside it.

Here: which processes belong to the job (a mark in their environment that only the stage knows),
which live, what memory the cards hold, whether the job makes steps. Nothing here goes through SSH,
shares code with the commands, or is shown to the engine.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentops.bench.inside.nvidia_smi import holders
from agentops.box import Truth
from journal.events import Identity, JsonObject

MARK = "STAGE"
_ENDED = ("Z", "X")


@dataclass(frozen=True, slots=True)
class World:
    """One staged world. processes reads its PID namespace; mark is the job's own, drawn anew."""

    processes: Callable[[], tuple[Truth, ...]]
    mark: str
    folder: Path
    registry: Path | None
    release_s: float

    def job(self) -> tuple[Truth, ...]:
        """The job's living processes; a zombie has ended."""
        found = [truth for truth in self.processes() if truth.state not in _ENDED]
        return tuple(truth for truth in found if has_mark(truth, self.mark))

    def alive(self, identities: tuple[Identity, ...]) -> tuple[Identity, ...]:
        """Those of *identities* that live."""
        living = {
            (truth.identity.pid, truth.identity.start_ticks)
            for truth in self.processes()
            if truth.state not in _ENDED
        }
        return tuple(each for each in identities if (each.pid, each.start_ticks) in living)

    def held_mib(self) -> int:
        """Memory that the cards hold for anybody, beyond their baseline."""
        if self.registry is None:
            return 0
        living = {
            (truth.identity.pid, truth.identity.start_ticks)
            for truth in self.processes()
            if truth.state not in _ENDED
        }
        rows = holders(
            str(self.registry),
            self.release_s,
            alive=lambda row: (row["pid"], row["start_ticks"]) in living,
        )
        return sum(int(row["mib"]) for row in rows)

    def heartbeat(self) -> JsonObject:
        """The newest heartbeat, {} where none is."""
        with contextlib.suppress(OSError, ValueError):
            found: JsonObject = json.loads((self.folder / "out" / "heartbeat.json").read_text())
            return found
        return {}

    def place(self) -> tuple[int, int]:
        """Who makes steps, and how many were made: pid and step."""
        beat = self.heartbeat()
        pid, step = beat.get("pid"), beat.get("step")
        return (pid if isinstance(pid, int) else -1, step if isinstance(step, int) else -1)

    @property
    def torn_checkpoint(self) -> bool:
        """Whether a checkpoint was begun and never finished."""
        return (self.folder / "out" / "checkpoint.json.tmp").exists()


def has_mark(truth: Truth, mark: str) -> bool:
    """Whether a process carries the mark in the environment that it was started with."""
    try:
        environ = Path(f"/proc/{truth.outer_pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environ.split(b"\0")
