"""One seed through the whole product: loop, executor and journal as they are, the world simulated.

Here: a run with its deaths and new openings, and the judgement by the world's truth and by the
journal. Not here: the faults (``agentops.bench.faults``), the physics (``agentops.bench.world``),
or the engine alone (``agentops.bench.simulate``).
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterable
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar, TypeVarTuple, Unpack

from agentops.bench.drawing import Drawn, draw_unseen, draw_world
from agentops.bench.faults import (
    Controller,
    ControllerDied,
    FaultyDisk,
    Odds,
    SimulatedHost,
    WorldClock,
)
from agentops.bench.simulate import DECISIONS_MAX, Simulated, lies, truth
from agentops.bench.world import NEW_CODE, NEW_SHA256, SECOND_US, World
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.policy import Close, PolicyConfig, recompute
from agentops.recover import Recovery, Sources, Terms, engine_for, recover
from journal import Actor, Event, Journal, JournalError, KeyStore, Reader, Settings, verify
from journal.events import (
    CommandCompleted,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    IncidentClosed,
    ObservationParsed,
    VerdictReached,
)
from journal.machine import Machine

Ts = TypeVarTuple("Ts")
T = TypeVar("T")
HOST = Host(name="simulated", transport="local", tier="dev")
ACTOR = Actor("system", "simulation")
MACHINE = Machine("simulated", "boot", "simulated", "3", "0", 1, 0)
SOURCES = Sources({NEW_SHA256: NEW_CODE})
LIVES_MAX = 60
# Every so often a run ends with the index brought up, which costs more than all the rest of it.
CLOSED_EVERY = 50
# Runs that met a death or a full disk are verified, and some of the others.
VERIFIED_EVERY = 8


class AtOnce(asyncio.SelectorEventLoop):
    """Does the work of threads in the caller's: a run of one seed has one order of events."""

    def run_in_executor(
        self, executor: futures.Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Do it now; who awaits it goes on at once."""
        del executor
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except (JournalError, OSError, ControllerDied) as error:
            done.set_exception(error)
        return done


class _TooLongError(Exception):
    """More decisions than any run needs."""


@dataclass(slots=True)
class _Run:
    """One seed's world with everything around it."""

    seed: int
    config: PolicyConfig
    folder: Path
    world: World
    drawn: Drawn
    controller: Controller
    disk: FaultyDisk
    clock: WorldClock
    host: SimulatedHost
    settings: Settings
    made: set[str] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)
    lies: list[str] = field(default_factory=list)
    lives: int = 0

    @property
    def path(self) -> Path:
        """The journal."""
        return self.folder / "run.journal"

    @property
    def keys(self) -> KeyStore:
        """The key store of this run."""
        return KeyStore(self.folder / "keys", self.settings.random)

    def heard(self, event: Event) -> None:
        """Count decisions; one that never ends is a finding."""
        # Each life hears of all events again.
        if event.kind == "decision_made":
            self.made.add(event.id)
        elif isinstance(event.payload, VerdictReached) and event.id not in self.judged:
            self.judged.add(event.id)
            self.lies += lies(self.world, event.payload.condition, event.payload.verdict)
        if len(self.made) > DECISIONS_MAX:
            raise _TooLongError


def simulate_whole(seed: int, config: PolicyConfig, *, dies_at: int | None = None) -> Simulated:
    """Run one seed to its close, through every death and new opening, and judge it.

    dies_at: instead of by chance, the controller dies at this step, counted from 1; 0 is never.
    """
    folder = Path(tempfile.mkdtemp(prefix="agentops-seed-", dir=_memory()))
    try:
        run = _drawn(seed, config, folder, dies_at)
        ended, told = _lived(run)
        run.world.pass_time(5 * SECOND_US)
        close = None if ended is None else Close(ended.resolution or "HANDED_OVER", "", ())
        found = (
            *truth(run.world, close, run.host.signals),
            *run.host.hasty,
            *run.lies,
            *told,
            *_journal_faults(run),
        )
        return Simulated(
            seed=seed,
            resolution=None if ended is None else ended.resolution,
            reason="no end" if ended is None else ended.reason,
            decisions=len(run.made),
            signals=tuple(run.host.signals),
            findings=found,
            drawn=run.drawn,
            deaths=run.controller.deaths,
            full_disks=run.disk.fulls,
            steps=run.controller.steps,
            acts=tuple(sorted(run.host.sent.items())),
            struck=tuple(sorted(run.controller.struck.items())),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    """A file system in memory, where there is one: seeds are many, and a sync costs a disk."""
    place = Path("/dev/shm")  # noqa: S108 - a folder of one's own in it
    return str(place) if place.is_dir() else None


def _drawn(seed: int, config: PolicyConfig, folder: Path, dies_at: int | None) -> _Run:
    """The world is the one that the engine alone meets under this seed; the trouble is more."""
    world = World()
    drawn = draw_world(Random(seed), world)  # noqa: S311 - a seed that can be told is the point
    draw_unseen(Random(f"unseen/{seed}"), world, drawn)  # noqa: S311
    random = Random(f"whole/{seed}")  # noqa: S311
    odds = Odds.drawn(random)
    if dies_at is not None:
        odds.deaths_left, odds.dies_at = 0, dies_at
    controller = Controller(random, odds)
    # Drawn apart, so that what a seed meant before files were laid out ahead it still means.
    sectors = Random(f"sectors/{seed}")  # noqa: S311
    disk = FaultyDisk(controller, random, sectors, lays_out=sectors.random() < 0.5)  # noqa: PLR2004
    clock = WorldClock(world)
    host = SimulatedHost(
        world, controller, disk, clock, random, drawn.fault_rate, drawn.lost_in_row_max
    )
    settings = Settings(disk=disk, random=random.randbytes, machine=MACHINE)
    return _Run(seed, config, folder, world, drawn, controller, disk, clock, host, settings)


def _lived(run: _Run) -> tuple[Recovery | None, tuple[str, ...]]:
    """Life after life, until the incident is closed."""
    while run.lives < LIVES_MAX:
        run.lives += 1
        run.controller.dead = False
        try:
            journal = _opened(run)
        except (ControllerDied, JournalError):
            _died(run)
            continue
        try:
            closed = _closed(journal)
            if closed is not None:
                # A controller that died right after the incident's end has nothing left to do.
                return closed, ()
            with asyncio.Runner(loop_factory=AtOnce) as runner:
                ended = runner.run(_recovered(run, journal))
            if run.seed % CLOSED_EVERY == 0:
                journal.close()
        except (ControllerDied, JournalError):
            run.world.pass_time(SECOND_US)
        except _TooLongError:
            return None, ()
        else:
            return ended, ()
        finally:
            journal.abandon()
            _died(run)
    return None, (f"no end within {LIVES_MAX} lives",)


def _closed(journal: Journal) -> Recovery | None:
    """How the incident ended in an earlier life, if it did."""
    for event in journal.reader().events(kinds={"incident_closed"}):
        if isinstance(event.payload, IncidentClosed):
            resolution, reason = event.payload.resolution, event.payload.reason
            return Recovery(event.incident or "", resolution, reason, 0)
    return None


def _opened(run: _Run) -> Journal:
    way = Journal.open if (run.path / "log").exists() else Journal.create
    if way is Journal.create and run.path.exists():
        shutil.rmtree(run.path)
    return way(
        run.path,
        clock=run.clock,
        actor=ACTOR,
        keys=run.keys,
        anchor=None,
        settings=run.settings,
    )


def _died(run: _Run) -> None:
    if run.controller.dead:
        run.disk.power_cut()
    written = b"".join(path.read_bytes() for path in run.path.glob("log/*/*.jsonl"))
    run.disk.recount(written.split(b"\n"))


async def _recovered(run: _Run, journal: Journal) -> Recovery:
    async def rest(duration_us: int) -> None:
        run.world.pass_time(duration_us)

    executor = Executor(
        journal,
        clock=run.clock,
        config=run.config,
        connect=lambda _: run.host,
        actor=engine_for(ACTOR),
        draw=lambda: run.settings.random(16).hex(),
    )
    return await recover(
        "job",
        HOST,
        executor=executor,
        journal=journal,
        clock=run.clock,
        config=run.config,
        sources=SOURCES,
        terms=Terms(goal=run.drawn.goal),
        on_event=run.heard,
        pause=rest,
    )


def _journal_faults(run: _Run) -> tuple[str, ...]:
    """What the journal does not show as it was."""
    found = []
    if run.host.unannounced:
        found.append(f"{run.host.unannounced} request(s) left before their intent was durable")
    if run.seed % VERIFIED_EVERY == 0 or run.controller.deaths or run.disk.fulls:
        verified = verify(run.path, keys=run.keys)
        if verified.finding is not None:
            found.append(f"verify: {verified.status}: {verified.finding}")
    reader = _ReadOnce(Reader.open(run.path))
    again = recompute(reader)
    if again.first is not None:
        found.append(f"decision {again.first.ordinal}: {again.first.what} differ")
    if again.horizon is not None:
        found.append(f"the history ends at {again.horizon}")
    return (*found, *_unsettled(reader.events()), *_rash(reader))


class _ReadOnce:
    """A journal's events, read once for all who ask."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._events = tuple(reader.events())

    def events(self) -> tuple[Event, ...]:
        """All events, in order."""
        return self._events

    def observation(self, event: Event) -> object:
        """What was observed."""
        return self._reader.observation(event)


def _rash(reader: _ReadOnce) -> tuple[str, ...]:
    """Force to a process of which nothing shows that it got anything gentler before."""
    asked: set[str] = set()
    victims: dict[str, str] = {}
    found = []
    for event in reader.events():
        match event.payload:
            case CommandIntended(command="signal_process") as intent:
                name, victim = intent.arguments["signal"], str(intent.arguments["victim"])
                if name in {"INT", "TERM"}:
                    victims[intent.command_id] = victim
                elif name == "KILL" and victim not in asked:
                    found.append("KILL to a process that nothing shows to have been asked")
            case ObservationParsed() as seen if seen.command_id in victims:
                said = reader.observation(event)
                if isinstance(said, dict) and said["delivered"] is True:
                    asked.add(victims[seen.command_id])
            case VerdictReached(verdict="confirmed") as reached:
                command_id = reached.condition.get("command_id")
                if isinstance(command_id, str) and command_id in victims:
                    asked.add(victims[command_id])
            case _:
                pass
    return tuple(found)


def _unsettled(events: Iterable[Event]) -> tuple[str, ...]:
    """Each intent has one outcome."""
    intents: list[str] = []
    ended: list[str] = []
    for event in events:
        match event.payload:
            case CommandIntended() as intent:
                intents.append(intent.command_id)
            case (
                CommandCompleted() | CommandFailed() | CommandNotSent() | CommandOutcomeUnknown()
            ) as outcome:
                ended.append(outcome.command_id)
            case _:
                pass
    if sorted(intents) == sorted(ended) and len(set(intents)) == len(intents):
        return ()
    return (f"{len(intents)} intents and {len(ended)} outcomes do not fit together",)
