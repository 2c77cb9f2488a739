"""One run of the engine in one staged world, and what the truth says about it.

Here: engine and trouble brought together on one stage. The engine gets a host, a policy and a goal,
and nothing of the stage. Not here: setting up and the truth after it (``around``), many runs
(``suite``), scores (``judging``).
"""

import asyncio
import os
import signal
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agentops.bench.around import run_staged, seen_after
from agentops.bench.beside import CONTAINER
from agentops.bench.judging import Run, journal_faults, scores, unmet
from agentops.bench.scenario import Written
from agentops.bench.stage import JOB, Stage, policy_for
from agentops.bench.trouble import Relay, Sent, Troubled
from agentops.box.waiting import wait_for
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.recover import Recovery, Terms, engine_for, recover
from agentops.transport import open_transport
from journal import Actor, Event, Journal, KeyStore, SystemClock
from journal.events import Identity, VerdictReached

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
    return run_staged(written, seed, partial(_resolve, written, seed, shipped), scale=scale)


def _resolve(written: Written, seed: int, shipped: str, stage: Stage, place: Path) -> Run:
    """The engine's turn, then the judges'."""
    scenario = stage.scenario
    watching, sent = Watching(stage), Sent()
    ended = asyncio.run(_engine(stage, place, shipped, watching, sent))
    resolution = None if ended is None else ended.resolution
    reason = "no end in time" if ended is None else ended.reason
    run = seen_after(written, seed, stage, resolution, reason)
    faults, replay_ms = journal_faults(place / "run.journal", KeyStore(place / "keys"), sent)
    measured = scores(place / "run.journal", scenario, replay_ms=replay_ms)
    return replace(
        run,
        false_greens=(*watching.lies, *run.false_greens),
        journal_faults=faults,
        unmet=() if written.combined else unmet(scenario, measured.signals),
        scores=measured,
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
