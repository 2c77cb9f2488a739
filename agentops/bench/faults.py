"""What goes wrong around the engine, under one seed: the line, the disk, the clock, the controller.

Here: second implementations of the seams that journal and executor are handed (a disk, a clock, a
transport) with faults drawn from a seed. Not here: the host itself (``agentops.bench.world``), or
driving a run (``agentops.bench.whole``).
"""

import errno
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fcntl import F_GETFL, fcntl
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Literal

from agentops.bench.answers import answer
from agentops.bench.wire import asked, told
from agentops.bench.world import SECOND_US, World
from agentops.transport import Ended, Lost, NotSent, Request, Sink, TransportAnswer
from journal.disk import ROOM_BYTES
from journal.events import JsonObject

# The shortest grace in the simulated job's configuration.
GRACE_US = 5 * SECOND_US
EPOCH_US = 1_700_000_000 * SECOND_US
_FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_INTENT = b'"kind":"command_intended"'
_KIND = re.compile(rb'"kind":"([a-z_]+)","mono_us":')
_SECTOR_BYTES = 512
_LESS_BYTES = 16 << 10
Meddling = Literal["none", "reuse_pid", "restart", "reboot"]


class ControllerDied(Exception):  # noqa: N818 - what happened, and no error of this program
    """The controller's process ended here, without another word."""


@dataclass(slots=True)
class Odds:
    """How often each kind of trouble strikes, drawn once for a seed.

    dies_at is a step, counted from 1, at which the controller dies for certain.
    """

    die: float
    full: float
    jump: float
    garble: float
    meddling: Meddling
    meddling_at: int
    deaths_left: int = 4
    dies_at: int | None = None

    @classmethod
    def drawn(cls, random: Random) -> "Odds":
        """The odds of one seed; many seeds have no trouble of a kind at all."""
        return cls(
            die=random.choice((0.0, 0.0, 0.01, 0.04)),
            full=random.choice((0.0, 0.0, 0.0, 0.01)),
            jump=random.choice((0.0, 0.0, 0.02)),
            garble=random.choice((0.0, 0.0, 0.02)),
            meddling=random.choice(("none", "none", "none", "reuse_pid", "restart", "reboot")),
            meddling_at=random.randrange(1, 30),
        )


@dataclass(slots=True)
class Controller:
    """The life of the controller's process: it may end at any step, and is then dead for all.

    struck counts the faults of all kinds by the step that they struck: what was being written or
    synced, or the command that was on its way.
    """

    random: Random
    odds: Odds
    dead: bool = False
    deaths: int = 0
    steps: int = 0
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)

    def may_die(self, when: str, step: str) -> None:
        """One step.

        Raises:
            ControllerDied: here, or at an earlier step of this life.
        """
        if self.dead:
            raise ControllerDied
        self.steps += 1
        chance = self.odds.deaths_left > 0 and self.random.random() < self.odds.die
        if chance or self.steps == self.odds.dies_at:
            self.odds.deaths_left -= chance
            self.deaths += 1
            self.dead = True
            self.struck[f"died {when}", step] += 1
            raise ControllerDied


@dataclass(slots=True)
class WorldClock:
    """The controller's clocks: monotone time is the world's, wall time jumps."""

    world: World
    offset_us: int = 0

    def wall_us(self) -> int:
        """Microseconds since 1970; may have jumped."""
        return EPOCH_US + self.world.now_us + self.offset_us

    def mono_ns(self) -> int:
        """The world's own time."""
        return self.world.now_us * 1_000


@dataclass(slots=True)
class _Kept:
    """One file: how far it was written, how far that is durable, and what waits to be.

    laid_bytes is the size that it was laid out to, in zeros; sized says that this size is durable.
    """

    path: Path
    written: int
    durable: int
    intents: int = 0
    laid_bytes: int = 0
    sized: bool = False
    step: str = ""


@dataclass(slots=True)
class FaultyDisk:
    """A disk that runs full for a while, tears writes when the controller dies, and forgets.

    intents counts those that are durable. A power cut takes what was never synced, in part or
    whole: from the end on where a file grew, any sectors of it where the file was laid out.
    """

    controller: Controller
    random: Random
    sectors: Random
    lays_out: bool = False
    intents: int = 0
    full_left: int = 0
    fulls: int = 0
    _files: dict[tuple[int, int], _Kept] = field(default_factory=dict)

    def reserve(self, descriptor: int, start: int, end: int) -> None:
        """Lay a file out in zeros, or do nothing, as a file system that cannot.

        Less far ahead than is asked, so that runs meet the end of the room as well.
        """
        del start
        if self.lays_out:
            kept = self._kept(descriptor)
            laid = max(end - ROOM_BYTES, 0) + _LESS_BYTES
            os.ftruncate(descriptor, laid)
            kept.laid_bytes, kept.sized = laid, False

    def write(self, descriptor: int, data: bytes) -> int:
        """Write at the file's place; gives how many bytes were taken."""
        kept = self._kept(descriptor)
        kept.step = step_of(kept.path, data)
        try:
            self.controller.may_die("while writing", kept.step)
        except ControllerDied:
            _write(kept, descriptor, data[: self._torn_at(data)])
            raise
        if self.full_left == 0 and self.random.random() < self.controller.odds.full:
            self.full_left = self.random.randrange(1, 4)
            self.fulls += 1
        if self.full_left:
            self.full_left -= 1
            self.controller.struck["disk full", kept.step] += 1
            room = self.random.choice((0, len(data) // 2))
            if room:
                return _write(kept, descriptor, data[:room])
            raise _FULL
        taken = _write(kept, descriptor, data)
        kept.intents += data[:taken].count(_INTENT)
        return taken

    def _torn_at(self, data: bytes) -> int:
        """Where a death cuts a write: anywhere, and often right between two of its lines."""
        anywhere = self.random.randrange(len(data) + 1)
        ends = [at + 1 for at, byte in enumerate(data[:-1]) if byte == ord("\n")]
        return self.sectors.choice(ends) if ends and self.sectors.random() < 0.5 else anywhere  # noqa: PLR2004 - odds

    def sync(self, descriptor: int) -> None:
        """Return once all is durable; a controller may die before or after that."""
        kept = self._kept(descriptor)
        self.controller.may_die("before the sync", kept.step)
        kept.durable, kept.sized = kept.written, True
        self.intents += kept.intents
        kept.intents = 0
        self.controller.may_die("after the sync", kept.step)

    def _kept(self, descriptor: int) -> _Kept:
        """What is known of the file behind a descriptor; the seam is given no more than that."""
        found = os.fstat(descriptor)
        known = self._files.get((found.st_dev, found.st_ino))
        if known is None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
            if fcntl(descriptor, F_GETFL) & os.O_APPEND:
                at = found.st_size
            known = self._files[found.st_dev, found.st_ino] = _Kept(path, at, at)
        return known

    def power_cut(self) -> None:
        """What was never synced may be gone; nothing else.

        A controller that died left its files as long as they were laid out.
        """
        for kept in self._files.values():
            written = min(kept.written, kept.path.stat().st_size)
            if kept.laid_bytes:
                os.truncate(kept.path, max(kept.laid_bytes, written))
            if written <= kept.durable or self.random.random() >= 0.5:  # noqa: PLR2004 - odds
                continue
            if kept.laid_bytes and (kept.sized or self.sectors.random() < 0.5):  # noqa: PLR2004
                self.controller.struck["power cut, holes", kept.step] += 1
                self._lose_sectors(kept, written)
            else:
                self.controller.struck["power cut, end lost", kept.step] += 1
                os.truncate(kept.path, self.random.randrange(kept.durable, written + 1))
        self._files.clear()

    def _lose_sectors(self, kept: _Kept, written: int) -> None:
        """Each sector that was not synced has arrived or has not; what was durable in it stays."""
        with kept.path.open("r+b") as file:
            first = kept.durable - kept.durable % _SECTOR_BYTES
            for sector in range(first, written, _SECTOR_BYTES):
                if self.sectors.random() < 0.5:  # noqa: PLR2004 - odds
                    begin = max(sector, kept.durable)
                    file.seek(begin)
                    file.write(bytes(min(sector + _SECTOR_BYTES, written) - begin))

    def recount(self, lines: Iterable[bytes]) -> None:
        """After a death: the intents that are whole in the journal's files."""
        whole = takewhile(lambda line: b"\x00" not in line, lines)
        self.intents = sum(_INTENT in line for line in whole)


def _write(kept: _Kept, descriptor: int, data: bytes) -> int:
    taken = os.write(descriptor, data)
    kept.written = os.lseek(descriptor, 0, os.SEEK_CUR)
    return taken


def step_of(path: Path, data: bytes) -> str:
    """What is being written: the kind of the last event, or else of the file.

    >>> step_of(Path("x/log/s1-0a/000000.jsonl"), b'{"kind":"sealed","mono_us":1}')
    'sealed'
    >>> step_of(Path("x/seals.jsonl"), b'{"note":""}')
    'seals'
    """
    kinds = _KIND.findall(data)
    if kinds:
        return str(kinds[-1], "ascii")
    folder = path.parent.parent.name
    return {"blob": "output", "log": "rest of a line"}.get(folder, path.stem)


@dataclass(slots=True)
class SimulatedHost:
    """A transport to the world: it answers in the commands' own forms, if the line holds.

    unannounced counts requests that no durable intent stood for; signals are those that were sent,
    lost ones too; sent counts all commands that were carried out; hasty tells of graces that were
    cut short, by the world's own time.
    """

    world: World
    controller: Controller
    disk: FaultyDisk
    clock: WorldClock
    random: Random
    fault_rate: float
    lost_in_row_max: int
    requests: int = 0
    unannounced: int = 0
    lost_in_row: int = 0
    signals: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    hasty: list[str] = field(default_factory=list)
    _asked: dict[str, int] = field(default_factory=dict)

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Carry one request, with whatever befalls it."""
        name, arguments = asked(request)
        self.requests += 1
        self.unannounced += self.requests > self.disk.intents
        self._meddle(name, arguments)
        if self.random.random() < self.controller.odds.jump:
            self.clock.offset_us += self.random.randrange(-600, 601) * SECOND_US
            self._struck("clock jumped", name)
        how = self._carried()
        if how != "held":
            self._struck(how.replace("_", " "), name)
        if name == "signal_process" and how != "not_sent":
            self._note(arguments)
        self.controller.may_die("before the effect", name)
        if how == "not_sent":
            self.world.pass_time(SECOND_US)
            return NotSent("unreachable", "")
        if how == "lost_before":
            self.world.pass_time(SECOND_US)
            return Lost("connection_lost", "", 1_000)
        seen = answer(self.world, name, arguments)
        self.sent[name] += 1
        self.controller.may_die("after the effect", name)
        if how == "lost_after":
            self.world.pass_time(SECOND_US)
            return Lost(self.random.choice(("connection_lost", "deadline_still_running")), "", 1)
        sink.stdout(self._garbled(name, told(name, seen, arguments)))
        return Ended(0, 50)

    async def close(self) -> None:
        """Nothing is held."""

    def _note(self, arguments: JsonObject) -> None:
        """Remember a signal, and whether the one before it had its grace."""
        name, victim = str(arguments.get("signal")), str(arguments.get("victim"))
        self.signals.append(name)
        if name not in {"INT", "TERM", "KILL"}:
            return
        since_us = self.world.now_us - self._asked.get(victim, 0)
        if victim in self._asked and since_us < GRACE_US - SECOND_US // 10:
            self.hasty.append(f"{name} came {since_us // 1_000} ms after the signal before it")
        self._asked[victim] = self.world.now_us

    def _struck(self, fault: str, name: str) -> None:
        self.controller.struck[fault, name] += 1

    def _garbled(self, name: str, out: bytes) -> bytes:
        """The output, or what is left of it."""
        if self.random.random() >= self.controller.odds.garble:
            return out
        self._struck("answer cut", name)
        return out[: self.random.randrange(len(out))]

    def _carried(self) -> Literal["held", "not_sent", "lost_before", "lost_after"]:
        """Whether the line holds this time; never broken for ever."""
        if self.lost_in_row >= self.lost_in_row_max or self.random.random() >= self.fault_rate:
            self.lost_in_row = 0
            return "held"
        self.lost_in_row += 1
        return self.random.choice(("not_sent", "lost_before", "lost_after"))

    def _meddle(self, name: str, arguments: JsonObject) -> None:
        """What somebody else does on the host right before this request takes effect."""
        odds = self.controller.odds
        if odds.meddling == "reuse_pid" and name == "signal_process":
            victim = arguments.get("victim")
            pid = victim.get("pid") if isinstance(victim, dict) else None
            process = self.world.processes.get(pid) if isinstance(pid, int) else None
            if process is not None and process.role != "innocent":
                self.world.reuse(process)
                self._struck("pid reused", name)
                odds.meddling = "none"
        elif odds.meddling in {"restart", "reboot"} and self.requests == odds.meddling_at:
            self.world.restart(boot=odds.meddling == "reboot")
            self._struck(
                "host restarted" if odds.meddling == "reboot" else "container restarted", name
            )
            odds.meddling = "none"
