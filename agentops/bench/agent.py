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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentops.bench.around import run_staged, seen_after
from agentops.bench.baselines import over
from agentops.bench.doors import noted
from agentops.bench.giving import ANSWER, Given, Surface, give
from agentops.bench.judging import Run
from agentops.bench.scenario import Written
from agentops.bench.stage import Stage
from agentops.box.waiting import wait_for
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


@dataclass(slots=True)
class _Heard:
    """What an agent's turn left behind beside its answer."""

    cost: Cost = Cost()
    said: str = ""


def run_agent(written: Written, seed: int, setting: Setting) -> AgentRun:
    """Stage *written* under *seed*, let the agent have its way, judge."""
    heard = _Heard()
    turn = partial(_turn, written, seed, setting, heard)
    run = run_staged(written, seed, turn, scale=setting.scale)
    return AgentRun(run, setting.surface, heard.cost, heard.said)


def _turn(
    written: Written, seed: int, setting: Setting, heard: _Heard, stage: Stage, place: Path
) -> Run:
    given = give(stage, place, setting.surface, setting.shipped, os.environ.get("PATH", ""))
    heard.said = _let_act(setting, given)
    run = _judged(written, seed, stage, given, setting.surface)
    heard.cost = _cost(given)
    return run


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
    with suppress(TimeoutError):
        wait_for(partial(over, stage), _OVER_S, "end of what the agent typed")
    answer = _answer(given)
    resolution = None if answer is None else answer.resolution
    reason = f"no readable {ANSWER}" if answer is None else answer.reason
    tools = surface == "tools"
    return replace(
        seen_after(written, seed, stage, resolution, reason),
        journal_faults=_journal_faults(given) if tools else ("there is no journal",),
        journalled=tools,
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
