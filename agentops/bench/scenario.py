"""What a scenario is: mechanisms that can be combined, and what counts as its resolution.

Here: the closed vocabulary of the scenario files, reading them, drawing one world from a file and a
seed, and putting two files together. Not here: staging (``agentops.bench.stage``) and judging.

A scenario file names no step of the engine and no command: it says what is wrong with the world,
and which resolutions an operator would accept. In a file, ``{ any = [a, b] }`` stands for one of
several values and ``{ between = [low, high] }`` for a number; the seed decides.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentops.errors import ConfigError, UsageError
from journal.events import Resolution

Force = Literal["none", "INT", "TERM", "KILL"]
Signal = Literal["INT", "TERM", "KILL", "CONT"]
FORCES: tuple[Force, ...] = ("none", "INT", "TERM", "KILL")
InnocentKind = Literal[
    "viewer", "editor", "archiver", "download", "daemon", "other_user", "sibling", "notebook"
]
_ABOUT = ("title", "note", "goal", "accepted", "gentlest", "leads", "unwanted")
_SEEDED = ({"any"}, {"between"})


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trainer(_Part):
    """The job as it runs when the engine comes; times in seconds at time scale 1.

    started_twice: somebody started the same job again while it ran; both go on. ended: crashed
    leaves workers that outlive their root behind. silent: it runs and has written no heartbeat yet;
    the one in the file is of an earlier run. interrupt and terminate say how it takes the
    signal: stops (saves and ends), ignored (SIG_IGN
    set by itself), inherited (SIG_IGN from whoever started it), threads (the main thread takes it,
    another thread goes on), deaf (a handler that does nothing),
    forks (a child goes on in its place).
    """

    interrupt: Literal["stops", "ignored", "inherited", "threads", "deaf", "forks"] = "stops"
    terminate: Literal["stops", "deaf"] = "stops"
    winding_down_s: float = Field(default=0, ge=0)
    suspended: bool = False
    stuck: bool = False
    hangs_at_step: int | None = None
    diverges_at_step: int | None = None
    renamed: bool = False
    parent: Literal["init", "shell", "careless", "loop", "trap", "undeclared"] = "init"
    ended: Literal["no", "crashed", "unreaped", "never_ran"] = "no"
    launch_id: bool = False
    zombie_child: bool = False
    started_twice: bool = False
    silent: bool = False
    workers: int = Field(default=0, ge=0, le=6)
    workers_outlive: bool = False
    workers_ignore_interrupt: bool = False
    clock_ahead_s: int = 0
    clock_back_at_step: int | None = None
    step_s: float = Field(default=0.05, gt=0)


class Gpu(_Part):
    """Cards of the host, as nvidia-smi tells; memory is held by living processes."""

    devices: int = Field(default=2, ge=1, le=8)
    holds_mib: int = 6_000
    release_s: float = Field(default=0, ge=0)
    tool: Literal["answers", "hangs", "errors"] = "answers"


class Start(_Part):
    """What the next start of the job meets."""

    exits_early: bool = False
    port_taken: bool = False
    stale_lock: bool = False
    shm_full: bool = False
    model_cut: bool = False


class Connection(_Part):
    """The way to the host breaks at the nth command of a kind, before or after it took place.

    rate: besides, any command may meet such a break, with this probability; two never in a row.
    """

    cut: Literal["no", "before", "after"] = "no"
    at: Literal["signal", "deploy", "launch", "listing"] = "signal"
    nth: int = Field(default=1, ge=1)
    rate: float = Field(default=0, ge=0, le=0.5)
    outage_s: float = Field(default=0, ge=0)


class Meddling(_Part):
    """Somebody else acts at the moment of the first signal.

    reuse_pid: the victim ends, and its pid is another process's by then. restart: the container is
    started again, and everything in it is gone.
    """

    reuse_pid: bool = False
    restart: bool = False


class Scenario(_Part):
    """One world. gentlest is the least force that would have worked."""

    title: str
    note: str = ""
    goal: Literal["stop", "recover"] = "stop"
    accepted: tuple[Resolution, ...] = Field(min_length=1)
    gentlest: Force = "INT"
    leads: tuple[str, ...] = ()
    unwanted: tuple[Signal, ...] = ()
    trainer: Trainer = Trainer()
    innocents: tuple[InnocentKind, ...] = ()
    gpu: Gpu | None = None
    start: Start = Start()
    connection: Connection = Connection()
    meddling: Meddling = Meddling()

    @property
    def resolvable(self) -> bool:
        """Whether something better than a handover is accepted."""
        return any(resolution != "HANDED_OVER" for resolution in self.accepted)


@dataclass(frozen=True, slots=True)
class Written:
    """A scenario as written: its name and its raw table, before any seed is drawn.

    combined is true for a world put together from two: its gates hold, its resolution is free.
    """

    name: str
    table: Mapping[str, object]
    combined: bool = False

    def draw(self, seed: int) -> Scenario:
        """The world of this scenario under *seed*.

        Raises:
            ConfigError: the file does not fit the vocabulary.
        """
        random = Random(f"{self.name}/{seed}")  # noqa: S311 - a seed that can be told is the point
        try:
            return Scenario.model_validate(_drawn(self.table, random))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "scenario"
            raise ConfigError(
                f"{self.name}: {key} (value {first['input']!r}): {first['msg']}"
            ) from error


def shipped() -> tuple[Written, ...]:
    """The scenarios that come with the benchmark, by name."""
    folder = files("agentops.bench") / "scenarios"
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    return tuple(_parsed(name, text) for name, text in sorted(texts.items()))


def read_folder(folder: Path) -> tuple[Written, ...]:
    """The scenarios written in a folder, one TOML file each.

    Raises:
        ConfigError: there are none, or one cannot be used.
    """
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise ConfigError(f"{folder}: no scenario is in it; write one TOML file for each")
    found = []
    for path in paths:
        try:
            found.append(_parsed(path.stem, path.read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from error
    return tuple(found)


def chosen(known: Iterable[Written], names: Iterable[str]) -> tuple[Written, ...]:
    """Those that are named, by whole name or its first word (``S05``); all where none is named.

    Raises:
        UsageError: a name fits none.
    """
    listed = tuple(known)
    wanted = tuple(names)
    found = []
    for name in wanted:
        fitting = [s for s in listed if name in {s.name, s.name.partition("_")[0]}]
        fitting = [s for s in fitting if s.name == name] or fitting
        if not fitting:
            shown = ", ".join(s.name.partition("_")[0] for s in listed)
            raise UsageError(f"scenario {name!r} is not known; there are {shown}")
        found += fitting
    return tuple(found) if wanted else listed


def pairs(known: Iterable[Written]) -> tuple[Written, ...]:
    """All worlds that two scenarios make together, where their faults can stand side by side."""
    listed = tuple(known)
    made = (
        combined(first, second)
        for place, first in enumerate(listed)
        for second in listed[place + 1 :]
    )
    return tuple(both for both in made if both is not None)


def combined(first: Written, second: Written) -> Written | None:
    """Both worlds at once; None where one fault excludes the other."""
    if (_absent_job(first) and _needs_job(second)) or (_absent_job(second) and _needs_job(first)):
        return None
    table: dict[str, object] = {}
    for key in sorted({*first.table, *second.table} - set(_ABOUT)):
        merged = _merged(first.table.get(key), second.table.get(key))
        if merged is None:
            return None
        table[key] = merged
    goals = {first.table.get("goal", "stop"), second.table.get("goal", "stop")}
    accepted = sorted({*_listed(first, "accepted"), *_listed(second, "accepted")})
    table |= {
        "title": f"{first.table['title']}; {second.table['title']}",
        "goal": "recover" if "recover" in goals else "stop",
        "accepted": accepted,
    }
    name = "+".join(each.name.partition("_")[0] for each in (first, second))
    return Written(name, table, combined=True)


def _listed(scenario: Written, key: str) -> tuple[str, ...]:
    value = scenario.table.get(key)
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _merged(one: object, other: object) -> object:
    """Two values of one key: equal ones, one alone, lists joined, tables key by key; else None."""
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *(item for item in other if item not in one)]
    if not isinstance(one, dict) or not isinstance(other, dict) or set(one) in _SEEDED:
        return None
    together: dict[str, object] = {}
    for key in sorted({*one, *other}):
        merged = _merged(one.get(key), other.get(key))
        if merged is None:
            return None
        together[key] = merged
    return together


def _absent_job(scenario: Written) -> bool:
    trainer = scenario.table.get("trainer")
    return isinstance(trainer, dict) and trainer.get("ended", "no") != "no"


def _needs_job(scenario: Written) -> bool:
    return any(key in scenario.table for key in ("trainer", "connection", "meddling", "gpu"))


def _parsed(name: str, text: str) -> Written:
    try:
        written = Written(name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not TOML: {error}") from error
    written.draw(0)
    return written


def _drawn(value: object, random: Random) -> object:
    """The value with every alternative decided, in the order in which they are written."""
    if isinstance(value, Mapping):
        if set(value) == {"any"}:
            return random.choice(list(value["any"]))
        if set(value) == {"between"}:
            low, high = value["between"]
            whole = isinstance(low, int) and isinstance(high, int)
            return random.randint(low, high) if whole else round(random.uniform(low, high), 3)
        return {key: _drawn(item, random) for key, item in value.items()}
    if isinstance(value, list):
        return [_drawn(item, random) for item in value]
    return value
