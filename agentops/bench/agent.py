"""The same worlds, given to any agent: with a raw shell, or with our tools.

Here: one run of an agent's command, judged by the truth about the world, and what it cost. The
agent sees a folder (``agentops.bench.giving``) and nothing of the stage. Round trips are counted at
its door; a token is taken to be four characters of what it asked and was answered. The task is left
out: it is the same for both. Not here: many runs in numbers (``agentops.bench.tally``).
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic

from pydantic import BaseModel, ConfigDict, ValidationError

from agentops.bench.baselines import over
from agentops.bench.doors import noted
from agentops.bench.giving import ANSWER, Given, Surface, give
from agentops.bench.judging import Run
from agentops.bench.running import final_lies, not_staged, timed
from agentops.bench.scenario import Written
from agentops.bench.stage import Stage, set_stage
from agentops.box import Box, Oracle
from agentops.box.waiting import wait_for
from agentops.errors import AgentopsError
from journal import KeyStore, verify
from journal.events import Resolution

CHARS_PER_TOKEN = 4
# The agents that are included, by the name that --cmd takes.
INCLUDED: Mapping[str, str] = {
    "scripted": "careful",
    "scripted-careless": "careless",
}
_OVER_S = 20.0


class _Answer(BaseModel):
    """What the agent wrote; anything else that stands there is its own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    resolution: Resolution
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run took at the agent's door. schemas are the tools' own, read once a session."""

    round_trips: int = 0
    tokens: int = 0
    schemas: int = 0


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run and its cost; said is the end of what the agent's command wrote."""

    run: Run
    surface: Surface
    cost: Cost
    said: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all runs of one call. limit_s is how long an agent may take."""

    command: str
    surface: Surface
    scale: float
    limit_s: float
    shipped: str


def run_agent(written: Written, seed: int, setting: Setting) -> AgentRun:
    """Stage *written* under *seed*, let the agent have its way, judge."""
    began = monotonic()
    scenario = written.draw(seed)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="agentops-agent-") as place,
            Box() as box,
            Oracle() as oracle,
        ):
            random = Random(f"stage/{written.name}/{seed}")  # noqa: S311 - can be told again
            stage = set_stage(scenario, box, oracle, scale=setting.scale, random=random)
            surface, path = setting.surface, os.environ.get("PATH", "")
            given = give(stage, Path(place), surface, setting.shipped, path)
            said = _let_act(setting, given)
            run = _judged(written, seed, stage, given, surface)
            cost = _cost(given)
    except (OSError, subprocess.SubprocessError, AgentopsError) as error:
        failed = not_staged(written, seed, scenario, f"{type(error).__name__}: {error}")
        return AgentRun(timed(failed, monotonic() - began), setting.surface, Cost())
    return AgentRun(timed(run, monotonic() - began), surface, cost, said)


def _let_act(setting: Setting, given: Given) -> str:
    """Run the agent's command to its end, or to the end of its time."""
    manner = INCLUDED.get(setting.command)
    argv = ["sh", "-c", setting.command]
    if manner is not None:
        argv = [sys.executable, "-m", "agentops.bench.scripted", manner]
    log = given.home / "agent.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            argv,
            cwd=given.folder,
            env={**os.environ, **given.environ},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(setting.limit_s)
        except subprocess.TimeoutExpired:
            # Its session is of our own making, and holds what it started and nothing else.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_bytes()[-2_000:].decode("utf-8", "replace")


def _judged(written: Written, seed: int, stage: Stage, given: Given, surface: Surface) -> Run:
    scenario = stage.scenario
    with suppress(TimeoutError):
        wait_for(partial(over, stage), _OVER_S, "end of what the agent typed")
    answer = _answer(given)
    resolution = None if answer is None else answer.resolution
    tools = surface == "tools"
    return Run(
        scenario=written.name,
        seed=seed,
        combined=written.combined,
        resolvable=scenario.resolvable,
        resolution=resolution,
        reason=f"no readable {ANSWER}" if answer is None else answer.reason,
        accepted=resolution in scenario.accepted,
        touched=(*stage.oracle.touched(), *stage.lost_files()),
        false_greens=final_lies(stage, resolution),
        journal_faults=_journal_faults(given) if tools else ("there is no journal",),
        journalled=tools,
        torn_checkpoint=stage.world.torn_checkpoint,
    )


def _answer(given: Given) -> _Answer | None:
    try:
        return _Answer.model_validate_json((given.folder / ANSWER).read_bytes())
    except (OSError, ValidationError):
        return None


def _journal_faults(given: Given) -> tuple[str, ...]:
    if not given.journal.exists():
        return ("there is no journal",)
    store = KeyStore(given.home / ".config" / "agentops" / "keys")
    found = verify(given.journal, keys=store)
    return () if found.status == "intact" else (f"verify says {found.status}",)


def _cost(given: Given) -> Cost:
    passed = noted(given.counts)
    trips = [one for one in passed if one.kind != "schemas"]
    schemas = max((one.answered for one in passed if one.kind == "schemas"), default=0)
    whole = sum(one.asked + one.answered for one in trips)
    return Cost(
        round_trips=len(trips),
        tokens=-(-whole // CHARS_PER_TOKEN),
        schemas=-(-schemas // CHARS_PER_TOKEN),
    )
