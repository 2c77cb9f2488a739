"""One run of the engine in one staged world, and what the truth says about it.

Here: stage, engine, trouble and oracle brought together for one world and one seed. The engine gets
a host, a policy and a goal, and nothing of the stage. Not here: many runs (``suite``), scores
(``judging``).
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic

from agentops.bench.beside import CONTAINER
from agentops.bench.judging import Run, journal_faults, scores, unmet
from agentops.bench.scenario import Scenario, Written
from agentops.bench.stage import JOB, Stage, policy_for, set_stage
from agentops.bench.trouble import Relay, Sent, Troubled
from agentops.box import Box, Oracle
from agentops.box.waiting import wait_for
from agentops.errors import AgentopsError
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.recover import Recovery, Terms, engine_for, recover
from agentops.transport import open_transport
from journal import Actor, Event, Journal, JournalError, KeyStore, SystemClock
from journal.events import Identity, Resolution, VerdictReached

_WALL_MIN_S = 150.0
_WALL_NATURAL_S = 900.0
_ABSENCE = ("members_absent", "job_stopped", "process_absent")
_REUSE_S = 10.0
# reuse_pid.py's status when the number could not be had.
_PID_KEPT = 1


@dataclass(slots=True)
class Watching:
    """Holds every confirmed verdict against the truth at the moment when it was reached."""

    stage: Stage
    lies: list[str] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        """Look at one event of the engine's."""
        payload = event.payload
        if not isinstance(payload, VerdictReached) or payload.verdict != "confirmed":
            return
        kind = str(payload.condition.get("kind"))
        if kind in _ABSENCE:
            listed = payload.condition.get("identities")
            rows = listed if isinstance(listed, list) else []
            named = tuple(Identity.model_validate(each) for each in rows)
            living = self.stage.world.alive(named)
            if living:
                self.lies.append(f"{kind} confirmed, and {[each.pid for each in living]} live")
        if kind == "gpu_released" and self.stage.world.held_mib():
            self.lies.append("gpu_released confirmed, and memory is held")


def run_once(written: Written, seed: int, *, scale: float, shipped: str) -> Run:
    """Stage *written* under *seed*, let the engine resolve it, judge."""
    began = monotonic()
    scenario = written.draw(seed)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="agentops-run-") as place,
            Box() as box,
            Oracle() as oracle,
        ):
            random = Random(f"stage/{written.name}/{seed}")  # noqa: S311 - can be told again
            stage = set_stage(scenario, box, oracle, scale=scale, random=random)
            run = _staged(written, seed, stage, Path(place), shipped)
    except (OSError, subprocess.SubprocessError, AgentopsError, JournalError) as error:
        run = not_staged(written, seed, scenario, f"{type(error).__name__}: {error}")
    return timed(run, monotonic() - began)


def timed(run: Run, wall_s: float) -> Run:
    """The run with its length, in seconds."""
    values = {name: getattr(run, name) for name in Run.__slots__}
    return Run(**{**values, "wall_s": round(wall_s, 1)})


def not_staged(written: Written, seed: int, scenario: Scenario, failure: str) -> Run:
    """A run that measured nothing, and why."""
    return Run(
        scenario=written.name,
        seed=seed,
        combined=written.combined,
        resolvable=scenario.resolvable,
        resolution=None,
        reason="",
        accepted=False,
        failure=failure,
    )


def _staged(written: Written, seed: int, stage: Stage, place: Path, shipped: str) -> Run:
    """The engine's turn, then the judges'."""
    scenario = stage.scenario
    watching, sent = Watching(stage), Sent()
    ended = asyncio.run(_engine(stage, place, shipped, watching, sent))
    lies = (*watching.lies, *final_lies(stage, None if ended is None else ended.resolution))
    keys = KeyStore(place / "keys")
    faults, replay_ms = journal_faults(place / "run.journal", keys, sent)
    measured = scores(place / "run.journal", scenario, replay_ms=replay_ms)
    resolution = None if ended is None else ended.resolution
    missed = () if written.combined else unmet(scenario, measured.signals)
    return Run(
        scenario=written.name,
        seed=seed,
        combined=written.combined,
        resolvable=scenario.resolvable,
        resolution=resolution,
        reason="no end in time" if ended is None else ended.reason,
        accepted=resolution in scenario.accepted,
        touched=(*stage.oracle.touched(), *stage.lost_files()),
        false_greens=lies,
        journal_faults=faults,
        unmet=missed,
        scores=measured,
        torn_checkpoint=stage.world.torn_checkpoint,
    )


async def _engine(
    stage: Stage, place: Path, shipped: str, watching: Watching, sent: Sent
) -> Recovery | None:
    """The loop as a user would run it; None when it found no end in time."""
    scenario = stage.scenario
    config, sources = policy_for(stage, shipped)
    relay = Relay(stage.host.port)
    await relay.start()
    host = stage.host.model_copy(update={"port": relay.port})
    path = place / "run.journal"
    clock = SystemClock()
    actor = Actor("system", "benchmark")
    troubled = partial(_troubled, stage, relay, sent, path)
    try:
        with Journal.create(
            path,
            clock=clock,
            actor=actor,
            keys=KeyStore(place / "keys"),
            anchor=place / "anchor.jsonl",
        ) as journal:
            executor = Executor(
                journal, clock=clock, config=config, connect=troubled, actor=engine_for(actor)
            )
            try:
                async with asyncio.timeout(max(_WALL_MIN_S, _WALL_NATURAL_S * stage.scale)):
                    return await recover(
                        JOB,
                        host,
                        executor=executor,
                        journal=journal,
                        clock=clock,
                        config=config,
                        sources=sources,
                        terms=Terms(goal=scenario.goal),
                        on_event=watching.on_event,
                    )
            except TimeoutError:
                return None
            finally:
                await executor.close()
    finally:
        await relay.stop()


def _troubled(stage: Stage, relay: Relay, sent: Sent, journal: Path, host: Host) -> Troubled:
    return Troubled(
        open_transport(host),
        relay=relay,
        connection=stage.scenario.connection,
        meddling=stage.scenario.meddling,
        scale=stage.scale,
        random=stage.random,
        sent=sent,
        intents=partial(_intents, journal),
        meddle=partial(_meddle, stage),
    )


def _intents(journal: Path) -> int:
    """How many intents are in the journal's files now; read without the journal's own code."""
    return sum(
        path.read_bytes().count(b'"kind":"command_intended"')
        for path in journal.glob("log/*/*.jsonl")
    )


def _meddle(stage: Stage, pid: int) -> None:
    """What somebody else does on the host right before a signal to *pid*."""
    if stage.scenario.meddling.reuse_pid:
        _reuse_pid(stage, pid)
    if stage.scenario.meddling.restart:
        inside = stage.world.processes()
        # Whoever ends with the container, and the container's own keeper, ends by that hand.
        ending = {truth.outer_pid for truth in inside}
        ending |= {truth.outer_ppid for truth in inside if truth.identity.pid == 1}
        stage.oracle.watched[:] = [
            each for each in stage.oracle.watched if each.truth.outer_pid not in ending
        ]
        stage.box.stop_container(CONTAINER)
        stage.box.start_container(CONTAINER)


def _reuse_pid(stage: Stage, pid: int) -> None:
    """End the process with this pid and give its pid to an innocent."""
    victims = [truth for truth in stage.world.processes() if truth.identity.pid == pid]
    for victim in victims:
        os.kill(victim.outer_pid, signal.SIGKILL)

    def gone() -> bool | None:
        return all(truth.identity.pid != pid for truth in stage.world.processes()) or None

    wait_for(gone, _REUSE_S, f"end of process {pid}")
    place = stage.box.directory / "newcomer"
    place.mkdir()
    inside = Path(__file__).parent / "inside"
    for name in ("innocent", "reuse_pid"):
        (place / f"{name}.py").write_bytes((inside / f"{name}.py").read_bytes())
    newcomer = (stage.python, "-S", str(place / "innocent.py"), str(place / "notes"))
    argv = (stage.python, "-S", str(place / "reuse_pid.py"), str(pid), *newcomer)
    done = stage.box.run_inside(argv, container=CONTAINER)
    if done.returncode == _PID_KEPT:
        # Its group or session lives on, and the kernel gives such a number to nobody.
        return
    if done.returncode != 0:
        raise OSError(f"pid {pid} could not be had again: {done.stderr[-200:]!r}")
    wait_for(lambda: (place / "notes.ready").exists() or None, _REUSE_S, "the newcomer")
    truth = next(t for t in stage.world.processes() if t.identity.pid == pid)
    stage.oracle.watch("newcomer", truth, place / "notes.signals")


def final_lies(stage: Stage, resolution: Resolution | None) -> tuple[str, ...]:
    """What the resolution says beyond the truth, at once and after a respawn period."""
    if resolution in {None, "HANDED_OVER"}:
        return ()
    world = stage.world
    lies = []
    if resolution == "STOPPED" and world.held_mib():
        lies.append(f"STOPPED, and {world.held_mib()} MiB are held")
    absent = resolution == "STOPPED" or (
        resolution == "NOTHING_TO_DO" and stage.scenario.goal == "stop"
    )
    before = world.place()
    living = _settled(stage, stop_at_first=absent)
    if absent and living:
        lies.append(f"{resolution}, and {len(living)} process(es) of the job live")
    if not absent and not living:
        lies.append(f"{resolution}, and nothing of the job lives")
    elif not absent:
        starts = [truth for truth in world.job() if stage.is_trainer(truth)]
        if len(starts) > 1:
            lies.append(f"{resolution}, and {len(starts)} starts of the job live at once")
        pid, step = world.place()
        if pid != before[0] or step <= before[1]:
            lies.append(f"{resolution}, and steps went from {before} to {(pid, step)}")
    return tuple(lies)


def _settled(stage: Stage, *, stop_at_first: bool) -> tuple[int, ...]:
    """Pids of the job after a respawn period and a half; the first that comes up ends the wait."""
    deadline = monotonic() + 0.5 + stage.seconds(3) * 1.5

    def over() -> tuple[int, ...] | None:
        living = tuple(truth.identity.pid for truth in stage.world.job())
        if (living and stop_at_first) or monotonic() > deadline:
            return living
        return None

    return wait_for(over, 60, "the end of the settling time")
