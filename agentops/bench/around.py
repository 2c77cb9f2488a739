"""What is around every run, whoever acts in it: the world before it, the truth after it.

Here: drawing and setting up one world for one seed, and what the truth says about an answer once
everything has settled. Not here: who acts (the engine in ``running``, an agent in ``agent``, shell
lines in ``baselines``), and what a journal shows (``judging``).
"""

import subprocess
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from time import monotonic

from agentops.bench.judging import Run
from agentops.bench.scenario import Scenario, Written
from agentops.bench.scope import scope
from agentops.bench.stage import Stage, set_stage
from agentops.box import Box, Oracle
from agentops.box.waiting import wait_for
from agentops.errors import AgentopsError
from journal import JournalError
from journal.events import Resolution


def run_staged(
    written: Written,
    seed: int,
    act: Callable[[Stage, Path], Run],
    *,
    scale: float,
    scoped: bool = False,
) -> Run:
    """Stage *written* under *seed*, let *act* have its way, and say how long it took.

    act gets the stage and a folder outside it, both gone afterwards. scoped: the job is started in
    a control group of its own.
    """
    began = monotonic()
    scenario = written.draw(seed)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="agentops-run-") as place,
            scope() if scoped else nullcontext() as group,
            Box() as box,
            Oracle() as oracle,
        ):
            random = Random(f"stage/{written.name}/{seed}")  # noqa: S311 - can be told again
            stage = set_stage(scenario, box, oracle, scale=scale, random=random, scope=group)
            run = act(stage, Path(place))
    except (OSError, subprocess.SubprocessError, AgentopsError, JournalError) as error:
        failure = f"{type(error).__name__}: {error}"
        run = replace(_begun(written, seed, scenario), failure=failure)
    return replace(run, wall_s=round(monotonic() - began, 1))


def _begun(written: Written, seed: int, scenario: Scenario) -> Run:
    """A run that measured nothing so far."""
    return Run(
        scenario=written.name,
        seed=seed,
        combined=written.combined,
        resolvable=scenario.resolvable,
        resolution=None,
        reason="",
        accepted=False,
    )


def seen_after(
    written: Written, seed: int, stage: Stage, resolution: Resolution | None, reason: str
) -> Run:
    """The run as the truth shows it, whatever its record says; None is no answer at all."""
    lies = _final_lies(stage, resolution)
    return replace(
        _begun(written, seed, stage.scenario),
        resolution=resolution,
        reason=reason,
        accepted=resolution in stage.scenario.accepted,
        touched=(*stage.oracle.touched(), *stage.lost_files()),
        false_greens=lies,
        torn_checkpoint=stage.world.torn_checkpoint,
    )


def _final_lies(stage: Stage, resolution: Resolution | None) -> tuple[str, ...]:
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
